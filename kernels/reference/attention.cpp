// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/reference/backend.h"

namespace unmask::reference {

bool admits(const key_set& keys, std::int32_t row_position, std::int32_t key_position) {
  switch (keys.mask) {
    case mask_kind::full:
      return true;
    case mask_kind::causal:
      return key_position <= row_position;
    case mask_kind::block_causal:
      return key_position / keys.block <= row_position / keys.block;
  }
  throw std::logic_error("attention: unknown mask");
}

bool keeps(const block_mask& mask, std::int64_t heads, std::int32_t s, std::int64_t h,
           std::int32_t row_position, std::int32_t slot) {
  if (mask.keep == nullptr || mask.applies[s] == 0) return true;
  const std::int64_t i = row_position / mask.size, j = slot / mask.size;
  return mask.keep[((s * heads + h) * mask.blocks + i) * mask.blocks + j] != 0;
}

namespace {

// w_j = softmax_j(q . k_j * scale) over the admitted keys, out = sum_j w_j v_j,
// key_mass_j += sum over rows and heads of w_j. A row without an admitted key gives zeros.
void attention(const op::attention& args) {
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2];
  const std::int64_t group = heads / args.cache.keys.shape[2];
  if (args.keys.tiles.keep != nullptr &&
      (args.keys.key_begin != nullptr || args.key_mass.data != nullptr)) {
    throw std::logic_error("attention: a block mask goes with neither a key list nor key_mass");
  }
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  std::int64_t first = 0;  // index of the sequence's first key in key_mass
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const bool listed = args.keys.key_begin != nullptr;
    const std::int32_t count =
        listed ? args.keys.key_begin[s + 1] - args.keys.key_begin[s] : args.keys.kv_length[s];
    if (listed) first = args.keys.key_begin[s];
    const auto slot_of = [&](std::int32_t j) { return listed ? args.keys.key_slot[first + j] : j; };
    const auto place = [&](const tensor_view& side, std::int32_t slot, std::int64_t h) {
      const std::int32_t page =
          args.cache.page_table[s * args.cache.table_stride + slot / kv_page_size];
      return side.row<float>(page) + (slot % kv_page_size) * side.shape[2] * dim + h / group * dim;
    };
    for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const float* query = args.q.row<float>(r) + h * dim;
        std::vector<double> weight(static_cast<std::size_t>(count), minus_infinity);
        double largest = minus_infinity;
        for (std::int32_t j = 0; j < count; ++j) {
          if (!admits(args.keys, args.rows.position[r], slot_of(j)) ||
              !keeps(args.keys.tiles, heads, s, h, args.rows.position[r], slot_of(j))) {
            continue;
          }
          const float* key = place(args.cache.keys, slot_of(j), h);
          double dot = 0;
          for (std::int64_t d = 0; d < dim; ++d) dot += double{query[d]} * key[d];
          weight[j] = dot * args.scale;
          if (weight[j] > largest) largest = weight[j];
        }
        double total = 0;
        for (double& w : weight) {
          w = w == minus_infinity ? 0.0 : std::exp(w - largest);
          total += w;
        }
        std::vector<double> sum(static_cast<std::size_t>(dim), 0.0);
        for (std::int32_t j = 0; j < count; ++j) {
          if (weight[j] == 0.0) continue;
          const double w = weight[j] / total;
          const float* value = place(args.cache.values, slot_of(j), h);
          for (std::int64_t d = 0; d < dim; ++d) sum[d] += w * value[d];
          if (args.key_mass.data != nullptr) {
            float& mass = args.key_mass.as<float>()[first + j];
            mass = static_cast<float>(mass + w);
          }
        }
        for (std::int64_t d = 0; d < dim; ++d) {
          args.out.row<float>(r)[h * dim + d] = static_cast<float>(sum[d]);
        }
      }
    }
    if (!listed) first += count;
  }
}

}  // namespace

const register_operations<attention> registered(target::reference);

}  // namespace unmask::reference
