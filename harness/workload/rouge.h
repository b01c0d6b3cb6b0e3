// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string_view>

namespace unmask {

// ROUGE-L: F1 of the longest common subsequence of the words of both texts, 0 to 1. A word is a
// run of [a-z0-9] after lower-casing; everything else separates. O(words x words) time.
double rouge_l(std::string_view output, std::string_view reference);

}  // namespace unmask
