// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/tokenizer_parts.h"

#include <queue>

#include "harness/base/error.h"

namespace unmask {
namespace {

// Printable Latin-1 stands for itself; the other 68 bytes take U+0100 upwards, in order.
struct byte_alphabet {
  std::array<std::uint16_t, 256> code{};
  std::array<std::int16_t, 512> byte{};

  byte_alphabet() {
    byte.fill(-1);
    std::uint16_t next = 256;
    for (std::uint16_t b = 0; b < 256; ++b) {
      const bool printable =
          (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      code[b] = printable ? b : next++;
      byte[code[b]] = static_cast<std::int16_t>(b);
    }
  }
};

const byte_alphabet& alphabet() {
  static const byte_alphabet table;
  return table;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

}  // namespace

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    std::size_t code = first;
    if (first >= 0x80) {  // every character of the alphabet has at most two bytes
      if ((first & 0xE0) != 0xC0 || i + 1 == text.size()) return std::nullopt;
      code = ((first & 0x1FU) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3FU);
    }
    if (code >= alphabet().byte.size() || alphabet().byte[code] < 0) return std::nullopt;
    bytes += static_cast<char>(alphabet().byte[code]);
  }
  return bytes;
}

std::string to_byte_alphabet(std::uint8_t byte) {
  const unsigned code = alphabet().code[byte];
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

bool bpe::add_token(std::string_view text, std::int32_t id) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= bytes_of_.size()) bytes_of_.resize(index + 1);
  if (bytes_of_[index]) return false;
  std::optional<std::string> bytes = from_byte_alphabet(text);
  auto& map = bytes ? id_of_ : verbatim_;
  if (!bytes) bytes = std::string(text);
  if (!map.emplace(*bytes, id).second) return false;
  if (&map == &id_of_ && bytes->size() == 1) {
    byte_id_[static_cast<unsigned char>(bytes->front())] = id;
  }
  bytes_of_[index] = std::move(bytes);
  return true;
}

bool bpe::add_merge(std::string_view left, std::string_view right) {
  const std::int32_t a = find(left);
  const std::int32_t b = find(right);
  const std::int32_t whole = find(std::string(left) + std::string(right));
  if (a < 0 || b < 0 || whole < 0) return false;
  merges_.insert_or_assign(pair_key(a, b), merge{next_rank_++, whole});  // the last one counts
  return true;
}

std::int32_t bpe::find(std::string_view text) const {
  const std::optional<std::string> bytes = from_byte_alphabet(text);
  const auto& map = bytes ? id_of_ : verbatim_;
  const auto at = map.find(bytes ? *bytes : std::string(text));
  return at == map.end() ? -1 : at->second;
}

const std::string* bpe::bytes(std::int32_t id) const {
  if (id < 0 || id >= size()) return nullptr;
  const auto& token = bytes_of_[static_cast<std::size_t>(id)];
  return token ? &*token : nullptr;
}

const bpe::merge* bpe::find_merge(std::int32_t left, std::int32_t right) const {
  const auto at = merges_.find(pair_key(left, right));
  return at == merges_.end() ? nullptr : &at->second;
}

