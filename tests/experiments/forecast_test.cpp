// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Forecasts of what is served, and of what cannot be known, against numbers that were worked out by hand or
// counted by the engine when it ran the same plans.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "harness/decode/kv_cache.h"
#include "harness/plan/forecast.h"
#include "harness/plan/plan.h"
#include "harness/run/runner.h"
#include "tests/experiments/files.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using namespace test;

std::vector<experiment_point> plan_of(const experiment_spec& spec) {
  return make_plan(spec, make_executor()->methods());
}

point_forecast of(const experiment_spec& spec, const experiment_point& p) {
  return forecast(spec, p, ceilings_of("h100"));
}

const experiment_point& find(const std::vector<experiment_point>& points, const std::string& label,
                             const std::string& variation) {
  for (const experiment_point& p : points) {
    if (p.label == label && p.variation == variation) return p;
  }
  throw std::runtime_error("no point " + label + " " + variation);
}

// One point that is served: 10 requests of a prompt token each on the shape of SDAR-8B, in 4 places.
experiment_spec ten_requests(const std::string& more) {
  return parse_spec(
      "kind = \"serve\"\n[run]\nwarmup = 0\nrepetitions = 1\nbatch_size = 4\ngen_length = 64\n"
      "[[model]]\npath = \"shapes/sdar-8b\"\nweights = \"random:0\"\n"
      "[[workload]]\nlengths = \"sdar-8b/sharegpt\"\n[[method]]\nname = \"block_diffusion\"\n"
      "[serve]\nmax_prompt_tokens = 1\nrequests = 10\n" +
          more,
      experiments() / "x.toml");
}

// By hand. Blocks of 32 lie on positions: a prompt of one and an answer of 64 end in the third block, so
// the canvas has 3 x 32 - 1 = 95 positions. One position each forward and a commit for each block are 98.
// Ten such answers in four places take three turns, 294 forwards, and every prompt one of its own.
TEST(forecast, closed_requests_share_the_places) {
  const experiment_spec spec = ten_requests("arrivals = \"closed\"\n");
  const point_forecast f = of(spec, plan_of(spec).at(0));
  EXPECT_EQ(f.items, 10);
  EXPECT_EQ(f.prompt, 1);
  EXPECT_EQ(f.generated, 95);
  EXPECT_EQ(f.forwards, 294 + 10);
}

// The same requests, each alone in its forwards: 980 and the prompts.
TEST(forecast, requests_that_arrive_may_be_alone) {
  const experiment_spec spec = ten_requests("arrivals = \"poisson\"\n");
  EXPECT_EQ(of(spec, plan_of(spec).at(0)).forwards, 980 + 10);
}

// On a wall clock the tenth request at 0.01 a second comes after 1000 s, give or take 4 deviations of 316 s,
// however fast it is answered.
TEST(forecast, a_wall_clock_waits_for_the_last_request) {
  const experiment_spec spec = ten_requests("rate = 0.01\n");
  experiment_spec on_gpu = spec;
  apply_override(on_gpu, "run.device=cuda");
  EXPECT_NEAR(of(on_gpu, plan_of(on_gpu).at(0)).gpu_hours * 3600, 1000, 4 * 316);
  EXPECT_GT(of(on_gpu, plan_of(on_gpu).at(0)).gpu_hours * 3600, 200);
}

// A GPU for each rank while they wait, four times that of one; while they compute, sums and what each repeats
// come to the time of one.
TEST(forecast, hours_are_those_of_all_ranks) {
  const auto hours = [](const std::string& arrivals, const std::string& ranks) {
    experiment_spec spec = ten_requests(arrivals);
    apply_override(spec, "run.device=cuda");
    apply_override(spec, "run.ranks=" + ranks);
    return of(spec, plan_of(spec).at(0)).gpu_hours;
  };
  EXPECT_DOUBLE_EQ(hours("rate = 0.01\n", "4"), 4 * hours("rate = 0.01\n", "1"));
  const std::string closed = "arrivals = \"closed\"\n";
  EXPECT_GT(hours(closed, "4"), hours(closed, "1"));
  EXPECT_LT(hours(closed, "4"), 4 * hours(closed, "1"));
}

