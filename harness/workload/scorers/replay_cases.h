// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// One recorded case and what differs from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace unmask::scorers {

class golden_case {
 public:
  explicit golden_case(const json_reader& object);

  const json_reader& item() const { return item_; }
  const json_reader& official() const { return official_; }
  std::string response() const { return item_.text("response"); }
  std::vector<std::string> texts(const char* key) const;  // of the item; empty when null

  // Each compares one field of the official result; the first difference is kept. `where` is an
  // object of the official result or itself.
  void text(const json_reader& where, std::string_view key, std::string_view ours);
  void flag(const json_reader& where, std::string_view key, bool ours);
  void number(const json_reader& where, std::string_view key, double ours);
  void numbers(const json_reader& where, std::string_view key, const std::vector<double>& ours);
  void flags(const json_reader& where, std::string_view key, const std::vector<bool>& ours);
  void differs(std::string_view key, const std::string& ours, const std::string& wanted);
  void undecided(std::string_view what);
  bool is_undecided() const { return undecided_; }
  const std::string& difference() const { return difference_; }

 private:
  json_reader item_, official_;
  std::string difference_;
  bool undecided_ = false;
};

using replay_function = void (*)(golden_case&);

// The functions by the file's name without its ending; null for an unknown file.
replay_function find_replay(std::string_view file);
// Parts of that list, each beside the scorers it calls.
replay_function find_math_replay(std::string_view file);
replay_function find_text_replay(std::string_view file);

}  // namespace unmask::scorers
