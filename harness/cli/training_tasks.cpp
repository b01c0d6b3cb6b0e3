// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/training_tasks.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/plan/locate.h"
#include "harness/workload/task.h"

namespace unmask {
namespace {

constexpr std::size_t largest_card = std::size_t{1} << 20;
constexpr const char* unscored = " cannot be scored";

// "#" for a number; a word in small letters; every other sign for itself.
std::vector<std::string> pieces_of(const std::string& prompt) {
  std::vector<std::string> pieces = {"^"};
  const auto kind = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isdigit(byte) ? 1 : std::isalpha(byte) || byte >= 0x80 ? 2 : 0;
  };
  for (std::size_t i = 0; i < prompt.size();) {
    const int what = kind(prompt[i]);
    std::size_t end = i + 1;
    while (what != 0 && end < prompt.size() && kind(prompt[end]) == what) ++end;
    std::string piece = what == 1 ? "#" : prompt.substr(i, end - i);
    for (char& c : piece) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (piece.find_first_not_of(" \t\r\n") != std::string::npos) pieces.push_back(piece);
    i = end;
  }
  pieces.emplace_back("$");
  return pieces;
}

}  // namespace

std::vector<std::string> training_families(const std::filesystem::path& model) {
  const std::filesystem::path card = model / "README.md";
  std::vector<std::string> families;
  std::error_code none;
  if (!std::filesystem::is_regular_file(card, none)) return families;
  const std::string text = read_file(card, largest_card);
  if (text.find("Trained on generated text only") == std::string::npos) return families;
  const auto add = [&](const std::string& family) {
    if (family == "mean" || std::ranges::find(families, family) != families.end()) return;
    families.push_back(family);
  };
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    inside = inside && line.starts_with("|");
    if (!line.starts_with("| ")) continue;  // the rule under a head, or no table
    const std::string first = line.substr(2, std::min(line.find(' ', 2), line.size()) - 2);
    if (inside) add(first);
    inside = inside || first == "family";
  }
  if (const std::size_t at = text.find(unscored); at != std::string::npos) {
    const std::size_t before = text.find_last_of(" \n", at - 1) + 1;
    add(text.substr(before, at - before));
  }
  return families;
}

prompt_form::prompt_form(const std::string& prompt)
    : pieces_(pieces_of(prompt)), least_(pieces_.size() + 1) {
  for (std::size_t i = 0; i + 1 < pieces_.size(); ++i) {
    missing_.insert({pieces_[i], pieces_[i + 1]});
  }
}

void prompt_form::compare(const std::string& example) {
  const std::vector<std::string> pieces = pieces_of(example);
  for (std::size_t i = 0; !missing_.empty() && i + 1 < pieces.size(); ++i) {
    missing_.erase({pieces[i], pieces[i + 1]});
  }
  if (pieces.size() < 3 || pieces_.size() < 3) return;
  if (pieces[1] != pieces_[1] || pieces[2] != pieces_[2]) return;
  least_ = std::min(least_, pieces.size());
  most_ = std::max(most_, pieces.size());
}

bool prompt_form::known() const {
  return missing_.empty() && least_ <= pieces_.size() && pieces_.size() <= most_;
}

std::string outside_training(const std::filesystem::path& model, const std::string& prompt) {
  const std::vector<std::string> families = training_families(model);
  prompt_form form(prompt);
  std::vector<std::string> read;
  for (const std::string& family : families) {
    // The card of a stranger's model may list what is no task of ours.
    if (family.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") != std::string::npos) {
      continue;
    }
    const auto file = find_embedded("data/" + family + ".jsonl", model);
    if (!file) continue;
    for (const task_item& item : read_tasks(file->string())) form.compare(item.prompt);
    if (form.known()) return "";
    read.push_back(family);
  }
  if (read.empty()) return "";
  return model.filename().string() + " was trained on " + joined(read) +
         " alone and this prompt has the form of none: expect nonsense; prompts that it knows are "
         "in experiments/data";
}

}  // namespace unmask
