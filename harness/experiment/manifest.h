// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// run.json: what a run was asked for, beside its rows, so that it can be repeated elsewhere. Holds
// no path of the machine but that of the experiment file, relative to where the program was
// started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment/plan.h"

namespace unmask {

inline constexpr const char* manifest_name = "run.json";

struct run_manifest {
  std::string file;  // of the experiment; relative, or the bare name when it lay elsewhere
  std::string text;  // its content
  std::string scale;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string source_hash;             // commit the program was built from
  std::string paper, artifact;         // as read; empty: a plain experiment
};

// One JSON object: the manifest, the evidence asked for and every planned point, resolved.
std::string manifest_json(const run_manifest& manifest, const experiment_spec& spec,
                          const std::vector<experiment_point>& points);
// Environment error that names the file when it is missing, broken or of another version.
run_manifest read_manifest(const std::filesystem::path& file);

// `file` as the manifest keeps it.
std::string portable_path(const std::filesystem::path& file);

}  // namespace unmask
