// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A [[workload]] that is a benchmark as a harness of the papers runs it (`unmask list benchmarks`).
// Its prompts are written by the Python package and kept (benchmark_prompts.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/plan/keys.h"
#include "harness/workload/benchmark_tasks.h"

namespace unmask {

struct workload_entry;

struct benchmark_request {
  std::string name;  // empty: another workload
  std::string harness, task, prompt, thinking, system;
  std::filesystem::path path;  // a folder of data sets, or of this one
  std::string kind = "generate";
  std::int64_t shots = -1, max_prompt_tokens = -1, trials = 1;
  std::int64_t world = 1, rank = -1;      // rank below 0: the documents of every process
  std::int64_t mc_num = 0, mc_batch = 0;  // 0: the harness's own
  double guidance = 0;
  std::filesystem::path base;  // folder of the experiment file
  bool operator==(const benchmark_request&) const = default;
};

// The keys of [[workload]] that belong to a benchmark.
template <class Visit>
void each_key(benchmark_request& b, Visit& visit) {
  constexpr id_part changed = id_part::when_changed;
  visit(file_key{"harness", "HARNESS or HARNESS/CONFIG"}
            .of("benchmark")
            .otherwise("first of the benchmark"),
        b.harness);
  visit(file_key{"task", "one of its subjects"}.of("benchmark").otherwise("all").in_ids(changed),
        b.task);
  visit(file_key{"prompt", "raw, bos, one-turn or chat"}
            .of("benchmark")
            .otherwise("the harness's")
            .in_ids(changed),
        b.prompt);
  visit(file_key{"thinking", "\"off\" puts the template's empty block of thought"}
            .of("benchmark")
            .in_ids(changed),
        b.thinking);
  visit(file_key{"system", "\"off\" leaves out the harness's system message"}
            .of("benchmark")
            .in_ids(changed),
        b.system);
  visit(file_key{"path", "where its data lie"}
            .of("benchmark")
            .otherwise("$UNMASK_DATASETS")
            .looked_up(),
        b.path);
  visit(file_key{"kind", "\"likelihood\" takes the likeliest choice"}
            .of("benchmark")
            .in_ids(id_part::always),
        b.kind);
  visit(file_key{"shots", "worked examples in the prompt"}
            .of("benchmark")
            .bounds(0, 1000)
            .otherwise("as declared")
            .in_ids(changed),
        b.shots);
  // Longer prompts lose examples, then tokens: OC-U's in the middle, others' on the left.
  visit(file_key{"max_prompt_tokens", "cut longer prompts; 0: never"}
            .of("benchmark")
            .bounds(0, 1 << 24)
            .otherwise("the harness's")
            .in_ids(changed),
        b.max_prompt_tokens);
  visit(file_key{"trials", "answer each item so often, with noise of its own"}
            .of("benchmark")
            .bounds(1, 1000)
            .in_ids(id_part::always),
        b.trials);
  // lm-eval on several processes draws its examples by process: these are the documents as `world`
  // processes ask them, with `rank` those of that one. An id has both as one pair.
  visit(file_key{"world", "examples as so many processes draw them"}
            .of("benchmark")
            .bounds(1, 1 << 20),
        b.world);
  visit(file_key{"rank", "the items of this process alone"}
            .of("benchmark")
            .bounds(0, 1 << 20)
            .otherwise("all"),
        b.rank);
  visit(file_key{"mc_num", "samples of a choice"}
            .of("likelihood")
            .bounds(1, 1 << 20)
            .otherwise("the harness's")
            .in_ids(changed),
        b.mc_num);
  visit(file_key{"mc_batch", "samples at a time"}
            .of("likelihood")
            .bounds(1, 1 << 12)
            .otherwise("the harness's")
            .in_ids(changed),
        b.mc_batch);
  visit(file_key{"guidance", "strength of classifier-free guidance"}
            .of("likelihood")
            .bounds(0, 100)
            .in_ids(changed),
        b.guidance);
}

// How the likelihood of a choice is drawn. If the request says nothing, the numbers of the official
// scripts: one row for MMLU's single token, which is exact; else 128, in rounds of 8. Dream's: always
// 128, in rounds of 32.
struct likelihood_draws {
  std::int64_t samples, rows;  // in all; of a round
};
likelihood_draws draws_of(const benchmark_request& request, bool dream);

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
