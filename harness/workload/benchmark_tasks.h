// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A tasks file of a benchmark, as the Python package writes it (`unmask prompts`): JSON lines. The
// first says what holds for all:
//
//   unmask_tasks (1), benchmark, harness, version, config, form, shots, metric, items, licence,
//   library {package: version}, data {file below its folder: SHA-256}
//
// each further one is an item:
//
//   id, family, benchmark, task (lm-eval's name), doc_id (its number there), prompt or messages
//   [{role, content}], bos (true: the BOS token's text before it), stop, gen_length, doc (the
//   record as the data set has it), answer, scorer, check; of a multiple choice: continuations,
//   right; of a prompt that may be too long: shorter, the same with one example less each time;
//   of a question about a picture: images, its path from the file's folder, or codes (task.h)
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/workload/task.h"

namespace unmask {

struct tasks_head {
  std::string benchmark, harness, version, config, form, metric;
  int shots = 0;
  std::map<std::string, std::string> library, data;
};

struct benchmark_item {
  task_item task;
  // The prompt with fewer and fewer examples: each a text, or turns.
  std::vector<std::string> shorter_prompts;
  std::vector<std::vector<chat_message>> shorter_messages;
};

struct benchmark_tasks {
  tasks_head head;
  std::vector<benchmark_item> items;
};

// Environment error that names file, line and what is wrong. `head_only`: without the items.
benchmark_tasks read_benchmark_tasks(const std::filesystem::path& file, bool head_only = false);

}  // namespace unmask
