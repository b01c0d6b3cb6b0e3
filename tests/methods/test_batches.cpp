// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Batch invariance and the conservation of what is counted, for every method.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using testing::decode;
using testing::outputs;
using testing::tiny_model;
using testing::tiny_requests;

struct setting {
  const char* label;
  const char* method;
  model_family family;
  parameter_map given;
};

void PrintTo(const setting& s, std::ostream* out) {
  *out << s.label;
}

std::vector<setting> settings() {
  const std::int64_t eight = 8;
  return {
      {"llada_schedule", "vanilla", model_family::llada, {{"block_length", eight}}},
      {"llada_threshold",
       "vanilla",
       model_family::llada,
       {{"block_length", eight}, {"threshold", 0.4}}},
      {"llada_factor", "vanilla", model_family::llada, {{"block_length", eight}, {"factor", 1.0}}},
      {"llada_gumbel",
       "vanilla",
       model_family::llada,
       {{"block_length", eight}, {"temperature", 0.7}}},
      {"llada_random",
       "vanilla",
       model_family::llada,
       {{"block_length", eight}, {"remasking", std::string("random")}}},
      {"dream_entropy", "vanilla", model_family::dream, {}},
      {"dream_origin", "vanilla", model_family::dream, {{"alg", std::string("origin")}}},
      {"dream_sampled",
       "vanilla",
       model_family::dream,
       {{"temperature", 0.6}, {"top_p", 0.9}, {"alg_temp", 0.4}}},
      {"sparse_d_llada",
       "sparse_d",
       model_family::llada,
       {{"block_length", eight}, {"block_size", eight}, {"skip", 0.1}}},
      {"sparse_d_dream",
       "sparse_d",
       model_family::dream,
       {{"block_size", std::int64_t{5}}, {"select", 0.2}}},
      {"dllm_cache_llada",
       "dllm_cache",
       model_family::llada,
       {{"block_length", eight},
        {"prompt_interval_kp", std::int64_t{7}},
        {"response_interval_kr", std::int64_t{3}}}},
      {"dllm_cache_dream",
       "dllm_cache",
       model_family::dream,
       {{"prompt_interval_kp", std::int64_t{4}},
        {"response_interval_kr", eight},
        {"transfer_ratio", 0.4}}},
      {"dllm_cache_no_transfer",
       "dllm_cache",
       model_family::llada,
       {{"block_length", eight},
        {"prompt_interval_kp", std::int64_t{6}},
        {"response_interval_kr", std::int64_t{4}},
        {"transfer_ratio", 0.0}}},
      {"block_dynamic", "block_diffusion", model_family::sdar, {{"threshold", 0.5}}},
      {"block_static",
       "block_diffusion",
       model_family::sdar,
       {{"remasking", std::string("low_confidence_static")}, {"steps", std::int64_t{4}}}},
      {"block_sequential",
       "block_diffusion",
       model_family::sdar,
       {{"remasking", std::string("sequential")}, {"steps", std::int64_t{4}}}},
      {"block_hf",
       "block_diffusion",
       model_family::sdar,
       {{"loop", std::string("hf")}, {"threshold", 0.5}}},
      {"block_moe", "block_diffusion", model_family::llada2_moe, {{"threshold", 0.5}}},
      {"autoregressive", "autoregressive", model_family::qwen3, {}},
      {"autoregressive_sampled", "autoregressive", model_family::qwen3, {{"temperature", 0.8}}},
  };
}

class every_setting : public ::testing::TestWithParam<setting> {};

// A request decodes to the same tokens alone, in any batch and in any order, with ragged prompts.
TEST_P(every_setting, tokens_do_not_depend_on_the_batch) {
  const setting& p = GetParam();
  for (const ops* backend : {&reference_ops(), &cpu_ops()}) {
    const auto model = tiny_model(p.family, *backend);
    auto requests = tiny_requests(5, 24);
    const auto alone = outputs(decode(*model, p.method, p.given, requests, 1));
    for (const std::int32_t batch : {2, 3, 5}) {
      EXPECT_EQ(outputs(decode(*model, p.method, p.given, requests, batch)), alone)
          << p.label << " " << backend->name() << " batch " << batch;
    }
    std::reverse(requests.begin(), requests.end());
    auto reversed = outputs(decode(*model, p.method, p.given, requests, 3));
    std::reverse(reversed.begin(), reversed.end());
    EXPECT_EQ(reversed, alone) << p.label << " " << backend->name() << " reversed";
  }
}

