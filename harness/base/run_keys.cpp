// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/run_keys.h"

#include <algorithm>
#include <sstream>

namespace unmask {
namespace {

std::string as_text(std::int64_t value) {
  return std::to_string(value);
}
const std::string& as_text(const std::string& value) {
  return value;
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text + " ";
}

}  // namespace

std::string run_key::text(const run_keys& run) const {
  return std::visit([&](const auto member) { return std::string(as_text(run.*member)); }, field);
}

bool run_key::at_default(const run_keys& run) const {
  return text(run) == text(run_keys());
}

std::vector<std::string> run_key::choices() const {
  std::istringstream in(words);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

const std::vector<run_key>& run_key_list() {
#define UNMASK_KEY(type, key, value, low, high, words, meaning) \
  {#key, low, high, words, meaning, &run_keys::key},
  static const std::vector<run_key> list = {UNMASK_RUN_KEYS(UNMASK_KEY)};
#undef UNMASK_KEY
  return list;
}

const run_key* find_run_key(std::string_view name) {
  const auto found = std::ranges::find(run_key_list(), name, &run_key::name);
  return found == run_key_list().end() ? nullptr : &*found;
}

std::string run_help() {
  std::string text = "keys of [run] that say what a point runs with:\n";
  for (const run_key& key : run_key_list()) {
    text += "  " + padded(key.name, 20) + padded(key.text({}), 10) + key.meaning + "\n";
    if (*key.words != '\0') text += "  " + padded("", 20) + padded("", 10) + key.words + "\n";
  }
  return text;
}

}  // namespace unmask
