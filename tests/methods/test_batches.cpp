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
  const char* preset = "";
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
      {"fast_dual_threshold",
       "fast_dllm",
       model_family::llada,
       {{"block_length", eight}, {"threshold", 0.4}}},
      {"fast_prefix_schedule",
       "fast_dllm",
       model_family::llada,
       {{"block_length", eight}, {"cache", std::string("prefix")}}},
      {"fast_factor", "fast_dllm", model_family::llada, {{"block_length", eight}, {"factor", 1.0}}},
      {"fast_dream_dual", "fast_dllm", model_family::dream, {{"block_length", eight}}},
      {"fast_dream_prefix",
       "fast_dllm",
       model_family::dream,
       {{"block_length", eight}, {"cache", std::string("prefix")}, {"threshold", 0.4}}},
      {"dkv_decode",
       "dkv_cache",
       model_family::llada,
       {{"block_length", eight}, {"refresh_interval", std::int64_t{3}}}},
      {"dkv_greedy",
       "dkv_cache",
       model_family::llada,
       {{"block_length", eight}, {"variant", std::string("greedy")}}},
      {"dkv_dream", "dkv_cache", model_family::dream, {}},
      {"dkv_dream_pd", "dkv_cache", model_family::dream, {{"variant", std::string("pd")}}},
      {"sparse", "sparse_dllm", model_family::llada, {{"block_length", eight}}},
      {"sparse_prefix_avg",
       "sparse_dllm",
       model_family::llada,
       {{"block_length", eight},
        {"eviction", std::string("prefix")},
        {"pooling", std::string("avg")},
        {"delay", std::int64_t{2}}}},
      {"sparse_dream", "sparse_dllm", model_family::dream, {{"block_length", eight}}},
      {"focus_dllm",
       "focus_dllm",
       model_family::llada,
       {{"block_length", eight},
        {"dense_layers", std::int64_t{1}},
        {"prompt_block_size", std::int64_t{4}},
        {"window", std::int64_t{3}},
        {"rho", 2.0}}},
      {"focus_dllm_dream",
       "focus_dllm",
       model_family::dream,
       {{"block_length", eight},
        {"dense_layers", std::int64_t{1}},
        {"dense_tail_layers", std::int64_t{1}},
        {"prompt_block_size", std::int64_t{4}}}},
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
      {"ada_sequence", "ada_dlm", model_family::llada, {{"k", 0.3}}},
      {"ada_dream", "ada_dlm", model_family::dream, {{"k", 0.3}}},
      {"ada_block",
       "ada_dlm",
       model_family::llada,
       {{"scope", std::string("block")}, {"block_length", eight}, {"k", 0.4}}},
      {"ada_dream_block_refresh",
       "ada_dlm",
       model_family::dream,
       {{"scope", std::string("block")},
        {"block_length", eight},
        {"block_history", std::string("running")},
        {"cache_steps", std::int64_t{3}},
        {"refresh_prompt", true}}},
      {"ada_ffn_only",
       "ada_dlm",
       model_family::dream,
       {{"execution", std::string("ffn_only")}, {"k", 0.3}}},
      {"ada_manhattan_tiers",
       "ada_dlm",
       model_family::llada,
       {{"metric", std::string("manhattan")},
        {"centroid", std::string("tier_mean")},
        {"k_basis", std::string("active")},
        {"first_history", std::string("replicate")},
        {"history", std::int64_t{5}}}},
      {"ada_mask_input",
       "ada_dlm",
       model_family::llada,
       {{"frozen_input", std::string("mask")}, {"temperature", 0.5}}},
      {"ada_quota_capped",
       "ada_dlm",
       model_family::llada,
       {{"limit_to_quota", true}, {"steps", eight}, {"ranked", std::string("region")}}},
      {"ada_threshold",
       "ada_dlm",
       model_family::llada,
       {{"rule", std::string("threshold")}, {"threshold", 0.4}}},
      {"ada_blocks", "ada_blocks", model_family::sdar, {}},
      {"ada_blocks_moe", "ada_blocks", model_family::llada2_moe, {{"k", 0.3}}},
      {"ada_blocks_tiers",
       "ada_blocks",
       model_family::sdar,
       {{"centroid", std::string("tier_mean")},
        {"ranked", std::string("region")},
        {"temperature", 0.5},
        {"history", std::int64_t{5}}}},
      {"ada_blocks_quota",
       "ada_blocks",
       model_family::sdar,
       {{"limit_to_quota", true}, {"steps", std::int64_t{4}}, {"k_basis", std::string("active")}}},
      {"ada_blocks_average", "ada_blocks", model_family::sdar, {}, "moving-average-control"},
      {"ada_blocks_threshold",
       "ada_blocks",
       model_family::sdar,
       {{"threshold", 0.4}, {"first_history", std::string("replicate")}},
       "threshold-control"},
      {"sparse_blocks", "sparse_blocks", model_family::sdar, {{"threshold", 0.5}}},
      {"sparse_blocks_sequential",
       "sparse_blocks",
       model_family::sdar,
       {{"remasking", std::string("sequential")}, {"retention_ratio", 0.3}}},
      {"focus_chunks_chunk8",
       "focus_chunks",
       model_family::sdar,
       {{"threshold", 0.4}, {"alpha", 1.0}, {"score", std::string("layer1")}},
       "chunk8"},
      {"sparse_blocks_moe",
       "sparse_blocks",
       model_family::llada2_moe,
       {{"retention_ratio", 0.2}, {"delay", std::int64_t{0}}, {"pooling", std::string("avg")}}},
      {"sparse_blocks_history",
       "sparse_blocks",
       model_family::sdar,
       {{"candidates", std::string("history")},
        {"commit_keys", std::string("kept")},
        {"loop", std::string("hf")},
        {"pooling", std::string("none")}}},
      {"focus_chunks",
       "focus_chunks",
       model_family::sdar,
       {{"threshold", 0.5}, {"alpha", 1.0}, {"chunk", std::int64_t{8}}}},
      {"focus_chunks_moe",
       "focus_chunks",
       model_family::llada2_moe,
       {{"threshold", 0.3}, {"alpha", 1.0}, {"cache_rule", std::string("right_neighbour")}},
       "bd32"},
      {"focus_chunks_random",
       "focus_chunks",
       model_family::sdar,
       {{"selection", std::string("random")},
        {"k", std::int64_t{2}},
        {"policy", std::string("naive")},
        {"chunk", std::int64_t{4}}}},
      {"focus_chunks_obs",
       "focus_chunks",
       model_family::sdar,
       {{"threshold", 0.4}, {"alpha", 1.0}, {"out_block", true}},
       "bd32"},
      {"focus_chunks_fusion",
       "focus_chunks",
       model_family::sdar,
       {{"threshold", 0.4},
        {"chunk", std::int64_t{6}},
        {"importance_set", std::string("block")},
        {"boundary_fusion", std::string("fill")}}},
      {"dc", "delayed_cache", model_family::sdar, {{"threshold", 0.5}}},
      {"dc_moe", "delayed_cache", model_family::llada2_moe, {{"threshold", 0.5}}},
      {"dc_hf", "delayed_cache", model_family::sdar, {{"threshold", 0.3}}, "hf"},
      {"dcp", "delayed_cache_plus", model_family::sdar, {{"threshold", 0.5}}},
      {"dcp_moe", "delayed_cache_plus", model_family::llada2_moe, {{"threshold", 0.5}}},
      {"dcp_hf", "delayed_cache_plus", model_family::sdar, {{"threshold", 0.3}}, "hf"},
      {"dcp_bf16",
       "delayed_cache_plus",
       model_family::sdar,
       {{"threshold", 0.5}, {"confidence_dtype", std::string("bfloat16")}}},
      {"focus", "focus", model_family::sdar, {{"threshold", 0.5}}},
      {"focus_moe", "focus", model_family::llada2_moe, {{"threshold", 0.5}}},
      {"focus_block16",
       "focus",
       model_family::sdar,
       {{"threshold", 0.5}, {"block_length", std::int64_t{16}}}},
      {"focus_block4",
       "focus",
       model_family::sdar,
       {{"threshold", 0.5}, {"block_length", std::int64_t{4}}}},
      {"focus_hf", "focus", model_family::sdar, {{"threshold", 0.3}}, "hf"},
      {"focus_sgl", "focus", model_family::sdar, {{"threshold", 0.5}}, "sgl"},
      {"focus_paper", "focus", model_family::llada2_moe, {{"threshold", 0.5}}, "paper"},
      {"focus_top",
       "focus",
       model_family::sdar,
       {{"selection", std::string("top")}, {"k", std::int64_t{2}}}},
      {"focus_bottom",
       "focus",
       model_family::sdar,
       {{"selection", std::string("bottom")}, {"k", std::int64_t{2}}}},
      {"focus_random",
       "focus",
       model_family::sdar,
       {{"selection", std::string("random")}, {"k", std::int64_t{3}}}},
      {"focus_layer1", "focus", model_family::sdar, {{"score", std::string("layer1")}}},
      {"focus_no_context", "focus", model_family::sdar, {{"ar_context", false}}},
      {"focus_holes", "focus", model_family::sdar, {{"placeholder_integrity", false}}},
      {"focus_plain_dc",
       "focus",
       model_family::sdar,
       {{"freeze_rule", std::string("decided")}, {"average_scope", std::string("request")}}},
      {"optimus", "optimus", model_family::sdar, {{"threshold", 0.5}, {"chunk", std::int64_t{4}}}},
      {"optimus_moe",
       "optimus",
       model_family::llada2_moe,
       {{"threshold", 0.5}, {"chunk", std::int64_t{3}}}},
      {"optimus_whole_block", "optimus", model_family::sdar, {}, "prefix_caching"},
      {"optimus_bd32", "optimus", model_family::sdar, {}, "bd32"},
      {"optimus_naive",
       "optimus",
       model_family::sdar,
       {{"policy", std::string("naive")}, {"chunk", std::int64_t{4}}}},
      {"optimus_naive_prefix",
       "optimus",
       model_family::sdar,
       {{"policy", std::string("naive")},
        {"chunk", std::int64_t{4}},
        {"cache_rule", std::string("contiguous_prefix")}}},
      {"optimus_prefix",
       "optimus",
       model_family::llada2_moe,
       {{"chunk", std::int64_t{4}}, {"cache_rule", std::string("contiguous_prefix")}}},
      {"optimus_neighbour",
       "optimus",
       model_family::sdar,
       {{"chunk", std::int64_t{4}}, {"cache_rule", std::string("right_neighbour")}}},
      {"optimus_obs", "optimus", model_family::sdar, {{"threshold", 0.5}}, "obs"},
      {"optimus_obs_full",
       "optimus",
       model_family::sdar,
       {{"threshold", 0.5}, {"obs_mask", std::string("full")}},
       "obs"},
      {"optimus_obs_moe", "optimus", model_family::llada2_moe, {{"threshold", 0.5}}, "obs"},
      {"optimus_stale",
       "optimus",
       model_family::sdar,
       {{"chunk", std::int64_t{4}}, {"suffix_visible", std::string("stale")}}},
      {"optimus_refresh",
       "optimus",
       model_family::sdar,
       {{"chunk", std::int64_t{4}}, {"final_refresh", true}}},
      {"optimus_fill",
       "optimus",
       model_family::sdar,
       {{"chunk", std::int64_t{5}}, {"boundary_fusion", std::string("fill")}}},
      {"optimus_fusion",
       "optimus",
       model_family::llada2_moe,
       {{"chunk", std::int64_t{4}}, {"boundary_fusion", std::string("full")}}},
      {"optimus_block32",
       "optimus",
       model_family::sdar,
       {{"chunk", std::int64_t{8}}, {"block_length", std::int64_t{32}}}},
      {"optimus_late_prompt",
       "optimus",
       model_family::sdar,
       {{"chunk", std::int64_t{4}}, {"prefill_emits", false}, {"prefill_apart", true}}},
      {"optimus_prefix_stop",
       "optimus",
       model_family::sdar,
       {{"chunk", std::int64_t{4}},
        {"stop_check", std::string("prefix")},
        {"stop", std::string("7,11,23,41")}}},
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
    const auto alone = outputs(decode(*model, p.method, p.given, requests, 1, p.preset));
    for (const std::int32_t batch : {2, 3, 5}) {
      EXPECT_EQ(outputs(decode(*model, p.method, p.given, requests, batch, p.preset)), alone)
          << p.label << " " << backend->name() << " batch " << batch;
    }
    std::reverse(requests.begin(), requests.end());
    auto reversed = outputs(decode(*model, p.method, p.given, requests, 3, p.preset));
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
  EXPECT_EQ(outputs(decode(*slow, p.method, p.given, requests, 2, p.preset)),
            outputs(decode(*fast, p.method, p.given, requests, 2, p.preset)));
}

