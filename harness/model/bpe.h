// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Byte-level byte-pair encoding (Sennrich et al., ACL 2016; GPT-2's byte alphabet).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace unmask {

// GPT-2 writes each byte as one printable character (a space as U+0120). The bytes behind such a
// text; nothing when it holds a character outside that alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);
// The character of a byte, in UTF-8.
std::string to_byte_alphabet(std::uint8_t byte);

class bpe {
 public:
  // Vocabulary first, then merges in order of rank; both in the byte alphabet. False: the token or
  // id is taken, or (merge) a side or the result is not in the vocabulary.
  bool add_token(std::string_view text, std::int32_t id);
  bool add_merge(std::string_view left, std::string_view right);
  void set_ignore_merges(bool whole_pieces_first) { ignore_merges_ = whole_pieces_first; }
  // Stands for bytes that have no token of their own; -1: there is none.
  void set_unknown(std::int32_t id) { unknown_ = id; }

  std::int32_t find(std::string_view text) const;   // by text in the byte alphabet; -1 absent
  const std::string* bytes(std::int32_t id) const;  // what the token stands for; null: no token
  std::int32_t size() const { return static_cast<std::int32_t>(bytes_of_.size()); }

  // Append the tokens of one piece of raw bytes. A byte without a token, when there is no unknown
  // token, is an environment error.
  void encode(std::string_view piece, std::vector<std::int32_t>& out) const;

 private:
  struct merge {
    std::int32_t rank;
    std::int32_t id;
  };
  const merge* find_merge(std::int32_t left, std::int32_t right) const;

  std::unordered_map<std::string, std::int32_t> id_of_;     // raw bytes -> id
  std::unordered_map<std::string, std::int32_t> verbatim_;  // texts outside the byte alphabet
  std::vector<std::optional<std::string>> bytes_of_;
  std::array<std::int32_t, 256> byte_id_ = [] {
    std::array<std::int32_t, 256> none{};
    none.fill(-1);
    return none;
  }();
  std::unordered_map<std::uint64_t, merge> merges_;
  bool ignore_merges_ = false;
  std::int32_t unknown_ = -1;
};

}  // namespace unmask
