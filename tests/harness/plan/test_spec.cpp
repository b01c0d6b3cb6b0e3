// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <fstream>

#include "harness/plan/spec.h"
#include "tests/harness/plan/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

const std::string valid = R"(
title = "A title"
[run]
batch_size = 2
repetitions.min = 2
repetitions.max = 4
ci_half_width = 0.1
[[model]]
path = "models/tiny-llada"
[[model]]
path = "/abs/other"
name = "big"
weights = "random:7"
[[workload]]
file = "data/a.jsonl"
limit = 3
[[method]]
name = "vanilla"
label = "full"
params.steps = 8
params.threshold = 0.5
models = ["big"]
[sweep]
mode = "zip"
params.threshold = [0.7, 1]
"method.full.steps" = [4, 8]
)";

std::string problem_of(const std::string& toml) {
  return message_of([&] { parse_spec(toml, "dir/x.toml"); });
}

TEST(spec, reads_every_part) {
  const experiment_spec s = parse_spec(valid, "dir/x.toml");
  EXPECT_EQ(s.title, "A title");
  EXPECT_EQ(s.run.batch_size, 2);
  EXPECT_EQ(s.evidence.min_repetitions, 2);
  EXPECT_EQ(s.evidence.max_repetitions, 4);
  ASSERT_EQ(s.models.size(), 2u);
  EXPECT_EQ(s.models[0].path.filename(), "tiny-llada");  // where: see below
  EXPECT_EQ(s.models[0].name, "tiny-llada");
  EXPECT_EQ(s.models[1].path, "/abs/other");
  EXPECT_EQ(s.models[1].weights, "random:7");
  EXPECT_EQ(s.workloads.at(0).name, "a");
  EXPECT_EQ(s.workloads[0].items.limit, 3);
  EXPECT_EQ(s.methods.at(0).label, "full");
  EXPECT_EQ(std::get<std::int64_t>(s.methods[0].params.at("steps")), 8);
  EXPECT_EQ(std::get<double>(s.methods[0].params.at("threshold")), 0.5);
  EXPECT_EQ(s.mode, sweep_mode::zip);
  ASSERT_EQ(s.axes.size(), 2u);  // keys in the order of the alphabet
  EXPECT_EQ(s.axes[0].key, "method.full.steps");
  EXPECT_EQ(s.axes[1].key, "params.threshold");
  EXPECT_EQ(std::get<std::int64_t>(s.axes[1].values[1]), 1);
}

TEST(spec, unknown_keys_name_file_line_key_and_the_nearest) {
  EXPECT_EQ(problem_of("titel = \"x\""),
            "dir/x.toml:1: unknown key 'titel'; did you mean 'title'?");
  EXPECT_EQ(problem_of("[run]\n\nbatchsize = 2"),
            "dir/x.toml:3: unknown key of [run] 'batchsize'; did you mean 'batch_size'?");
  EXPECT_EQ(problem_of("[[method]]\nname = \"a\"\nparam.x = 1"),
            "dir/x.toml:3: unknown key of [method] 'param'; did you mean 'params'?");
  EXPECT_EQ(problem_of("[sweep]\nbatch_sizes = [1]"),
            "dir/x.toml:2: unknown setting 'batch_sizes'; did you mean 'batch_size'?");
}

