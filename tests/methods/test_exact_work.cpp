// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The work of every method on fixed prompts of the embedded models, frozen: forwards, rows, keys
// and FLOPs are counted, and portable kernels decide alike everywhere, so they are the same on
// every machine, and a change of any of them is a change of a method. cases.json in a method's folder
// holds one line per model; a run that differs prints the lines that it found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/base/ranks/shots.h"
#include "harness/decode/counters.h"
#include "harness/decode/kernels/features.h"
#include "harness/decode/registry.h"
#include "harness/devices/environment.h"
#include "harness/measure/point.h"
#include "harness/model/config.h"
#include "harness/run/runner.h"
#include "kernels/attention.h"
#include "kernels/head.h"
#include "kernels/selection.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/d2cache/kernels/rollout.h"
#include "tests/methods/cases.h"
#include "tests/methods/tiny_models.h"
#include "tests/rank_threads.h"

namespace unmask {
namespace {

using testing::json;
namespace fs = std::filesystem;

const std::string source = UNMASK_SOURCE_DIR;

// Methods that would ask the clock of this machine have settings that leave nothing to ask, and those
// that leave out a part of a longer answer some that leave it out of this one.
std::string experiment(const std::vector<std::string>& models,
                       const std::vector<std::string>& methods,
                       const std::map<std::string, json>& cases, int ranks = 1, int pieces = 0) {
  std::string text =
      "title = \"exact work\"\n[run]\nwarmup = 0\nrepetitions = 1\n"
      "batch_size = 2\ngen_length = 32\nisa = \"portable\"\ndevice = \"cpu\"\nranks = " +
      std::to_string(ranks) + "\npieces = " + std::to_string(pieces) + "\n";
  for (const std::string& model : models) text += "[[model]]\npath = \"" + model + "\"\n";
  text +=
      "[[workload]]\nfile = \"" + source + "/experiments/data/word_problem.jsonl\"\nlimit = 3\n";
  for (const std::string& name : methods) {
    text += "[[method]]\nname = \"" + name + "\"\n";
    const auto of = cases.find(name);
    if (of == cases.end()) continue;
    for (const json& setting : of->second.value("settings", json::array())) {
      text += setting.get<std::string>() + "\n";
    }
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

// By method and model, so that a line is found by what it is of.
using of_model = std::pair<std::string, std::string>;

std::map<of_model, json> frozen(const std::map<std::string, json>& cases) {
  std::map<of_model, json> lines;
  for (const auto& [method, work] : cases) {
    for (const json& line : work.at("rows")) {
      lines[{method, line.at("model").get<std::string>()}] = line;
    }
  }
  return lines;
}

json line_of(const result_row& row) {
  json line = {{"model", row.model.name}, {"answers", row.answers_hash}};
  for (const counter_spec& c : counter_list()) line[c.metric] = *row.value_of(c.metric);
  return line;
}

std::vector<result_row> rows_of(const std::string& text, const scratch_folder& out) {
  run_options options;
  options.output = out.path();
  options.progress = false;
  return run_experiment(parse_spec(text, "exact_work.toml"), options).rows;
}

TEST(exact_work, every_method_does_the_work_that_it_did) {
  const scratch_folder out;
  const std::string models = source + "/experiments/models/";
  const auto run = [&](const std::string& text) { return rows_of(text, out); };
  const std::map<std::string, json> cases = testing::all_cases("exact_work");
  const std::map<of_model, json> wanted = frozen(cases);
  std::vector<result_row> rows =
      run(experiment({models + "tiny-llada", models + "tiny-sdar", models + "tiny-ar"},
                     method_registry::instance().names(), cases));
  std::vector<std::string> in_shifted_blocks;
  for (const auto& [of, line] : wanted) {
    if (of.second == "tiny-ar-blocks") in_shifted_blocks.push_back(of.first);
  }
  for (result_row& row : run(experiment({shifted_blocks(out.path())}, in_shifted_blocks, cases))) {
    rows.push_back(std::move(row));
  }
  std::map<std::string, std::string> found;
  std::size_t decoded = 0;
  for (const result_row& row : rows) {
    if (row.verdict == row_verdict::not_supported) continue;
    const std::string key = row.method + " on " + row.model.name;
    ASSERT_TRUE(is_reportable(row)) << key << ": " << row.reason;
    const json line = line_of(row);
    found[testing::cases_file(row.method)] += row.method + ": " + line.dump() + "\n";
    ++decoded;
    const auto frozen_line = wanted.find({row.method, row.model.name});
    EXPECT_TRUE(frozen_line != wanted.end()) << key << " is not frozen: add " << line.dump()
                                             << " to " << testing::cases_file(row.method);
    if (frozen_line == wanted.end()) continue;
    const json& golden = frozen_line->second;
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
    EXPECT_TRUE(
        std::ranges::any_of(wanted, [&](const auto& line) { return line.first.first == name; }))
        << name << " is not frozen";
  }
  if (!HasFailure()) return;
  for (const auto& [file, lines] : found) ADD_FAILURE() << file << " would hold now:\n" << lines;
}

result_row row_of(const experiment_point& p, prepared_point& ready) {
  result_row row;
  row.method = p.method;
  row.run = p.run;
  row.model = ready.model();
  row.workload = ready.workload();
  measured_point measured;
  measured.rules = ready.rules();
  measured.first_late_layer = ready.first_late_layer();
  measured.passes.push_back(ready.pass());
  measure_row(row, measured);
  return row;
}

// ---- what sums over heads and the head of the model send, by what each operation finds ----

struct traffic_of_heads {
  double calls = 0, bytes = 0;
  bool over_heads = false;  // some of it
};
traffic_of_heads of_rank_0;

// Numbers of float64 that a rank receives of one other.
void note_numbers(double numbers, bool over_heads) {
  const rank_group* ranks = current_ranks();
  if (numbers == 0 || ranks == nullptr || ranks->rank() != 0) return;
  ++of_rank_0.calls;
  of_rank_0.bytes += 8 * numbers;
  of_rank_0.over_heads |= over_heads;
}
// With a mean or a sum travels the number of heads.
double with_heads(double numbers) {
  return numbers > 0 ? numbers + 1 : 0;
}
double keys_of(const key_set& keys, std::int64_t sequences) {
  if (keys.key_begin != nullptr) return keys.key_begin[sequences];
  return std::accumulate(keys.kv_length, keys.kv_length + sequences, 0.0);
}

// Masked rows that are listed; listed keys; keys with a mass; a row of weights for each computed row; query
// blocks of all places; three products of each row that is compared.
double numbers_of(const op::importance& o) {
  return with_heads(o.begin[o.sequences]);
}
double numbers_of(const op::key_scores& o) {
  return with_heads(keys_of(o.keys, o.q.rows()));
}
double numbers_of(const op::attention& o) {
  return o.key_mass.data == nullptr ? 0 : with_heads(keys_of(o.keys, o.rows.sequences));
}
double numbers_of(const op::mean_attention& o) {
  return with_heads(static_cast<double>(o.rows.rows * o.weight.columns()));
}
double numbers_of(const op::block_mask_keys& o) {
  return with_heads(static_cast<double>(o.keep.shape[0] * o.keep.shape[2]));
}
double numbers_of(const op::row_distance& o) {
  return 3 * static_cast<double>(o.a.rows());
}
// A state of 48 bytes of each candidate; logits of half of the vocabulary, and four bytes of each row's sum.
double numbers_of(const op::confidence& o) {
  return as_cut(o.head) == nullptr ? 0 : 6.0 * o.candidates.count;
}
double numbers_of(const op::logits& o) {
  if (as_cut(o.head) == nullptr) return 0;
  return static_cast<double>(o.out.rows() * (o.head.out_features + 2)) / 4;
}

template <class P>
typename detail::bodies<P>::body own_body = nullptr;
template <class P>
void counted(const backend& with, const P& args) {
  note_numbers(
      numbers_of(args), requires { args.over_heads(); });
  (own_body<P> != nullptr ? own_body<P> : detail::bodies<P>::of[0])(with, args);
}
// Its bodies count what they send while this lives.
template <class... P>
class counted_sums {
 public:
  counted_sums() {
    static_assert(static_cast<std::size_t>(target::reference) == 0);
    ((own_body<P> = testing::replace_body<P>(target::cpu, counted<P>)), ...);
  }
  ~counted_sums() { (testing::replace_body<P>(target::cpu, own_body<P>), ...); }
  counted_sums(const counted_sums&) = delete;
  counted_sums& operator=(const counted_sums&) = delete;
};

struct counted_row {
  result_row row;
  traffic_of_heads heads;
};

// Every method on two ranks, which are threads here; what rank 0 finds.
std::vector<counted_row> rows_of_two_ranks(const experiment_spec& spec) {
  const counted_sums<op::importance, op::key_scores, op::attention, op::mean_attention,
                     op::block_mask_keys, op::row_distance, op::confidence, op::logits>
      count;
  std::vector<counted_row> rows;
  const auto threw = test::on_ranks(2, [&](rank_group& group) {
    const fewer_threads one(1);
    const std::unique_ptr<executor> with = make_executor();
    for (const auto& points : interleaved_groups(make_plan(spec, with->methods()), false)) {
      std::vector<preparation> ready = with->prepare(points);
      for (std::size_t i = 0; i < points.size(); ++i) {
        if (!ready[i].point) continue;
        if (group.rank() == 0) of_rank_0 = {};
        result_row row = row_of(points[i], *ready[i].point);
        if (group.rank() == 0) rows.push_back({std::move(row), of_rank_0});
      }
    }
  });
  EXPECT_EQ(threw, std::vector<std::string>(2));
  return rows;
}

// Answers, rows, keys and FLOPs are the model's, however many ranks compute it. What they send follows
// from the rows: two sums a layer of float32 rows, which two ranks send whole, and of sums over heads and of
// the model's head what numbers_of() says. FreeDave orders its drafts by confidences that are 1 to the last bits of float32, and a head
// in pieces adds its sums in another order: two ranks do what one process does with two pieces.
TEST(exact_work, two_ranks_do_the_work_of_one) {
  const std::map<std::string, json> cases = testing::all_cases("exact_work");
  std::map<of_model, json> wanted = frozen(cases);
  const std::string models = source + "/experiments/models/";
  const scratch_folder out;
  for (const result_row& row :
       rows_of(experiment({models + "tiny-sdar"}, {"freedave"}, cases, 1, 2), out)) {
    wanted.at({row.method, row.model.name}) = line_of(row);
  }
  const std::string text =
      experiment({models + "tiny-llada", models + "tiny-sdar", models + "tiny-ar"},
                 method_registry::instance().names(), cases, 2);
  std::size_t compared = 0, over_heads = 0;
  for (const auto& [row, heads] : rows_of_two_ranks(parse_spec(text, "exact_work.toml"))) {
    const auto line = wanted.find({row.method, row.model.name});
    ASSERT_TRUE(line != wanted.end()) << row.method << " on " << row.model.name;
    SCOPED_TRACE(row.method + " on " + row.model.name);
    ++compared;
    EXPECT_EQ(row.answers_hash, line->second.at("answers"));
    for (const counter_spec& c : counter_list()) {
      // Keys that a method's heads see are a mean over them, in float32.
      const double value = *row.value_of(c.metric), want = line->second.value(c.metric, 0.0);
      EXPECT_NEAR(value, want, c.counted() ? 0 : 1e-6 * std::abs(want)) << c.metric;
    }
    const model_config c = read_model_config(models + row.model.name);
    const double passed = *row.value_of("layer_rows") + *row.value_of("feed_forward_rows");
    EXPECT_EQ(*row.value_of("sum_bytes"), bytes_in_one_shot(c.hidden * passed, 4, 2) + heads.bytes);
    EXPECT_EQ(*row.value_of("sum_calls"),
              2.0 * c.layers * *row.value_of("batched_forwards") + heads.calls);
    over_heads += heads.over_heads ? 1 : 0;
  }
  const auto of_shifted = [](const auto& line) { return line.first.second == "tiny-ar-blocks"; };
  EXPECT_EQ(compared, wanted.size() - std::ranges::count_if(wanted, of_shifted));
  EXPECT_GE(over_heads, 6U);
}

TEST(exact_work, a_frozen_line_holds_counters_and_nothing_else) {
  std::set<std::string> known = {"model", "answers"};
  for (const counter_spec& c : counter_list()) known.insert(c.metric);
  for (const auto& [of, line] : frozen(testing::all_cases("exact_work"))) {
    for (const auto& [name, value] : line.items()) {
      EXPECT_TRUE(known.contains(name)) << of.first << " on " << of.second << ": " << name;
    }
  }
}

}  // namespace
}  // namespace unmask
