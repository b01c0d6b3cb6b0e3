// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// MATH (Hendrycks et al. 2021; github.com/hendrycks/math): test/SUBJECT/N.json, 5000 problems; and
// MATH-500 (github.com/openai/prm800k): test.jsonl, which names its problems by the same paths.
#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json_lines.h"
#include "harness/workload/benchmarks/declare.h"
#include "harness/workload/scorers/math_text.h"

namespace unmask::declared {
namespace {

namespace fs = std::filesystem;

// lm-eval's tasks by the subjects of the official folders.
const std::vector<std::pair<std::string, std::string>> subjects = {
    {"algebra", "algebra"},          {"counting_and_prob", "counting_and_probability"},
    {"geometry", "geometry"},        {"intermediate_algebra", "intermediate_algebra"},
    {"num_theory", "number_theory"}, {"prealgebra", "prealgebra"},
    {"precalc", "precalculus"}};

std::string folder_of(const std::string& group) {
  for (const auto& [task, folder] : subjects) {
    if (task == group) return folder;
  }
  return group;
}

// What the last \\boxed of a solution holds, as lm-eval finds it: anything after the last "\\boxed " up
// to the next $ before any \\boxed{...}; \\fbox only where there is no \\boxed.
std::string last_boxed(const std::string& solution) {
  if (const std::size_t bare = solution.rfind("\\boxed "); bare != std::string::npos) {
    return solution.substr(bare + 7, solution.find('$', bare) - bare - 7);
  }
  std::size_t at = solution.rfind("\\boxed");
  if (at == std::string::npos) at = solution.rfind("\\fbox");
  if (at == std::string::npos) return "";
  const std::size_t begin = solution.find('{', at);
  int depth = 0;
  for (std::size_t i = begin; i < solution.size(); ++i) {
    if (solution[i] == '{') ++depth;
    if (solution[i] == '}' && --depth == 0) return solution.substr(begin + 1, i - begin - 1);
  }
  return "";
}

source_item item_of(const json_reader& object, std::string id, const std::string& group) {
  source_item item;
  item.id = std::move(id);
  item.group = group;
  item.answer = object.text("solution");
  const std::string boxed = last_boxed(item.answer);
  item.fields = {{"problem", object.text("problem")}, {"solution", item.answer}, {"answer", boxed}};
  item.doc = json_object({{"problem", json_string(item.fields["problem"])},
                          {"solution", json_string(item.answer)},
                          {"answer", json_string(scorers::minerva_normal(boxed))}});
  item.check = json_object({{"answer", json_string(object.text_or("answer", boxed))},
                            {"solution", json_string(item.answer)}});
  return item;
}

// One subject, in the order of the numbers.
std::vector<source_item> read_folder(const official_files& files, const std::string& split,
                                     const std::string& group) {
  const fs::path folder = files.folder("math", split + "/" + folder_of(group));
  if (folder.empty()) {
    throw environment_error("math: there is no folder " + split + "/" + folder_of(group) +
                            " in the given folders; MATH is one JSON file per problem");
  }
  std::vector<std::pair<long, fs::path>> problems;
  for (const fs::path& file : entries_of(folder, ".json")) {
    problems.emplace_back(std::strtol(file.stem().c_str(), nullptr, 10), file);
  }
  std::ranges::sort(problems);
  std::vector<source_item> items;
  for (const auto& [number, path] : problems) {
    const json_value value = parse_json(read_workload_text(path.string()), path.string());
    const json_reader object(value, path.string());
    items.push_back(
        item_of(object, split + "/" + folder_of(group) + "/" + path.filename().string(), group));
  }
  return items;
}

std::vector<source_item> read_500(const official_files& files, const std::string& split,
                                  const std::string&) {
  std::vector<source_item> items;
  each_object(files.text("math500", {split + ".jsonl"}),
              [&](const json_reader& object, std::size_t) {
                const std::string id = object.text("unique_id");
                items.push_back(item_of(object, id, ""));
                items.back().fields["answer"] = object.text("answer");
              });
  return items;
}

benchmark base(const char* name, const char* harness, const char* config) {
  benchmark b = declared_as(name, harness, config);
  b.items = 5000;
  b.folder = "math";
  b.read = read_folder;
  for (const auto& [task, folder] : subjects) b.groups.push_back(task);
  return b;
}

benchmark four_shot(const char* config, const std::string& ending) {
  benchmark b = base("math", "OC-S", config);
  b.shots = 4;
  b.examples = {example_rule::written, "math_opencompass"};
  b.style = opencompass_style{
      .example = {{"user", "Problem:\n{problem}\nSolution:"},
                  {"assistant",
                   "{solution}\nFinal Answer: The final answer is ${answer}$." + ending + "\n"}},
      .question = {{"user", "Problem:\n{problem}\nSolution:\n"}}};
  return b;
}

const char* const boxed_request =
    "{problem}\nPlease reason step by step, and put your final answer within \\boxed{}.";

benchmark in_500(const char* harness, benchmark b) {
  b.name = "math500";
  b.harness = harness;
  b.items = 500;
  b.folder = "math500";
  b.groups = {};
  b.read = read_500;
  return b;
}

}  // namespace

std::vector<benchmark> math() {
  benchmark minerva = base("math", "LM", "minerva_math");
  minerva.shots = 4;
  minerva.gen_length = 512;
  minerva.scorer = "math_minerva_lm_eval";
  minerva.examples = {example_rule::written, "minerva_math"};
  minerva.style = lm_eval_style{
      .question = "Problem:\n{problem}\n\nSolution:", .target = "{solution}", .stop = {"Problem:"}};
  benchmark llada = four_shot("math_gen_265cce", " I hope it is correct.");
  llada.gen_length = 512;
  llada.scorer = "math_opencompass";
  benchmark dream = four_shot("math_gen_a58d9d_dream", "");
  dream.scorer = "math500_opencompass_verify";
  benchmark zero = base("math", "OC-L", "math_0shot_gen_11c4b5");
  zero.gen_length = 512;
  zero.scorer = "math_opencompass_v2";
  zero.style = opencompass_style{.question = {{"user", boxed_request}}};
  benchmark focus = in_500("OC-F", zero);
  focus.config = "math500_gen";
  focus.gen_length = 1024;
  focus.scorer = "math500_opencompass_verify";
  focus.style = opencompass_style{.question = {{"user", boxed_request}}, .system = system_message};
  return {minerva, llada, dream, zero, focus, in_500("LM", minerva), in_500("OC-S", llada)};
}

}  // namespace unmask::declared