TEST(spec, wrong_types_and_ranges_name_file_line_and_key) {
  EXPECT_EQ(problem_of("title = 3"), "dir/x.toml:1: `title` takes a string, not integer");
  EXPECT_EQ(problem_of("[run]\nbatch_size = 0"),
            "dir/x.toml:2: `run.batch_size` is 0 but must be from 1 to 1048576");
  EXPECT_EQ(problem_of("[run]\nci_half_width = nan"),
            "dir/x.toml:2: `run.ci_half_width` is nan but must be from 0 to 1");
  EXPECT_EQ(problem_of("[run]\nbatch_size = 1.5"),
            "dir/x.toml:2: `run.batch_size` takes an integer, not floating-point");
  EXPECT_EQ(problem_of("[run]\nrepetitions.min = 5\nrepetitions.max = 4"),
            "dir/x.toml:3: `run.repetitions.max` is 4 but must be from 5 to 100000");
  EXPECT_NE(problem_of("[run]\ndevice = \"gpu\"").find("unknown device 'gpu'"), std::string::npos);
  EXPECT_NE(problem_of("[[model]]\npath=\"m\"\nweights = \"random:18446744073709551616\"")
                .find("a whole number below 2^64"),
            std::string::npos);
  EXPECT_EQ(seed_of_weights("random:18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(seed_of_weights("random:"), std::nullopt);
  EXPECT_EQ(seed_of_weights("random:-1"), std::nullopt);
  EXPECT_NE(problem_of("[[model]]\npath=\"m\"\nweights = \"random\"").find("random:SEED"),
            std::string::npos);
  EXPECT_NE(problem_of("[[model]]\nname = \"m\"").find("needs `path`"), std::string::npos);
  EXPECT_NE(problem_of("[[workload]]\nlimit = 1").find("one of `tasks`"), std::string::npos);
  EXPECT_NE(problem_of("[[method]]\nlabel = \"x\"").find("needs `name`"), std::string::npos);
  EXPECT_NE(problem_of("[[method]]\nname = \"x\"\nparams.a = [1]").find("`method.params.a` takes"),
            std::string::npos);
  EXPECT_NE(problem_of("[sweep]\nmode = \"zipp\"").find("did you mean 'zip'"), std::string::npos);
  EXPECT_NE(problem_of("[sweep]\nseed = []").find("at least one value"), std::string::npos);
  EXPECT_NE(
      problem_of("[sweep]\nmode=\"zip\"\nseed = [1]\nbatch_size = [1, 2]").find("has 1 values"),
      std::string::npos);
  EXPECT_EQ(problem_of("a = ").substr(0, 13), "dir/x.toml:1:");
}

TEST(spec, names_must_be_unique) {
  EXPECT_NE(problem_of("[[method]]\nname=\"a\"\n[[method]]\nname=\"a\"").find("give one a `label`"),
            std::string::npos);
  EXPECT_NE(problem_of("[[model]]\npath=\"x/a\"\n[[model]]\npath=\"y/a\"").find("two models"),
            std::string::npos);
}

TEST(spec, tasks_are_found_beside_the_file_and_not_above_it) {
  scratch_directory dir;
  std::filesystem::create_directories(dir / "experiments/data");
  std::filesystem::create_directories(dir / "experiments/paper");
  std::ofstream(dir / "experiments/data/own_task.jsonl") << "{}\n";
  const std::string text = "[[workload]]\ntasks = [\"own_task\"]\nlimit = 2";
  const experiment_spec s = parse_spec(text, dir / "experiments/table.toml");
  EXPECT_EQ(s.workloads.at(0).file, dir / "experiments/data/own_task.jsonl");
  EXPECT_EQ(s.workloads[0].name, "own_task");
  EXPECT_THROW(parse_spec(text, dir / "experiments/paper/table.toml"), error);
  EXPECT_NE(message_of([&] {
              find_task("own_tsk", dir / "experiments");
            }).find("did you mean 'own_task'?"),
            std::string::npos);
  EXPECT_NE(
      message_of([&] { find_task("../data/own_task", dir / "experiments"); }).find("not a path"),
      std::string::npos);
}

// What comes with the program is found from anywhere, and what is not says where it was looked for.
TEST(spec, a_file_outside_the_tree_finds_what_comes_with_the_program) {
  scratch_directory dir;
  const experiment_spec s =
      parse_spec("[[model]]\npath = \"models/tiny-llada\"\n[[workload]]\ntasks = [\"needle\"]",
                 dir / "mine.toml");
  const std::filesystem::path experiments = std::string(UNMASK_SOURCE_DIR) + "/experiments";
  EXPECT_TRUE(std::filesystem::equivalent(s.models.at(0).path, experiments / "models/tiny-llada"));
  EXPECT_TRUE(
      std::filesystem::equivalent(s.workloads.at(0).file, experiments / "data/needle.jsonl"));
  EXPECT_EQ(parse_spec("[[model]]\npath = \"models/none\"", dir / "mine.toml").models.at(0).path,
            dir / "models/none");  // loading it says that it is not there
  const std::string problem = message_of([&] { find_task("neddle", dir.path()); });
  EXPECT_NE(problem.find("looked in " + dir.path().string()), std::string::npos);
}

TEST(spec, overrides_take_toml_values_or_bare_text) {
  experiment_spec s = parse_spec(valid, "dir/x.toml");
  apply_override(s, "params.threshold=0.25");
  apply_override(s, "run.device=cuda");
  apply_override(s, "repetitions=7");
  EXPECT_EQ(s.evidence.min_repetitions, 7);
  EXPECT_EQ(s.evidence.max_repetitions, 7);
  ASSERT_EQ(s.overrides.size(), 2u);
  EXPECT_EQ(std::get<double>(s.overrides[0].value), 0.25);
  EXPECT_EQ(std::get<std::string>(s.overrides[1].value), "cuda");
  EXPECT_NE(message_of([&] { apply_override(s, "batch_size"); }).find("KEY=VALUE"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { apply_override(s, "batch_sise=2"); }),
            "--set batch_sise=2: unknown setting 'batch_sise'; did you mean 'batch_size'?");
  EXPECT_NE(message_of([&] { apply_override(s, "run.more_items=1001"); }).find("at most 1000"),
            std::string::npos);
  EXPECT_NE(message_of([&] { apply_override(s, "warmup=-1"); }).find("at least 0"),
            std::string::npos);
}

TEST(spec, a_missing_file_is_a_usage_error) {
  EXPECT_NE(message_of([] { read_spec("/nowhere/x.toml"); }).find("/nowhere/x.toml"),
            std::string::npos);
}

TEST(spec, probes) {
  EXPECT_TRUE(parse_spec(valid, "dir/x.toml").probe.names.empty());
  const experiment_spec s = parse_spec(valid +
                                           "[probe]\nnames = [\"decoding\", \"attention\"]\n"
                                           "tau = 0.7\nevery = 2\nlimit = 3\n",
                                       "dir/x.toml");
  EXPECT_EQ(s.probe.names, (std::vector<std::string>{"decoding", "attention"}));
  EXPECT_EQ(s.probe.tau, 0.7);
  EXPECT_EQ(s.probe.every, 2);
  EXPECT_EQ(s.probe.limit, 3);
  const auto problem = [](const std::string& lines) {
    return problem_of(valid + "[probe]\n" + lines);
  };
  EXPECT_NE(problem("names = [\"decodin\"]").find("did you mean 'decoding'"), std::string::npos);
  EXPECT_NE(problem("tau = 0.5").find("needs `names`"), std::string::npos);
  EXPECT_NE(problem("names = [\"decoding\", \"decoding\"]").find("twice"), std::string::npos);
  EXPECT_NE(problem("names = [\"decoding\"]\nevery = 0").find("every"), std::string::npos);
  EXPECT_NE(problem("names = [\"decoding\"]\nfrequency = 1").find("frequency"), std::string::npos);
}

TEST(spec, a_benchmark_names_its_harness_shots_and_trials) {
  const std::string head = "title = \"t\"\n[[model]]\npath = \"m\"\n[[method]]\nname = \"a\"\n";
  const experiment_spec s = parse_spec(head + R"(
[[workload]]
benchmark = "gsm8k"
harness = "OC-S/gsm8k_gen_1dce88_maxoutlen_256"
shots = 2
trials = 3
gen_length = 64
prompt = "one-turn"
[[workload]]
benchmark = "mmlu"
task = "anatomy"
mc_num = 8
)",
                                       "x.toml");
  ASSERT_EQ(s.workloads.size(), 2U);
  EXPECT_EQ(s.workloads[0].name, "gsm8k");
  EXPECT_EQ(s.workloads[0].gen_length, 64);
  EXPECT_EQ(canonical_benchmark(s.workloads[0].benchmark),
            R"({"harness":"OC-S/gsm8k_gen_1dce88_maxoutlen_256","kind":"generate","name":"gsm8k",)"
            R"("prompt":"one-turn","shots":2,"trials":3})");
  EXPECT_EQ(s.workloads[1].name, "mmlu/anatomy");
  EXPECT_EQ(s.workloads[1].benchmark.kind, "likelihood");  // lm-eval's mmlu is choices only
  EXPECT_NE(problem_of(head + "[[workload]]\nbenchmark = \"gsm8\"").find("gsm8k"),
            std::string::npos);
  EXPECT_NE(problem_of(head + "[[workload]]\ntasks = [\"needle\"]\nshots = 2")
                .find("belong to a `benchmark`"),
            std::string::npos);
  EXPECT_NE(problem_of(head + "[[workload]]\nbenchmark = \"gsm8k\"\nkind = \"likelihood\"")
                .find("has no choices"),
            std::string::npos);
}

// The official scripts: LLaDA's takes 128 samples in rounds of 8, and one of MMLU, whose answer is one
// token; Dream's takes 128 in rounds of 32 of all.
TEST(spec, likelihoods_are_drawn_as_the_official_scripts_draw_them) {
  const auto draws = [](const std::string& benchmark, bool dream) {
    const likelihood_draws drawn = draws_of({.name = benchmark}, dream);
    return std::pair(drawn.samples, drawn.rows);
  };
  EXPECT_EQ(draws("arc_c", false), std::pair(std::int64_t{128}, std::int64_t{8}));
  EXPECT_EQ(draws("mmlu", false), std::pair(std::int64_t{1}, std::int64_t{1}));
  EXPECT_EQ(draws("arc_c", true), std::pair(std::int64_t{128}, std::int64_t{32}));
  EXPECT_EQ(draws("mmlu", true), std::pair(std::int64_t{128}, std::int64_t{32}));
  const likelihood_draws said = draws_of({.name = "mmlu", .mc_num = 16, .mc_batch = 4}, false);
  EXPECT_EQ(said.samples, 16);
  EXPECT_EQ(said.rows, 4);
}

}  // namespace
}  // namespace unmask
