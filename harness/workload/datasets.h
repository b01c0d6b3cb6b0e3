// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Readers of public datasets in the form their authors publish. Nothing is downloaded, and no code
// of a dataset is ever executed.
//
//   name          file                        scorer        answer
//   gsm8k         test.jsonl                  final_number  the worked solution
//   math500       test.jsonl                  boxed         the worked solution
//   humaneval     HumanEval.jsonl             none: scoring needs to execute the program
//   mbpp          mbpp.jsonl                  none: scoring needs to execute the program
//   mt_bench      question.jsonl              none: a judge model scores it; first turn only
//   vicuna_bench  question.jsonl              none, as mt_bench
//   spec_bench    question.jsonl              none; a speed benchmark; first turn only
//   longbench     TASK.jsonl beside           rouge_l for the four summary tasks (one reference
//                 dataset2prompt.json and     each); qa_f1, classification, code_similarity and
//                 dataset2maxlen.json         share_of_number where eval.py takes them; none for
//                                             what needs Chinese segmentation
//   ifeval        input_data.jsonl            none; the instructions are kept in `check`
//
// Prompts are zero-shot and before the chat template. gen_length is the usual setting of the
// published evaluations; an experiment may set its own.
#pragma once

#include <string>
#include <vector>

#include "harness/workload/task.h"

namespace unmask {

const std::vector<std::string>& dataset_names();

// Usage error for an unknown name; environment error that names the dataset, file, line and key
// for a file that is not in the published form, compressed files included.
std::vector<task_item> read_dataset(const std::string& name, const std::string& path);

}  // namespace unmask
