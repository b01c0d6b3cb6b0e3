// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cstring>

#include "harness/base/ranks/group.h"
#include "kernels/head.h"

namespace unmask {

cut_head::cut_head(std::vector<packed_handle> own_pieces, std::size_t held_from,
                   tensor first_of_all)
    : own(std::move(own_pieces)), held(held_from), first(std::move(first_of_all)) {
  const auto* at = first.as<std::int32_t>();
  if (held + own.size() > pieces()) throw std::logic_error("cut_head: more pieces than there are");
  out_features = at[pieces()];
  for (std::size_t i = 0; i < own.size(); ++i) {
    in_features = own[i]->in_features;
    bytes += own[i]->bytes;
    if (own[i]->out_features != at[held + i + 1] - at[held + i]) {
      throw std::logic_error("cut_head: a piece has other tokens than it should");
    }
  }
}

std::int64_t cut_head::widest() const {
  const auto* at = first.as<std::int32_t>();
  std::int32_t most = 0;
  for (std::size_t p = 0; p < pieces(); ++p) most = std::max(most, at[p + 1] - at[p]);
  return most;
}

rank_group* cut_head::ranks() const {
  if (own.size() == pieces()) return nullptr;
  rank_group* group = current_ranks();
  if (group == nullptr)
    throw std::logic_error("cut_head: the ranks of the other pieces are missing");
  return group;
}

void cut_head::gather(const void* mine, std::size_t bytes_of_piece, void* all) const {
  const std::size_t own_bytes = own.size() * bytes_of_piece;
  if (rank_group* group = ranks()) {
    group->gather(mine, own_bytes, all);
  } else {
    std::memcpy(all, mine, own_bytes);
  }
}

void note_unequal_rows(int other) {
  if (rank_group* group = current_ranks()) group->note_difference(other);
}

const cut_head* as_cut(const packed_matrix& head) {
  return dynamic_cast<const cut_head*>(&head);
}

void place_logits(const cut_head& head, const float* all, const tensor_view& out) {
  const auto* at = head.first.as<std::int32_t>();
  const std::int64_t n = out.rows(), widest = head.widest();
  for (std::size_t p = 0; p < head.pieces(); ++p) {
    for (std::int64_t i = 0; i < n; ++i) {
      const float* from = all + (static_cast<std::int64_t>(p) * n + i) * widest;
      std::copy_n(from, at[p + 1] - at[p], out.row<float>(i) + at[p]);
    }
  }
}

}  // namespace unmask
