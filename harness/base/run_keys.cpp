// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/run_keys.h"

#include <algorithm>
#include <functional>
#include <map>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

std::string as_text(std::int64_t value) {
  return std::to_string(value);
}
const std::string& as_text(const std::string& value) {
  return value;
}

// Words that were allowed beside those of the list, by key.
std::map<std::string, std::vector<std::string>, std::less<>>& more_words() {
  static std::map<std::string, std::vector<std::string>, std::less<>> all;
  return all;
}

}  // namespace

std::string run_key::text(const run_keys& run) const {
  return std::visit([&](const auto member) { return std::string(as_text(run.*member)); }, field);
}

bool run_key::is_part_of_ids(const run_keys& run) const {
  const std::string value = text(run);
  return value != text(run_keys()) && !(std::string_view(name) == "device" && value == "cpu");
}

std::vector<key_word> run_key::words_of() const {
  std::istringstream in(words);
  std::vector<key_word> all;
  for (std::string word; in >> word;) {
    const std::size_t at = std::min(word.find('@'), word.size());
    all.push_back({word.substr(0, at), word.substr(std::min(at + 1, word.size()))});
  }
  if (const auto more = more_words().find(name); more != more_words().end()) {
    for (const std::string& word : more->second) all.push_back({word, ""});
  }
  return all;
}

std::vector<std::string> run_key::choices() const {
  return names_in(words_of(), &key_word::word);
}

void allow_word(const std::string& key, const std::string& word) {
  more_words()[key].push_back(word);
}

const std::vector<run_key>& run_key_list() {
#define UNMASK_KEY(type, key, unit, value, low, high, words, used, meaning) \
  {#key, unit, low, high, words, used, meaning, &run_keys::key},
  static const std::vector<run_key> list = {UNMASK_RUN_KEYS(UNMASK_KEY)};
#undef UNMASK_KEY
  return list;
}

const run_key* find_run_key(std::string_view name) {
  const auto found = std::ranges::find(run_key_list(), name, &run_key::name);
  return found == run_key_list().end() ? nullptr : &*found;
}

void check_run_keys(const run_keys& run) {
  for (const run_key& key : run_key_list()) {
    const std::string value = key.text(run), name = key.name;
    if (const auto* whole = std::get_if<std::int64_t run_keys::*>(&key.field)) {
      if (run.**whole >= key.low && run.**whole <= key.high) continue;
      throw usage_error("`" + name + "` is " + value + " but must be from " +
                        std::to_string(key.low) + " to " + std::to_string(key.high));
    }
    const std::vector<std::string> known = key.choices();
    if (!known.empty()) find_known(name, value, known);
  }
}

}  // namespace unmask
