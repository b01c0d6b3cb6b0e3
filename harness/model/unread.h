// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a checkpoint holds and nothing reads: tensors, and keys of config.json.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace unmask {

// Names of tensors and `keys` that nothing reads, by what becomes of an answer without them.
struct unread_parts {
  std::vector<std::string> pictures;  // of a picture tower: answers about text are right
  std::vector<std::string> changing;  // of a layer, a bias or a table of this family: other answers
  std::vector<std::string> others;    // nobody knows

  void append(const unread_parts& more);
};

// What a user takes although nothing reads it: `pictures` and `unread` of a model.
struct unread_use {
  bool text_only = false;  // pictures = "off"
  bool accepted = false;   // unread = "accept"
};

// The members of config.json that are neither in `asked` nor known to change nothing. One that is null,
// false or empty says nothing.
unread_parts unread_keys(const json_value& config, const std::set<std::string>& asked);

// Appends the name of a tensor that nothing reads to its list. `layers` stands before the number of a
// layer, layers from `first_other` to the one before `last_other` predict further tokens and no answer;
// `tables` are the names of the tensors of the whole model, without ".weight". Rotary frequencies are
// computed, so a table of them is passed over.
struct unread_names {
  std::string layers;
  std::int32_t first_other = 0, last_other = 0;
  std::vector<std::string> tables;
};
void append_unread_tensor(const std::string& name, const unread_names& of, unread_parts& parts);

// What is not read, counted and named in one sentence; empty: everything is read.
std::string caution_of(const unread_parts& parts);

// Environment error for parts that would change answers, or belong to a picture tower, unless they are
// taken so. `where` is the folder of the checkpoint.
void refuse_unread(const unread_parts& parts, const unread_use& use, const std::string& where);

}  // namespace unmask
