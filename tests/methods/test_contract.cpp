// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the step loop says to a method that breaks the contract of decisions.
#include <gtest/gtest.h>

#include "harness/decode/step_loop.h"
#include "harness/engine/latency.h"
#include "harness/engine/trajectory.h"
#include "kernels/decisions.h"
#include "methods/parts/common.h"
#include "methods/settings.h"
#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask::testing {
namespace {

// Decides by the recipe's own rule, and then something else about its last candidate.
class meddling_unmask final : public unmask_policy {
 public:
  meddling_unmask(std::unique_ptr<unmask_policy> own, unmask_traits traits, std::uint8_t decision)
      : unmask_policy(traits), own_(std::move(own)), decision_(decision) {}
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    own_->judge(b, plan, head_input, head, c);
  }
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    own_->decide(b, plan, c);
    b.backend().synchronize();
    c.accept.as<std::uint8_t>()[c.count - 1] = decision_;
  }

 private:
  std::unique_ptr<unmask_policy> own_;
  std::uint8_t decision_;
};

const parameter_map one_by_one = {{"threshold", 1.5}, {"stop", "none"}, {"block_length", 8}};

recipe make(const std::string& method, const transformer& model) {
  return test::recipe_of(method, model.config(), one_by_one);
}

std::string decoding_ends_with(unmask_traits traits, std::uint8_t decision) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  recipe r = make("llada2", *model);
  r.unmask = std::make_unique<meddling_unmask>(std::move(r.unmask), traits, decision);
  step_loop loop(*model, std::move(r), {1, 16, 0});
  loop.admit({{1, 2, 3, 4, 5, 6, 7, 8}, 8, 0});
  try {
    while (loop.step()) {
    }
  } catch (const std::logic_error& broken) {
    return broken.what();
  }
  return "";
}

// Three places of a model that has room for them and no row more: in a closed batch, and in the
// measured times of a virtual clock.
TEST(contract, every_method_finds_room_for_the_rows_it_asks_for) {
  latency_grid grid;
  grid.batches = {3};
  grid.context = 24;
  grid.warmup = 6;
  grid.repeats = 1;
  for (const method_settings& w : all_method_settings()) {
    SCOPED_TRACE(w.method);
    const setting& first = w.settings.front();
    const model_config config = tiny_config(first.family);
    const parameters settings = test::resolved(w.method, first.given, first.preset);
    const method_info& info = method_registry::instance().find(w.method);
    const auto requests = tiny_requests(4, 32);
    const auto batch =
        tiny_model(first.family, cpu_backend(), rows_needed(config, info, settings, requests, 3));
    EXPECT_NO_THROW(decode_closed(*batch, w.method, first.given, requests, 3, first.preset));
    const auto make = [&](std::int32_t) {
      return test::recipe_of(w.method, config, first.given, first.preset);
    };
    const auto profiled = tiny_model(first.family, cpu_backend(), latency_rows(config, make, grid));
    EXPECT_NO_THROW(measure_latency(*profiled, make, grid));
  }
}

TEST(contract, decisions_that_were_not_announced_are_refused) {
  for (const std::uint8_t what : {decision_replace, decision_reopen, decision_hold}) {
    EXPECT_EQ(decoding_ends_with({}, what),
              "llada2: its rule makes a decision that its traits do not announce");
  }
  EXPECT_EQ(decoding_ends_with({}, 9),
            "llada2: its rule makes a decision that its traits do not announce");
}

TEST(contract, decisions_that_do_not_fit_the_canvas_are_refused) {
  const std::string misfit =
      "llada2: it takes a token that is decided already, or replaces or masks one that is not";
  // The last candidate of the first forward is a mask.
  EXPECT_EQ(decoding_ends_with({.replaces = true}, decision_replace), misfit);
  EXPECT_EQ(decoding_ends_with({.reopens = true}, decision_reopen), misfit);
  // Decided positions stay candidates, so the last one is taken again and again.
  EXPECT_EQ(decoding_ends_with({.replaces = true}, decision_take), misfit);
}

