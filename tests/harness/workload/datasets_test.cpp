// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/datasets.h"

#include <set>

#include "tests/harness/workload/support.h"

namespace unmask::test {
namespace {

struct public_file {
  const char* dataset;
  const char* path;
  std::size_t items;
  const char* scorer;
};

TEST(datasets, published_files) {
  const public_file files[] = {{"gsm8k", "datasets/gsm8k.jsonl", 8, "gsm8k_lm_eval"},
                               {"math500", "datasets/math500.jsonl", 8, "math_opencompass_v2"},
                               {"humaneval", "datasets/humaneval.jsonl", 4, "none"},
                               {"mbpp", "datasets/mbpp.jsonl", 6, "none"},
                               {"mt_bench", "datasets/mt_bench.jsonl", 6, "none"},
                               {"vicuna_bench", "datasets/vicuna_bench.jsonl", 6, "none"},
                               {"spec_bench", "datasets/spec_bench.jsonl", 12, "none"},
                               {"ifeval", "datasets/ifeval.jsonl", 8, "ifeval"}};
  for (const public_file& file : files) {
    const auto items = read_dataset(file.dataset, public_data(file.path));
    EXPECT_EQ(items.size(), file.items) << file.dataset;
    std::set<std::string> ids;
    for (const task_item& item : items) {
      ids.insert(item.id);
      EXPECT_EQ(item.scorer, file.scorer);
      EXPECT_FALSE(item.prompt.empty()) << item.id;
      EXPECT_GT(item.gen_length, 0);
      if (item.answer.empty()) continue;
      const score got = score_answer(item, item.answer);  // the worked solutions are right
      EXPECT_EQ(got.exact, got.scored) << item.id << ": " << got.note;
    }
    EXPECT_EQ(ids.size(), items.size()) << file.dataset << " gives an id twice";
  }
}

TEST(datasets, longbench_fills_the_official_prompt) {
  const scratch_file data("qasper.jsonl",
                          R"({"input": "Why?", "context": "C {input} D", "answers": ["x", "y"], )"
                          R"("dataset": "qasper", "_id": "7", "length": 3})");
  const scratch_file prompts("dataset2prompt.json", R"({"qasper": "{context} / {input}"})");
  const scratch_file lengths("dataset2maxlen.json", R"({"qasper": 128})");
  const auto items = read_dataset("longbench", data.path());
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].prompt, "C {input} D / Why?");  // the document's own braces stay
  EXPECT_EQ(items[0].id, "longbench-qasper-7");
  EXPECT_EQ(items[0].family, "qasper");
  EXPECT_EQ(items[0].gen_length, 128);
  EXPECT_EQ(items[0].answer, "x");
  EXPECT_EQ(items[0].check, R"({"all_classes":null,"answers":["x","y"],"task":"qasper"})");
  EXPECT_EQ(items[0].scorer, "longbench");
}

TEST(datasets, longbench_takes_the_metric_of_each_task) {
  const scratch_file prompts("dataset2prompt.json",
                             R"({"trec": "{input}", "lcc": "{input}", "samsum": "{input}",)"
                             R"( "passage_count": "{input}", "vcsum": "{input}"})");
  const scratch_file lengths("dataset2maxlen.json",
                             R"({"trec": 1, "lcc": 1, "samsum": 1, "passage_count": 1,)"
                             R"( "vcsum": 1})");
  const auto line = [](const std::string& task, const std::string& classes) {
    return R"({"input": "I", "context": "", "answers": ["x"], "all_classes": )" + classes +
           R"(, "dataset": ")" + task + R"(", "_id": "7"})" + "\n";
  };
  const scratch_file data("all.jsonl", line("trec", R"(["x", "y"])") + line("lcc", "null") +
                                           line("samsum", "null") + line("passage_count", "null") +
                                           line("vcsum", "null"));
  const auto items = read_dataset("longbench", data.path());
  ASSERT_EQ(items.size(), 5u);
  for (const task_item& item : items) EXPECT_EQ(item.scorer, "longbench");
  EXPECT_EQ(items[0].check, R"({"all_classes":["x","y"],"answers":["x"],"task":"trec"})");
  EXPECT_TRUE(score_answer(items[0], "x").exact);
  EXPECT_EQ(score_answer(items[1], "# c\nx").value, 1);
  EXPECT_NEAR(score_answer(items[2], "x\nDialogue: more").value, 1, 1e-8);
  EXPECT_EQ(score_answer(items[3], "1 2").value, 0);
  EXPECT_NEAR(score_answer(items[4], "x").value, 1, 1e-8);
}

TEST(datasets, small_files) {
  const scratch_file gsm8k("g.jsonl", R"({"question": "Q", "answer": "A\n#### -2,125"})");
  const task_item item = read_dataset("gsm8k", gsm8k.path()).at(0);
  EXPECT_EQ(item.id, "gsm8k-0");
  EXPECT_TRUE(item.prompt.starts_with("Q\n"));
  EXPECT_EQ(item.check, R"({"target":"A\n#### -2,125"})");
  EXPECT_TRUE(score_answer(item, "#### -2125").exact);
  const scratch_file chat("c.jsonl",
                          R"({"question_id": 81, "category": "writing", "turns": ["one", "two"]})");
  const task_item turn = read_dataset("mt_bench", chat.path()).at(0);
  EXPECT_EQ(turn.id, "mt_bench-81");
  EXPECT_EQ(turn.family, "writing");
  EXPECT_EQ(turn.prompt, "one");
}

TEST(datasets, errors_name_the_dataset_and_the_place) {
  expect_error(exit_code::usage, "did you mean gsm8k?", [] { read_dataset("gsm8", "x"); });
  const scratch_file bad("g.jsonl", R"({"question": "Q", "answer": "no mark"})");
  expect_error(exit_code::environment,
               "dataset gsm8k: ", [&] { read_dataset("gsm8k", bad.path()); });
  expect_error(exit_code::environment, "g.jsonl, line 1: `answer` has no ####",
               [&] { read_dataset("gsm8k", bad.path()); });
  expect_error(exit_code::environment, "`unique_id` is missing",
               [&] { read_dataset("math500", bad.path()); });
  expect_error(exit_code::environment, "dataset2prompt.json",
               [&] { read_dataset("longbench", bad.path()); });
  const scratch_file zipped("q.jsonl.gz", "\x1f\x8b\x08");
  expect_error(exit_code::environment, zipped.path() + ": is not a whole gzip file",
               [&] { read_dataset("longbench", zipped.path()); });
}

}  // namespace
}  // namespace unmask::test
