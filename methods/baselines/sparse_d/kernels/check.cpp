// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of SparseD's blocks, and of Focus-dLLM's mean keys of the same blocks.
#include "kernels/check/checker.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/parts/kernels/block_means.h"

namespace unmask::device_checks {
namespace {

void block_scores(checker& c) {
  const std::int64_t heads = 4, kv_heads = 2, dim = 64;
  const std::int32_t size = 32;
  const ragged r(c, {static_cast<std::int32_t>(c.size(96, 1024)), 64}, 1);
  const auto pages = [&] { return c.reals({r.all_pages(), kv_page_size, kv_heads, dim}); };
  const mirrored k = pages(), v = pages(), q = c.reals({r.rows, heads, dim});
  const std::int32_t blocks = r.length[0] / size;
  const mirrored block_begin = c.ints({0, blocks, blocks + 2});
  const mirrored means = c.poisoned({blocks + 2, kv_heads, dim});
  const mirrored first = c.ints({0, 0}), used = c.ints({blocks, 2}), count = c.ints({2, 1});
  const mirrored mass = c.empty(dtype::f32, {2, heads, blocks, blocks}),
                 keep = c.empty(dtype::u8, {2, heads, blocks, blocks});
  c.both([&](const side& s) {
    s.with().run(op::block_mean_keys{r.sequences, r.cache(s, k, v), s.at(r.lengths), size,
                                     s.at(block_begin), s(means), nullptr});
    s.with().run(op::block_mass{r.set(s), s(q), r.cache(s, k, v), s.at(r.lengths), s.at(first),
                                size, 1.0F / 8, s(mass)});
  });
  c.compare("block_mean_keys", std::to_string(blocks) + " blocks", means, 1e-4, 1e-5);
  c.compare_typical("block_mass", std::to_string(blocks) + " blocks", mass, 1e-3);
  c.send(mass);
  c.both([&](const side& s) {
    s.with().run(
        op::keep_top_blocks{s(mass), s.at(used), s.at(first), s.at(used), s.at(count), s(keep)});
  });
  c.same("keep_top_blocks", std::to_string(blocks) + " blocks", keep);
}

const register_device_check registered_block_scores("block_mean_keys, block_mass", block_scores);

}  // namespace
}  // namespace unmask::device_checks
