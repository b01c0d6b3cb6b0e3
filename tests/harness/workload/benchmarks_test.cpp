// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Prompts of the published harnesses: tests/goldens/evals/prompts holds what the official programs
// sent, tests/goldens/evals/data the official items that they were made of.
#include "harness/workload/benchmarks/benchmark.h"

#include <algorithm>
#include <numeric>

#include "harness/base/digest.h"
#include "harness/workload/benchmarks/python_random.h"
#include "harness/workload/benchmarks/replay.h"
#include "tests/harness/workload/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

const fs::path source = UNMASK_SOURCE_DIR;
const fs::path examples = source / "experiments/data/fewshot";

TEST(benchmarks, golden_prompts_are_equal_to_the_byte) {
  const golden_results replay = replay_prompts(source / "tests/goldens/evals", {}, examples);
  for (const std::string& reason : replay.not_run) ADD_FAILURE() << reason;
  EXPECT_GE(test::passed_of(replay.files), 193);
}

// random.Random(1234).sample of CPython 3.11, computed there.
TEST(benchmarks, python_draws) {
  python_random small(7);
  EXPECT_EQ(small.sample(10, 4), (std::vector<std::size_t>{5, 2, 6, 9}));
  python_random large(1234);
  EXPECT_EQ(large.sample(7473, 5), (std::vector<std::size_t>{6374, 3610, 957, 61, 742}));
  python_random wide((std::uint64_t{3} << 32) | 5);
  EXPECT_EQ(wide.bits(32), 681448717U);
  std::vector<int> order(10);
  std::iota(order.begin(), order.end(), 0);
  python_random(3).shuffle(order);
  EXPECT_EQ(order, (std::vector<int>{1, 5, 6, 0, 9, 4, 7, 2, 8, 3}));
}

TEST(benchmarks, opencompass_drops_examples_from_the_end) {
  const benchmark& b = find_benchmark("gsm8k", "OC-S");
  source_item item;
  item.id = "0";
  item.fields = {{"question", "Q?"}};
  benchmark_options options;
  options.examples = examples;
  const benchmark_set set(b, {item}, official_files({}), options);
  const std::string all = set.item(0).prompt, fewer = set.item(0, 3).prompt;
  EXPECT_TRUE(all.starts_with(fewer.substr(0, fewer.find("Question: Q?"))));
  EXPECT_GT(all.size(), fewer.size());
  EXPECT_EQ(set.item(0, 0).prompt, "Question: Q?\nLet's think step by step\nAnswer:");
}

TEST(benchmarks, cuts_of_tokens) {
  const std::vector<std::int32_t> ids = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(drop_middle(ids, 4), (std::vector<std::int32_t>{0, 1, 8, 9}));
  EXPECT_EQ(drop_middle(ids, 10), ids);
  EXPECT_EQ(cut_left(ids, 3), (std::vector<std::int32_t>{7, 8, 9}));
  EXPECT_EQ(cut_left(ids, 0), ids);
}

TEST(benchmarks, gpqa_turns_the_options_by_the_row) {
  const test::scratch_file file("gpqa_diamond.csv",
                                "Id,Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,"
                                "Incorrect Answer 3\n1,\"a, \"\"b\"\"?\",r,x,y,z\n2,q,r,x,y,z\n"
                                "3,q,r,x,y,z\n4,q,r,x,y,z\n5,q,r,x,y,z\n");
  const official_files files({fs::path(file.path()).parent_path()});
  const benchmark_set set(find_benchmark("gpqa", ""), files, {});
  ASSERT_EQ(set.size(), 5U);
  EXPECT_EQ(set.source(0).fields.at("question"), "a, \"b\"?");
  const std::vector<std::string> letters = {"D", "C", "B", "A", "D"};
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(set.source(i).answer, letters[i]) << i;
  EXPECT_TRUE(set.item(4).prompt.ends_with("A. x\nB. y\nC. z\nD. r\nAnswer:"));
}

TEST(benchmarks, names_are_refused_with_the_nearest) {
  test::expect_error(exit_code::usage, "gsm8k", [] { find_benchmark("gsm8", ""); });
  test::expect_error(exit_code::usage, "OC-S/gsm8k_gen_1dce88",
                     [] { find_benchmark("gsm8k", "OC-U"); });
  test::expect_error(exit_code::usage, "no harness", [] { find_benchmark("gsm8k", "HF"); });
  EXPECT_EQ(find_benchmark("gsm8k", "OC-S/gsm8k_gen_1dce88_maxoutlen_256").shots, 4);
  test::expect_error(exit_code::environment, "test.jsonl", [] {
    benchmark_set(find_benchmark("math500", "OC-F"), official_files({"/nowhere"}), {});
  });
}

