// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The work of every method on fixed prompts of the embedded models, frozen: forwards, rows, keys
// and FLOPs are counted, and portable kernels decide alike everywhere, so they are the same on
// every machine, and a change of any of them is a change of a method. exact_work.jsonl beside this
// file holds one line per method and model; a run of this test writes its own lines into
// exact_work.jsonl of the current directory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/decode/counters.h"
#include "harness/decode/registry.h"
#include "harness/experiment/runner.h"

namespace unmask {
namespace {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Methods that would ask the clock of this machine get a setting that leaves nothing to ask, and one
// that drops what lies behind a block gets several blocks.
const std::map<std::string, std::string> fixed = {
    {"optimus", "params.chunk = 8\n"},
    {"focus_chunks", "params.chunk = 8\n"},
    {"dpad", "params.block_length = 8\nparams.window = 16\n"}};

std::string experiment() {
  const std::string source = UNMASK_SOURCE_DIR;
  std::string text =
      "title = \"exact work\"\n[run]\nwarmup = 0\nrepetitions = 1\n"
      "batch_size = 2\ngen_length = 32\nisa = \"portable\"\n";
  for (const char* model : {"tiny-llada", "tiny-sdar", "tiny-ar"}) {
    text += "[[model]]\npath = \"" + source + "/experiments/models/" + model + "\"\n";
  }
  text +=
      "[[workload]]\nfile = \"" + source + "/experiments/data/word_problem.jsonl\"\nlimit = 3\n";
  for (const std::string& name : method_registry::instance().names()) {
    const auto setting = fixed.find(name);
    text +=
        "[[method]]\nname = \"" + name + "\"\n" + (setting == fixed.end() ? "" : setting->second);
  }
  return text;
}

std::map<std::string, json> frozen() {
  std::ifstream file(std::string(UNMASK_SOURCE_DIR) + "/tests/methods/exact_work.jsonl");
  std::map<std::string, json> lines;
  for (std::string line; std::getline(file, line);) {
    json one = json::parse(line);
    const std::string key =
        one.at("method").get<std::string>() + " on " + one.at("model").get<std::string>();
    lines[key] = std::move(one);
  }
  return lines;
}

TEST(exact_work, every_method_does_the_work_that_it_did) {
  const scratch_folder out;
  run_options options;
  options.output = out.path();
  options.progress = false;
  const run_summary run = run_experiment(parse_spec(experiment(), "exact_work.toml"), options);
  const std::map<std::string, json> wanted = frozen();
  std::ofstream found("exact_work.jsonl");
  std::size_t decoded = 0;
  for (const result_row& row : run.rows) {
    if (row.verdict == verdict_kind::not_supported) continue;
    const std::string key = row.method + " on " + row.model.name;
    ASSERT_TRUE(is_reportable(row)) << key << ": " << row.reason;
    json line = {{"method", row.method}, {"model", row.model.name}, {"answers", row.answers_hash}};
    for (const counter_spec& c : counter_list()) line[c.metric] = *row.value_of(c.metric);
    found << line.dump() << "\n";
    ++decoded;
    EXPECT_TRUE(wanted.contains(key)) << key << " is not frozen: add " << line.dump();
    if (!wanted.contains(key)) continue;
    const json& golden = wanted.at(key);
    EXPECT_EQ(row.answers_hash, golden.at("answers")) << key;
    for (const counter_spec& c : counter_list()) {
      if (!golden.contains(c.metric)) continue;  // a counter younger than the file
      const double value = *row.value_of(c.metric), want = golden.at(c.metric);
      // Sums of reals may differ in their last bits from compiler to compiler.
      EXPECT_NEAR(value, want, c.counted() ? 0 : 1e-9 * std::abs(want)) << key << " " << c.metric;
    }
  }
  EXPECT_EQ(decoded, wanted.size());
  for (const std::string& name : method_registry::instance().names()) {
    EXPECT_TRUE(std::ranges::any_of(
        wanted, [&](const auto& line) { return line.second.at("method") == name; }))
        << name << " is not frozen";
  }
}

}  // namespace
}  // namespace unmask
