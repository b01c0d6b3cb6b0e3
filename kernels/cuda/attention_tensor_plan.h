// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The work list of attention on tensor cores (attention_tensor_kernels.h): how rows and keys are
// cut into items, and how the parts of rows whose keys were cut are merged.
#pragma once

#include "kernels/cuda/attention_params.h"
#include "kernels/cuda/attention_tiles.h"

namespace unmask::cuda::UNMASK_TARGET {

static_assert(tensor_keys == kv_page_size && attention_chunk == least_piece * tensor_keys);

// Returns how many tiles the rows, or the keys, of a sequence take.
UNMASK_DEVICE int row_tiles_of(const attention_params& p, int s) {
  const int packed = (p.row_begin[s + 1] - p.row_begin[s]) * (p.heads / p.kv_heads);
  return (packed + p.tile_rows - 1) / p.tile_rows * p.kv_heads;
}
UNMASK_DEVICE int key_tiles_of(const attention_params& p, int s) {
  return (p.keys_of[s] + tensor_keys - 1) / tensor_keys;
}

// The tile of rows and the kv head of an item, from its index among the items of its sequence,
// whose keys are cut into `splits`. kv heads run fastest. With p.rows_fastest the tiles of rows run
// fastest, if there are more of them than heads: blocks that work at the same time then read the
// keys of few heads, which fit into L2.
struct tile_and_head {
  int tile, kv_head;
};
UNMASK_DEVICE bool rows_run_fastest(const attention_params& p, int row_tiles) {
  return p.rows_fastest && row_tiles > p.kv_heads;
}
UNMASK_DEVICE int place_among(const attention_params& p, int row_tiles, const tile_and_head& at) {
  return rows_run_fastest(p, row_tiles) ? at.kv_head * row_tiles + at.tile
                                        : at.tile * p.kv_heads + at.kv_head;
}
UNMASK_DEVICE tile_and_head tile_at(const attention_params& p, int row_tiles, int place) {
  if (rows_run_fastest(p, row_tiles)) return {place % row_tiles, place / row_tiles};
  return {place / p.kv_heads, place % p.kv_heads};
}

// Counts what a cut into pieces of at most `share` tiles of keys gives. A warp counts, and each
// lane gets the result.
UNMASK_DEVICE tensor_cutting cutting_by(const attention_params& p, std::int64_t share) {
  tensor_cutting c;
  for (int s = lane_index(); s < p.sequences; s += warp_size) {
    const int tiles = key_tiles_of(p, s), splits = tensor_pieces(tiles, share);
    const std::int64_t pieces = static_cast<std::int64_t>(row_tiles_of(p, s)) * splits;
    const int piece = pieces > 0 ? (tiles + splits - 1) / splits : 0;
    c.pieces += pieces;
    c.parts += splits > 1 ? pieces : 0;
    c.longest = piece > c.longest ? piece : c.longest;
  }
  return {warp_sum(c.pieces), warp_sum(c.parts), warp_max(c.longest)};
}

// Only Hopper's kernels draw tickets (ops/attention_joined.cu).
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool has_tickets = true;
#else
constexpr bool has_tickets = false;
#endif

// The ticket of an item of the work list, `rest` of those of its sequence, and that of a share of merging.
UNMASK_DEVICE attention_ticket ticket_among(const attention_params& p, int s, int rest) {
  const int splits = p.splits_of[s], row_tiles = row_tiles_of(p, s) / p.kv_heads;
  const tile_and_head at = tile_at(p, row_tiles, rest / splits);
  attention_ticket t;
  t.sequence = s;
  t.kv_head = static_cast<std::uint16_t>(at.kv_head);
  t.share = static_cast<std::int16_t>(rest % splits);
  t.first_row = p.row_begin[s];
  t.packed = (p.row_begin[s + 1] - t.first_row) * (p.heads / p.kv_heads);
  t.first_packed = at.tile * p.tile_rows;
  t.first_key = t.share * p.split_keys[s];
  const int end = t.first_key + p.split_keys[s];
  t.last_key = end < p.keys_of[s] ? end : p.keys_of[s];
  t.splits = static_cast<std::int16_t>(splits);
  t.merging = 0;
  return t;
}
UNMASK_DEVICE attention_ticket item_ticket(const attention_params& p, int item) {
  const int s = sequence_of(p.item_begin, p.sequences, item);
  attention_ticket t = ticket_among(p, s, item - p.item_begin[s]);
  t.part = t.splits > 1 ? p.part_begin[s] + item - p.item_begin[s] : -1;
  return t;
}
UNMASK_DEVICE attention_ticket merging_ticket(const attention_params& p, int n) {
  const int tile = n / merging_shares, s = sequence_of(p.tile_begin, p.sequences, tile);
  const int rest = (tile - p.tile_begin[s]) * p.splits_of[s];
  attention_ticket t = ticket_among(p, s, rest);
  t.part = p.part_begin[s] + rest;
  t.share = static_cast<std::int16_t>(n % merging_shares);
  t.merging = 1;
  return t;
}

// Writes all tickets, and starts all counts. One block.
UNMASK_DEVICE void write_tickets(const attention_params& p, int items, int parts, int shares) {
  const int t = static_cast<int>(thread_index());
  for (int i = t; i < items; i += plan_threads) p.tickets[i] = item_ticket(p, i);
  for (int i = t; i < shares; i += plan_threads) p.tickets[items + i] = merging_ticket(p, i);
  for (int i = t; i < parts; i += plan_threads) p.done[i] = 0;
  if (t == 0) {
    p.drawn[0] = 0;
    p.drawn[1] = items + shares;
  }
}

constexpr std::size_t tensor_plan_shared_bytes =
    plan_threads / warp_size * (sizeof(std::int64_t) + 3 * sizeof(std::int32_t)) +
    tensor_cuts * sizeof(std::int64_t);

// Makes the work list: item_begin, and how the keys of each sequence are cut. One block. The work
// of a batch is its tiles of rows times tiles of keys. Every sequence with more keys than a share
// is cut into pieces of about that share, so that a long context does not run alone at the end and
// few sequences fill the device; the share is the one of least cost among those that cut the
// longest sequence into 1, 2, 3, 4, 6, ... pieces. It is never below least_piece tiles, nor below a share
// of even_share.
UNMASK_KERNEL void UNMASK_THREADS(plan_threads) tensor_plan_kernel(attention_params p) {
  shared_allocator shared;
  const auto sums = shared.take<std::int64_t>(plan_threads / warp_size);
  const auto costs = shared.take<std::int64_t>(tensor_cuts);
  const auto scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const auto parts_scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const auto longest_scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const int t = static_cast<int>(thread_index());
  std::int64_t work = 0;
  std::int32_t longest = 1;
  for (int s = t; s < p.sequences; s += plan_threads) {
    p.keys_of[s] = given_key_count(p, s);
    p.keys_from[s] = p.key_begin != nullptr ? p.key_begin[s] : 0;
    const int tiles = key_tiles_of(p, s);
    longest = tiles > longest ? tiles : longest;
    work += static_cast<std::int64_t>(row_tiles_of(p, s)) * tiles;
  }
  work = block_sum(work, sums);
  longest = block_max(longest, longest_scratch);
  const std::int64_t even = (work + p.even_share - 1) / p.even_share;
  const std::int64_t finest = even > p.least_piece ? even : p.least_piece;
  for (int cut = warp_index(); p.most_parts > 0 && cut < tensor_cuts;
       cut += plan_threads / warp_size) {
    const tensor_cutting c = cutting_by(p, tensor_share(longest, cut, finest));
    if (lane_index() == 0) costs[cut] = tensor_cost(c, work, p.places, p.tile_rows);
  }
  sync_block();
  int best = 0;
  for (int cut = 1; p.most_parts > 0 && cut < tensor_cuts; ++cut) {
    if (costs[cut] < costs[best]) best = cut;
  }
  const std::int64_t share = tensor_share(longest, best, finest);
  std::int32_t before = 0, parts_before = 0, tiles_before = 0;
  for (int first = 0; first < p.sequences; first += plan_threads) {
    const int s = first + t;
    std::int32_t items = 0, splits = 1;
    if (s < p.sequences) {
      const int tiles = key_tiles_of(p, s);
      if (p.most_parts > 0) splits = tensor_pieces(tiles, share);
      p.splits_of[s] = splits;
      p.split_keys[s] = ((tiles > 0 ? tiles : 1) + splits - 1) / splits * tensor_keys;
      items = row_tiles_of(p, s) * splits;
    }
    std::int32_t total = 0, parts = 0;
    const std::int32_t end = block_scan(items, scratch, &total);
    const std::int32_t parts_end = block_scan(splits > 1 ? items : 0, parts_scratch, &parts);
    if (s < p.sequences) {
      p.item_begin[s + 1] = before + end;
      p.part_begin[s + 1] = parts_before + parts_end;
    }
    before += total;
    parts_before += parts;
    sync_block();
    if (!has_tickets || p.tickets == nullptr) continue;
    const std::int32_t tiles_end = block_scan(splits > 1 ? items / splits : 0, scratch, &total);
    if (s < p.sequences) p.tile_begin[s + 1] = tiles_before + tiles_end;
    tiles_before += total;
    sync_block();
  }
  if (t == 0) p.item_begin[0] = p.part_begin[0] = 0;
  if (!has_tickets || p.tickets == nullptr) return;
  if (t == 0) p.tile_begin[0] = 0;
  sync_block();
  write_tickets(p, before, parts_before, tiles_before * merging_shares);
}

constexpr int merge_blocks = 6;  // on a multiprocessor

// Merges the parts of a row and head, `at` of all of them, of which the first begins at `part`, and each
// further one `stride` floats behind it. A warp; `at_once` parts are on their way at a time.
template <int dim, int at_once>
UNMASK_DEVICE void merge_parts(const attention_params& p, const float* part, int stride, int splits,
                               int at) {
  constexpr int per = dim / warp_size;
  const int row = at / p.heads, h = at % p.heads, lane = lane_index();
  float top = -INFINITY, sum = 0, total[per] = {};
  for (int i = lane; i < splits; i += warp_size) top = fmaxf(top, part[i * stride + dim]);
  top = warp_max(top);
  const float base = top == -INFINITY ? 0.0F : top;
  for (int chunk = 0; chunk < splits; chunk += warp_size) {  // a part's weight is one lane's
    const int here = splits - chunk < warp_size ? splits - chunk : warp_size;
    float weight = 0;
    if (lane < here) {
      const float* of = part + lane * stride + dim;
      weight = expf(of[0] - base);
      sum = fused_multiply_add(of[1], weight, sum);
    }
#pragma unroll at_once
    for (int i = 0; i < here; ++i) {
      const float scale = shuffle(weight, i);
#pragma unroll
      for (int d = 0; d < per; d += 2) {
        const float_pair x = load_pair(part, dtype::f32, lane * 2 + d * warp_size);
        total[d] = fused_multiply_add(x.a, scale, total[d]);
        total[d + 1] = fused_multiply_add(x.b, scale, total[d + 1]);
      }
      part += stride;
    }
  }
  sum = warp_sum(sum);
  const float factor = sum == 0 ? 0.0F : 1.0F / sum;
  const std::int64_t to = std::int64_t{row} * p.out_stride + static_cast<std::int64_t>(h) * dim;
#pragma unroll
  for (int d = 0; d < per; d += 2) {
    store_pair(p.out, p.out_type, to + lane * 2 + d * warp_size, total[d] * factor,
               total[d + 1] * factor);
  }
  if (p.softmax != nullptr && lane == 0) {
    p.softmax[at * 2] = top;
    p.softmax[at * 2 + 1] = sum;
  }
}

// Merges the parts of sequences whose keys were cut. One warp per (row, head), four elements per
// lane. It mostly waits for memory, so it needs as many warps as the device can hold.
template <int dim>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(plan_threads, merge_blocks)
    tensor_merge_kernel(attention_params p) {
  if (p.part_begin[p.sequences] == 0) return;
  const int group = p.heads / p.kv_heads;
  const int pairs = p.row_begin[p.sequences] * p.heads;
  const int step = static_cast<int>(grid_size()) * (plan_threads / warp_size);
  for (int at = static_cast<int>(block_index()) * (plan_threads / warp_size) + warp_index();
       at < pairs; at += step) {
    const int row = at / p.heads, h = at % p.heads;
    const int s = sequence_of(p.row_begin, p.sequences, row);
    const int splits = p.splits_of[s];
    if (splits == 1) continue;
    const int packed = (row - p.row_begin[s]) * group + h % group;
    const int row_tiles = row_tiles_of(p, s) / p.kv_heads;
    const int first =
        p.part_begin[s] + place_among(p, row_tiles, {packed / p.tile_rows, h / group}) * splits;
    const int stride = p.tile_rows * (dim + 2);
    const float* part =
        p.partial + static_cast<std::int64_t>(first) * stride + packed % p.tile_rows * (dim + 2);
    merge_parts<dim, 2>(p, part, stride, splits, at);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
