// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// dLLM-Cache that refreshes everything is vanilla.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask {
namespace {

using namespace testing;

parameter_map settings(std::int64_t kp, std::int64_t kr, double ratio) {
  return {{"block_length", 8},
          {"prompt_interval_kp", kp},
          {"response_interval_kr", kr},
          {"transfer_ratio", ratio}};
}

TEST(limits_dllm_cache, refreshing_everything_is_vanilla) {
  for (const model_family family : {model_family::llada, model_family::dream}) {
    for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
      const auto model = tiny_model(family, *backend);
      const auto requests = tiny_requests(3, 16);
      const auto plain = decode_closed(*model, "vanilla", {{"block_length", 8}}, requests, 2);
      const auto refreshed = decode_closed(*model, "dllm_cache", settings(1, 1, 0.25), requests, 2);
      EXPECT_EQ(outputs(refreshed), outputs(plain));
      // Every response row moves: only the similarities are extra work.
      const auto moved = decode_closed(*model, "dllm_cache", settings(1, 1000, 1.0), requests, 2);
      EXPECT_EQ(outputs(moved), outputs(plain));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const sequence_counters& v = plain.answers[i].counters;
        EXPECT_DOUBLE_EQ(refreshed.answers[i].counters.flops, v.flops);
        const sequence_counters& m = moved.answers[i].counters;
        EXPECT_GT(m.selection_flops, 0);
        EXPECT_NEAR(m.flops - m.selection_flops, v.flops, 1e-9 * v.flops);
        EXPECT_EQ(m.layer_rows, v.layer_rows);
      }
    }
  }
}

// A cache that never refreshes must change what is decided, or the limits above prove nothing.
TEST(limits_dllm_cache, stale_outputs_decide_otherwise) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(4, 32);
  const auto plain = decode_closed(*model, "vanilla", {{"block_length", 8}}, requests, 2);
  EXPECT_NE(outputs(decode_closed(*model, "dllm_cache", settings(1000, 1000, 0.0), requests, 2)),
            outputs(plain));
  EXPECT_NE(outputs(decode_closed(*model, "dllm_cache", settings(1000, 1000, 0.25), requests, 2)),
            outputs(decode_closed(*model, "dllm_cache", settings(1000, 1000, 0.0), requests, 2)));
}

// Prompt 6, canvas 4 in one block, one token per step: 4 forwards of 10 rows. K_p = 2, K_r = 3 and
// ratio 0.5 (2 rows), in the layers after the first:
//   forward 0: all 10;  1: 2 moved rows, V of 4;  2: prompt 6 and 2 moved, V of 10;  3: response 4.
TEST(limits_dllm_cache, counts_by_hand) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const model_config& c = model->config();
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 4, 0};
  parameter_map given = settings(2, 3, 0.5);
  given["block_length"] = 4;
  const auto r = decode_closed(*model, "dllm_cache", given, {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  const int deep = c.layers - 1, computed = 10 + 2 + 8 + 4, value = 10 + 4 + 10 + 4, compared = 8;
  EXPECT_EQ(n.forwards, 4);
  EXPECT_EQ(n.rows, 40);
  EXPECT_EQ(n.layer_rows, 40 + deep * computed);
  EXPECT_DOUBLE_EQ(n.keys_seen, 10.0 * (40 + deep * computed));
  EXPECT_DOUBLE_EQ(n.selection_flops, deep * compared * 6.0 * c.kv_heads * c.head_dim);
  const row_cost cost = model->cost(1);
  const double d = c.hidden, width = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  EXPECT_DOUBLE_EQ(cost.value_flops, 2 * d * kv);
  const double full = 2 * d * (width + 2 * kv) + 2 * d * width + 6 * d * c.feed_forward;
  const double expected = 40 * full + deep * (computed * (full - 2 * d * kv) + value * 2 * d * kv) +
                          n.keys_seen * 4 * width + n.head_rows * 2 * d * c.vocabulary +
                          n.selection_flops;
  EXPECT_NEAR(n.flops, expected, 1e-9 * expected);
}

// Stored outputs are memory: K/V of every layer and two vectors per row of every later layer.
TEST(limits_dllm_cache, stored_outputs_count_as_cache_memory) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const model_config& c = model->config();
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 8, 0};  // one page
  const auto r = decode_closed(*model, "dllm_cache", settings(5, 2, 0.25), {request}, 1);
  const std::size_t floats = static_cast<std::size_t>(
      kv_page_size * (c.layers * 2 * c.kv_heads * c.head_dim + (c.layers - 1) * 2 * c.hidden));
  EXPECT_EQ(r.peak_kv_bytes, floats * sizeof(float));
}

}  // namespace
}  // namespace unmask