// Held tokens come out although the canvas keeps the mask.
TEST(contract, a_held_token_is_decided_and_the_canvas_keeps_the_mask) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  recipe r = make("llada2", *model);
  r.unmask = std::make_unique<meddling_unmask>(std::move(r.unmask), unmask_traits{.holds = true},
                                               decision_hold);
  step_loop loop(*model, std::move(r), {1, 16, 0});
  loop.admit({{1, 2, 3, 4, 5, 6, 7, 8}, 8, 0});
  while (loop.step()) {
  }
  const std::int32_t mask = model->config().mask_id;
  EXPECT_EQ(loop.state().canvas().row<std::int32_t>(0)[15], mask);
  ASSERT_EQ(loop.output(0).size(), 8U);
  EXPECT_NE(loop.output(0).back(), mask);
  EXPECT_EQ(loop.state().at(0).counters.committed, 8);
}

// Three layers, 0 to 2: late are those behind the last in which rows may leave, and layer 2 where none do.
TEST(contract, late_layers_are_those_behind_the_last_that_narrows) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto late_layers = [&](const std::vector<std::int32_t>& narrows_at) {
    recipe r = make("llada2", *model);
    r.rows = std::make_unique<row_policy>(row_traits{.narrows_at = narrows_at});
    step_loop loop(*model, std::move(r), {1, 16, 0});
    loop.admit({{1, 2, 3, 4, 5, 6, 7, 8}, 8, 0});
    while (loop.step()) {
    }
    const sequence_counters& c = loop.state().at(0).counters;
    EXPECT_GT(c.decode_rows, 0);
    EXPECT_EQ(c.late_layer_rows % c.decode_rows, 0);
    return c.late_layer_rows / c.decode_rows;
  };
  EXPECT_EQ(late_layers({}), 1);
  EXPECT_EQ(late_layers({0, 1}), 1);
  EXPECT_EQ(late_layers({0}), 2);
  EXPECT_EQ(late_layers({0, 2}), 0);
}

TEST(contract, caches_that_keep_decided_rows_refuse_rules_that_revise) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  recipe r = make("llada21", *model);
  r.cache = std::make_unique<append_cache>(/*keeps_decided=*/true);
  test::expect_error(exit_code::usage,
                     "llada21 cannot run: its cache keeps the KV of unmasked tokens", [&] {
                       step_loop(*model, std::move(r), {1, 16, 0});
                     });
}

TEST(contract, methods_for_predictions_in_place_say_what_the_other_models_do) {
  model_config dream;
  dream.name = "Dream-7B";
  dream.attention = mask_kind::full;
  dream.mask_id = 1;
  dream.shifted_logits = true;
  for (const std::string name : {"pc_sampler", "streaming_dllm", "hierarchical"}) {
    const method_info& method = method_registry::instance().find(name);
    const parameters p(method.resolve("", {}));
    test::expect_error(exit_code::usage,
                       name +
                           " cannot decode Dream-7B: Dream-7B predicts each token from the "
                           "position before it, and " +
                           name + " is only defined for models that predict in place",
                       [&] { method.check(dream, p); });
  }
}

TEST(contract, no_order_is_imposed_on_rules_that_verify_or_revise) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const trajectory_source none = [](std::int64_t) { return trajectory{}; };
  for (const auto& impose : std::vector<std::function<recipe(recipe)>>{
           [&](recipe r) { return with_trajectory(std::move(r), none, 1); },
           [&](recipe r) { return with_order(std::move(r), none); },
           [&](recipe r) { return with_imposed(std::move(r), none, model->config(), 1, true); }}) {
    test::expect_error(exit_code::usage, "freedave computes several rows at one position",
                       [&] { impose(make("freedave", *model)); });
    EXPECT_NO_THROW(impose(make("llada2", *model)));
    EXPECT_NO_THROW(impose(make("multi_block", *model)));
  }
  test::expect_error(exit_code::usage, "llada21 edits or remasks tokens",
                     [&] { with_order(make("llada21", *model), none); });
}

}  // namespace
}  // namespace unmask::testing
