// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The list of benchmarks, tasks files, and the chat templates over the turns that harnesses sent
// (tests/goldens/evals/prompts). The prompts themselves: tests/harness/python/benchmarks/prompts.
#include "harness/workload/benchmark_list.h"

#include <algorithm>

#include "harness/base/compressed.h"
#include "harness/base/json_lines.h"
#include "harness/workload/benchmark_tasks.h"
#include "tests/harness/workload/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
const fs::path source = UNMASK_SOURCE_DIR;

TEST(benchmarks, names_are_refused_with_the_nearest) {
  test::expect_error(exit_code::usage, "gsm8k", [] { find_benchmark("gsm8", ""); });
  test::expect_error(exit_code::usage, "OC-S/gsm8k_gen_1dce88",
                     [] { find_benchmark("gsm8k", "OC-U"); });
  test::expect_error(exit_code::usage, "no harness", [] { find_benchmark("gsm8k", "HF"); });
  EXPECT_EQ(find_benchmark("gsm8k", "OC-S/gsm8k_gen_1dce88_maxoutlen_256").shots, 4);
  EXPECT_EQ(harness_version("LM"), "lm-evaluation-harness 0.4.8");
}

TEST(benchmarks, declared_numbers) {
  const benchmark& longbench = find_benchmark("longbench", "OC-U");
  EXPECT_EQ(longbench.max_prompt, 16000);
  EXPECT_TRUE(longbench.cut_middle);
  EXPECT_EQ(declared_items(longbench, "lcc"), 500);
  EXPECT_EQ(declared_length(longbench, "lcc"), 64);
  EXPECT_EQ(declared_length(longbench, ""), 512);
  EXPECT_EQ(declared_items(find_benchmark("mmlu", ""), ""), 14042);
  EXPECT_TRUE(find_benchmark("mmlu", "LM").choices);
  EXPECT_TRUE(find_benchmark("sharegpt", "").counts_tokens());
}

TEST(benchmarks, each_missing_file_is_named) {
  const scratch_folder folder;
  write_file(folder.path() / "gsm8k/test.first3.jsonl.gz", "x");
  const auto missing = [&](const char* name, const char* harness, const char* task, int shots) {
    return missing_files(find_benchmark(name, harness), task, shots, {folder.path()});
  };
  using names = std::vector<std::string>;
  EXPECT_EQ(missing("gsm8k", "LM", "", -1), names{"train.jsonl"});
  EXPECT_EQ(missing("gsm8k", "LM", "", 0), names{});
  EXPECT_EQ(missing("gsm8k", "OC-F", "", -1), names{});
  write_file(folder.path() / "gsm8k/main/train-00000-of-00001.parquet", "x");
  EXPECT_EQ(missing("gsm8k", "LM", "", -1), names{});
  EXPECT_EQ(missing("mmlu", "LM", "anatomy", -1),
            (names{"data/test/anatomy_test.csv", "data/dev/anatomy_dev.csv"}));
  EXPECT_EQ(missing("math", "LM", "num_theory", -1), names{"test/number_theory/*.json"});
  write_file(folder.path() / "math/test/number_theory/7.json", "x");
  EXPECT_EQ(missing("math", "LM", "num_theory", -1), names{});
  EXPECT_EQ(missing("longbench", "OC-S", "", -1).size(), 23U);  // 21 tasks, prompts and lengths
  write_file(folder.path() / "longbench/data.zip", "x");
  EXPECT_EQ(missing("longbench", "OC-S", "", -1),
            (names{"dataset2prompt.json", "dataset2maxlen.json"}));
}

const char* const head =
    R"({"unmask_tasks":1,"benchmark":"b","harness":"LM","version":"v","config":"c","form":"raw",)"
    R"("shots":2,"metric":"acc","items":1,"licence":"MIT","library":{"lm_eval":"0.4.8"},)"
    R"("data":{"b/test.jsonl":"00"}})"
    "\n";
const char* const item =
    R"({"id":"7","family":"b","benchmark":"b","task":"c","doc_id":7,"prompt":"abc","answer":"A",)"
    R"("scorer":"exact","check":{"z":1,"a":2},"gen_length":4,"doc":{"z":"first","a":1.5},)"
    R"("stop":["\n"],"shorter":["bc","c"]})"
    "\n";

