// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask prompts: the tasks files of experiments, written beforehand for a machine without Python.
#include <filesystem>

#include <fmt/core.h>

#include "harness/base/error.h"
#include "harness/base/output.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/plan/benchmark_prompts.h"
#include "harness/plan/request.h"

namespace unmask {

namespace fs = std::filesystem;

int command_prompts(const texts& arguments) {
  const command_line line(
      "prompts FILE.toml... [options]",
      option_table{output_option("write the files of tasks into this folder (default: tasks)")} +
          option_table{{"scale", no_default,
                        "variant of a paper table or figure: tiny (default), scores, real, shapes "
                        "or full"}} +
          settings_options(),
      {"file..."}, arguments,
      "Writes the prompts of the experiments' benchmarks as their harnesses do, with Python and "
      "lm-eval 0.4.8 (./dev setup). `unmask run` finds the files in tasks/ next to the experiment "
      "or here, and in the folders of $UNMASK_TASKS. It then needs neither Python nor the data.");
  const texts files = line.list("file");
  if (files.empty()) throw usage_error("prompts needs an experiment file");
  const fs::path folder = line.text("output", "tasks");
  std::size_t count = 0;
  for (const std::string& file : files) {
    const experiment_spec spec = requested_spec({file, line.text("scale"), line.settings()});
    for (const prompts_need& need : prompts_of(spec)) {
      print("{}\n", write_tasks_file(need.request, need.tokenizer, folder).string());
      ++count;
    }
  }
  if (count == 0) print("no workload of these files is a benchmark\n");
  return 0;
}

}  // namespace unmask
