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
    item.doc = json_object({{"key", item.id},
                            {"prompt", json_string(item.fields["prompt"])},
                            {"instruction_id_list", json_text(object.at("instruction_id_list"))},
                            {"kwargs", json_text(object.at("kwargs"))}});
    item.check = json_object({{"instruction_id_list", json_text(object.at("instruction_id_list"))},
                              {"key", item.id},
                              {"kwargs", json_text(object.at("kwargs"))},
                              {"prompt", json_string(object.text("prompt"))}});
    items.push_back(std::move(item));
  });
  return items;
}

benchmark base(const char* harness, const char* config) {
  benchmark b = declared_as("ifeval", harness, config);
  b.items = 541;
  b.metric = "mean of prompt-level and instruction-level strict";
  b.scorer = "ifeval";
  b.read = read;
  b.style = opencompass_style{.question = {{"user", "{prompt}"}},
                              .system = b.harness == "OC-F" ? system_message : ""};
  return b;
}

}  // namespace

std::vector<benchmark> ifeval() {
  benchmark lm = base("LM", "ifeval");
  lm.gen_length = 1280;
  lm.style = lm_eval_style{.question = "{prompt}"};
  benchmark llada = base("OC-L", "IFEval_gen_353ae7");
  llada.gen_length = 512;
  return {lm, base("OC-F", "IFEval_gen_353ae7"), llada};
}

}  // namespace unmask::declared
