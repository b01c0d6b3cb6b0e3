// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Blocks over all keys of the prompt are block diffusion.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

const model_family families[] = {model_family::sdar, model_family::llada2_moe};

// Nothing is left out: block diffusion, key for key; for each reason why nothing is.
TEST(limits_sparse_blocks, all_keys_are_block_diffusion) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 40);
    const parameter_map base = {{"threshold", 0.5}};
    const auto blocks = decode_closed(*model, "block_diffusion", base, requests, 2);
    for (const parameter_map& open :
         std::vector<parameter_map>{{{"retention_ratio", 1.0}, {"commit_keys", "kept"}},
                                    {{"retention_ratio", 1.0}, {"candidates", "history"}},
                                    {{"delay", 9}}}) {
      parameter_map given = base;
      given.insert(open.begin(), open.end());
      const auto sparse = decode_closed(*model, "sparse_blocks", given, requests, 2);
      EXPECT_EQ(outputs(sparse), outputs(blocks));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(sparse.answers[i].counters.rows, blocks.answers[i].counters.rows);
        EXPECT_DOUBLE_EQ(sparse.answers[i].counters.keys_seen,
                         blocks.answers[i].counters.keys_seen);
      }
    }
  }
}

// Prompt 20, blocks of 8, one token per step: the prefill decides one of the four masks of the
// block shared with the prompt, three denoising forwards the others; the next block takes eight.
// With delay 1 and a quarter of the prompt: block 16..23 has 16 candidates and keeps 4,
// block 24..31 has 20 and keeps 5. Each of its rows sees, per layer:
//   prefill: 16 rows see their own and earlier blocks (8 x 8, 8 x 16, 8 x 24)
//   block 16..23: 2 forwards of 24 keys, then 4 + 8; the commit 24
//   block 24..31: 2 forwards of 32 keys, then 5 + 4 + 8; no commit for the last block
TEST(limits_sparse_blocks, keys_by_hand) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  sequence_request request;
  for (std::int32_t p = 0; p < 20; ++p) request.prompt.push_back(p + 1);
  request.gen_length = 12;
  const auto r = decode_closed(
      *model, "sparse_blocks",
      {{"retention_ratio", 0.25}, {"stop", "none"}, {"remasking", "low_confidence_static"}},
      {request}, 1);
  const double prefill = 8.0 * (8 + 16 + 24);
  const double first = 8.0 * (2 * 24 + (4 + 8) + 24);
  const double second = 8.0 * (2 * 32 + 6 * (5 + 4 + 8));
  const sequence_counters& n = r.answers[0].counters;
  EXPECT_EQ(n.forwards, 1 + 3 + 1 + 8);
  EXPECT_DOUBLE_EQ(n.keys_seen, (prefill + first + second) * model->config().layers);
}

}  // namespace
}  // namespace unmask
