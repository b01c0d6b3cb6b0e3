// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a tokenizer is made of. Filled by tokenizer_read.cpp, used by tokenizer.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/base/regex.h"

namespace unmask {

// GPT-2 writes each byte as one printable character (a space as U+0120). The bytes behind such a
// text; nothing when it holds a character outside that alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);
// The character of a byte, in UTF-8.
std::string to_byte_alphabet(std::uint8_t byte);

// Byte-level byte-pair encoding (Sennrich et al., ACL 2016; GPT-2's byte alphabet).
class bpe {
 public:
  // Vocabulary first, then merges in order of rank; both in the byte alphabet. False: the token or
  // id is taken, or (merge) a side or the result is not in the vocabulary.
  bool add_token(std::string_view text, std::int32_t id);
  bool add_merge(std::string_view left, std::string_view right);
  void set_ignore_merges(bool whole_pieces_first) { ignore_merges_ = whole_pieces_first; }
  // Stands for bytes that have no token of their own; -1: there is none. fused: one for a run.
  void set_unknown(std::int32_t id, bool fused) {
    unknown_ = id;
    fuse_unknown_ = fused;
  }

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
  std::int32_t next_rank_ = 0;
  bool ignore_merges_ = false;
  std::int32_t unknown_ = -1;
  bool fuse_unknown_ = false;
};

inline constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Cuts a text into the pieces inside which byte pairs may merge.
class pretokenizer {
 public:
  enum class behavior : std::uint8_t { isolated, removed };

  // Cut every piece at the matches of a pattern. isolated: matches and what lies between become
  // pieces; removed: the matches vanish. invert swaps matches and what lies between.
  void add_split(const std::string& pattern, behavior kind, bool invert);
  // A space before every piece that does not begin with one.
  void add_prefix_space();

  std::vector<std::string> split(std::string_view text) const;

 private:
  struct step {
    std::vector<regex> pattern;  // one, or none for the prefix space
    behavior kind = behavior::isolated;
    bool invert = false;
  };
  std::vector<step> steps_;
};

// A token that is cut out of a text as a whole, before normalisation and byte pairs.
struct added_token {
  std::string text;
  std::int32_t id = -1;
  bool special = false;     // skipped when decoding without special tokens
  bool strip_left = false;  // swallows white space before it, or after it
  bool strip_right = false;
  bool normalized = false;  // looked for in the normalised text
};

// Finds added tokens in a text: at the leftmost place where one begins, the longest one.
class added_token_matcher {
 public:
  // index is handed back by matches; special tokens can be left out of a search.
  void add(std::string_view text, std::size_t index, bool special);

  struct match {
    std::size_t begin, end, index;
  };
  // The first match at or after `from`; begin == npos when there is none.
  match next(std::string_view text, std::size_t from, bool with_special) const;

 private:
  struct node {
    std::vector<std::pair<char, std::int32_t>> children;  // few per node: searched in order
    std::int64_t index = -1;
    bool special = false;
  };
  const node* child(const node& n, char c) const;

  std::vector<node> nodes_ = std::vector<node>(1);
};

struct tokenizer_parts {
  bpe model;
  pretokenizer pieces;
  bool nfc = false;
  std::vector<added_token> added;
  std::unordered_map<std::int32_t, std::size_t> added_by_id;  // id -> index in added
  std::vector<std::int32_t> before, after;  // ids that the post_processor puts around a text
  added_token_matcher raw;                  // tokens looked for in the text as given
  added_token_matcher normalized;           // tokens looked for after normalisation
};

// Texts are whole files; empty: no such file. Errors name directory/file and key.
tokenizer_parts read_tokenizer_json(std::string_view text, std::string_view config,
                                    const std::string& directory);
tokenizer_parts read_vocabulary(std::string_view vocab, std::string_view merges,
                                std::string_view added, std::string_view config,
                                const std::string& directory);

}  // namespace unmask