void bpe::encode(std::string_view piece, std::vector<std::int32_t>& out) const {
  if (piece.empty()) return;
  if (ignore_merges_) {
    const auto whole = id_of_.find(std::string(piece));
    if (whole != id_of_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  // A doubly linked list of symbols and a heap of candidate merges, cheapest rank first and
  // leftmost on ties: O(n log n), where rescanning for the best pair would be quadratic.
  struct symbol {
    std::int32_t id, previous, next;  // id -1: merged into its left neighbour
  };
  struct candidate {
    std::int32_t rank, left, id;
    bool operator<(const candidate& o) const {
      return rank != o.rank ? rank > o.rank : left > o.left;
    }
  };
  std::vector<symbol> symbols;
  symbols.reserve(piece.size());
  bool after_unknown = false;
  for (const char letter : piece) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool unknown = byte_id_[byte] < 0;
    const std::int32_t id = unknown ? unknown_ : byte_id_[byte];
    if (id < 0) {
      throw environment_error("the vocabulary has no token for the byte " + std::to_string(byte) +
                              " (\"" + to_byte_alphabet(byte) + "\") and no unknown token");
    }
    if (unknown && after_unknown && fuse_unknown_) continue;
    after_unknown = unknown;
    const auto i = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, i - 1, i + 1});
  }
  const auto count = static_cast<std::int32_t>(symbols.size());
  symbols.back().next = -1;
  const auto at = [&](std::int32_t i) -> symbol& { return symbols[static_cast<std::size_t>(i)]; };
  std::priority_queue<candidate> heap;
  const auto consider = [&](std::int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    if (const merge* m = find_merge(at(left).id, at(at(left).next).id)) {
      heap.push({m->rank, left, m->id});
    }
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) consider(i);
  while (!heap.empty()) {
    const candidate best = heap.top();
    heap.pop();
    // The symbols may have changed since the candidate was pushed.
    symbol& left = at(best.left);
    if (left.id < 0 || left.next < 0) continue;
    symbol& right = at(left.next);
    const merge* m = find_merge(left.id, right.id);
    if (m == nullptr || m->rank != best.rank) continue;
    left.id = best.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
  for (std::int32_t i = 0; i >= 0; i = at(i).next) out.push_back(at(i).id);
}

void pretokenizer::add_split(const std::string& pattern, behavior kind, bool invert) {
  steps_.push_back({{regex(pattern)}, kind, invert});
}

void pretokenizer::add_prefix_space() {
  steps_.push_back({});
}

std::vector<std::string> pretokenizer::split(std::string_view text) const {
  std::vector<std::string> pieces;
  if (text.empty()) return pieces;
  pieces.emplace_back(text);
  for (const step& s : steps_) {
    std::vector<std::string> next;
    for (std::string& piece : pieces) {
      if (s.pattern.empty()) {
        if (!piece.starts_with(' ')) piece.insert(piece.begin(), ' ');
        next.push_back(std::move(piece));
        continue;
      }
      const auto emit = [&](std::size_t begin, std::size_t end, bool matched) {
        if (begin == end) return;
        if (s.kind == behavior::removed && matched != s.invert) return;
        next.push_back(piece.substr(begin, end - begin));
      };
      std::size_t done = 0;
      s.pattern[0].for_each_match(piece, [&](std::size_t begin, std::size_t end) {
        emit(done, begin, false);
        emit(begin, end, true);
        done = end;
      });
      emit(done, piece.size(), false);
    }
    pieces = std::move(next);
  }
  return pieces;
}

void added_token_matcher::add(std::string_view text, std::size_t index, bool special) {
  std::size_t at = 0;
  for (const char c : text) {
    const node* found = child(nodes_[at], c);
    if (found != nullptr) {
      at = static_cast<std::size_t>(found - nodes_.data());
      continue;
    }
    nodes_[at].children.emplace_back(c, static_cast<std::int32_t>(nodes_.size()));
    at = nodes_.size();
    nodes_.emplace_back();
  }
  if (at == 0 || nodes_[at].index >= 0) return;  // empty, or given before: the first one counts
  nodes_[at].index = static_cast<std::int64_t>(index);
  nodes_[at].special = special;
}

const added_token_matcher::node* added_token_matcher::child(const node& n, char c) const {
  for (const auto& [letter, index] : n.children) {
    if (letter == c) return &nodes_[static_cast<std::size_t>(index)];
  }
  return nullptr;
}

added_token_matcher::match added_token_matcher::next(std::string_view text, std::size_t from,
                                                     bool with_special) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    match best{std::string_view::npos, 0, 0};
    const node* n = &nodes_[0];
    bool special = false;
    for (std::size_t i = begin; i < text.size(); ++i) {
      n = child(*n, text[i]);
      if (n == nullptr) break;
      if (n->index >= 0) {
        best = {begin, i + 1, static_cast<std::size_t>(n->index)};
        special = n->special;
      }
    }
    if (best.begin == std::string_view::npos) continue;
    if (with_special || !special) return best;
    begin = best.end - 1;  // a special token as plain text: no shorter one is looked for inside it
  }
  return {std::string_view::npos, 0, 0};
}

}  // namespace unmask
