// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Chinese word segmentation as the package jieba 0.42.1 does it in precise mode: the most probable
// path through the dictionary's words, and a hidden Markov model for runs of single characters that
// the dictionary does not know. Its tables are linked in; the first use unpacks them (about 0.5 s).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unmask::scorers {

// jieba.cut(text, cut_all=False, HMM=hmm). The words' concatenation is the text.
std::vector<std::string> jieba_cut(std::string_view text, bool hmm = true);

}  // namespace unmask::scorers
