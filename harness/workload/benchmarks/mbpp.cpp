// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// MBPP (Austin et al. 2021; github.com/google-research/google-research/tree/master/mbpp): mbpp.jsonl,
// whose test split is task_id 11 to 510; and sanitized-mbpp.json, one array of 427, of which
// OpenCompass asks rows 7 to 263.
#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/nearest.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

source_item item_of(const json_reader& object, const char* text_key) {
  source_item item;
  const std::vector<std::string> tests = texts_of(object, "test_list");
  item.id = std::to_string(object.integer("task_id", 0, 1 << 20));
  item.answer = object.text("code");
  item.fields = {
      {"text", object.text(text_key)}, {"code", item.answer}, {"test_list", joined(tests, "\n")}};
  for (std::size_t t = 0; t < 3; ++t) {
    item.fields["test_" + std::to_string(t)] = t < tests.size() ? tests[t] : "";
  }
  item.doc = json_object({{"task_id", item.id},
                          {"text", json_string(item.fields["text"])},
                          {"code", json_string(item.answer)},
                          {"test_list", json_text(object.at("test_list"))}});
  item.check = json_object({{"task_id", json_string(item.id)},
                            {"test_list", json_text(object.at("test_list"))},
                            {"text", json_string(item.fields["text"])}});
  return item;
}

std::vector<source_item> read(const official_files& files, const std::string&, const std::string&) {
  std::vector<source_item> items;
  each_object(files.text("mbpp", {"mbpp.jsonl"}), [&](const json_reader& object, std::size_t) {
    const std::int64_t id = object.integer("task_id", 0, 1 << 20);
    if (id >= 11 && id <= 510) items.push_back(item_of(object, "text"));
  });
  return items;
}

std::vector<source_item> read_sanitized(const official_files& files, const std::string&,
                                        const std::string&) {
  const official_text file = files.text("mbpp", {"sanitized-mbpp.json"});
  const json_value value = parse_json(file.text, file.name);
  const json_value::array* rows = value.items();
  if (rows == nullptr || rows->size() < 264) {
    throw environment_error(file.name + ": must be an array of at least 264 objects");
  }
  std::vector<source_item> items;
  for (std::size_t row = 7; row <= 263; ++row) {
    const std::string where = file.name + ", row " + std::to_string(row);
    if ((*rows)[row].members() == nullptr) throw environment_error(where + ": must be an object");
    items.push_back(item_of(json_reader((*rows)[row], where), "prompt"));
  }
  return items;
}

benchmark base(const char* harness, const char* config) {
  benchmark b = declared_as("mbpp", harness, config);
  b.items = 500;
  b.folder = "mbpp";
  b.shots = 3;
  b.gen_length = 512;
  b.metric = "pass@1";
  b.read = read;
  return b;
}

}  // namespace

std::vector<benchmark> mbpp() {
  const std::string task = "You are an expert Python programmer, and here is your task: {text}";
  const std::string tests = " Your code should pass these tests:\n\n";
  benchmark lm = base("LM", "mbpp");
  lm.scorer = "mbpp_lm_eval";
  lm.examples = {example_rule::written, "mbpp_lm_eval"};
  lm.style = lm_eval_style{.question = task + tests + "{test_0}\n{test_1}\n{test_2}\n[BEGIN]\n",
                           .target = "{code}\n[DONE]",
                           .delimiter = "",
                           .stop = {"[DONE]"}};
  benchmark llada = base("OC-L", "mbpp_gen_830460");
  llada.gen_length = 256;
  llada.scorer = "mbpp_opencompass";
  llada.examples = {example_rule::written, "mbpp_opencompass"};
  llada.style = opencompass_style{.example = {{"user", task + tests + " {test_list}\n"},
                                              {"assistant", "[BEGIN]\n '{code}' \n[DONE] \n\n "}},
                                  .question = {{"user", task + tests + " {test_list}  \n"}}};
  benchmark focus = base("OC-F", "sanitized_mbpp_mdblock_0shot_nocot_gen_a2e416");
  focus.name = "mbpp_sanitized";
  focus.shots = 0;
  focus.items = 257;
  focus.scorer = "mbpp_opencompass";
  focus.read = read_sanitized;
  focus.style = opencompass_style{
      .question =
          {{"user",
            "You are an expert Python programmer, and here is your task:\n{text}\nYour code "
            "should pass these tests:\n\n{test_list}\n You should submit your final "
            "solution in the following format: ```python\n\n```"}},
      .system = system_message};
  return {lm, llada, focus};
}

}  // namespace unmask::declared
