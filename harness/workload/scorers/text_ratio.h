// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How alike two texts are, 0 to 1, as Python's packages measure it.
#pragma once

#include <string>

namespace unmask::scorers {

// Levenshtein.ratio: 1 - d / (|a| + |b|) with insertions and deletions only; two empty texts: 1.
double levenshtein_ratio(const std::u32string& a, const std::u32string& b);

// difflib.SequenceMatcher(None, a, b).ratio(): 2 x characters in matching blocks / (|a| + |b|),
// with its heuristic that characters frequent in a long b start no block.
double difflib_ratio(const std::u32string& a, const std::u32string& b);

}  // namespace unmask::scorers
