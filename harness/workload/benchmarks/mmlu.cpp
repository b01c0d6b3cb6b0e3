// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// MMLU (Hendrycks et al. 2021; github.com/hendrycks/test): data/{dev,val,test}/SUBJECT_SPLIT.csv,
// rows of question, four options and the letter, without a header.
#include "harness/base/error.h"
#include "harness/base/python_text.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

const std::vector<std::string_view> subjects = py::words_of(
    "abstract_algebra anatomy astronomy business_ethics clinical_knowledge college_biology "
    "college_chemistry college_computer_science college_mathematics college_medicine "
    "college_physics computer_security conceptual_physics econometrics electrical_engineering "
    "elementary_mathematics formal_logic global_facts high_school_biology high_school_chemistry "
    "high_school_computer_science high_school_european_history high_school_geography "
    "high_school_government_and_politics high_school_macroeconomics high_school_mathematics "
    "high_school_microeconomics high_school_physics high_school_psychology high_school_statistics "
    "high_school_us_history high_school_world_history human_aging human_sexuality "
    "international_law jurisprudence logical_fallacies machine_learning management marketing "
    "medical_genetics miscellaneous moral_disputes moral_scenarios nutrition philosophy "
    "prehistory professional_accounting professional_law professional_medicine "
    "professional_psychology public_relations security_studies sociology us_foreign_policy "
    "virology world_religions");

std::vector<source_item> read(const official_files& files, const std::string& split,
                              const std::string& subject) {
  const std::string name = subject + "_" + split + ".csv";
  const official_text file = files.text("mmlu", {"data/" + split + "/" + name, split + "/" + name});
  std::vector<source_item> items;
  for (const auto& row : csv_rows(file)) {
    const std::string where = file.name + ", row " + std::to_string(items.size());
    if (row.size() != 6) throw environment_error(where + ": must have six columns");
    const std::string& letter = row[5];
    if (letter.size() != 1 || letter[0] < 'A' || letter[0] > 'D') {
      throw environment_error(where + ": the answer must be A, B, C or D");
    }
    source_item item;
    item.id = subject + ":" + std::to_string(items.size());
    item.group = subject;
    item.fields = {{"input", row[0]},
                   {"question", std::string(py::strip(row[0]))},
                   {"subject", py::replace_all(subject, "_", " ")}};
    const std::vector<std::string> options(row.begin() + 1, row.end() - 1);
    item.doc = json_object({{"question", json_string(row[0])},
                            {"subject", json_string(subject)},
                            {"choices", json_strings(options)},
                            {"answer", std::to_string(letter[0] - 'A')}});
    set_options(item, options, static_cast<std::size_t>(letter[0] - 'A'));
    item.choices = {"A", "B", "C", "D"};  // letters are what the model continues with
    items.push_back(std::move(item));
  }
  return items;
}

benchmark base(const char* name, const char* harness, const char* config) {
  benchmark b = declared_as(name, harness, config);
  b.shots = 5;
  b.items = 14042;
  b.folder = "mmlu";
  b.examples = {example_rule::first, "dev"};
  b.read = read;
  b.groups.assign(subjects.begin(), subjects.end());
  return b;
}

lm_eval_style lm_eval(bool choices) {
  return {.question = "{question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:",
          .target = "{answer}",
          .description =
              "The following are multiple choice questions (with answers) about {subject}.\n\n",
          .stop = choices ? std::vector<std::string>{} : std::vector<std::string>{"</s>", "\n"},
          .choices = choices};
}

}  // namespace

std::vector<benchmark> mmlu() {
  benchmark likelihood = base("mmlu", "LM", "mmlu");
  likelihood.scorer = "likelihood_choice";
  likelihood.metric = "acc";
  likelihood.style = lm_eval(true);
  benchmark generative = base("mmlu_generative", "LM", "mmlu_generative");
  generative.gen_length = 128;
  generative.scorer = "mmlu_generative_lm_eval";
  generative.style = lm_eval(false);
  benchmark sparse = base("mmlu", "OC-S", "mmlu_gen_79e572");
  sparse.scorer = "first_capital";
  // Two blanks before the subject: one of the config, one of the name.
  sparse.style = opencompass_style{
      .example = {{"user", "{input}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer: {answer}\n"}},
      .question = {{"user", "{input}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:"}},
      .plain = true,
      .lead = "The following are multiple choice questions (with answers) about  {subject}.\n\n"};
  benchmark llada = base("mmlu", "OC-L", "mmlu_gen_a484b3");
  llada.gen_length = 3;
  llada.scorer = "first_option";
  const std::string hint =
      "There is a single choice question about {subject}. Answer the question by replying A, B, C "
      "or D.\n";
  // The examples say Question and Answer, the question itself Q and A.
  llada.style = opencompass_style{
      .example = {{"user", hint + "Question: {input}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer: "},
                  {"assistant", "{answer}\n"}},
      .question = {{"user", hint + "Q: {input}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nA: "}}};
  return {likelihood, generative, sparse, llada};
}

}  // namespace unmask::declared