// As the engine counted them when it ran the plan: 4000 requests with 787409 prompt tokens and 1344783
// positions, in 39917 blocks that were committed and the last one of each answer. Chunks of 2 came near the
// bound, with 1338530 forwards. Published are 213 and 321 tokens before the cut and the rest of a block.
TEST(forecast, lengths_are_those_that_the_run_draws) {
  const experiment_spec spec = read_spec(experiments() / "optimus/figure_8.toml", "shapes");
  const auto points = plan_of(spec);
  for (const char* label : {"LMDeploy-BD32", "chunk 2", "Optimus"}) {
    const point_forecast f = of(spec, find(points, label, "batch_size=1"));
    EXPECT_EQ(f.items, 4000);
    EXPECT_DOUBLE_EQ(f.prompt, 787409 / 4000.0);
    EXPECT_DOUBLE_EQ(f.generated, 1344783 / 4000.0);
    EXPECT_DOUBLE_EQ(f.forwards, 1344783 + 39917 + 4000 + 4000);
  }
  const point_forecast f = of(spec, find(points, "AR", "batch_size=1"));
  EXPECT_NEAR(f.generated, 321, 3 * 214 / std::sqrt(4000.0));
  EXPECT_NEAR(f.forwards, 4000 * (321 + 1), 4000 * 3 * 214 / std::sqrt(4000.0));
  const plan_forecast sum = forecast_of(spec, points, ceilings_of("h100"));
  EXPECT_EQ(sum.answers.text(), "216000");  // 54 points
  EXPECT_EQ(sum.hours_text(), "none");      // no layer is computed
}

// 512 requests in 32 places, of at most 256 tokens: each forward of 1024 rows takes 2 x 6.95 G products of a
// row, at 798 TFLOP/s 18 ms. At one position a forward that are 512 / 32 x 242 forwards, twice.
TEST(forecast, what_is_served_on_a_gpu_has_hours) {
  const experiment_spec spec = read_spec(experiments() / "focus/figure_6.toml", "shapes");
  const auto points = plan_of(spec);
  const point_forecast f = of(spec, find(points, "LMDeploy", "batch_size=32"));
  EXPECT_EQ(f.items, 512);
  EXPECT_TRUE(f.on_gpu);
  EXPECT_NEAR(f.gpu_hours, 2 * 512 / 32 * 242 * 0.018 / 3600, 0.2 * f.gpu_hours);
  const plan_forecast sum = forecast_of(spec, points, ceilings_of("h100"));
  EXPECT_EQ(sum.answers.text(), "32768");  // 32 points, each a warm-up and a repetition of 512
  EXPECT_EQ(sum.gpu_hours.points, 32u);
  EXPECT_EQ(sum.gpu_hours.unknown, 0u);
}

// By hand: 200 requests to 20 items of 64 tokens, two blocks each. Token by token there is nothing to
// commit.
TEST(forecast, tasks_are_asked_as_often_as_requests_arrive) {
  experiment_spec spec = read_spec(experiments() / "serving.toml");
  apply_override(spec, "run.device=cpu");
  const auto points = plan_of(spec);
  ASSERT_EQ(points.size(), 16u);
  for (const experiment_point& p : points) {
    const point_forecast f = of(spec, p);
    EXPECT_EQ(f.items, 200);
    EXPECT_EQ(f.forwards, p.method == "autoregressive" ? 200 * (64 + 1) : 200 * (64 + 2 + 1));
    EXPECT_FALSE(f.on_gpu);
    EXPECT_TRUE(std::isnan(f.gpu_hours));
  }
  const plan_forecast sum = forecast_of(spec, points, ceilings_of("h100"));
  EXPECT_EQ(sum.answers.text(), "3200");
  EXPECT_EQ(sum.hours_text(), "none");
  ASSERT_EQ(sum.reasons().size(), 1u);
  EXPECT_EQ(sum.reasons().front().substr(0, 24), "16 points: on cpu, so no");
}

// By hand, SDAR-8B in bfloat16: 8190735360 weights of 2 bytes. 64 places of 2048 + 256 positions, whole pages
// of 64, at 36 layers x 8 heads x 128 x 2 x 2 bytes. 4096 rows, as many as a prefill takes and as 64 blocks
// with the next ones, of 16384 bytes of residual and as many of the final norm, 12288 of Q, K and V, 8192 of
// attention, 8192 of a norm and 3 x 24576 of the feed-forward; FOCUS has the first three twice.
TEST(forecast, memory_is_weights_kept_keys_and_the_widest_forward) {
  experiment_spec spec = read_spec(experiments() / "focus/figure_6.toml", "shapes");
  apply_override(spec, "run.format=bf16");
  const auto points = plan_of(spec);
  const point_forecast f = of(spec, find(points, "LMDeploy", "batch_size=64"));
  ASSERT_TRUE(f.memory_known);
  EXPECT_FALSE(f.memory_guessed);
  EXPECT_DOUBLE_EQ(f.memory.weights, 2 * 8190735360.0);
  EXPECT_DOUBLE_EQ(f.memory.kept, 64.0 * 2304 * 147456);
  EXPECT_DOUBLE_EQ(f.memory.activations, 4096.0 * (2 * 16384 + 12288 + 2 * 8192 + 3 * 24576));
  const point_forecast focus = of(spec, find(points, "FOCUS", "batch_size=64"));
  EXPECT_DOUBLE_EQ(focus.memory.activations - f.memory.activations,
                   4096.0 * (16384 + 12288 + 8192));
  // 256 places of SDAR-8B need 87 GB for keys and values alone, those of LLaDA2 seven times less.
  const plan_forecast sum = forecast_of(spec, points, ceilings_of("h100"));
  EXPECT_EQ(sum.memory_text(), "106.2 of 79 GB; 4 points too large");
  EXPECT_EQ(forecast_of(spec, points, ceilings_of("h200")).beyond_card, 0u);
}

