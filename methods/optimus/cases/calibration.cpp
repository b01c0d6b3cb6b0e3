// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The latency profile that Optimus takes before its first timed pass: what is asked of the clock,
// what becomes of the answers, and what the row of a run says about it.
#include <gtest/gtest.h>

#include <cmath>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "harness/run/runner.h"
#include "methods/optimus/latency_model.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using nlohmann::json;

parameters optimus(const parameter_map& given) {
  const method_info& m = method_registry::instance().find("optimus");
  return parameters(resolve_parameters("optimus", m.parameters, given));
}

// Times of a machine with a floor and two knees, which lie where the fit looks for them: at the
// geometric midpoints of neighbouring row counts of the profile.
double planted(double rows) {
  const double first = std::sqrt(64.0 * 96), second = std::sqrt(256.0 * 384);
  return 1e-3 + 1e-6 * std::min(rows, first) +
         1e-5 * std::clamp(rows - first, 0.0, second - first) + 4e-5 * std::max(rows - second, 0.0);
}

TEST(optimus_calibration, fits_what_the_clock_says) {
  const method_info& m = method_registry::instance().find("optimus");
  model_config model = testing::tiny_config(model_family::sdar);
  model.block = 32;
  std::vector<std::int64_t> blocks;
  std::vector<std::int32_t> batches;
  const step_timer timer = [&](const parameter_map& given, const std::vector<std::int32_t>& n) {
    const std::int64_t block = std::get<std::int64_t>(given.at("block_length"));
    blocks.push_back(block);
    batches = n;
    m.check(model, optimus(given));
    std::vector<step_time> times;
    for (const std::int32_t b : n) times.push_back({b, b * block, planted(double(b * block))});
    return times;
  };
  const auto learnt = m.calibrate(model, optimus({}), 24, timer);
  ASSERT_TRUE(learnt);
  EXPECT_EQ(blocks, (std::vector<std::int64_t>{2, 4, 8, 16, 24, 32}));
  EXPECT_EQ(batches, (std::vector<std::int32_t>{1, 2, 4, 8, 16, 24}));

  const auto samples = parse_latency_samples(
      "optimus", std::get<std::string>(learnt->settings.at("latency_samples")));
  EXPECT_EQ(samples.size(), 36u);
  const latency_model fitted = latency_model::pwl3(samples, true);
  EXPECT_EQ(fitted.report().kind, "pwl3");
  for (const double rows : {2.0, 40.0, 100.0, 500.0, 1000.0}) {
    EXPECT_NEAR(fitted.seconds(rows), planted(rows), 1e-6 * planted(rows)) << rows;
  }
  const json report = json::parse(learnt->report);
  EXPECT_EQ(report["fit"], "pwl3");
  EXPECT_LT(report["mape"].get<double>(), 1e-6);
  EXPECT_EQ(report["knots"].size(), 2u);
  EXPECT_EQ(report["samples"].size(), 36u);
  EXPECT_EQ(report["samples"][35]["rows"], 24 * 32);
  // A second calibration of settings that hold samples has nothing to learn.
  parameter_map filled = learnt->settings;
  EXPECT_FALSE(m.calibrate(model, optimus(filled), 24, timer));
}

TEST(optimus_calibration, only_an_automatic_elastic_scheduler_asks) {
  const method_info& m = method_registry::instance().find("optimus");
  const model_config model = testing::tiny_config(model_family::sdar);
  const step_timer never = [](const parameter_map&, const std::vector<std::int32_t>&) {
    ADD_FAILURE() << "nothing is to be measured";
    return std::vector<step_time>{};
  };
  for (const parameter_map& given : std::vector<parameter_map>{{{"chunk", 4}},
                                                               {{"policy", "prefix_caching"}},
                                                               {{"latency", "roofline"}},
                                                               {{"latency_samples", "8:0.001"}}}) {
    EXPECT_FALSE(m.calibrate(model, optimus(given), 8, never));
  }
}

// A run measures before its first pass, says so in the row, keeps the point's id, and asks the
// machine once: the second point of the run has the very same samples.
TEST(optimus_calibration, a_run_measures_once_and_says_so) {
  const scratch_folder out;
  const std::string root = UNMASK_SOURCE_DIR;
  const experiment_spec spec = parse_spec(
      "title = \"t\"\n[run]\ngen_length = 32\nwarmup = 0\nrepetitions = 2\nbatch_size = 2\n"
      "[[model]]\npath = \"" +
          root +
          "/experiments/models/tiny-sdar\"\n"
          "[[workload]]\nfile = \"" +
          root +
          "/experiments/data/equation.jsonl\"\nlimit = 2\n"
          "[[method]]\nname = \"optimus\"\nlabel = \"a\"\n"
          "[[method]]\nname = \"optimus\"\nlabel = \"b\"\nparams.hysteresis = 0.02\n"
          "[[method]]\nname = \"optimus\"\nlabel = \"c\"\nparams.chunk = 8\n",
      "x.toml");
  run_options options;
  options.output = out.path();
  options.progress = false;
  const run_summary summary = run_experiment(spec, options);
  ASSERT_EQ(summary.rows.size(), 3u);
  std::vector<std::string> samples;
  for (const result_row& row : summary.rows) {
    EXPECT_TRUE(is_reportable(row)) << row.label << " " << row.reason;
    samples.push_back(std::get<std::string>(row.params.at("latency_samples")));
    EXPECT_EQ(row.calibration.empty(), row.label == "c");
    EXPECT_TRUE(row.probes.empty());
    if (row.label == "c") continue;
    const json report = json::parse(row.calibration);
    EXPECT_EQ(report["origin"], "measured");
    EXPECT_EQ(report["samples"].size(), 6u * 3u);  // chunks of 2 to 32 by 1, 2 and 4 requests
    const result_row back = parse_row(to_json_line(row), "here");
    EXPECT_EQ(back.params.at("latency_samples"), row.params.at("latency_samples"));
    EXPECT_EQ(json::parse(back.calibration), report);
  }
  // The rows come in the order in which the points ended; labels tell them apart.
  std::map<std::string, std::string> by_label;
  for (std::size_t i = 0; i < 3; ++i) by_label[summary.rows[i].label] = samples[i];
  EXPECT_EQ(by_label["a"], by_label["b"]);
  EXPECT_FALSE(by_label["a"].empty());
  EXPECT_TRUE(by_label["c"].empty());
  // The same points again are known by their ids, though another measurement would differ.
  const run_summary again = run_experiment(spec, options);
  EXPECT_EQ(again.skipped, 3u);
}

}  // namespace
}  // namespace unmask
