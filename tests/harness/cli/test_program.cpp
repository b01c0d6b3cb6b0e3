// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The program as a user meets it: exit codes, messages, and what each command prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/base/files.h"
#include "harness/devices/build_info.h"
#include "tests/harness/cli/program.h"

namespace unmask {
namespace {

using test::outcome;

outcome run(const std::string& arguments) {
  return test::run_program(UNMASK_SOURCE_DIR, arguments);
}

bool says(const outcome& o, const std::string& words) {
  return o.text.find(words) != std::string::npos;
}

// Runs the program and checks its exit code and the words that it says.
outcome ends(const std::string& arguments, int code, const std::vector<std::string>& words) {
  const outcome o = run(arguments);
  EXPECT_EQ(o.code, code) << arguments << "\n" << o.text;
  for (const std::string& part : words) EXPECT_TRUE(says(o, part)) << part << "\n" << o.text;
  return o;
}

TEST(program, version_names_commit_and_build) {
  const outcome o = ends("--version", 0, {", commit "});
  EXPECT_EQ(o.text.rfind("unmask 0.", 0), 0u) << o.text;
  const std::string cuda = this_build().cuda_toolkit;  // what the build folder was configured with
  EXPECT_TRUE(says(o, cuda.empty() ? ", CPU only\n" : ", CUDA " + cuda + " for ")) << o.text;
}

TEST(program, bench_measures_methods_times_shapes) {
  const scratch_folder scratch;
  const std::string name = scratch.path().string();
  const std::string line =
      "bench experiments/models/tiny-llada -m vanilla,fast_dllm -p 16,24 -n 32 -b 1,2 "
      "--repetitions 2 --warmup 0 --no-progress --set params.steps=4 ";
  const outcome shown = ends(
      line + "-o '" + name + "/rows'", 0,
      {"| 16 random tokens |", "| 24 random tokens |", "batch_size=2", "fast_dllm", "| UNSCORED"});
  // Once for all rows, or in each if a busy machine gives them further reasons.
  EXPECT_TRUE(says(shown, "\n\nnot scored: random prompts have no right answer\n") ||
              says(shown, "no item of this workload can be scored; "))
      << shown.text;
  const outcome table = run("table '" + name + "/rows' --format csv");
  EXPECT_EQ(std::count(table.text.begin(), table.text.end(), '\n'), 9) << table.text;
  EXPECT_EQ(run("bench experiments/models/tiny-llada -b x").code, 2);
  EXPECT_EQ(run("bench experiments/models/tiny-llada -m vanila").code, 2);
  EXPECT_EQ(run("bench").code, 2);
}

TEST(program, a_dry_run_prints_the_plan_and_touches_nothing) {
  const scratch_folder scratch;
  const std::string out = scratch.path().string() + "/rows";
  ends("run experiments/quickstart.toml --dry-run -o '" + out + "'", 0,
       {"| vanilla |", "| optimus |", "28 points", "forwards at most"});
  EXPECT_FALSE(std::filesystem::exists(out));
  ends("run experiments --only fokus --dry-run", 2, {"unknown paper or artifact", "'focus'"});
  // A name behind --only's own is a path, and not there.
  ends("run experiments --only focus/table_5 focus/table_6 --dry-run", 2,
       {"focus/table_6 holds no paper tables or figures"});
  // Of Sparse-dLLM's Table 6 the control that keeps random keys varies; of its Table 8 nothing does.
  ends("run experiments --only sparse_dllm/table_6 --only sparse_dllm/table_8 --varying --dry-run",
       0,
       {"| sparse_dllm table_6 | 8 |", "| sparse_dllm table_8 | 0 |",
        "neither the seed nor the clock decides anything"});
  ends("run experiments/sparse_dllm/table_8.toml --varying --dry-run", 2,
       {"table_8.toml: neither the seed nor the clock decides anything"});
  ends("claims results --only focus/no_such", 2, {"unknown paper or claim"});
}

TEST(program, nothing_asked_for_is_a_usage_error) {
  EXPECT_EQ(run("").code, 2);
}

TEST(program, unknown_names_get_the_nearest) {
  ends("generte x", 2, {"'generate'"});
  ends("show vanila", 2, {"'vanilla'"});
  ends("list method", 2, {"'methods'"});
  ends("generate --gen-lenght 3 x", 2, {"'gen-length'"});
  ends("generate --set params.treshold=1 x", 2, {"'threshold'"});
}

TEST(program, show_prints_slots_parameters_and_presets) {
  ends("show block_diffusion", 0,
       {"pace", "rows", "keys", "cache", "unmask", "threshold", "preset hf"});
}

TEST(program, a_missing_model_is_an_environment_error_that_names_it) {
  ends("generate --model no/such/model hello", 3, {"no/such/model"});
}

// The keys of [run] that say how the model runs, as a file's are; those of a campaign are refused.
TEST(program, generate_takes_the_settings_of_a_run) {
  const test::outcome plain = run("generate -n 32 'Compute 3 + 4.'");
  EXPECT_EQ(
      run("generate -n 32 --set run.format=bf16 --set run.gemm=library 'Compute 3 + 4.'").code, 0);
  EXPECT_EQ(run("generate -n 32 --set run.kv_type=bf16 'Compute 3 + 4.'").code, 2);  // a GPU's
  EXPECT_EQ(run("generate -n 32 --set run.isa=auto --set run.format=f32 'Compute 3 + 4.'")
                .text.substr(0, 40),
            plain.text.substr(0, 40));
  ends("generate --set run.format=int9 x", 2, {"format"});
  ends("generate --set run.batch_size=4 x", 2, {"run.batch_size=4", "kv_type"});
  ends("generate --set workload.limit=4 x", 2, {"workload.limit=4"});
}

TEST(program, generate_decodes_with_each_embedded_model) {
  for (const char* model : {"tiny-llada", "tiny-sdar", "tiny-ar", "tiny-llada2", "tiny-dream"}) {
    const std::string folder = std::string("experiments/models/") + model;
    ends("generate --gen-length 32 --model " + folder + " 'Compute 5 * 7 - 15.'", 0,
         {"output tokens"});
  }
}

TEST(program, a_judge_scores_free_text_and_must_be_autoregressive) {
  const std::string models = UNMASK_SOURCE_DIR "/experiments/models/";
  const scratch_folder scratch;
  const auto judged_by = [&](const std::string& judge) {
    const auto file = scratch.path() / "judged.toml";
    std::ofstream(file)
        << "title = \"judged\"\n[run]\nrepetitions = 1\nwarmup = 0\n[[model]]\npath = \"" << models
        << "tiny-sdar\"\n[[workload]]\ntasks = [\"story\"]\nlimit = 2\n"
        << "gen_length = 32\njudge = \"" << models << judge
        << "\"\n[[method]]\nname = \"block_diffusion\"\n";
    return run("run --fresh --format json -o " + file.string() + "." + judge + " " + file.string());
  };
  const outcome scored = judged_by("tiny-ar");
  EXPECT_EQ(scored.code, 0) << scored.text;
  EXPECT_FALSE(says(scored, "no item of this workload can be scored")) << scored.text;
  // The references of the first two stories repeat 5 of their 79 sequences of four words.
  const auto row = nlohmann::json::parse(
      read_file(scratch.path() / "judged.toml.tiny-ar" / "rows.jsonl", std::size_t{1} << 20));
  const auto& beside = row.at("score").at("beside");
  EXPECT_DOUBLE_EQ(beside.at("reference_repeated_sequences"), 5.0 / 79);
  EXPECT_GT(beside.at("reference_likelihood"), 0.2);
  EXPECT_LT(beside.at("reference_likelihood"), 0.7);
  EXPECT_GE(beside.at("repeated_sequences"), 0);
  const outcome refused = judged_by("tiny-llada");
  EXPECT_NE(refused.code, 0);
  EXPECT_TRUE(says(refused, "no autoregressive model")) << refused.text;
}

TEST(program, watch_prints_one_line_per_step_when_not_on_a_terminal) {
  ends("generate --watch --gen-length 32 --set params.tokens_per_step=4 'Compute 3 + 4.'", 0,
       {"step   1", "step   8", "decided 32/32"});
}

TEST(program, an_impossible_setting_names_what_does_not_fit) {
  ends("generate --gen-length 33 'Compute 3 + 4.'", 2, {"block_length"});
}

TEST(program, doctor_reports_the_machine_and_reads_the_embedded_models) {
  ends("doctor", 0, {"cpu"});
  ends("doctor --json", 0, {"\"cpu"});
}

// The same seed gives the same table; ten virtual minutes take no time worth mentioning.
TEST(program, serves_in_virtual_time_and_repeats_itself) {
  const scratch_folder scratch;
  const std::string name = scratch.path().string();
  // The table alone; the lines below it name the output directory.
  const auto once = [&](const std::string& where, const std::string& more) {
    outcome o =
        run("run experiments/serving_virtual.toml --no-progress --set serve.duration=300 -o '" +
            name + "/" + where + "' " + more);
    o.text.resize(std::min(o.text.rfind("|\n") + 2, o.text.size()));
    o.text.erase(0, o.text.find("| "));  // behind the line that says the device
    return o;
  };
  const outcome one = once("a", ""), two = once("b", ""), other = once("c", "--set seed=1");
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_TRUE(says(one, "virtual")) << one.text;
  EXPECT_TRUE(says(one, "block_sync")) << one.text;
  EXPECT_EQ(one.text, two.text);
  EXPECT_NE(one.text, other.text);
  EXPECT_EQ(once("d", "--set serve.policy=fifo").code, 2);
  outcome table = run("table '" + name + "/a/rows.jsonl'");
  table.text.resize(table.text.rfind("|\n") + 2);
  EXPECT_EQ(table.text, one.text);
}

// Recorded on the model, replayed without it: the same requests, tokens and forwards.
TEST(program, records_and_replays_trajectories) {
  const scratch_folder scratch;
  const std::string name = scratch.path().string();
  const std::string virtual_clock =
      "run experiments/serving.toml --no-progress --format json --set serve.clock=virtual "
      "--set 'serve.cost=\"1:1 64:1 512:4\"' --set serve.requests=10 --set serve.policy=iter "
      "--set serve.rate=50 --shard 0/2 ";
  const outcome real =
      ends(virtual_clock + "--set serve.record=" + name + "/t.txt -o " + name + "/a", 0, {});
  const outcome replayed = ends(
      virtual_clock + "--set serve.commits=replay:" + name + "/t.txt -o " + name + "/b", 0, {});
  const auto metric = [](const outcome& o, const std::string& key) {
    const std::size_t at = o.text.find("\"" + key + "\":");
    return at == std::string::npos ? "none" : o.text.substr(at, o.text.find(',', at) - at);
  };
  for (const char* key : {"output_tokens", "nfe", "rows", "committed", "batched_forwards",
                          "tpot_e2e_p50_seconds", "wall_seconds"}) {
    EXPECT_NE(metric(real, key), "none") << key;
    EXPECT_EQ(metric(real, key), metric(replayed, key)) << key;
  }
  EXPECT_TRUE(says(replayed, "synthetic"));
}

TEST(program, benchmarks_are_listed_with_harness_and_items) {
  ends("list benchmarks", 0,
       {"gsm8k", "OC-S", "mmlu_gen_79e572", "14042 items", "needle_map",
        "lm-evaluation-harness 0.4.8"});
}

// Official prompt, decoding, extraction, score, samples and likelihoods, in one run.
TEST(program, benchmarks_run_end_to_end) {
  const scratch_folder scratch;
  const std::filesystem::path& folder = scratch.path();
  ::setenv("UNMASK_TASKS", (folder / "tasks").c_str(), 1);
  const outcome written =
      run("prompts experiments/benchmarks_smoke.toml -o '" + (folder / "tasks").string() + "'");
  if (says(written, "NOT RUN: needs")) GTEST_SKIP() << "NOT RUN: needs Python with lm-eval";
  ends("run experiments/benchmarks_smoke.toml --samples -o '" + folder.string() + "'", 0, {});
  ::unsetenv("UNMASK_TASKS");
  const outcome rows =
      ends("table '" + (folder / "rows.jsonl").string() + "'", 0,
           {"gsm8k", "math500", "ifeval", "longbench/multi_news", "mmlu/anatomy", "arc_c"});
  EXPECT_FALSE(says(rows, "FAILED")) << rows.text;
  EXPECT_FALSE(says(rows, "INVALID")) << rows.text;
  // As a paper arranges it: its score beside ours where the harness is the same, and nowhere else.
  const std::filesystem::path layout = folder / "layout.toml";
  std::ofstream(layout)
      << "[artifact]\npaper = \"sparse_dllm\"\nid = \"table_1\"\n"
         "kind = \"table\"\ntitle = \"t\"\npublished = \""
      << UNMASK_SOURCE_DIR
      << "/experiments/published/sparse_dllm.toml\"\n"
         "[layout]\nrows = \"label\"\ncolumns = ["
         "{metric = \"score\", header = \"OpenCompass\", factor = 100.0, where = "
         "{workload = \"gsm8k, OpenCompass\"}, published = \"GSM8K\", "
         "published_metric = \"score\"}, {metric = \"score\", header = \"lm-eval\", "
         "factor = 100.0, where = {workload = \"gsm8k\"}, published = \"GSM8K\", "
         "published_metric = \"score\"}]\n[layout.published_rows]\n"
         "fast_dllm = \"LLaDA-8B-Instruct + Fast-dLLM\"\n[[model]]\npath = \"m\"\n"
         "[[workload]]\nbenchmark = \"gsm8k\"\n[[method]]\nname = \"fast_dllm\"\n";
  const outcome paper = ends("table '" + (folder / "rows.jsonl").string() +
                                 "' --view paper --artifact '" + layout.string() + "'",
                             0, {"of another harness (LM; the paper: OC-S)"});
  const std::string theirs = "75.89";
  const std::size_t once = paper.text.find(theirs);
  EXPECT_NE(once, std::string::npos) << paper.text;
  EXPECT_EQ(paper.text.find(theirs, once + 1), std::string::npos) << paper.text;
}

}  // namespace
}  // namespace unmask
