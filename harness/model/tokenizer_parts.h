// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a tokenizer is made of. Filled by tokenizer_read.cpp, used by tokenizer.cpp.
#pragma once

#include <unordered_map>
#include <vector>

#include "harness/model/added_tokens.h"
#include "harness/model/bpe.h"
#include "harness/model/pretokenizer.h"

namespace unmask {

struct tokenizer_parts {
  bpe model;
  pretokenizer pieces;
  bool nfc = false;
  std::vector<added_token> added;
  std::unordered_map<std::int32_t, std::size_t> added_by_id;  // id -> index in added
  added_token_matcher raw;         // tokens looked for in the text as given
  added_token_matcher normalized;  // tokens looked for after normalisation
};

// Texts are whole files; empty: no such file. Errors name directory/file and key.
tokenizer_parts read_tokenizer_json(std::string_view text, std::string_view config,
                                    const std::string& directory);
tokenizer_parts read_vocabulary(std::string_view vocab, std::string_view merges,
                                std::string_view added, std::string_view config,
                                const std::string& directory);

}  // namespace unmask
