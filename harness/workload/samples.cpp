// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/samples.h"

#include <nlohmann/json.hpp>

#include "harness/base/digest.h"

namespace unmask {
namespace {

using json = nlohmann::ordered_json;

std::string text_of(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

json doc_of(const task_item& item) {
  if (!item.doc.empty()) return json::parse(item.doc);
  return {{"id", item.id}, {"prompt", item.prompt}, {"answer", item.answer}};
}

std::string target_of(const task_item& item) {
  return item.target.empty() ? item.answer : item.target;
}

json arguments_of(const task_item& item) {
  json all = json::object();
  if (item.continuations.empty()) {
    const json settings = {{"until", item.stop}, {"max_gen_toks", item.gen_length}};
    all["gen_args_0"] = {{"arg_0", item.prompt}, {"arg_1", settings}};
  }
  for (std::size_t i = 0; i < item.continuations.size(); ++i) {
    all["gen_args_" + std::to_string(i)] = {{"arg_0", item.prompt},
                                            {"arg_1", item.continuations[i]}};
  }
  return all;
}

}  // namespace

std::string sample_lines(const task_item& item, const answer_sample& sample) {
  const json doc = doc_of(item);
  const std::string target = target_of(item);
  // Requests by responses; a likelihood comes with whether greedy decoding would say the same, which
  // masked models do not tell.
  json responses = json::array({json::array({sample.output})});
  if (!sample.loglikelihoods.empty()) {
    responses = json::array();
    for (const double value : sample.loglikelihoods) {
      responses.push_back(json::array({json::array({text_of(value, -1), "False"})}));
    }
  }
  std::vector<filtered_answer> filters = sample.filters;
  if (filters.empty()) filters = {{"none", sample.output, {}}};
  std::string lines;
  for (const filtered_answer& f : filters) {
    json filtered = json::array();
    json names = json::array();
    for (const json& request : responses) {
      filtered.push_back(sample.loglikelihoods.empty() ? json(f.text) : request[0]);
    }
    for (const auto& [metric, value] : f.metrics) names.push_back(metric);
    json line = {{"doc_id", item.doc_id},
                 {"doc", doc},
                 {"target", target},
                 {"arguments", arguments_of(item)},
                 {"resps", responses},
                 {"filtered_resps", std::move(filtered)},
                 {"filter", f.filter},
                 {"metrics", std::move(names)},
                 {"doc_hash", sha256_hex(text_of(doc, 2))},
                 {"prompt_hash", sha256_hex(item.prompt)},
                 {"target_hash", sha256_hex(target)}};
    for (const auto* members : {&f.metrics, &sample.more}) {
      for (const auto& [key, value] : *members) line[key] = json::parse(value);
    }
    lines += (lines.empty() ? "" : "\n") + text_of(line, -1);
  }
  return lines;
}

std::string sample_file_name(const task_item& item, const std::string& date) {
  std::string task = item.task.empty() ? item.family : item.task;
  for (char& c : task) {
    if (c == '/' || c == ' ' || static_cast<unsigned char>(c) < 32) c = '_';
  }
  return "samples_" + task + "_" + date + ".jsonl";
}

}  // namespace unmask
