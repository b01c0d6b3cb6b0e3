// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Byte-level BPE tokenizers as published with the models: tokenizer.json, or vocab.json and
// merges.txt. Anything a checkpoint asks for that is not known here is refused by name; a wrong
// token is worse than an error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unmask {

struct tokenizer_parts;

class tokenizer {
 public:
  // Reads tokenizer.json of the directory, else vocab.json and merges.txt; tokenizer_config.json
  // and added_tokens.json add tokens. Errors are environment errors that name file and key.
  static tokenizer load(const std::filesystem::path& directory);
  // The same from texts in memory; config (tokenizer_config.json) may be empty. `directory` stands
  // before the file names in messages.
  static tokenizer parse(std::string_view tokenizer_json, std::string_view config,
                         const std::string& directory);
  static tokenizer parse_vocabulary(std::string_view vocab_json, std::string_view merges_txt,
                                    std::string_view added_tokens_json, std::string_view config,
                                    const std::string& directory);

  // Token ids of a text; malformed UTF-8 counts as U+FFFD. No token is added around the text.
  // parse_special false: special tokens written in the text are treated as plain text.
  std::vector<std::int32_t> encode(std::string_view text, bool parse_special = true) const;
  // A prompt without a chat template: encode() with the tokens that the post_processor of
  // tokenizer.json puts around a text, as transformers' tokenizer(text) adds them.
  std::vector<std::int32_t> encode_raw(std::string_view text) const;
  // Text of tokens, valid UTF-8 (incomplete sequences become U+FFFD); ids without a token vanish.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special) const;
  std::int32_t token_id(std::string_view token) const;  // as in the vocabulary file; -1: absent
  std::int32_t vocabulary_size() const;                 // largest id + 1

 private:
  explicit tokenizer(std::shared_ptr<const tokenizer_parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const tokenizer_parts> parts_;
};

struct encoded_pair {
  std::vector<std::int32_t> context, continuation;
};
// The ids of a context and of what continues it, as likelihoods take them. White space at the end of
// the context goes to the continuation; the ids of both together are split at the length of the
// context's. Dream: the text `bos` before the context, `eos` after all.
encoded_pair encode_pair(const tokenizer& tokens, std::string_view context,
                         std::string_view continuation, const std::string& bos = "",
                         std::int32_t eos = -1);

}  // namespace unmask
