// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// An experiment made up from a command line: one model and methods, for `profile` and `bench`.
#pragma once

#include <filesystem>
#include <string>

#include "harness/cli/options.h"
#include "harness/experiment/spec.h"
#include "harness/model/config.h"

namespace unmask {

// The method a model was made for.
std::string usual_method(const model_config& config);

// --method, --preset, --weights, --layers, --seed, --repetitions, --warmup; --set and --device.
option_table model_options(int repetitions);

// What --model names: a folder, or by its name alone one of those that come with the program.
std::filesystem::path model_folder(const std::filesystem::path& given);

// The wanted folder, or -2, -3, ... behind its name, so that it holds nothing yet: what is measured
// here is looked at once.
std::filesystem::path fresh_folder(const std::filesystem::path& wanted);

// Model, methods, seed, evidence and settings; no workload yet.
experiment_spec spec_of_model(const std::filesystem::path& given, const command_line& line);

}  // namespace unmask
