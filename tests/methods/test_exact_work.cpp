// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The work of every method on fixed prompts of the embedded models, frozen: forwards, rows, keys
// and FLOPs are counted, and portable kernels decide alike everywhere, so they are the same on
// every machine, and a change of any of them is a change of a method. exact_work.jsonl beside this
// file holds one line per method and model; a run that differs prints the lines that it found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/decode/counters.h"
#include "harness/decode/registry.h"
#include "harness/run/runner.h"

namespace unmask {
namespace {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// Methods that would ask the clock of this machine get a setting that leaves nothing to ask, and those
// that leave out a part of a longer answer one that leaves it out of this one.
const std::map<std::string, std::string> fixed = {
    {"optimus", "params.chunk = 8\n"},
    {"focus_chunks", "params.chunk = 8\n"},
    {"dpad", "params.block_length = 8\nparams.window = 16\n"},
    {"d2cache", "params.current_k = 8\n"},
    {"streaming_dllm", "params.block_length = 8\nparams.window_size = 6\n"},
    {"fast_dllm_v2", "params.sub_block_length = 4\nparams.sub_block_cache = true\n"}};

const std::string source = UNMASK_SOURCE_DIR;

std::string experiment(const std::vector<std::string>& models,
                       const std::vector<std::string>& methods) {
  std::string text =
      "title = \"exact work\"\n[run]\nwarmup = 0\nrepetitions = 1\n"
      "batch_size = 2\ngen_length = 32\nisa = \"portable\"\n";
  for (const std::string& model : models) text += "[[model]]\npath = \"" + model + "\"\n";
  text +=
      "[[workload]]\nfile = \"" + source + "/experiments/data/word_problem.jsonl\"\nlimit = 3\n";
  for (const std::string& name : methods) {
    const auto setting = fixed.find(name);
    text +=
        "[[method]]\nname = \"" + name + "\"\n" + (setting == fixed.end() ? "" : setting->second);
  }
  return text;
}

// No embedded model is block-causal with shifted logits: tiny-ar, said to be one. Returns its folder.
std::string shifted_blocks(const fs::path& in) {
  const fs::path from = source + "/experiments/models/tiny-ar", folder = in / "tiny-ar-blocks";
  fs::create_directory(folder);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    if (entry.path().filename() != "config.json") {
      fs::create_symlink(entry.path(), folder / entry.path().filename());
    }
  }
  json config = json::parse(read_file(from / "config.json", std::size_t{1} << 20));
  config.update({{"attention", "block_causal"}, {"block_size", 8}, {"mask_token_id", 1023}});
  std::ofstream(folder / "config.json") << config;
  return folder.string();
}

std::map<std::string, json> frozen() {
  std::ifstream file(source + "/tests/methods/exact_work.jsonl");
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
  const std::string models = source + "/experiments/models/";
  const auto run = [&](const std::string& text) {
    return run_experiment(parse_spec(text, "exact_work.toml"), options).rows;
  };
  std::vector<result_row> rows =
      run(experiment({models + "tiny-llada", models + "tiny-sdar", models + "tiny-ar"},
                     method_registry::instance().names()));
  for (result_row& row : run(experiment({shifted_blocks(out.path())}, {"fast_dllm_v2"}))) {
    rows.push_back(std::move(row));
  }
  const std::map<std::string, json> wanted = frozen();
  std::string found;
  std::size_t decoded = 0;
  for (const result_row& row : rows) {
    if (row.verdict == row_verdict::not_supported) continue;
    const std::string key = row.method + " on " + row.model.name;
    ASSERT_TRUE(is_reportable(row)) << key << ": " << row.reason;
    json line = {{"method", row.method}, {"model", row.model.name}, {"answers", row.answers_hash}};
    for (const counter_spec& c : counter_list()) line[c.metric] = *row.value_of(c.metric);
    found += line.dump() + "\n";
    ++decoded;
    EXPECT_TRUE(wanted.contains(key)) << key << " is not frozen: add " << line.dump();
    if (!wanted.contains(key)) continue;
    const json& golden = wanted.at(key);
    EXPECT_EQ(row.answers_hash, golden.at("answers")) << key;
    for (const counter_spec& c : counter_list()) {
      // A counter that is younger than its line counted nothing then.
      const double value = *row.value_of(c.metric), want = golden.value(c.metric, 0.0);
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
  if (HasFailure()) ADD_FAILURE() << "tests/methods/exact_work.jsonl would hold now:\n" << found;
}

TEST(exact_work, a_frozen_line_holds_counters_and_nothing_else) {
  std::set<std::string> known = {"method", "model", "answers"};
  for (const counter_spec& c : counter_list()) known.insert(c.metric);
  for (const auto& [key, line] : frozen()) {
    for (const auto& [name, value] : line.items()) {
      EXPECT_TRUE(known.contains(name)) << key << ": " << name;
    }
  }
}

}  // namespace
}  // namespace unmask
