// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM at the ends of its knobs.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

const std::int64_t no_cap = 1000;
constexpr model_family families[] = {model_family::llada, model_family::dream};

// Every forward computes everything: the cache is there but nothing in it is ever stale. Tokens
// decided as the mask id stay masked, as in vanilla's loops.
parameter_map uncached() {
  return {{"cache_steps", 1},
          {"refresh_prompt", true},
          {"remask_by_id", true},
          {"steps", no_cap},
          {"confidence_dtype", "float64"}};
}

parameter_map vanilla_blocks(std::int64_t block, const parameter_map& more) {
  return with({{"schedule", "llada"}, {"block_length", block}, {"until_clean", true}}, more);
}

// Settings under which exactly the most confident token freezes, each for its own reason.
std::vector<parameter_map> one_token_settings() {
  return {// C > (C_1 + C_2) / 2 holds for the best only.
          {{"k_tokens", 1}, {"history", 1}},
          // The same in other metrics: on a line all of them are the distance.
          {{"k_tokens", 1}, {"history", 1}, {"metric", "manhattan"}},
          // Rows of one confidence are multiples of each other: no cosine is larger.
          {{"metric", "cosine"}, {"history", 1}},
          {{"rule", "threshold"}, {"threshold", 1.5}},
          {{"rule", "moving_average"}, {"average_threshold", 1.5}},
          {{"floor", 1.0}, {"history", 1}}};
}

TEST(limits_ada_dlm, one_token_per_step_without_stale_cache_is_vanilla) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 16);
    for (const std::int64_t block : {8, 16}) {
      const auto baseline =
          decode_closed(*model, "vanilla", vanilla_blocks(block, {}), requests, 1);
      for (const parameter_map& one : one_token_settings()) {
        const auto ada = decode_closed(
            *model, "ada_dlm",
            with(with(uncached(), one), {{"scope", "block"}, {"block_length", block}}), requests,
            1);
        EXPECT_EQ(outputs(ada), outputs(baseline));
        EXPECT_EQ(ada.steps, baseline.steps);
      }
    }
  }
}

TEST(limits_ada_dlm, threshold_control_without_stale_cache_is_vanilla_with_a_threshold) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 16);
    for (const std::int64_t block : {8, 16}) {
      const parameter_map tau = {{"threshold", 0.35}};
      const auto baseline =
          decode_closed(*model, "vanilla", vanilla_blocks(block, tau), requests, 1);
      const auto ada =
          decode_closed(*model, "ada_dlm",
                        with(with(uncached(), tau),
                             {{"rule", "threshold"}, {"scope", "block"}, {"block_length", block}}),
                        requests, 1);
      EXPECT_EQ(outputs(ada), outputs(baseline));
      EXPECT_EQ(ada.steps, baseline.steps);
      EXPECT_LT(ada.steps, 4 * 16);  // several tokens at once
    }
  }
}

// Frozen rows read K/V from the cache in both executions, so what the others compute is the same to
// the bit; ffn_only only computes more.
TEST(limits_ada_dlm, ffn_only_decides_the_same_tokens) {
  for (const model_family family : families) {
    for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
      const auto model = tiny_model(family, *backend);
      const auto requests = tiny_requests(3, 24);
      for (const std::int64_t refresh : {0, 4}) {
        for (const char* scope : {"sequence", "block"}) {
          const parameter_map common = {
              {"cache_steps", refresh}, {"scope", std::string(scope)}, {"block_length", 8}};
          const auto compact = decode_closed(*model, "ada_dlm", common, requests, 2);
          const auto ffn = decode_closed(*model, "ada_dlm",
                                         with(common, {{"execution", "ffn_only"}}), requests, 2);
          EXPECT_EQ(outputs(compact), outputs(ffn));
          for (std::size_t i = 0; i < requests.size(); ++i) {
            const sequence_counters& c = compact.answers[i].counters;
            const sequence_counters& f = ffn.answers[i].counters;
            EXPECT_EQ(c.forwards, f.forwards);
            EXPECT_EQ(c.feed_forward_rows, f.feed_forward_rows);
            EXPECT_EQ(c.feed_forward_rows, c.layer_rows);
            EXPECT_LT(c.layer_rows, f.layer_rows);
            EXPECT_LT(c.flops, f.flops);
          }
        }
      }
    }
  }
}

