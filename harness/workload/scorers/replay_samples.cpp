// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Recorded responses, judged by our scorers, as lm-eval's sample files: what its own scorers say of
// the same file must be equal.
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/workload/samples.h"
#include "harness/workload/scorers/math_text.h"
#include "harness/workload/scorers/replay.h"

namespace unmask::scorers {
namespace {

using json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct sampled_file {
  const char *name, *task, *scorer;
  // The item of a recorded case: check, and the record as lm-eval's data set has it.
  void (*fill)(const json_reader& record, task_item& item);
};

void gsm8k(const json_reader& record, task_item& item) {
  item.answer = record.text("target");
  item.check = json{{"target", item.answer}}.dump();
  item.doc = json{{"question", ""}, {"answer", item.answer}}.dump();
}

void minerva(const json_reader& record, task_item& item) {
  const std::string answer = record.text("answer");
  item.check = json{{"answer", answer}}.dump();
  item.doc = json{{"problem", ""},
                  {"solution", "\\boxed{" + answer + "}"},
                  {"answer", minerva_normal(answer)}}
                 .dump();
}

void mmlu(const json_reader& record, task_item& item) {
  item.answer = record.text("gold");
  item.check = json{{"answer", item.answer}}.dump();
  item.doc = json{{"question", ""},
                  {"subject", "anatomy"},
                  {"choices", {"a", "b", "c", "d"}},
                  {"answer", item.answer.at(0) - 'A'}}
                 .dump();
}

void ifeval(const json_reader& record, task_item& item) {
  const std::string instructions = json_text(record.at("instruction_id_list"));
  const std::string kwargs = json_text(record.at("kwargs"));
  const json doc = {{"key", record.integer("key", 0, std::int64_t{1} << 40)},
                    {"prompt", record.text_or("prompt", "")},
                    {"instruction_id_list", json::parse(instructions)},
                    {"kwargs", json::parse(kwargs)}};
  item.check = item.doc = doc.dump();
}

constexpr sampled_file sampled[] = {
    {"gsm8k_lm_eval", "gsm8k", "gsm8k_lm_eval", gsm8k},
    {"math_minerva_lm_eval", "minerva_math_algebra", "math_minerva_lm_eval", minerva},
    {"mmlu_generative_lm_eval", "mmlu_anatomy_generative", "mmlu_generative_lm_eval", mmlu},
    {"ifeval_lm_eval", "ifeval", "ifeval", ifeval}};

}  // namespace

void write_scorer_samples(const fs::path& directory, const fs::path& folder) {
  fs::create_directories(folder);
  for (const sampled_file& file : sampled) {
    fs::path path = directory / "scorers" / (std::string(file.name) + ".jsonl");
    if (!fs::exists(path)) path += ".gz";
    if (!fs::exists(path)) continue;
    std::ofstream out;
    std::size_t row = 0;
    for_each_json_line(path.string(), [&](const json_reader& record, std::size_t) {
      task_item item;
      item.id = std::to_string(row);
      item.doc_id = row++;
      item.task = file.task;
      item.scorer = file.scorer;
      file.fill(record, item);
      if (!out.is_open()) out.open(folder / sample_file_name(item, "2000-01-01T00-00-00"));
      const score s = score_answer(item, record.text("response"));
      out << sample_lines(item, {record.text("response"), {}, s.filters, {}}) << "\n";
    });
    if (!out.flush()) throw environment_error("cannot write into " + folder.string());
  }
}

}  // namespace unmask::scorers
