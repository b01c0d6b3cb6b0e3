// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/task_fields.h"

#include "harness/base/error.h"

namespace unmask {

const std::vector<task_field>& task_fields() {
  static const std::vector<task_field> all = {
      {"id", "text", true, "names the item; no two of a file are alike"},
      {"family", "text", true, "names the task, as rows and tables show it"},
      {"prompt", "text", true, "what the user says; the model's chat template is put around it"},
      {"scorer", "text", true, "who says how right an answer is: one of those below"},
      {"gen_length", "integer", true, "tokens to generate, unless the experiment says how many"},
      {"answer", "text", false, "what the scorers `exact` and `rouge_l` compare with"},
      {"check", "object", false, "what the other scorers compare with, below"},
      {"context_tokens", "integer", false,
       "length of the prompt, for `context = [LOW, HIGH]` of [[workload]]"},
      {"images", "array", false,
       "one PNG or JPEG picture that a model with a tower sees before the prompt: its path from "
       "the "
       "file's folder"},
      {"codes", "array", false,
       "the picture as codes of the model's codebook, for MMaDA, whose encoder is not read"},
  };
  return all;
}

const std::vector<check_field>& check_fields() {
  static const std::vector<check_field> all = {
      {"final_number", "value", "integer", "what follows the last `####` of the answer"},
      {"contains", "text", "text", "what occurs in the answer, not inside a longer run of digits"},
      {"list_program", "inputs", "array of arrays", "lists that the answer's program is run on"},
      {"list_program", "outputs", "array", "what it makes of each of them"},
      {"constraints", "constraints", "array of objects", "rules that the answer keeps"},
  };
  return all;
}

void require_task_fields(const json_reader& line) {
  std::vector<std::string> missing;
  for (const task_field& field : task_fields()) {
    if (field.needed && !line.given(field.name))
      missing.push_back("`" + line.name_of(field.name) + "`");
  }
  const json_value* scorer = line.find("scorer");
  const json_value* check = line.find("check");
  for (const check_field& field : check_fields()) {
    if (scorer == nullptr || scorer->text() == nullptr || *scorer->text() != field.scorer) continue;
    const json_value* member = check == nullptr ? nullptr : check->find(field.name);
    if (member == nullptr) missing.push_back(std::string("`check.") + field.name + "`");
  }
  if (missing.empty()) return;
  std::string names = missing.front();
  for (std::size_t i = 1; i < missing.size(); ++i) {
    names += (i + 1 < missing.size() ? ", " : " and ") + missing[i];
  }
  throw environment_error(line.file() + ": " + names + (missing.size() > 1 ? " are" : " is") +
                          " missing; experiments/FORMAT.md lists what an item needs");
}

}  // namespace unmask
