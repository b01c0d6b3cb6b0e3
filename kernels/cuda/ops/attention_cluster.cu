// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/attention_cluster_kernels.h"
#include "kernels/cuda/device_backend.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

template <int dim, int warps, bool groups = false>
void launch(queue& q, const attention_params& p, std::int64_t items) {
  q.launch(groups ? "attention_cluster: groups" : "attention_cluster",
           {.x = static_cast<unsigned>(items) * cluster_blocks,
            .threads = warps * warp_size,
            .shared_bytes = cluster_shared_bytes(dim, warps * 16),
            .cluster = cluster_blocks},
           attention_cluster_kernel<dim, warps, groups>, p);
}

template <int dim>
void launch_rows(const device_backend& device, const attention_params& p, int rows,
                 std::int64_t items) {
  queue& q = device.work();
  if (rows == 16) return launch<dim, 1>(q, p, items);
  if (rows == 32) return launch<dim, 2>(q, p, items);
  if constexpr (dim == 128) {
    if (p.key_begin == nullptr && device.may_multiply(multiplied::attention, multiplier::wgmma)) {
      return launch<dim, 4, true>(q, p, items);
    }
  }
  launch<dim, 4>(q, p, items);
}

// Tiles of so many rows, of all KV heads: at most, and if sequences have alike rows. The host knows only
// the sum of their rows, and each may begin a tile for one row.
struct cluster_items {
  std::int64_t average;  // packed rows of a sequence
  int rows;
  std::int64_t most, even;
};
cluster_items items_of(const attention_params& p, std::int64_t packed_rows) {
  const std::int64_t sequences = p.sequences, average = blocks_for(packed_rows, sequences);
  const int rows = cluster_tile_rows(average);
  return {average, rows, (packed_rows + sequences * (rows - 1)) / rows * p.kv_heads,
          sequences * blocks_for(average, rows) * p.kv_heads};
}

}  // namespace

bool takes_cluster_attention(const device_backend& device, const attention_params& p,
                             std::int64_t packed_rows, std::int64_t most_keys) {
  static const bool has_clusters = queue::has_wgmma(attention_cluster_kernel<128, 4, true>);
  if (!has_clusters || p.sequences > warp_size || p.tiles.keep != nullptr ||
      p.key_mass != nullptr || most_keys <= least_cluster_keys) {
    return false;
  }
  const queue& q = device.work();
  const cluster_items items = items_of(p, packed_rows);
  return clusters_pay(items.average, items.even, blocks_for(most_keys, tensor_keys),
                      q.multiprocessors(), tensor_blocks(p.dim, items.rows, q.shared_bytes())) &&
         device.may_multiply(multiplied::attention, multiplier::newer);
}

void launch_cluster_attention(const device_backend& device, attention_params p,
                              std::int64_t packed_rows) {
  const cluster_items items = items_of(p, packed_rows);
  p.keys_from = const_cast<std::int32_t*>(p.key_begin);  // there is no plan that would copy it
  p.dim == 64 ? launch_rows<64>(device, p, items.rows, items.most)
              : launch_rows<128>(device, p, items.rows, items.most);
}

}  // namespace unmask::cuda::UNMASK_TARGET
