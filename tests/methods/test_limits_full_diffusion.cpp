// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities of the methods over bidirectional models: with its knob open each equals its
// baseline token for token.
#include <gtest/gtest.h>

#include <algorithm>

#include "methods/baselines/sparse_d/pattern_keys.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

constexpr std::int64_t one = 1, eight = 8;

void expect_same(model_family family, const std::string& left, const parameter_map& left_given,
                 const std::string& right, const parameter_map& right_given) {
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
    const auto model = tiny_model(family, *backend);
    const auto requests = tiny_requests(4, 24);
    EXPECT_EQ(outputs(decode_closed(*model, left, left_given, requests, 3)),
              outputs(decode_closed(*model, right, right_given, requests, 3)))
        << left << " and " << right << " on " << backend->name();
  }
}

const parameter_map blocks = {{"block_length", eight}};

TEST(limits_full, sparse_dllm_keeping_all_without_delay_is_fast_dllm_dual) {
  const parameter_map keep = {{"retention_ratio", 1.0}, {"delay", 0}};
  for (const model_family family : {model_family::llada, model_family::dream}) {
    expect_same(family, "sparse_dllm", with(blocks, keep), "fast_dllm", blocks);
    expect_same(family, "sparse_dllm", with(with(blocks, keep), {{"pooling", "none"}}), "fast_dllm",
                blocks);
    expect_same(family, "sparse_dllm", with(with(blocks, keep), {{"eviction", "prefix"}}),
                "fast_dllm", blocks);
    expect_same(family, "sparse_dllm", with(with(blocks, keep), {{"selection", "random"}}),
                "fast_dllm", blocks);
  }
}

TEST(limits_full, sparse_dllm_with_delay_beyond_the_steps_is_vanilla) {
  expect_same(model_family::llada, "sparse_dllm", with(blocks, {{"delay", eight}}), "vanilla",
              blocks);
}

TEST(limits_full, dkv_cache_refreshed_every_step_is_vanilla) {
  expect_same(model_family::llada, "dkv_cache", with(blocks, {{"refresh_interval", one}}),
              "vanilla", blocks);
  expect_same(model_family::dream, "dkv_cache", {{"refresh_interval", one}}, "vanilla", {});
}

TEST(limits_full, focus_dllm_seeing_every_prompt_block_is_its_dense_recipe) {
  for (const model_family family : {model_family::llada, model_family::dream}) {
    const parameter_map base =
        with(blocks, {{"dense_layers", one}, {"dense_tail_layers", 0}, {"prompt_block_size", 4}});
    for (const char* selection : {"score", "random", "last"}) {
      expect_same(family, "focus_dllm",
                  with(base, {{"alpha", 1.0}, {"selection", std::string(selection)}}), "focus_dllm",
                  with(base, {{"sparse_attention", false}}));
    }
  }
}

// The controls choose other keys than the score does, and the same ones in any batch.
TEST(limits_full, keys_that_are_not_scored_are_others_in_any_batch) {
  const parameter_map focus =
      with(blocks, {{"dense_layers", one}, {"prompt_block_size", 4}, {"alpha", 0.5}});
  struct control {
    const char* method;
    parameter_map given;
    std::vector<std::string> selections;
  };
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(4, 24);
  for (const control& c : {control{"sparse_dllm", blocks, {"random"}},
                           control{"focus_dllm", focus, {"random", "last"}}}) {
    const auto scored = decode_closed(*model, c.method, c.given, requests, 1);
    for (const std::string& selection : c.selections) {
      const parameter_map given = with(c.given, {{"selection", selection}});
      const auto alone = decode_closed(*model, c.method, given, requests, 1);
      EXPECT_NE(outputs(alone), outputs(scored)) << c.method << ", " << selection;
      EXPECT_EQ(outputs(alone), outputs(decode_closed(*model, c.method, given, requests, 3)));
    }
  }
}

// On a model for which a token that it writes in a first block ends the answer.
TEST(limits_full, vanilla_that_stops_gives_the_same_answer_in_fewer_forwards) {
  const auto requests = tiny_requests(12, 48);
  const auto usual = tiny_model(model_family::llada, cpu_backend());
  const std::int32_t stop = outputs(decode_closed(*usual, "vanilla", blocks, requests, 1))[0][2];
  model_config c = tiny_config(model_family::llada);
  c.eos_id = stop;
  c.stop_ids = {stop};
  const auto model = tiny_model(c, cpu_backend(), 2048, 7, dtype::f32);
  const auto whole = decode_closed(*model, "vanilla", blocks, requests, 1);
  const auto stops =
      decode_closed(*model, "vanilla", with(blocks, {{"early_stop", true}}), requests, 1);
  const auto padded = outputs(whole), stopping = outputs(stops);
  int stopped = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::vector<std::int32_t>&a = padded[i], &b = stopping[i];
    const auto end = std::find(a.begin(), a.end(), stop) - a.begin();
    const bool ends_early = end < static_cast<std::ptrdiff_t>(a.size()) - 8;
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + end, b.begin()));
    const auto full = whole.answers[i].counters.forwards,
               fewer = stops.answers[i].counters.forwards;
    EXPECT_EQ(fewer, ends_early ? (end / 8 + 1) * 8 : full);
    stopped += ends_early;
  }
  EXPECT_GT(stopped, 0) << "no answer of this model ends before its canvas does";
}

