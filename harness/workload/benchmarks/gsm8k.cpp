// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// GSM8K (Cobbe et al. 2021; github.com/openai/grade-school-math): train.jsonl, test.jsonl.
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

std::vector<source_item> read(const official_files& files, const std::string& split,
                              const std::string&) {
  std::vector<source_item> items;
  each_object(files.text("gsm8k", {split + ".jsonl"}),
              [&](const json_reader& object, std::size_t row) {
                source_item item;
                item.id = std::to_string(row);
                item.answer = object.text("answer");
                item.fields = {{"question", object.text("question")}, {"answer", item.answer}};
                item.doc = json_object({{"question", json_string(item.fields["question"])},
                                        {"answer", json_string(item.answer)}});
                item.check = json_object({{"target", json_string(item.answer)}});
                items.push_back(std::move(item));
              });
  return items;
}

benchmark base(const char* harness, const char* config) {
  benchmark b = declared_as("gsm8k", harness, config);
  b.folder = "gsm8k";
  b.items = 1319;
  if (b.gen_length == 0) b.gen_length = 256;
  b.read = read;
  return b;
}

benchmark lm_eval() {
  benchmark b = base("LM", "gsm8k");
  b.shots = 5;
  b.scorer = "gsm8k_lm_eval";
  b.examples = {example_rule::drawn, "train"};
  b.style = lm_eval_style{.question = "Question: {question}\nAnswer:",
                          .target = "{answer}",
                          .stop = {"Question:", "</s>", "<|im_end|>"}};
  return b;
}

benchmark chain_of_thought() {
  benchmark b = base("LM", "gsm8k_cot");
  b.name = "gsm8k_cot";
  b.shots = 8;
  b.scorer = "gsm8k_cot_lm_eval";
  b.examples = {example_rule::written, "gsm8k_cot"};
  b.style = lm_eval_style{
      .question = "Q: {question}\nA:", .target = "{answer}", .stop = {"Q:", "</s>", "<|im_end|>"}};
  return b;
}

const char* const step_by_step = "Question: {question}\nLet's think step by step\nAnswer:";

benchmark four_turns(const char* harness, const char* config) {
  benchmark b = base(harness, config);
  b.shots = 4;
  b.scorer = "gsm8k_opencompass";
  b.examples = {example_rule::written, "gsm8k_opencompass"};
  b.style = opencompass_style{.example = {{"user", step_by_step}, {"assistant", "{answer}\n"}},
                              .question = {{"user", step_by_step}}};
  return b;
}

}  // namespace

std::vector<benchmark> gsm8k() {
  benchmark focus = base("OC-F", "gsm8k_0shot_v2_gen_17d799");
  focus.scorer = "gsm8k_opencompass_v2";
  focus.style = opencompass_style{
      .question = {{"user",
                    "{question}\nPlease reason step by step, and put your final answer within "
                    "\\boxed{}."}},
      .system = system_message};
  benchmark dream = base("OC-S", "gsm8k_gen_1dce88_maxoutlen_256");
  dream.shots = 4;
  dream.scorer = "gsm8k_opencompass";
  dream.examples = {example_rule::written, "gsm8k_gen_1dce88"};
  dream.style = opencompass_style{.example = {{"user", "Question: {question}\nAnswer: {answer}\n"}},
                                  .question = {{"user", "Question: {question}\nAnswer:"}}};
  benchmark llada = four_turns("OC-L", "gsm8k_gen_1d7fe4");
  llada.gen_length = 512;
  return {lm_eval(), chain_of_thought(),
          focus,     four_turns("OC-S", "gsm8k_gen_17d0dc_maxoutlen_256"),
          dream,     llada};
}

}  // namespace unmask::declared
