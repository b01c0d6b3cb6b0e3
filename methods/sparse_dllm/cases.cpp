// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sparse-dLLM that keeps every key is Fast-dLLM's dual cache.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask {
namespace {

using namespace testing;

const parameter_map blocks = {{"block_length", 8}};

TEST(limits_full, sparse_dllm_keeping_all_without_delay_is_fast_dllm_dual) {
  const parameter_map keep = {{"retention_ratio", 1.0}, {"delay", 0}};
  for (const model_family family : {model_family::llada, model_family::dream}) {
    expect_same_answers(family, "sparse_dllm", with(blocks, keep), "fast_dllm", blocks);
    expect_same_answers(family, "sparse_dllm", with(with(blocks, keep), {{"pooling", "none"}}),
                        "fast_dllm", blocks);
    expect_same_answers(family, "sparse_dllm", with(with(blocks, keep), {{"eviction", "prefix"}}),
                        "fast_dllm", blocks);
    expect_same_answers(family, "sparse_dllm", with(with(blocks, keep), {{"selection", "random"}}),
                        "fast_dllm", blocks);
  }
}

TEST(limits_full, sparse_dllm_with_delay_beyond_the_steps_is_vanilla) {
  expect_same_answers(model_family::llada, "sparse_dllm", with(blocks, {{"delay", 8}}), "vanilla",
                      blocks);
}

// Prompt 6, canvas 16 in two blocks of 8, one token a step: in the second forward of each block the other
// 14 positions are scored in every layer, one product of 4 heads of 10 for each.
TEST(limits_full, sparse_dllm_counts_its_scores_by_hand) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 16, 0};
  const parameter_map given =
      with(blocks, {{"delay", 1}, {"eviction", std::string("bidirectional")}});
  const auto counted = [&](const parameter_map& settings) {
    return decode_closed(*model, "sparse_dllm", settings, {request}, 1).answers[0].counters;
  };
  const sequence_counters scored = counted(given);
  EXPECT_EQ(scored.forwards, 16);
  EXPECT_EQ(scored.selection_flops, 3 * (14 + 14) * 2.0 * 40);
  EXPECT_EQ(counted(with(given, {{"selection", std::string("random")}})).selection_flops, 0);
}

// Sparse-dLLM's cache is as small as its selection: kept and block in every layer, one full-length
// scratch for all layers together.
TEST(limits_full, sparse_dllm_holds_fewer_pages_than_a_dual_cache) {
  const auto model = tiny_model(model_family::llada, reference_backend(), 4096);
  std::vector<sequence_request> requests = tiny_requests(1, 8);
  requests[0].prompt.resize(440, 3);
  const auto dual = decode_closed(*model, "fast_dllm", blocks, requests, 1);
  const auto sparse =
      decode_closed(*model, "sparse_dllm", with(blocks, {{"retention_ratio", 0.25}}), requests, 1);
  // 448 positions are 7 pages; kept 110 and block 8 are 2; the scratch has 7.
  EXPECT_EQ(sparse.peak_kv_bytes * 3 * 7, dual.peak_kv_bytes * (3 * 2 + 7));
}

// Prefix eviction too reserves what its first block keeps: int(r P) + L - P, in whole pages.
TEST(limits_full, prefix_eviction_holds_no_more_pages_than_it_keeps) {
  const auto model = tiny_model(model_family::llada, cpu_backend(), 4096);
  const auto width = static_cast<std::size_t>(model->config().kv_heads * model->config().head_dim);
  const std::size_t page = 2 * kv_page_size * width * sizeof(float);
  const auto peak_pages = [&](const char* eviction, int prompt, int gen, double ratio,
                              std::int64_t block) {
    std::vector<sequence_request> requests = tiny_requests(1, gen);
    requests[0].prompt.resize(static_cast<std::size_t>(prompt), 3);
    const auto got = decode_closed(
        *model, "sparse_dllm",
        {{"block_length", block}, {"retention_ratio", ratio}, {"eviction", std::string(eviction)}},
        requests, 1);
    EXPECT_EQ(got.peak_kv_bytes % page, 0U);
    return static_cast<int>(got.peak_kv_bytes / page);
  };
  const auto pages = [](int slots) { return (slots + kv_page_size - 1) / kv_page_size; };
  for (const auto& [prompt, gen, ratio] : {std::tuple{440, 8, 0.25}, std::tuple{440, 16, 0.5},
                                           std::tuple{150, 56, 0.5}, std::tuple{70, 24, 0.1}}) {
    const int kept = static_cast<int>(prompt * ratio) + gen;
    EXPECT_EQ(peak_pages("prefix", prompt, gen, ratio, 8), 3 * pages(kept) + pages(prompt + gen))
        << prompt << " + " << gen << " at " << ratio;
  }
  // The last block and the whole canvas have no suffix: both kinds of eviction keep the same keys.
  for (const auto& [gen, block] : {std::pair{8, 8}, {64, 64}, {64, 0}}) {
    const int prefix = peak_pages("prefix", 440, gen, 0.5, block);
    EXPECT_EQ(prefix, peak_pages("bidirectional", 440, gen, 0.5, block)) << gen << " " << block;
    EXPECT_EQ(prefix, 3 * pages(220 + gen) + pages(440 + gen));
  }
}

}  // namespace
}  // namespace unmask