TEST(limits_ada_dlm, settings_that_cannot_matter_do_not) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 24);
    const auto tokens = [&](const parameter_map& given) {
      const auto r = decode_closed(*model, "ada_dlm", given, requests, 1);
      return std::make_pair(outputs(r), r.steps);
    };
    const parameter_map one = {{"history", 1}};
    const auto flat = tokens(one);
    // With one confidence every metric on the line, and the unweighted mean, are the same midpoint.
    EXPECT_EQ(tokens(with(one, {{"metric", "manhattan"}})), flat);
    EXPECT_EQ(tokens(with(one, {{"rule", "moving_average"}})), flat);
    // The best token's newest confidence is never below the boundary's: nothing to clamp.
    EXPECT_EQ(tokens(with(one, {{"w_clamp", true}})), flat);
    // Nothing older to replicate.
    EXPECT_EQ(tokens(with(one, {{"first_history", "replicate"}})), flat);
    // A block as long as the canvas.
    const auto whole = tokens({});
    EXPECT_EQ(tokens({{"scope", "block"}, {"block_length", 24}}), whole);
    EXPECT_EQ(tokens({{"scope", "block"}, {"block_length", 99}}), whole);
    // Tiers of one token.
    const parameter_map k1 = {{"k_tokens", 1}};
    EXPECT_EQ(tokens(with(k1, {{"centroid", "tier_mean"}})), tokens(k1));
    // A cap that is not reached, and a refresh that never comes.
    EXPECT_EQ(tokens({{"steps", no_cap}}), whole);
    EXPECT_EQ(tokens({{"cache_steps", no_cap}}), whole);
    // K as a share and as a number: round(0.15 * 24) = 4.
    EXPECT_EQ(tokens({{"k_tokens", 4}}), whole);
    // The best token freezes by itself; only a last one, its own boundary, needs the guard, and
    // short_set takes that case.
    const parameter_map all = {{"short_set", "freeze_all"}};
    EXPECT_EQ(tokens(with(all, {{"guard", false}})), tokens(all));
  }
}

// Traces are read only if a history is.
TEST(limits_ada_dlm, traces_of_one_confidence_are_the_tokens_own) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 24);
    for (const char* scope : {"sequence", "block"}) {
      const parameter_map one = {
          {"history", 1}, {"scope", std::string(scope)}, {"block_length", 8}, {"k", 0.3}};
      const auto token = decode_closed(*model, "ada_dlm", one, requests, 2);
      const auto trace =
          decode_closed(*model, "ada_dlm", with(one, {{"centroid", "trace"}}), requests, 2);
      EXPECT_EQ(outputs(token), outputs(trace));
      EXPECT_EQ(token.steps, trace.steps);
    }
  }
}

// A request decodes alone as it does behind another one in its place: traces begin anew.
TEST(limits_ada_dlm, traces_begin_with_the_request) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(4, 24);
  const parameter_map traced = {{"centroid", "trace"}, {"k", 0.3}};
  const auto together = decode_closed(*model, "ada_dlm", traced, requests, 2);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = decode_closed(*model, "ada_dlm", traced, {requests[i]}, 1);
    EXPECT_EQ(together.answers[i].output, alone.answers[0].output);
    EXPECT_EQ(together.answers[i].counters.forwards, alone.answers[0].counters.forwards);
  }
}

TEST(limits_ada_dlm, settings_that_exclude_traces_are_refused) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  for (const char* other : {"first_history", "block_history"}) {
    const std::string says = std::string(other) == "first_history" ? "replicate" : "running";
    const std::string said =
        refusal_of("ada_dlm", model->config(), {{"centroid", "trace"}, {other, says}});
    EXPECT_NE(said.find(other), std::string::npos) << said;
  }
}

// A float32 per position and confidence of the history (the paper's Table 7 has 0.19 MiB for m = 3
// and 16384 positions); a threshold keeps nothing, and other methods do not say.
TEST(limits_ada_dlm, state_is_the_history) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  std::vector<sequence_request> requests = tiny_requests(2, 24);
  for (sequence_request& r : requests) r.prompt.resize(40, 3);
  const auto bytes = [&](const std::string& method, const parameter_map& given, int places) {
    return decode_closed(*model, method, given, requests, places).state_bytes;
  };
  EXPECT_EQ(bytes("ada_dlm", {}, 1), (40U + 24U) * 3U * 4U);
  EXPECT_EQ(bytes("ada_dlm", {}, 2), 2U * (40U + 24U) * 3U * 4U);
  EXPECT_EQ(bytes("ada_dlm", {{"history", 5}}, 1), (40U + 24U) * 5U * 4U);
  EXPECT_EQ(bytes("ada_dlm", {{"centroid", "trace"}}, 1), (40U + 24U + 2U) * 3U * 4U);
  EXPECT_EQ(bytes("ada_dlm", {{"rule", "threshold"}, {"centroid", "trace"}}, 1), 0U);
  EXPECT_EQ(bytes("ada_dlm", {{"rule", "threshold"}}, 1), 0U);
  // The tokens that wait: an id each.
  EXPECT_EQ(bytes("ada_dlm", {{"frozen_input", "mask"}}, 1), (40U + 24U) * (3U * 4U + 4U));
  EXPECT_FALSE(bytes("vanilla", {{"block_length", 8}}, 1));
}

