// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What one run of an experiment file was asked for: the file, a scale and settings over both.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment/spec.h"

namespace unmask {

struct run_request {
  std::filesystem::path file;
  std::string scale;                   // empty: the default of the file
  std::vector<std::string> overrides;  // KEY=VALUE
};

// The file with its scale and the overrides; usage errors as read_spec and apply_override.
experiment_spec requested_spec(const run_request& request);

// Where its rows go below a directory of runs: PAPER/ID/SCALE of an artifact, else the file's stem.
std::filesystem::path output_name(const experiment_spec& spec);

// The manifest of the run (manifest.h); `spec` is what requested_spec made of the request.
std::string requested_manifest(const run_request& request, const experiment_spec& spec);

}  // namespace unmask
