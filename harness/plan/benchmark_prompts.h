// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From a [[workload]] that names a benchmark to its tasks file. The Python package writes it, once
// for all runs that ask the same of the same files. Its name says by a hash what was asked and by
// which definitions; its first line says which data it was made of.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/benchmark_workload.h"

namespace unmask {

struct experiment_spec;

// The folders of data sets of a request: its `path`, then $UNMASK_DATASETS.
std::vector<std::filesystem::path> folders_of(const benchmark_request& request);

// BENCHMARK-HARNESS-CONFIG[-TASK]-HASH.jsonl. `tokenizer`: the model's tokenizer.json, whose
// content counts where items are made to a number of tokens; it need not exist otherwise.
std::string tasks_file_name(const benchmark_request& request,
                            const std::filesystem::path& tokenizer);

// The tasks file that was written beforehand, in tasks/ beside the experiment file, the folders of
// $UNMASK_TASKS, tasks/ here or $XDG_CACHE_HOME/unmask/tasks (~/.cache). One made of other data
// than lies in the folders of data sets now does not count; where they are not here, it does.
std::optional<std::filesystem::path> find_tasks_file(const benchmark_request& request,
                                                     const std::filesystem::path& tokenizer);

// Why the prompts cannot be had here: no tasks file and not all the data. Empty: they can, or
// Python will say.
std::string lacks_prompts(const benchmark_request& request, const std::filesystem::path& tokenizer);

// Has the package write the tasks file into `folder` and returns it. Environment error "NOT RUN:
// needs ..." where Python or the data is missing, or with the package's own reason.
std::filesystem::path write_tasks_file(const benchmark_request& request,
                                       const std::filesystem::path& tokenizer,
                                       const std::filesystem::path& folder);

// The one found, else written into the cache.
std::filesystem::path tasks_file(const benchmark_request& request,
                                 const std::filesystem::path& tokenizer);

// Each tasks file that an experiment needs and its request, none twice.
struct prompts_need {
  benchmark_request request;
  std::filesystem::path tokenizer;
};
std::vector<prompts_need> prompts_of(const experiment_spec& spec);
// Sees to it that all of them are written, before any model is loaded. Errors as write_tasks_file.
void prepare_prompts(const experiment_spec& spec);

}  // namespace unmask
