// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities and by-hand counts of Optimus on real (tiny) models.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

const model_family families[] = {model_family::sdar, model_family::llada2_moe};

// A chunk of the whole block and no caching inside it is block diffusion with its commit pass:
// same tokens, same forwards, same rows.
TEST(limits_optimus, whole_chunks_without_caching_are_block_diffusion) {
  for (const model_family family : families) {
    for (const double threshold : {0.9, 0.5, 0.2}) {
      const auto model = tiny_model(family, reference_backend());
      const auto requests = tiny_requests(4, 24);
      const parameter_map t = {{"threshold", threshold}};
      const auto block = decode_closed(*model, "block_diffusion", t, requests, 2);
      const auto whole = decode_closed(*model, "optimus", t, requests, 2, "bd32");
      EXPECT_EQ(outputs(whole), outputs(block));
      EXPECT_EQ(whole.steps, block.steps);
      EXPECT_EQ(rows_of(whole), rows_of(block));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(whole.answers[i].counters.commit_forwards,
                  block.answers[i].counters.commit_forwards);
      }
      const auto streamed = decode_closed(
          *model, "optimus", with(t, {{"chunk", 8}, {"cache_rule", "none"}}), requests, 2);
      EXPECT_EQ(outputs(streamed), outputs(block));
    }
  }
}

// Fusing the last refresh of a block with a whole chunk of the next changes no token and saves
// forwards.
TEST(limits_optimus, full_boundary_fusion_changes_no_token) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 40);
    for (const std::int64_t chunk : {2, 4, 8}) {
      const parameter_map off = {{"threshold", 0.5}, {"chunk", chunk}, {"stop", "none"}};
      const auto apart = decode_closed(*model, "optimus", off, requests, 1);
      const auto fused =
          decode_closed(*model, "optimus", with(off, {{"boundary_fusion", "full"}}), requests, 1);
      EXPECT_EQ(outputs(fused), outputs(apart)) << chunk;
      EXPECT_EQ(rows_of(fused), rows_of(apart)) << chunk;
      EXPECT_LT(fused.steps, apart.steps) << chunk;
    }
  }
}

// A block decided at once is refreshed as a whole: block diffusion, K/V included. Prompts of whole
// blocks, because a prompt's tail settles in the prefill and block diffusion computes it again.
TEST(limits_optimus, threshold_zero_is_block_diffusion) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    auto requests = tiny_requests(4, 24);
    for (sequence_request& r : requests) r.prompt.resize(r.prompt.size() < 16 ? 8 : 16, 1);
    const parameter_map zero = {{"threshold", 0.0}};
    const auto block = decode_closed(*model, "block_diffusion", zero, requests, 2);
    const auto whole = decode_closed(*model, "optimus", zero, requests, 2, "prefix_caching");
    EXPECT_EQ(outputs(whole), outputs(block));
    EXPECT_EQ(whole.steps, block.steps);
    EXPECT_EQ(rows_of(whole), rows_of(block));
  }
}

// One token per step and chunks of two: a prediction and a refresh in turn. Block of 8 masks, one
// request: chunk {m}, {p, m}, ..., {p}: 8 decisions, the last of a block refreshed alone; the last
// block of the request ends at its last decision.
TEST(limits_optimus, chunk_of_two_by_hand) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6, 7, 8}, 16, 0};
  const auto r = decode_closed(*model, "optimus",
                               {{"threshold", 1.5}, {"chunk", 2}, {"stop", "none"}}, {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  EXPECT_EQ(n.prefill_forwards, 1);
  EXPECT_EQ(n.committed, 16);
  // Block 1: 8 deciding steps (2 rows each), 1 refresh of 1 row. Block 2: 8 deciding steps.
  EXPECT_EQ(n.forwards, 1 + 8 + 1 + 8);
  EXPECT_EQ(n.rows, 8 + 16 + 1 + 16);
  EXPECT_EQ(n.commit_forwards, 1);
}

// A whole-block refresh makes history exact: what follows equals a run that has it as its prompt.
TEST(limits_optimus, final_refresh_leaves_exact_history) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const parameter_map given = {
      {"threshold", 0.5}, {"chunk", 4}, {"final_refresh", true}, {"stop", "none"}};
  sequence_request request{{1, 2, 3, 4, 5, 6, 7, 8}, 24, 0};
  const auto whole = decode_closed(*model, "optimus", given, {request}, 1).answers[0];
  ASSERT_EQ(whole.output.size(), 24U);
  EXPECT_EQ(whole.counters.commit_forwards, 2);
  request.prompt.insert(request.prompt.end(), whole.output.begin(), whole.output.begin() + 16);
  request.gen_length = 8;
  const auto rest = decode_closed(*model, "optimus", given, {request}, 1).answers[0].output;
  EXPECT_EQ(rest, std::vector<std::int32_t>(whole.output.begin() + 16, whole.output.end()));
}

