// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/added_tokens.h"

namespace unmask {

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
    for (std::size_t i = begin; i < text.size(); ++i) {
      n = child(*n, text[i]);
      if (n == nullptr) break;
      if (n->index >= 0 && (with_special || !n->special)) {
        best = {begin, i + 1, static_cast<std::size_t>(n->index)};
      }
    }
    if (best.begin != std::string_view::npos) return best;
  }
  return {std::string_view::npos, 0, 0};
}

}  // namespace unmask