TEST(benchmark_tasks, a_file_is_read_as_it_was_written) {
  const test::scratch_file file("b.jsonl", std::string(head) + item);
  const benchmark_tasks tasks = read_benchmark_tasks(file.path());
  EXPECT_EQ(tasks.head.library.at("lm_eval"), "0.4.8");
  EXPECT_EQ(tasks.head.shots, 2);
  ASSERT_EQ(tasks.items.size(), 1U);
  const task_item& t = tasks.items[0].task;
  EXPECT_EQ(t.prompt, "abc");
  EXPECT_EQ(t.doc_id, 7U);
  EXPECT_EQ(t.doc, R"({"z":"first","a":1.5})");  // in the order of the record
  EXPECT_EQ(t.check, R"({"a":2,"z":1})");
  EXPECT_EQ(t.stop, std::vector<std::string>{"\n"});
  EXPECT_EQ(t.right, -1);
  EXPECT_EQ(tasks.items[0].shorter_prompts, (std::vector<std::string>{"bc", "c"}));
  EXPECT_TRUE(read_benchmark_tasks(file.path(), true).items.empty());
}

TEST(benchmark_tasks, a_broken_file_names_its_line) {
  const auto refused = [](const std::string& text, const std::string& word) {
    const test::scratch_file file("b.jsonl", text);
    test::expect_error(exit_code::environment, word, [&] { read_benchmark_tasks(file.path()); });
  };
  refused("", "is empty");
  refused("{\"unmask_tasks\":2}\n", "another version");
  refused(std::string(head) + "{\"id\":\"1\"}\n", "line 2");
  refused(std::string(head) + std::string(item).substr(0, 40), "line 2");
}

// An item shows a picture of the folder that holds the file, or its codes, and both are what was asked.
TEST(benchmark_tasks, pictures_and_codes_are_read) {
  const scratch_folder folder;
  const fs::path file = folder.path() / "in/b.jsonl";
  write_file(folder.path() / "in/pictures/one.png", "abc");
  write_file(folder.path() / "outside.png", "abc");
  const auto read = [&](const std::string& shown) {
    const std::string line(item);
    write_file(file, std::string(head) + "{" + shown + "," + line.substr(1));
    return read_benchmark_tasks(file).items.at(0).task;
  };
  const task_item picture = read(R"("images":["pictures/one.png"])");
  ASSERT_EQ(picture.pictures.size(), 1U);
  EXPECT_EQ(picture.pictures[0].file, folder.path() / "in/pictures/one.png");
  // printf abc | sha256sum
  EXPECT_EQ(picture.pictures[0].hash,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(read(R"("codes":[5,0])").codes, (std::vector<std::int32_t>{5, 0}));
  for (const auto& [shown, part] :
       {std::pair(R"("images":["../outside.png"])", "which is outside the folder of the tasks"),
        std::pair(R"("images":["two.png"])", "`images` names two.png, which is no file"),
        std::pair(R"("images":["pictures/one.png","pictures/one.png"])",
                  "must name one picture")}) {
    test::expect_error(exit_code::environment, "b.jsonl, line 2", [&] { read(shown); });
    test::expect_error(exit_code::environment, part, [&] { read(shown); });
  }
}

// What OpenCompass' API models were handed, through each model's own template.
TEST(benchmark_tasks, chat_templates_render_recorded_turns) {
  const std::vector<std::pair<std::string, chat_format>> formats = {{"llada", chat_format::llada},
                                                                    {"dream", chat_format::qwen25},
                                                                    {"sdar", chat_format::qwen3},
                                                                    {"llada2", chat_format::ling}};
  int compared = 0;
  for (const char* name : {"opencompass_focus", "opencompass_llada"}) {
    const fs::path file =
        source / "tests/goldens/evals/prompts" / (std::string(name) + ".jsonl.gz");
    for_each_object(read_plain_or_gzip(file, 1U << 28), file.string(),
                    [&](const json_reader& record, std::size_t) {
                      std::vector<chat_message> turns;
                      for (const json_value& m : *record.at("messages").items()) {
                        const json_reader turn(m, record.file());
                        turns.push_back({turn.text("role"), turn.text("content")});
                      }
                      for (const auto& [model, text] : *record.at("rendered").members()) {
                        const auto known = std::ranges::find(formats, model,
                                                             [](const auto& f) { return f.first; });
                        ASSERT_NE(known, formats.end()) << model;
                        EXPECT_EQ(apply_chat_template(known->second, turns, true), *text.text())
                            << model;
                        ++compared;
                      }
                    });
  }
  EXPECT_GE(compared, 29);
}

}  // namespace
}  // namespace unmask
