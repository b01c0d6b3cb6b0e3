// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A [[workload]] that is a benchmark as a harness of the papers runs it (harness/workload/
// benchmarks; `unmask list benchmarks`):
//
//   benchmark = "gsm8k"     harness = "OC-S" or "OC-S/CONFIG"; the first of the name without it
//   task                    one subject or task of several (mmlu, longbench, needle_map); all without
//   shots                   as declared without it
//   prompt                  "raw", "bos", "one-turn" or "chat"; the harness's own without it
//   thinking = "off"        the template's empty block of thought (SDAR, Qwen3)
//   max_prompt_tokens       longer prompts lose examples, then tokens (OC-U: in the middle, else on the
//                           left); the harness's own without it; 0: no limit
//   path                    a folder of datasets, or of this one; $UNMASK_DATASETS besides
//   trials                  every item so many times, each with noise of its own
//   kind = "likelihood"     the choice that the model finds likeliest instead of a generated answer:
//                           mc_num, mc_batch (rows of a round), guidance (harness/decode/likelihood.h)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace unmask {

class toml_reader;
struct loaded_model;
struct loaded_workload;
struct run_settings;
struct workload_entry;

struct benchmark_request {
  std::string name;  // empty: another workload
  std::string harness, task, prompt, thinking, path;
  std::string kind = "generate";
  std::int64_t shots = -1, max_prompt_tokens = -1, trials = 1;
  std::int64_t mc_num = 0, mc_batch = 0;  // 0: the harness's own
  double guidance = 0;
  std::filesystem::path base;  // folder of the experiment file
  bool operator==(const benchmark_request&) const = default;
};

// The keys above; usage error where they contradict each other or the registry.
void read_benchmark_keys(toml_reader& r, const std::filesystem::path& file,
                         benchmark_request& into);
// One line of JSON, keys sorted, of what decides the prompts; for the id of a point.
std::string canonical_benchmark(const benchmark_request& request);

// Items, requests and record of a benchmark; environment error that names what is missing.
void fill_benchmark(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                    const loaded_model& model);

}  // namespace unmask
