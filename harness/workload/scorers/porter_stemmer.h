// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>

namespace unmask::scorers {

// The stem of a word of a-z0-9 by Porter's algorithm (M. Porter, "An algorithm for suffix
// stripping", Program 14(3), 1980) with the extensions of the NLTK library, which rouge_score
// uses: a list of irregular forms, "ied" and "ies" of short words, y after a consonant only,
// "fulli" and "logi".
std::string porter_stem(const std::string& word);

}  // namespace unmask::scorers