// Rows of every forward as the loop's observer sees them.
struct row_sums final : step_observer {
  std::int64_t entered = 0, left = 0;
  void on_step(const step_view& s) override {
    entered += s.entered.rows;
    left += s.left.rows;
    EXPECT_LE(s.left.rows, s.entered.rows);
  }
};

TEST_P(every_setting, counts_are_conserved) {
  const setting& p = GetParam();
  const auto model = tiny_model(p.family, reference_ops());
  const auto requests = tiny_requests(3, 24);
  row_sums seen;
  const auto result = decode(*model, p.method, p.given, requests, 2, p.preset, &seen);
  const model_config& c = model->config();
  sequence_counters all;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& n = result.answers[i].counters;
    EXPECT_LE(n.layer_rows, n.rows * c.layers);
    EXPECT_LE(n.feed_forward_rows, n.layer_rows);
    if (p.method == std::string("dllm_cache")) {
      EXPECT_LT(n.layer_rows, n.rows * c.layers);
    }
    EXPECT_LE(n.decode_rows, n.rows);
    EXPECT_EQ(n.forwards >= n.prefill_forwards + n.commit_forwards, true);
    EXPECT_GE(static_cast<std::int64_t>(n.committed),
              static_cast<std::int64_t>(result.answers[i].output.size()) -
                  static_cast<std::int64_t>(std::count(result.answers[i].output.begin(),
                                                       result.answers[i].output.end(), c.mask_id)));
    all.rows += n.rows;
    all.layer_rows += n.layer_rows;
    all.feed_forward_rows += n.feed_forward_rows;
    all.keys_seen += n.keys_seen;
    all.head_rows += n.head_rows;
    all.flops += n.flops;
    all.selection_flops += n.selection_flops;
  }
  if (p.method == std::string("dllm_cache")) return;  // limits_dllm_cache.counts_by_hand
  // Rows leave inside layer 1 or not at all: after its projections, before its attention.
  EXPECT_EQ(all.rows, seen.entered);
  EXPECT_EQ(all.layer_rows, seen.entered + (c.layers - 1) * seen.left);
  // FLOPs = rows x per-row cost + keys x per-key cost + judged rows x head cost, to rounding.
  double expected = all.keys_seen * 4.0 * c.heads * c.head_dim + all.selection_flops +
                    static_cast<double>(all.head_rows) * model->head_flops();
  // Rows that skip the feed-forward (ada_dlm's ffn_only) skip it in every layer.
  const double fed =
      static_cast<double>(all.feed_forward_rows) / static_cast<double>(all.layer_rows);
  for (std::int32_t l = 0; l < c.layers; ++l) {
    const row_cost cost = model->cost(l);
    const double before = static_cast<double>(l <= 1 ? seen.entered : seen.left);
    const double after = static_cast<double>(l == 0 ? seen.entered : seen.left);
    expected +=
        before * cost.qkv_flops + after * (cost.output_flops + fed * cost.feed_forward_flops);
  }
  EXPECT_NEAR(all.flops, expected, 1e-9 * expected);
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

