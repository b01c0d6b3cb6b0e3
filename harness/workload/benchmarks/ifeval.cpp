// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// IFEval (Zhou et al. 2023; github.com/google-research/google-research/tree/master/
// instruction_following_eval): input_data.jsonl.
#include "harness/base/json_lines.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

std::vector<source_item> read(const official_files& files, const std::string&, const std::string&) {
  std::vector<source_item> items;
  each_object(files.text("ifeval", {"input_data.jsonl"}), [&](const json_reader& object,
                                                              std::size_t) {
    source_item item;
    item.id = std::to_string(object.integer("key", 0, std::int64_t{1} << 40));
    item.fields = {{"prompt", object.text("prompt")}};
    item.check = json_object({{"instruction_id_list", json_text(object.at("instruction_id_list"))},
                              {"key", item.id},
                              {"kwargs", json_text(object.at("kwargs"))},
                              {"prompt", json_string(object.text("prompt"))}});
    items.push_back(std::move(item));
  });
  return items;
}

}  // namespace

std::vector<benchmark> ifeval() {
  benchmark lm;
  lm.name = "ifeval";
  lm.harness = "LM";
  lm.config = "ifeval";
  lm.items = 541;
  lm.gen_length = 1280;
  lm.metric = "mean of prompt-level and instruction-level strict";
  lm.scorer = "ifeval";
  lm.read = read;
  lm.style = lm_eval_style{.question = "{prompt}"};
  benchmark focus = lm;
  focus.harness = "OC-F";
  focus.config = "IFEval_gen_353ae7";
  focus.form = prompt_form::chat;
  focus.gen_length = 1024;
  focus.style = opencompass_style{.question = {{"user", "{prompt}"}},
                                  .system = "You are a helpful assistant."};
  benchmark llada = focus;
  llada.harness = "OC-L";
  llada.gen_length = 512;
  llada.style = opencompass_style{.question = {{"user", "{prompt}"}}};
  return {lm, focus, llada};
}

}  // namespace unmask::declared
