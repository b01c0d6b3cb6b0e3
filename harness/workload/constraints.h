// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The rules an instruction-following answer must keep. check.constraints is an array of objects;
// `type` decides which other keys a rule has:
//
//   equals, starts_with, ends_with, contains, not_contains   text
//   repeat       text occurs exactly `count` times, copies not overlapping
//   word_count   exactly `count` words          all_upper   a letter A-Z and none of a-z
//   one_of       text is one of `texts`
//
// and on the items the text splits into at `sep`, after `strip` is taken off its end:
//
//   item_count   count        items_in   every item is in `set`     items_unique
//   sorted       by code point           items_start_with   every item starts with `prefix`
//   latin_square each item holds the symbols of `set` once, separated by a space, and so does each
//                column of the items
#pragma once

#include <string>
#include <string_view>

#include "harness/base/json.h"

namespace unmask {

// The first rule that the output breaks, as a note; "" when it keeps all. White space around the
// output does not count. Environment error for a rule that is not in the list above.
std::string broken_constraint(const json_reader& check, std::string_view output);

}  // namespace unmask
