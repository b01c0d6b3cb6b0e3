// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which benchmarks there are, as the harnesses of the papers ask them, and which files they are
// made of: harness/python/unmask/benchmarks/prompts/benchmarks.json. The Python package beside it
// writes the prompts; the program reads from here what a plan, a need or a list says of them.
//
// Harness ids: LM = lm-evaluation-harness 0.4.8; OpenCompass as OC-F (0.5.1.post1 in the FOCUS
// code), OC-S (0.4.2 with the Sparse-dLLM overlay), OC-U (0.4.2 in the UltraLLaDA code), OC-L
// (0.4.2, LLaDA's fork); LMMS-L = lmms-eval in LLaDA-V's code; VLME = VLMEvalKit in MMaDA's code;
// LMMS-own = a part of the prompt or of the scoring is ours; own = no harness of the papers has it,
// our choice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace unmask {

// The files of a data set and where they are published.
struct benchmark_data {
  std::string name;  // of its folder
  std::string title, home, hub, licence;
  // Names of a file by split, the authors' first; "{task}" stands for a subject or task, "*" for
  // anything. A file may also be packed (.gz), cut (STEM.firstN.EXT.gz) or lie in a zip archive.
  std::map<std::string, std::vector<std::string>> files;
  std::map<std::string, std::string> sha256;                // of the authors' files, where known
  std::vector<std::string> python;                          // what writes them, line by line
  std::vector<std::string> tasks;                           // subjects or tasks; empty: one file
  std::map<std::string, std::string> task_folders;          // {task} of these in a file's name
  std::map<std::string, std::pair<int, int>> task_numbers;  // items and tokens, where they differ
};

struct benchmark {
  std::string name;     // gsm8k
  std::string harness;  // id, see above
  std::string config;   // dataset config of OpenCompass, task name of lm-eval
  std::string form;     // of prompt_forms()
  std::string scorer, metric;
  int shots = 0;
  int items = 0;       // there are in the whole benchmark; 0: those of a file
  int gen_length = 0;  // tokens to generate in the paper's setting
  int max_prompt =
      0;  // longest prompt in tokens that the harness's model config allows; 0: none stated
  bool cut_middle = false;         // what is still too long loses its middle, not its beginning
  bool choices = false;            // lm-eval's likelihood of each choice
  std::string ours;                // what of prompt and scoring no harness has; empty: nothing
  std::vector<std::string> reads;  // splits
  std::vector<std::string> example_files;  // splits read where there are shots
  const benchmark_data* data = nullptr;

  // Items are made to a number of tokens of the model under test.
  bool counts_tokens() const;
};

const std::vector<benchmark>& benchmarks();
// {id, version} in the order in which they are explained.
const std::vector<std::pair<std::string, std::string>>& benchmark_harnesses();
std::string harness_version(const std::string& harness);  // usage error for an unknown id
const std::vector<std::string>& prompt_forms();           // raw, bos, one-turn, chat

// The one of this name under a harness id: the first of them, or the one of the config where the
// harness is given as "OC-S/gsm8k_gen_1dce88_maxoutlen_256". `harness` empty: the first of the
// name. Usage error with the nearest names.
const benchmark& find_benchmark(const std::string& name, const std::string& harness);

// Items there are in a task of a benchmark, or in all of it, and how many tokens an answer has as
// far as the declaration tells.
std::int64_t declared_items(const benchmark& of, const std::string& task);
int declared_length(const benchmark& of, const std::string& task);

// The files that are in none of the folders ("train.jsonl", of several names the first), each once.
// `task` empty: of all tasks; shots below 0: as declared.
std::vector<std::string> missing_files(const benchmark& of, const std::string& task, int shots,
                                       const std::vector<std::filesystem::path>& folders);

// Every data set, in the order of its name.
std::vector<const benchmark_data*> benchmark_data_sets();

// SHA-256 over the definitions: what the package makes of the same files changes with it.
std::string benchmark_definitions_hash();

}  // namespace unmask