// Prompt 6, canvas 4, K = 1 and one confidence: one token per step. Rows: everything; then the
// masks and the token frozen just before, 3 + 1, 2 + 1, 1 + 1. Keys: all 10, always.
TEST(counters, ada_dlm_by_hand) {
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 4, 0};
  const parameter_map one = {{"k_tokens", std::int64_t{1}}, {"history", std::int64_t{1}}};
  const auto model = tiny_model(model_family::llada, reference_ops());
  const auto r = decode(*model, "ada_dlm", one, {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  EXPECT_EQ(n.forwards, 4);
  EXPECT_EQ(n.rows, 10 + 4 + 3 + 2);
  EXPECT_EQ(n.feed_forward_rows, n.rows * model->config().layers);
  EXPECT_EQ(n.head_rows, 10);
  EXPECT_DOUBLE_EQ(n.keys_seen, 19.0 * 10 * model->config().layers);
  parameter_map ffn = one;
  ffn["execution"] = std::string("ffn_only");
  const auto f = decode(*model, "ada_dlm", ffn, {request}, 1);
  EXPECT_EQ(f.answers[0].counters.rows, 10 + 4 + 4 + 4);
  EXPECT_EQ(f.answers[0].counters.feed_forward_rows, n.feed_forward_rows);
  parameter_map late = one;
  late["delay"] = std::int64_t{0};
  EXPECT_EQ(decode(*model, "ada_dlm", late, {request}, 1).answers[0].counters.rows, 10 + 3 + 2 + 1);
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
