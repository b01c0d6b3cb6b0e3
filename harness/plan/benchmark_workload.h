// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A [[workload]] that is a benchmark as a harness of the papers runs it (`unmask list benchmarks`). Its
// prompts are written by the Python package and kept (benchmark_prompts.h):
//
//   benchmark = "gsm8k"     harness = "OC-S" or "OC-S/CONFIG"; the first of the name without it
//   task                    one subject or task of several (mmlu, longbench, needle_map); all without;
//                           tasks = [...]: each a workload of its name
//   world, rank             lm-eval on several processes draws its examples by process: the documents
//                           as `world` processes ask them; with `rank` only those of that one
//   shots                   as declared without it
//   prompt                  "raw", "bos", "one-turn" or "chat"; the harness's own without it
//   system = "off"          without the harness's system message (OC-F)
//   thinking = "off"        the template's empty block of thought (SDAR, Qwen3)
//   max_prompt_tokens       longer prompts lose examples, then tokens (OC-U: in the middle, else on the
//                           left); the harness's own without it; 0: no limit
//   path                    a folder of data sets, or of this one; $UNMASK_DATASETS besides
//   trials                  every item so many times, each with noise of its own
//   kind = "likelihood"     the choice that the model finds likeliest instead of a generated answer:
//                           mc_num, mc_batch (rows of a round), guidance (harness/decode/likelihood.h)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/workload/benchmark_tasks.h"

namespace unmask {
class toml_reader;
}
namespace unmask {

struct workload_entry;

struct benchmark_request {
  std::string name;  // empty: another workload
  std::string harness, task, prompt, thinking, system, path;
  std::string kind = "generate";
  std::int64_t shots = -1, max_prompt_tokens = -1, trials = 1;
  std::int64_t world = 1, rank = -1;      // rank below 0: the documents of every process
  std::int64_t mc_num = 0, mc_batch = 0;  // 0: the harness's own
  double guidance = 0;
  std::filesystem::path base;  // folder of the experiment file
  bool operator==(const benchmark_request&) const = default;
};

// The keys above but for `benchmark` itself, which may name several; usage error for keys of a
// benchmark where none is named.
void read_benchmark_keys(toml_reader& r, const std::filesystem::path& file,
                         benchmark_request& into);
// Usage error beginning with `where` where they contradict each other or the registry; fills in `kind`.
void check_benchmark(const std::string& where, benchmark_request& request);
// One line of JSON, keys sorted, of what decides the prompts; for the id of a point.
std::string canonical_benchmark(const benchmark_request& request);

// What a benchmark's prompts say about a run before any model is loaded.
struct benchmark_summary {
  std::string hash;                         // of the chosen items with their prompts
  std::int64_t items = 0;                   // every trial counted
  double prompt_bytes = 0, gen_length = 0;  // means; gen_length as declared
  std::int64_t continuations = 0;           // of choices by likelihood, in one trial
};
// Nothing where its prompts are not written. `model`: the folder with the tokenizer, for items that are
// made to a number of tokens.
std::optional<benchmark_summary> summary_of(const workload_entry& entry,
                                            const std::filesystem::path& model);

// The items that an entry chooses, and what holds for all; environment error as tasks_file.
benchmark_tasks chosen_tasks(const workload_entry& entry, const std::filesystem::path& model);
// Of items with their prompts.
std::string hash_of_benchmark(const benchmark_tasks& tasks);

}  // namespace unmask