// Two members, stored, as Python's zipfile writes them.
TEST(benchmarks, files_are_read_out_of_a_zip_archive) {
  std::string zip, directory;
  const auto word = [](std::string& to, std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
  };
  const auto add = [&](const std::string& name, const std::string& text, std::uint32_t crc) {
    const auto offset = static_cast<std::uint32_t>(zip.size());
    std::string head;
    word(head, 20, 2), word(head, 0, 4), word(head, 0, 4), word(head, crc, 4);
    word(head, static_cast<std::uint32_t>(text.size()), 4);
    word(head, static_cast<std::uint32_t>(text.size()), 4);
    word(head, static_cast<std::uint32_t>(name.size()), 2), word(head, 0, 2);
    zip += "PK\x03\x04" + head + name + text;
    directory += "PK\x01\x02";
    word(directory, 20, 2);
    directory += head;
    word(directory, 0, 2), word(directory, 0, 2), word(directory, 0, 2), word(directory, 0, 4);
    word(directory, offset, 4);
    directory += name;
  };
  add("data/dev/anatomy_dev.csv", "q,a,b,c,d,B\n", 0xa557588bU);
  add("data/test/anatomy_test.csv", "\"x, y\",1,2,3,4,D\n", 0x4abc255dU);
  const auto start = static_cast<std::uint32_t>(zip.size());
  zip += directory + "PK\x05\x06";
  word(zip, 0, 4), word(zip, 2, 2), word(zip, 2, 2);
  word(zip, static_cast<std::uint32_t>(directory.size()), 4), word(zip, start, 4), word(zip, 0, 2);
  const test::scratch_file file("mmlu.zip", zip);
  benchmark_options options;
  options.group = "anatomy";
  options.shots = 1;
  const official_files files({fs::path(file.path()).parent_path()});
  const benchmark_set set(find_benchmark("mmlu", "LM"), files, options);
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(set.item(0).prompt,
            "The following are multiple choice questions (with answers) about anatomy.\n\n"
            "q\nA. a\nB. b\nC. c\nD. d\nAnswer: B\n\nx, y\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:");
  EXPECT_EQ(set.item(0).right, 3);
}

// Likelihoods need no scorer of texts.
TEST(benchmarks, declared_scorers_exist) {
  const auto& known = scorer_names();
  for (const benchmark& b : benchmarks()) {
    if (b.scorer == "likelihood_choice") continue;
    EXPECT_NE(std::ranges::find(known, b.scorer), known.end()) << b.name << ": " << b.scorer;
  }
}

// Seven made-up items through lm-eval 0.4.8's gpqa_main_n_shot, its shuffle as its cache keeps it:
// the beginnings of the hashes of its prompts, and its answers.
TEST(benchmarks, gpqa_by_likelihood_asks_as_lm_eval) {
  std::string text =
      "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3\n";
  for (const char i : std::string("0123456")) {
    for (const char* column : {"q", "r", "x", "y", "z"}) text += std::string(column) + i + ",";
    text.back() = '\n';
  }
  const test::scratch_file file("gpqa_main.csv", text);
  const official_files files({fs::path(file.path()).parent_path()});
  const benchmark_set set(find_benchmark("gpqa", "LM"), files, {});
  const std::vector<std::pair<std::string, int>> wanted = {
      {"c70373ba1c491450", 2}, {"d6e86a5785e996ff", 0}, {"3439e176fcb5c643", 1},
      {"a37a91e07c8ff3a7", 3}, {"b9ae29124937387b", 2}, {"7956b8253d708ead", 1},
      {"90b84a32937bb459", 3}};
  ASSERT_EQ(set.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(sha256_hex(set.item(i).prompt).substr(0, 16), wanted[i].first) << set.item(i).prompt;
    EXPECT_EQ(set.item(i).right, wanted[i].second);
  }
  EXPECT_EQ(set.item(0).continuations.at(1), " (B)");
}

// With several processes each draws for its own documents; without a rank all of them are there.
TEST(benchmarks, processes_draw_examples_of_their_own) {
  const official_files files({source / "tests/goldens/evals/data"});
  const benchmark& b = find_benchmark("gsm8k", "LM");
  const auto rows = [&](std::int64_t world, std::int64_t rank, std::size_t item) {
    return benchmark_set(b, files, {.world = world, .rank = rank}).example_rows(item);
  };
  EXPECT_EQ(rows(2, -1, 1), rows(2, 1, 1));
  EXPECT_EQ(rows(2, -1, 2), rows(2, 0, 2));
  EXPECT_EQ(rows(2, -1, 1), rows(1, -1, 0));
  EXPECT_NE(rows(2, -1, 2), rows(1, -1, 2));
}

TEST(benchmarks, a_harness_can_be_asked_without_its_system_message) {
  const official_files files({source / "tests/goldens/evals/data"});
  const benchmark& b = find_benchmark("gsm8k", "OC-F");
  EXPECT_EQ(benchmark_set(b, files, {}).item(0).messages.at(0).role, "system");
  EXPECT_EQ(benchmark_set(b, files, {.system = false}).item(0).messages.at(0).role, "user");
}

TEST(benchmarks, questions_of_chat_benchmarks_are_their_first_turns) {
  const official_files files({source / "tests/data/datasets"});
  for (const char* name : {"mt_bench", "vicuna_bench", "spec_bench"}) {
    const benchmark_set set(find_benchmark(name, ""), files, {});
    ASSERT_GT(set.size(), 5U) << name;
    ASSERT_EQ(set.item(0).messages.size(), 1U);
    EXPECT_GT(set.item(0).messages[0].content.size(), 10U);
  }
}

TEST(benchmarks, templates_replace_fields_and_nothing_else) {
  EXPECT_EQ(filled_template("{a} {b} {{a}} }{", {{"a", "{b}"}}), "{b} {b} {{b}} }{");
}

}  // namespace
}  // namespace unmask
