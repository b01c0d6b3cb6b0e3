// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/head_product.h"

#include <algorithm>

#include "kernels/cuda/box_maps.h"
#include "kernels/cuda/head_product_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

bool takes_head_product(const device_backend& device, const op::confidence& args,
                        const device_matrix& w) {
  static const bool has_kernel = queue::has_wgmma(head_product_kernel<true>) && has_box_maps();
  return has_kernel && w.format == weight_format::bf16 && w.in_features % 8 == 0 &&
         head_tiles_pay(args.candidates.count) && !(args.params.gumbel_temperature > 0) &&
         args.out.negative_entropy == nullptr &&
         device.may_multiply(multiplied::head_product, multiplier::newer);
}

void run_head_product(const device_backend& device, const std::uint16_t* rows,
                      const device_matrix& w, std::int64_t first, const head_params& p) {
  queue& work = device.work();
  const std::int64_t count = p.candidates.count, tokens = w.out_features, width = w.in_features,
                     tiles = head_token_tiles(tokens), items = head_tile_items(count, tokens);
  // No logits lie there.
  auto* state = work.scratch<head_tile_state>(scratch_slot::head_logits, count * tiles);
  const head_product_params of{box_map_of(rows, count, width, head_half_rows),
                               box_map_of(static_cast<const std::uint16_t*>(w.memory.get()), tokens,
                                          width, head_tile_tokens),
                               state,
                               p.banned,
                               p.banned_count,
                               static_cast<int>(count),
                               static_cast<int>(tokens),
                               static_cast<int>(width),
                               static_cast<int>(head_row_tiles(count)),
                               static_cast<int>(tiles),
                               static_cast<int>(items),
                               static_cast<int>(first),
                               static_cast<float>(p.inverse_temperature) * 1.4426950408889634F};
  const std::int64_t clusters =
      std::min<std::int64_t>(items, std::max(1, work.multiprocessors() / head_tile_cluster));
  const bool seconds = p.out.margin != nullptr || p.out.top2_logit_gap != nullptr;
  work.launch("head_product",
              {.x = static_cast<unsigned>(clusters * head_tile_cluster),
               .threads = head_product_threads,
               .shared_bytes = head_product_shared_bytes,
               .cluster = head_tile_cluster},
              seconds ? head_product_kernel<true> : head_product_kernel<false>, of);
  work.launch("head_tiles_merge", {blocks_for(count, head_threads / warp_size), head_threads},
              head_tiles_merge_kernel, {p, state, static_cast<int>(tiles)});
}

}  // namespace unmask::cuda::UNMASK_TARGET