// The pool that a loop would make: three answers of 95 positions behind a token, in float32.
TEST(forecast, kept_memory_is_the_pool_of_pages) {
  experiment_spec spec = ten_requests("arrivals = \"closed\"\n");
  apply_override(spec, "run.batch_size=3");
  const experiment_point p = plan_of(spec).at(0);
  const model_config model = read_model_config(p.model.path);
  const kv_cache pool(reference_backend(), model, {96, 0}, 3, 0, dtype::f32);
  EXPECT_DOUBLE_EQ(of(spec, p).memory.kept,
                   static_cast<double>(pool.page_bytes()) * pool.pages() * model.layers);
}

// LLaDA-8B in float32 has 8015581184 weights, 126464 x 4096 of them the embedding in bfloat16. dLLM-Cache
// packs Q and K apart once more, and keeps two outputs of 4096 of each layer but the first beside K and V of
// 4096: four places of two pages.
TEST(forecast, memory_has_the_outputs_of_layers_that_a_method_keeps) {
  const experiment_spec spec = parse_spec(
      "kind = \"serve\"\n[run]\nbatch_size = 4\ngen_length = 64\n"
      "[[model]]\npath = \"shapes/llada-8b\"\nweights = \"random:0\"\n"
      "[[workload]]\nlengths = \"sdar-8b/sharegpt\"\n[[method]]\nname = \"dllm_cache\"\n"
      "[serve]\nmax_prompt_tokens = 1\nrequests = 10\narrivals = \"closed\"\n",
      experiments() / "x.toml");
  const point_forecast f = of(spec, plan_of(spec).at(0));
  ASSERT_TRUE(f.memory_known) << f.unknown;
  const double table = 126464.0 * 4096;
  EXPECT_DOUBLE_EQ(f.memory.weights,
                   4 * (8015581184.0 - table) + 2 * table + 4 * 32 * 12288.0 * 4096);
  EXPECT_DOUBLE_EQ(f.memory.kept, 4 * 128 * (32 + 31) * 2 * 4096.0 * 4);
}

// An hour at 0.5, 1 and 2 requests a second, give or take four deviations of Poisson's. Half an hour at
// 0.5 and 4.9 was served already: 913 and 8777 requests.
TEST(forecast, arrivals_last_as_long_as_the_virtual_clock) {
  const experiment_spec spec = read_spec(experiments() / "serving_virtual.toml");
  for (const experiment_point& p : plan_of(spec)) {
    const double expected = 3600 * parameters(p.run.serve).real("rate");
    const point_forecast f = of(spec, p);
    EXPECT_NEAR(f.items, expected, 4 * std::sqrt(expected));
    EXPECT_NEAR(f.generated, 321 + 16, 3 * 214 / std::sqrt(expected));
    EXPECT_FALSE(f.on_gpu);
    EXPECT_NE(f.no_hours, "");
  }
  const experiment_spec half = read_spec(experiments() / "optimus/figure_11.toml", "shapes");
  const auto points = plan_of(half);
  EXPECT_EQ(of(half, find(points, "Optimus", "rate=0.5")).items, 913);
  EXPECT_EQ(of(half, find(points, "Optimus", "rate=4.9")).items, 8777);
}

// A search chooses its own rates. On a wall clock it takes at least 3 x 4 + 1 times ten minutes.
TEST(forecast, what_a_search_will_ask_is_unknown) {
  const experiment_spec spec = read_spec(experiments() / "serving_capacity.toml");
  const plan_forecast sum = forecast_of(spec, plan_of(spec), ceilings_of("h100"));
  EXPECT_EQ(sum.answers.text(), "unknown");
  EXPECT_EQ(sum.forwards.text(), "unknown");
  const experiment_spec full = read_spec(experiments() / "optimus/figure_13.toml", "full");
  const point_forecast f = of(full, plan_of(full).at(0));
  EXPECT_TRUE(std::isnan(f.items));
  EXPECT_TRUE(f.at_least);
  EXPECT_DOUBLE_EQ(f.gpu_hours, 13.0 / 6);
}

