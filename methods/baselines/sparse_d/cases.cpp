// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD that keeps every block of keys is vanilla.
#include <gtest/gtest.h>

#include "methods/baselines/sparse_d/pattern_keys.h"
#include "tests/methods/limits.h"

namespace unmask {
namespace {

using namespace testing;

TEST(limits_sparse_d, all_steps_dense_or_all_blocks_kept_is_vanilla) {
  for (const model_family family : {model_family::llada, model_family::dream}) {
    for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
      const auto model = tiny_model(family, *backend);
      const auto requests = tiny_requests(3, 16);
      const parameter_map common = {{"block_length", 8}};
      const auto plain = decode_closed(*model, "vanilla", common, requests, 2);
      const parameter_map small_blocks = with(common, {{"block_size", 8}, {"skip", 0.0}});
      const auto dense =
          decode_closed(*model, "sparse_d", with(small_blocks, {{"skip", 1.0}}), requests, 2);
      const auto all =
          decode_closed(*model, "sparse_d", with(small_blocks, {{"select", 1.0}}), requests, 2);
      // 0.99: int(n 0.99) + 1 = n, the most that the official code accepts.
      const auto most =
          decode_closed(*model, "sparse_d", with(small_blocks, {{"select", 0.99}}), requests, 2);
      EXPECT_EQ(outputs(dense), outputs(plain));
      EXPECT_EQ(outputs(all), outputs(plain));
      EXPECT_EQ(outputs(most), outputs(plain));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const sequence_counters& v = plain.answers[i].counters;
        EXPECT_EQ(dense.answers[i].counters.flops, v.flops);
        EXPECT_EQ(dense.answers[i].counters.selection_flops, 0);
        EXPECT_EQ(all.answers[i].counters.keys_seen, v.keys_seen);
        EXPECT_GT(all.answers[i].counters.selection_flops, 0);
      }
    }
  }
}

// A pattern that keeps little must change what is decided, or the limit above proves nothing.
TEST(limits_sparse_d, a_narrow_pattern_reads_fewer_keys_and_decides_otherwise) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(4, 32);
  const parameter_map common = {{"block_length", 8}};
  const parameter_map narrow = with(common, {{"block_size", 4}, {"skip", 0.0}, {"select", 0.0}});
  const auto plain = decode_closed(*model, "vanilla", common, requests, 2);
  const auto sparse = decode_closed(*model, "sparse_d", narrow, requests, 2);
  EXPECT_NE(outputs(plain), outputs(sparse));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const double n = static_cast<double>(requests[i].prompt.size()) + 32;
    const double layers = model->config().layers;
    // Two dense steps, then at most one prompt and at least and at most one answer block per row.
    const double dense = 2 * n * n * layers, rest = 30 * n * layers;
    EXPECT_GT(sparse.answers[i].counters.keys_seen, dense + rest);
    EXPECT_LT(sparse.answers[i].counters.keys_seen, dense + rest * 8);
  }
}

// The official code divides by sqrt(heads) in LLaDA and by sqrt(head_dim) in Dream.
TEST(limits_sparse_d, official_pattern_scale_goes_by_family) {
  for (const auto& [family, same, other] : {std::tuple{model_family::llada, "heads", "head_dim"},
                                            std::tuple{model_family::dream, "head_dim", "heads"}}) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 24);
    const auto run = [&](const char* scale) {
      return outputs(decode_closed(*model, "sparse_d",
                                   {{"block_length", 8},
                                    {"block_size", 4},
                                    {"skip", 0.0},
                                    {"select", 0.2},
                                    {"pattern_scale", std::string(scale)}},
                                   requests, 3));
    };
    EXPECT_EQ(run("official"), run(same));
    EXPECT_NE(run("official"), run(other));
  }
}

// Lengths and answers as in the official derivation: first block with length - block * size <= gen.
TEST(limits_sparse_d, first_answer_block_by_hand) {
  EXPECT_EQ(pattern_keys::first_answer_block(55, 32, 8), 3);   // 55 - 24 = 31
  EXPECT_EQ(pattern_keys::first_answer_block(56, 32, 8), 3);   // the border is a block's edge
  EXPECT_EQ(pattern_keys::first_answer_block(55, 32, 16), 2);  // 55 - 32 = 23
  EXPECT_EQ(pattern_keys::first_answer_block(55, 2, 16), 3);   // none: the last block
  EXPECT_EQ(pattern_keys::first_answer_block(40, 40, 16), 0);
  EXPECT_EQ(pattern_keys::kept_blocks(7, 0.3), 3);
  EXPECT_EQ(pattern_keys::kept_blocks(1, 0.3), 1);
  EXPECT_EQ(pattern_keys::kept_blocks(4, 1.0), 4);
}

}  // namespace
}  // namespace unmask