// The fast backend takes the same decisions as the reference.
TEST_P(every_setting, cpu_decides_as_the_reference) {
  const setting& p = GetParam();
  const auto requests = tiny_requests(3, 24);
  const auto slow = tiny_model(p.family, reference_ops());
  const auto fast = tiny_model(p.family, cpu_ops());
  EXPECT_EQ(outputs(decode(*slow, p.method, p.given, requests, 2)),
            outputs(decode(*fast, p.method, p.given, requests, 2)));
}

TEST_P(every_setting, counts_are_conserved) {
  const setting& p = GetParam();
  const auto model = tiny_model(p.family, reference_ops());
  const auto requests = tiny_requests(3, 24);
  const auto result = decode(*model, p.method, p.given, requests, 2);
  const model_config& c = model->config();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& n = result.answers[i].counters;
    const bool partial = p.method == std::string("dllm_cache");  // layers compute some of the rows
    if (partial) {
      EXPECT_LT(n.layer_rows, n.rows * c.layers);
    } else {
      EXPECT_EQ(n.layer_rows, n.rows * c.layers);
    }
    EXPECT_LE(n.decode_rows, n.rows);
    EXPECT_EQ(n.forwards >= n.prefill_forwards + n.commit_forwards, true);
    EXPECT_GE(static_cast<std::int64_t>(n.committed),
              static_cast<std::int64_t>(result.answers[i].output.size()) -
                  static_cast<std::int64_t>(std::count(result.answers[i].output.begin(),
                                                       result.answers[i].output.end(), c.mask_id)));
    if (partial) continue;  // limits_dllm_cache.counts_by_hand
    // FLOPs = rows x per-row cost + keys x per-key cost + judged rows x head cost, to rounding.
    double dense = 0;
    for (std::int32_t l = 0; l < c.layers; ++l) {
      const row_cost cost = model->cost(l);
      dense += cost.qkv_flops + cost.output_flops + cost.feed_forward_flops;
    }
    const double expected =
        static_cast<double>(n.rows) * dense + n.keys_seen * 4.0 * c.heads * c.head_dim +
        static_cast<double>(n.head_rows) * model->head_flops() + n.selection_flops;
    EXPECT_NEAR(n.flops, expected, 1e-9 * expected);
  }
}

INSTANTIATE_TEST_SUITE_P(methods, every_setting, ::testing::ValuesIn(settings()),
                         [](const auto& setting) { return std::string(setting.param.label); });

// Rows and forwards of a case small enough to count by hand: prompt 6, canvas 4, one block of 4,
// one token per step: 4 forwards of 10 rows; candidates 4 + 3 + 2 + 1.
TEST(counters, vanilla_by_hand) {
  const auto model = tiny_model(model_family::llada, reference_ops());
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 4, 0};
  const auto r = decode(*model, "vanilla", {{"block_length", std::int64_t{4}}}, {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  EXPECT_EQ(n.forwards, 4);
  EXPECT_EQ(n.rows, 40);
  EXPECT_EQ(n.head_rows, 10);
  EXPECT_DOUBLE_EQ(n.keys_seen, 4.0 * 10 * 10 * model->config().layers);
}

// Prompt 5, block 8, canvas 11: prefill of 8 rows decides the first; see the comment per phase.
TEST(counters, block_diffusion_by_hand) {
  const auto model = tiny_model(model_family::sdar, reference_ops());
  const sequence_request request{{1, 2, 3, 4, 5}, 11, 0};
  const auto r =
      decode(*model, "block_diffusion",
             {{"stop", std::string("none")}, {"remasking", std::string("low_confidence_static")}},
             {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  // Block 0: prefill decides 1 of 3 masks, 2 more denoise steps, 1 commit. Block 1: 8 denoise
  // steps, no commit for the last block.
  EXPECT_EQ(n.prefill_forwards, 1);
  EXPECT_EQ(n.commit_forwards, 1);
  EXPECT_EQ(n.forwards, 1 + 2 + 1 + 8);
  EXPECT_EQ(n.rows, 12 * 8);
  EXPECT_EQ(n.decode_rows, 11 * 8);
  EXPECT_EQ(n.committed, 11);
  EXPECT_EQ(r.answers[0].output.size(), 11U);
}

}  // namespace
}  // namespace unmask