TEST(limits_full, focus_dllm_without_indicator_and_sparsity_is_fast_dllm_dual) {
  expect_same(model_family::llada, "focus_dllm",
              with(blocks, {{"past_confidence", false}, {"sparse_attention", false}}), "fast_dllm",
              blocks);
}

TEST(limits_full, fast_dllm_threshold_above_one_is_one_token_per_step) {
  for (const char* cache : {"none", "prefix", "dual"}) {
    const auto model = tiny_model(model_family::llada, reference_backend());
    const auto requests = tiny_requests(3, 24);
    const parameter_map given = with(blocks, {{"cache", std::string(cache)}});
    const auto open =
        decode_closed(*model, "fast_dllm", with(given, {{"threshold", 1.5}}), requests, 1);
    EXPECT_EQ(outputs(open), outputs(decode_closed(*model, "fast_dllm", given, requests, 1)));
    for (const decoded_answer& a : open.answers) EXPECT_EQ(a.counters.forwards, 24) << cache;
  }
}

TEST(limits_full, fast_dllm_without_cache_is_vanilla) {
  expect_same(model_family::llada, "fast_dllm", with(blocks, {{"cache", "none"}}), "vanilla",
              with(blocks, {{"until_clean", true}}));
  expect_same(model_family::dream, "fast_dllm", {{"cache", "none"}}, "vanilla", {});
}

// What is evicted, unselected or settled costs nothing: fewer rows, fewer keys, fewer FLOPs.
TEST(limits_full, work_falls_with_what_is_left_out) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(3, 24);
  const auto total = [&](const std::string& method, const parameter_map& more) {
    sequence_counters sum;
    for (const auto& a : decode_closed(*model, method, with(blocks, more), requests, 1).answers) {
      sum.rows += a.counters.rows;
      sum.keys_seen += a.counters.keys_seen;
      sum.flops += a.counters.flops;
    }
    return sum;
  };
  const auto vanilla = total("vanilla", {});
  const auto prefix = total("fast_dllm", {{"cache", "prefix"}});
  const auto dual = total("fast_dllm", {});
  EXPECT_LT(prefix.rows, vanilla.rows);
  EXPECT_LT(dual.rows, prefix.rows);
  EXPECT_LT(dual.flops, prefix.flops);
  double last = 1e300;
  for (const double ratio : {0.9, 0.5, 0.1}) {
    const auto sparse = total("sparse_dllm", {{"retention_ratio", ratio}, {"delay", 0}});
    EXPECT_EQ(sparse.rows, dual.rows);
    EXPECT_LT(sparse.keys_seen, std::min(last, dual.keys_seen));
    EXPECT_LT(sparse.flops, dual.flops);
    last = sparse.keys_seen;
  }
  const parameter_map focus = {
      {"dense_layers", one}, {"prompt_block_size", 4}, {"window", 2}, {"rho", 1.0}};
  const auto narrow = total("focus_dllm", focus);
  EXPECT_LT(narrow.rows, dual.rows);
  EXPECT_LT(total("focus_dllm", with(focus, {{"alpha", 0.2}})).keys_seen,
            total("focus_dllm", with(focus, {{"alpha", 1.0}})).keys_seen);
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

TEST(limits_full, methods_refuse_models_they_cannot_decode) {
  const auto block_model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(1, 8);
  for (const char* method : {"fast_dllm", "dkv_cache", "sparse_dllm", "focus_dllm"}) {
    EXPECT_THROW(decode_closed(*block_model, method, {}, requests, 1), error) << method;
  }
  const auto llada = tiny_model(model_family::llada, reference_backend());
  const auto refused = [&](const char* method, const parameter_map& given) {
    EXPECT_THROW(decode_closed(*llada, method, given, requests, 1), error) << method;
  };
  refused("sparse_dllm", {{"kernel_size", 4}});
  refused("dkv_cache", {{"variant", "pd"}});
  refused("focus_dllm", {{"dense_layers", 0}});
  refused("fast_dllm", with(blocks, {{"threshold", 0.9}, {"factor", 1.0}}));
}

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