// Out-block streaming fills the rows that the end of a block frees: fewer forwards.
TEST(limits_optimus, out_block_streaming_takes_fewer_forwards) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(6, 64);
  const parameter_map given = {{"threshold", 0.35}, {"stop", "none"}};
  const auto in_block = decode_closed(*model, "optimus", given, requests, 1, "prefix_caching");
  const auto beyond = decode_closed(*model, "optimus", given, requests, 1, "obs");
  EXPECT_LT(beyond.steps, in_block.steps);
  for (const decoded_answer& a : beyond.answers) EXPECT_EQ(a.output.size(), 64U);
}

// An answer that stops at its first stop id, found before or after the block is complete.
TEST(limits_optimus, stop_check_prefix_only_shortens_the_run) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(6, 40);
  const parameter_map block = {{"chunk", 4}, {"stop", "3,7,11,19,23,41"}};
  const auto a = decode_closed(*model, "optimus", block, requests, 1);
  const auto b =
      decode_closed(*model, "optimus", with(block, {{"stop_check", "prefix"}}), requests, 1);
  EXPECT_EQ(outputs(a), outputs(b));
  EXPECT_LE(b.steps, a.steps);
}

// Every chunk size decodes the whole answer; rows per token fall as in-block caching takes hold.
TEST(limits_optimus, elastic_runs_on_every_load) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(6, 40);
    const parameter_map given = {{"cold_steps", 4}, {"stop", "none"}};
    for (const std::int32_t batch : {1, 3, 6}) {
      for (const char* scope : {"global", "per_request_sum"}) {
        const auto r =
            decode_closed(*model, "optimus", with(given, {{"ncommit_scope", std::string(scope)}}),
                          requests, batch);
        for (const decoded_answer& a : r.answers) EXPECT_EQ(a.output.size(), 40U);
      }
      const auto obs =
          decode_closed(*model, "optimus", with(given, {{"out_block", true}}), requests, batch);
      for (const decoded_answer& a : obs.answers) EXPECT_EQ(a.output.size(), 40U);
    }
  }
}

// Time that only depends on the step makes the largest chunk best; time that only depends on the
// rows a small one.
TEST(limits_optimus, elastic_follows_the_latency_model) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(4, 64);
  const auto rows_per_forward = [&](double floor_ms, double us_per_token) {
    const auto r = decode_closed(*model, "optimus",
                                 {{"cold_steps", 4},
                                  {"stop", "none"},
                                  {"latency_floor_ms", floor_ms},
                                  {"latency_us_per_token", us_per_token}},
                                 requests, 4);
    double rows = 0, forwards = 0;
    for (const decoded_answer& a : r.answers) {
      rows += static_cast<double>(a.counters.decode_rows);
      forwards += static_cast<double>(a.counters.forwards - a.counters.prefill_forwards);
    }
    return rows / forwards;
  };
  EXPECT_GT(rows_per_forward(100, 0), rows_per_forward(0, 1000) + 1);
}

TEST(limits_optimus, settings_that_make_no_sense_are_refused) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const struct {
    parameter_map given;
    const char* says;
  } wrong[] = {
      {{{"chunk", 1}}, "computed at least twice"},
      {{{"chunk", 9}}, "block length 8"},
      {{{"policy", "naive"}}, "fixed chunk"},
      {{{"policy", "naive"}, {"chunk", 3}}, "divides"},
      {{{"policy", "naive"}, {"chunk", 4}, {"cache_rule", "right_neighbour"}}, "never lets"},
      {{{"policy", "prefix_caching"}, {"chunk", 4}}, "whole blocks"},
      {{{"cache_rule", "none"}, {"chunk", 4}}, "cache_rule none"},
      {{{"out_block", true}, {"chunk", 4}}, "largest chunk"},
      {{{"obs_mask", "full"}}, "needs out_block"},
      {{{"suffix_visible", "stale"}, {"out_block", true}}, "stale"},
      {{{"boundary_fusion", "fill"}, {"final_refresh", true}}, "boundary_fusion"},
      {{{"latency", "pwl3"}}, "latency_samples"},
      {{{"latency_samples", "4;2"}}, "tokens:seconds"}};
  for (const auto& w : wrong) {
    const std::string said = refusal_of("optimus", model->config(), w.given);
    EXPECT_NE(said.find(w.says), std::string::npos) << said;
    EXPECT_NE(said.find("optimus"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace unmask
