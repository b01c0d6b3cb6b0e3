// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/request.h"

#include "harness/base/files.h"
#include "harness/experiment/manifest.h"
#include "harness/experiment/runner.h"

namespace unmask {
namespace {

constexpr std::size_t largest_experiment = std::size_t{16} << 20;

}  // namespace

experiment_spec requested_spec(const run_request& request) {
  experiment_spec spec = read_spec(request.file, request.scale);
  for (const std::string& assignment : request.overrides) apply_override(spec, assignment);
  return spec;
}

std::filesystem::path output_name(const experiment_spec& spec) {
  if (spec.artifact.paper.empty()) return std::filesystem::path(spec.file).stem();
  std::filesystem::path name = spec.artifact.paper;
  name /= spec.artifact.id;
  return spec.scale.empty() ? name : name / spec.scale;
}

std::string requested_manifest(const run_request& request, const experiment_spec& spec) {
  const std::unique_ptr<executor> with = make_executor();
  run_manifest manifest;
  manifest.file = portable_path(request.file);
  manifest.text = read_file(request.file, largest_experiment);
  manifest.scale = spec.scale;
  manifest.overrides = request.overrides;
  manifest.source_hash = with->source_hash();
  return manifest_json(manifest, spec, plan_points(spec, *with));
}

}  // namespace unmask
