// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// An experiment made up from a command line: one model and methods, for `profile` and `bench`.
#pragma once

#include <boost/program_options.hpp>
#include <filesystem>
#include <string>

#include "harness/experiment/spec.h"
#include "harness/model/config.h"

namespace unmask {

// The method a model was made for.
std::string usual_method(const model_config& config);

// --method, --preset, --weights, --layers, --seed, --repetitions, --warmup; --set and --device.
void add_model_options(boost::program_options::options_description& options, int repetitions);

// What --model names: a folder, or by its name alone one of those that come with the program.
std::filesystem::path model_folder(const std::filesystem::path& given);

// Model, methods, seed, evidence and settings; no workload yet.
experiment_spec spec_of_model(const std::filesystem::path& given,
                              const boost::program_options::variables_map& values);

// The value of a whole-number option; usage error when it is below `least`.
int at_least(const boost::program_options::variables_map& values, const char* name, int least);

}  // namespace unmask
