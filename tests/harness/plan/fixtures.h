// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Methods and folders for the tests of plans, without any model.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "tests/support.h"

namespace unmask::fixtures {

inline const std::map<std::string, method_info>& methods() {
  const auto with = [](const char* name, std::vector<parameter_spec> parameters) {
    method_info method;
    method.name = name;
    method.parameters = std::move(parameters);
    return std::pair(method.name, method);
  };
  static const std::map<std::string, method_info> table = {
      with("vanilla", {{"steps", std::int64_t{0}, "", 0, 4096}, {"threshold", 0.0, "", 0, 2}}),
      with("block_diffusion",
           {{"steps", std::int64_t{0}, "", 0, 4096}, {"threshold", 0.9, "", 0, 2}}),
      with("autoregressive", {{"temperature", 0.0, "", 0, 10}})};
  return table;
}

inline method_catalogue catalogue() {
  return [](const std::string& name) -> const method_info& {
    find_known("method", name, keys_of(methods()));
    return methods().at(name);
  };
}

// A directory of its own, removed at the end.
struct scratch_directory : scratch_folder {
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
};

inline std::filesystem::path write(const std::filesystem::path& file, const std::string& text) {
  write_file(file, text);
  return file;
}

inline bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// An artifact with two scales; the second cannot run anywhere that tests run.
inline const char* const artifact_text = R"(title = "Speed"
[artifact]
paper = "focus"
id = "table_5"
kind = "table"
title = "Speed & redundancy"
[run]
repetitions = 3
[[method]]
name = "vanilla"
models = ["canvas"]
[[method]]
name = "vanilla"
label = "fast"
params.threshold = 0.9
[sweep]
batch_size = [1, 8]
params.steps = [0, 4]
[scale.tiny]
takes = "1 s"
[scale.tiny.run]
batch_size = 2
[[scale.tiny.model]]
path = "tiny"
role = "canvas"
[[scale.tiny.workload]]
file = "tasks.jsonl"
[scale.tiny.sweep]
batch_size = [1, 4]
params.steps = []
[scale.tiny.set]
"method.fast.threshold" = 0.7
"run.repetitions" = 5
[scale.full]
needs = ["memory_gb:64", "gpus:2"]
[[scale.full.model]]
path = "weights:GSAI-ML/LLaDA-8B"
role = "canvas"
[[scale.full.workload]]
benchmark = "gsm8k"
[scale.full.run]
device = "cuda"
)";

using test::message_of;

}  // namespace unmask::fixtures
