// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a run was asked for, and run.json, which says so beside its rows, so that it can be repeated
// elsewhere: it holds no path of the machine but that of the experiment file, relative to the tree
// that holds it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/confine.h"
#include "harness/plan/plan.h"
#include "harness/plan/spec.h"

namespace unmask {

inline constexpr const char* manifest_name = "run.json";

struct run_manifest {
  std::string
      file;  // of the experiment: relative to the tree that holds it (experiments/...), else
             // to where the program was started, else its bare name
  std::string text;  // its content, with that of the files that it extends
  std::string scale;
  std::vector<std::string> overrides;  // KEY=VALUE
  std::string source_hash;             // commit the program was built from
  std::string paper, artifact;         // as read; empty: a plain experiment
  std::vector<std::string> pictures;   // prepared files that its tasks show, by name; not read
};

// What one run of an experiment file was asked for: the file, a scale and settings over both.
struct run_request {
  std::filesystem::path file;
  std::string scale;                   // empty: the default of the file
  std::vector<std::string> overrides;  // KEY=VALUE
  path_bounds bounds;
  std::optional<run_manifest> again;  // of --from: its text, scale and settings, not the file's
};

// The experiment file of a manifest in `folder`: in the program's tree where it lies there, else
// beside the manifest, whether it is there or not.
std::filesystem::path file_of(const run_manifest& manifest, const std::filesystem::path& folder);
// What a run was asked for, to run it again: `manifest` is a run.json. The text's relative
// paths start where file_of says.
run_request request_again(const std::filesystem::path& manifest);

// The file with its scale and the overrides; usage errors as read_spec, apply_override and, for what
// the file names, check_paths. What the overrides name is the user's own.
experiment_spec requested_spec(const run_request& request);

// The text of an experiment file together with what it extends, as run.json keeps it. Usage errors for
// broken TOML and for what is wrong with `extends`; values are not looked at.
std::string whole_experiment(const std::filesystem::path& file);
std::string whole_experiment_json(const std::filesystem::path& file);

// Where its rows go below a directory of runs: PAPER/ID/SCALE of an artifact, else the file's stem.
std::filesystem::path output_name(const experiment_spec& spec);

// What its rows say of the experiment they are of.
experiment_record experiment_of(const experiment_spec& spec);

// The manifest of the run; `spec` is what requested_spec made of the request, `points` its whole plan,
// `pictures` the names of the prepared files of its tasks.
std::string requested_manifest(const run_request& request, const experiment_spec& spec,
                               const std::string& source_hash,
                               const std::vector<experiment_point>& points,
                               const std::vector<std::string>& pictures = {});

// One JSON object: the manifest, the evidence asked for and every planned point, resolved.
std::string manifest_json(const run_manifest& manifest, const experiment_spec& spec,
                          const std::vector<experiment_point>& points);
// Environment error that names the file when it is missing, broken or of another version.
run_manifest read_manifest(const std::filesystem::path& file);

}  // namespace unmask
