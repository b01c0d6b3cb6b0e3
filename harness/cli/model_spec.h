// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// An experiment made up from a command line: one model and methods, for `profile` and `bench`.
#pragma once

#include <filesystem>
#include <string>

#include "harness/cli/options.h"
#include "harness/model/config.h"
#include "harness/plan/spec.h"

namespace unmask {

// The method a model was made for (published_decoding.h).
std::string usual_method(const model_config& config);

// --method, --preset, --weights, --layers, --seed, --repetitions, --warmup; --set and --device.
option_table model_options(int repetitions);

// Usage error when random prompts of so many tokens, and the canvas behind them, do not fit the model
// or are more than memory is meant for. Before they are made.
void check_prompts(const std::filesystem::path& model, std::int64_t prompts,
                   std::int64_t prompt_tokens, std::int64_t gen_length);

// The folder of what --model names: a folder (of a checkpoint, or the root of its entry in a Hugging
// Face cache), a model that comes with the program by its name, or a published one, ORG/NAME, that
// find_weights() finds. Environment error that names the places looked in.
std::filesystem::path model_folder(const std::filesystem::path& given);

// The wanted folder, or -2, -3, ... behind its name, so that it holds nothing yet: what is measured
// here is looked at once.
std::filesystem::path fresh_folder(const std::filesystem::path& wanted);

// The entry of a model in a folder, under the name that rows give it.
model_entry entry_of_model(const std::filesystem::path& given);
// The same with --pictures and --unread of the command line.
model_entry entry_of_model(const std::filesystem::path& given, const command_line& line);
// Those methods with this preset; usage error with the nearest name where there is none.
std::vector<method_entry> entries_of_methods(const texts& methods, const std::string& preset);

// Model, methods, seed, evidence and settings; no workload yet.
experiment_spec spec_of_model(const std::filesystem::path& given, const command_line& line);

}  // namespace unmask
