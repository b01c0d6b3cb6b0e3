// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The tables of other projects that scorers need, linked into the program (../data/README.md names
// their licences).
#pragma once

#include <string>

namespace unmask::scorers {

enum class table {
  jieba_dictionary,     // lines "word frequency tag"
  jieba_hmm,            // JSON: start, trans, emit
  langdetect_profiles,  // JSON: language -> freq, n_words, name
  langdetect_kanji      // lines of characters that count as the first of their line
};

// The table's text, unpacked anew at each call.
std::string table_text(table which);

}  // namespace unmask::scorers