TEST(limits_ada_dlm, an_open_threshold_decides_everything_at_once) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto r = decode_closed(*model, "ada_dlm", {{"rule", "threshold"}, {"threshold", 0.0}},
                                 tiny_requests(2, 16), 1);
    EXPECT_EQ(r.steps, 2);
  }
}

// At the cap all that is left is decided in one go, or left masked.
TEST(limits_ada_dlm, the_cap_ends_it) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(2, 32);
  const parameter_map slow = {
      {"k_tokens", 1}, {"history", 1}, {"scope", "block"}, {"block_length", 8}, {"steps", 5}};
  const auto all = decode_closed(*model, "ada_dlm", slow, requests, 1);
  const auto left =
      decode_closed(*model, "ada_dlm", with(slow, {{"at_cap", "leave"}}), requests, 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(all.answers[i].counters.forwards, 5);
    EXPECT_EQ(all.answers[i].counters.committed, 32);
    EXPECT_EQ(left.answers[i].counters.forwards, 5);
    EXPECT_EQ(left.answers[i].counters.committed, 5);
    EXPECT_GE(std::count(left.answers[i].output.begin(), left.answers[i].output.end(),
                         model->config().mask_id),
              27);
  }
}

TEST(limits_ada_dlm, a_quota_bounds_every_step) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct recorder : step_observer {
    std::vector<int> counts;
    void on_step(const step_view& s) override {
      int n = 0;
      for (int c = 0; c < s.candidates.count; ++c) n += s.candidates.accept.as<std::uint8_t>()[c];
      counts.push_back(n);
    }
  } free, bounded;
  const parameter_map wide = {{"k", 0.5}, {"steps", 16}};
  decode_closed(*model, "ada_dlm", wide, tiny_requests(1, 32), 1, "", &free);
  decode_closed(*model, "ada_dlm", with(wide, {{"limit_to_quota", true}}), tiny_requests(1, 32), 1,
                "", &bounded);
  EXPECT_GT(*std::max_element(free.counts.begin(), free.counts.end()), 2);
  // ceil(32 / 16) = 2 in every step but the last of the cap, which takes what is left.
  EXPECT_EQ(*std::max_element(bounded.counts.begin(), bounded.counts.end() - 1), 2);
}

// Which rows each forward computes, against a model of the cache that looks at the canvas only: a
// row is needed while its position is masked, once more after it was decided, and (Dream) while
// the position to its right is masked.
TEST(limits_ada_dlm, rows_are_the_unsettled_ones) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const int shift = family == model_family::dream ? 1 : 0;
    struct checker : step_observer {
      int shift = 0;
      std::vector<int> previous;  // masked before the last step
      std::int64_t steps = 0, absent = 0;
      void on_step(const step_view& s) override {
        const sequence& q = s.state.at(0);
        std::vector<int> masked(static_cast<std::size_t>(q.length) + 1, 0);
        for (int p = 0; p < q.length; ++p)
          masked[static_cast<std::size_t>(p)] = s.state.state().row<std::uint8_t>(0)[p] == 0;
        if (steps++ == 0) {
          EXPECT_EQ(s.entered.rows, q.length);
        } else {
          std::vector<int> want, got(s.entered.position, s.entered.position + s.entered.rows);
          for (int p = q.prompt_length - shift; p < q.length; ++p) {
            const auto i = static_cast<std::size_t>(p);
            if (masked[i] || previous[i] || (shift && masked[i + 1])) want.push_back(p);
          }
          EXPECT_EQ(got, want);
          absent += q.length - q.prompt_length - static_cast<std::int64_t>(want.size());
        }
        // Every candidate has its predicting row in the forward.
        for (int c = 0; c < s.candidates.count; ++c) {
          EXPECT_EQ(s.left.position[s.candidates.row.as<std::int32_t>()[c]],
                    s.candidates.position.as<std::int32_t>()[c] - shift);
        }
        EXPECT_EQ(s.candidates.count,
                  std::count(masked.begin() + q.prompt_length, masked.end(), 1));
        previous = masked;
      }
    } watcher;
    watcher.shift = shift;
    decode_closed(*model, "ada_dlm", {}, tiny_requests(1, 32), 1, "", &watcher);
    EXPECT_GT(watcher.absent, 0);
    EXPECT_GT(watcher.steps, 3);
  }
}

}  // namespace
}  // namespace unmask
