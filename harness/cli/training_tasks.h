// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The embedded models answer the forms of question that they were trained on, and no others: what
// they say to anything else means nothing.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace unmask {

// The task families in a model's card, README.md, where it says "Trained on generated text only": the
// first column of tables whose head begins with "family", and what "cannot be scored". Empty: the
// folder has no such card.
std::vector<std::string> training_families(const std::filesystem::path& model);

// The form of a prompt is its words and signs, whatever the numbers: "Compute 5 * 7 - 15." is
// "compute # * # - # .".
class prompt_form {
 public:
  explicit prompt_form(const std::string& prompt);
  void compare(const std::string& example);
  // True when every two neighbours stood beside each other in an example, and examples that begin
  // with the same two were as short and as long.
  bool known() const;

 private:
  std::vector<std::string> pieces_;
  std::set<std::pair<std::string, std::string>> missing_;
  std::size_t least_, most_ = 0;
};

// One sentence where the model has a card with families and the prompt has the form of none of their
// held-out prompts; empty otherwise.
std::string outside_training(const std::filesystem::path& model, const std::string& prompt);

}  // namespace unmask