// A trace that is not here: as many requests as [serve] says, of unknown lengths.
TEST(forecast, a_file_that_is_missing_is_unknown_and_not_nothing) {
  const auto lacks = [](const std::string& serve) {
    const experiment_spec spec = parse_spec(
        "kind = \"serve\"\n[[model]]\npath = \"shapes/sdar-8b\"\nweights = \"random:0\"\n"
        "[[workload]]\ntrace = \"/nowhere/x.csv\"\nformat = \"lengths\"\n"
        "[[method]]\nname = \"block_diffusion\"\n[serve]\n" +
            serve,
        experiments() / "x.toml");
    return of(spec, plan_of(spec).at(0));
  };
  EXPECT_EQ(lacks("requests = 7\n").items, 7);
  EXPECT_TRUE(std::isnan(lacks("requests = 7\n").forwards));
  const point_forecast f = lacks("requests = 0\narrivals = \"trace\"\n");
  EXPECT_TRUE(std::isnan(f.items));
  EXPECT_TRUE(std::isnan(f.generated));
  EXPECT_NE(f.unknown.find("not here"), std::string::npos) << f.unknown;
}

// What it cannot decode its row will say: the forecast takes the bounds that need no recipe, and its memory
// is what the method itself refuses.
TEST(forecast, a_method_that_cannot_decode_the_model_is_still_forecast) {
  std::size_t refused = 0;
  for (const char* model : {"tiny-llada", "tiny-dream", "tiny-sdar", "tiny-llada2", "tiny-ar"}) {
    for (const std::string& method : method_registry::instance().names()) {
      SCOPED_TRACE(method + " on " + model);
      const experiment_spec spec = parse_spec(
          "[run]\nwarmup = 0\nrepetitions = 1\ngen_length = 64\n[[model]]\npath = \"models/" +
              std::string(model) +
              "\"\n[[workload]]\nfile = \"data/word_problem.jsonl\"\nlimit = 2\n[[method]]\n"
              "name = \"" +
              method + "\"\n",
          experiments() / "x.toml");
      const experiment_point point = plan_of(spec).at(0);
      const point_forecast f = of(spec, point);
      EXPECT_EQ(f.items, 2);
      EXPECT_GT(f.forwards, 0);
      const method_info& m = method_registry::instance().find(method);
      const std::string refusal = message_of(
          [&] { m.check(read_model_config(point.model.path), parameters(point.params)); });
      EXPECT_EQ(f.memory_known, refusal.empty());
      if (refusal.empty()) continue;
      EXPECT_EQ(f.unknown, refusal);
      ++refused;
    }
  }
  EXPECT_GT(refused, 40u);
}

TEST(forecast, a_sum_says_what_is_missing_of_it) {
  partial_sum sum;
  EXPECT_EQ(sum.text(), "0");
  sum.add(12);
  EXPECT_EQ(sum.text(), "12");
  sum.add(std::nan(""));
  EXPECT_EQ(sum.text(), "at least 12; 1 point unknown");
  sum.add(std::nan(""));
  EXPECT_EQ(sum.text(), "at least 12; 2 points unknown");
  partial_sum nothing;
  nothing.add(std::nan(""));
  EXPECT_EQ(nothing.text(), "unknown");
  nothing.add(sum);
  EXPECT_EQ(nothing.text(), "at least 12; 3 points unknown");
}

// The same plan has hours of a GPU on a GPU, and none on a processor.
TEST(forecast, only_a_gpu_has_hours_of_a_gpu) {
  experiment_spec spec = read_spec(experiments() / "quickstart.toml");
  apply_override(spec, "run.device=cuda");
  const plan_forecast on = forecast_of(spec, plan_of(spec), ceilings_of("h100"));
  EXPECT_EQ(on.gpu_hours.points, on.points);
  EXPECT_GT(on.gpu_hours.known, 0);
  apply_override(spec, "run.device=cpu");
  const plan_forecast off = forecast_of(spec, plan_of(spec), ceilings_of("h100"));
  EXPECT_EQ(off.gpu_hours.points, 0u);
  EXPECT_EQ(off.hours_text(), "none");
  EXPECT_EQ(off.answers.text(), on.answers.text());
}

}  // namespace
}  // namespace unmask
