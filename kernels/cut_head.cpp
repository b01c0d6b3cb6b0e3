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

namespace {

// all [ranks, bytes] of what each of them has, mine [bytes].
void gather_of(rank_group* ranks, const void* mine, std::size_t bytes, void* all) {
  if (ranks != nullptr) {
    ranks->gather(mine, bytes, all);
  } else {
    std::memcpy(all, mine, bytes);
  }
}

}  // namespace

void cut_head::gather(const void* mine, std::size_t bytes_of_piece, void* all) const {
  gather_of(ranks(), mine, own.size() * bytes_of_piece, all);
}

void note_unequal_rows(int other) {
  if (rank_group* group = current_ranks()) group->note_difference(other);
}

const cut_head* as_cut(const packed_matrix& head) {
  return dynamic_cast<const cut_head*>(&head);
}

std::uint32_t row_sum(const float* x, std::int64_t width) {
  std::uint32_t sum = 0x811C9DC5U;
  for (std::int64_t i = 0; i < width; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, x + i, sizeof bits);
    sum = (sum ^ bits) * 0x01000193U;
  }
  return sum;
}

void gather_logits(const cut_head& head, const tensor_view& x, const std::int32_t* row, float* mine,
                   float* all, const tensor_view& out) {
  const auto* at = head.first.as<std::int32_t>();
  const std::int64_t n = out.rows(), widest = head.widest(), own = std::ssize(head.own),
                     sent = head.sent_of_logits(n), sums = sent - n;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t sum = row_sum(x.row<float>(row[i]), head.in_features);
    std::memcpy(mine + sums + i, &sum, sizeof sum);
  }
  gather_of(head.ranks(), mine, static_cast<std::size_t>(sent) * sizeof(float), all);
  for (std::int64_t p = 0; p < static_cast<std::int64_t>(head.pieces()); ++p) {
    const float* of_rank = all + p / own * sent;
    const bool same =
        std::memcmp(of_rank + sums, all + sums, static_cast<std::size_t>(n) * sizeof(float)) == 0;
    if (!same) note_unequal_rows(static_cast<int>(p / own));
    for (std::int64_t i = 0; i < n; ++i) {
      const float* from = of_rank + (p % own * n + i) * widest;
      std::copy_n(from, at[p + 1] - at[p], out.row<float>(i) + at[p]);
    }
  }
}

}  // namespace unmask
