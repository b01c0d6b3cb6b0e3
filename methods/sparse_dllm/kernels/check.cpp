// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of Sparse-dLLM: scores of keys, pooled, the best of them, their K/V copied.
#include "kernels/check/checker.h"
#include "kernels/selection.h"
#include "methods/sparse_dllm/kernels/eviction.h"

namespace unmask::device_checks {
namespace {

// Sparse-dLLM and Focus-dLLM: scores of keys, pooled, the best of them, their K/V copied.
void keep_keys(checker& c) {
  const std::int64_t heads = 8, kv_heads = 2, dim = c.size(64, 128);
  const ragged r(c, {static_cast<std::int32_t>(c.size(130, 4000)), 70}, 1);
  const auto pages = [&] { return c.reals({r.all_pages(), kv_page_size, kv_heads, dim}); };
  const mirrored k = pages(), v = pages(), q = c.reals({r.sequences, heads, dim});
  const mirrored score = c.poisoned({r.rows}), pooled = c.poisoned({r.rows});
  c.both([&](const side& s) {
    key_set keys;
    keys.kv_length = s.at(r.lengths);
    keys.key_begin = s.at(r.begin);
    keys.key_slot = s.at(r.place);
    s.with().run(op::key_scores{s(q), r.cache(s, k, v), keys, s.at<float>(score)});
  });
  c.compare("key_scores", c.text({r.rows, heads, dim}), score, 1e-3, 1e-3);
  c.send(score);
  c.both([&](const side& s) {
    s.with().run(
        op::pool{r.sequences, s.at(r.begin), s.at<float>(score), 3, true, s.at<float>(pooled)});
  });
  c.compare("pool", "maximum of 3", pooled, 0, no_difference);
  const std::int32_t half = r.length[0] / 2;
  const mirrored out_begin = c.ints({0, half, half + 20}), out = c.empty(dtype::i32, {half + 20});
  const mirrored to_k = c.empty(dtype::f32, {r.all_pages(), kv_page_size, kv_heads, dim}),
                 to_v = c.empty(dtype::f32, {r.all_pages(), kv_page_size, kv_heads, dim});
  c.both([&](const side& s) {
    s.with().run(op::top_indices{r.sequences, s.at(r.begin), s.at<float>(score), s.at(out_begin),
                                 s.at(out)});
    s.with().run(op::kv_copy{r.sequences, s.at(out_begin), s.at(out), r.cache(s, k, v),
                             r.cache(s, to_k, to_v)});
  });
  c.same("top_indices", std::to_string(half) + " of " + std::to_string(r.length[0]), out);
  c.same("kv_copy", "keys", to_k);
  c.same("kv_copy", "values", to_v);
}

const register_device_check registered_keep_keys("key_scores, pool, top_indices, kv_copy",
                                                 keep_keys);

}  // namespace
}  // namespace unmask::device_checks
