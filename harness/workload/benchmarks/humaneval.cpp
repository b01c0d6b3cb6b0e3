// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// HumanEval (Chen et al. 2021; github.com/openai/human-eval): HumanEval.jsonl.
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

std::vector<source_item> read(const official_files& files, const std::string&, const std::string&) {
  std::vector<source_item> items;
  each_object(files.text("humaneval", {"HumanEval.jsonl"}),
              [&](const json_reader& object, std::size_t) {
                source_item item;
                item.id = object.text("task_id");
                item.fields = {{"prompt", object.text("prompt")}};
                item.answer = object.text("canonical_solution");
                item.doc = json_object({{"task_id", json_string(item.id)},
                                        {"prompt", json_string(object.text("prompt"))},
                                        {"canonical_solution", json_string(item.answer)},
                                        {"test", json_string(object.text("test"))},
                                        {"entry_point", json_string(object.text("entry_point"))}});
                item.check = json_object({{"entry_point", json_string(object.text("entry_point"))},
                                          {"prompt", json_string(object.text("prompt"))},
                                          {"task_id", json_string(item.id)},
                                          {"test", json_string(object.text("test"))}});
                items.push_back(std::move(item));
              });
  return items;
}

benchmark base(const char* harness, const char* config, const std::string& before) {
  benchmark b = declared_as("humaneval", harness, config);
  b.items = 164;
  if (b.harness == "OC-S") b.max_prompt = 4096;
  if (b.harness != "OC-F") b.gen_length = 512;
  b.metric = "pass@1";
  b.read = read;
  b.style = opencompass_style{.question = {{"user", before + "{prompt}"}}};
  return b;
}

}  // namespace

std::vector<benchmark> humaneval() {
  benchmark lm = base("LM", "humaneval", "");
  lm.scorer = "humaneval_lm_eval";
  lm.style =
      lm_eval_style{.question = "{prompt}", .stop = {"\nclass", "\ndef", "\n#", "\nif", "\nprint"}};
  benchmark focus = base("OC-F", "humaneval_openai_sample_evals_gen_dcae0e", "");
  focus.scorer = "humaneval_opencompass_focus";
  focus.style = opencompass_style{
      .question = {{"user",
                    "Read the following function signature and docstring, and fully implement the "
                    "function described. Your response should only contain the code for this "
                    "function.\n{prompt}"}},
      .system = system_message};
  benchmark sparse = base("OC-S", "humaneval_openai_sample_evals_gen_dcae0e", "");
  sparse.scorer = "humaneval_opencompass_sparse";
  // Dream instruct: another postprocessor over the same config.
  benchmark chat = sparse;
  chat.config += "_chat";
  chat.form = prompt_form::one_turn;
  chat.scorer = "humaneval_opencompass_sparse_chat";
  benchmark llada = base("OC-L", "humaneval_gen_8e312c", "Complete the following python code:\n");
  llada.scorer = "humaneval_opencompass_llada";
  // Fast-dLLM, Dream and dLLM-Cache: nothing is cut, the sanitizer finds the program.
  benchmark sanitized = lm;
  sanitized.config = "humaneval_sanitized";
  sanitized.form = prompt_form::one_turn;
  sanitized.scorer = "humaneval_fast_dllm";
  std::get<lm_eval_style>(sanitized.style).stop.clear();
  return {lm, sanitized, focus, sparse, chat, llada};
}

}  // namespace unmask::declared
