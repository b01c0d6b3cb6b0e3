// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/request.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "harness/analysis/json_of.h"
#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/experiment/settings.h"

namespace unmask {
namespace {

constexpr std::size_t largest_experiment = std::size_t{16} << 20;

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int manifest_version = 1;
constexpr std::size_t largest_manifest = std::size_t{64} << 20;

ordered_json of_point(const experiment_point& p) {
  ordered_json out = {{"id", p.id},
                      {"position", p.position},
                      {"model", {{"name", p.model.name}, {"weights", p.model.weights}}},
                      {"workload", {{"name", p.workload.name}, {"limit", p.workload.items.limit}}},
                      {"method", p.method},
                      {"label", p.label},
                      {"preset", p.preset},
                      {"params", json_of<ordered_json>(p.params)},
                      {"variation", p.variation},
                      {"kind", p.run.kind}};
  put_run(out, p.run);
  return out;
}

// `file` as the manifest keeps it.
std::string portable_path(const fs::path& file) {
  std::error_code failed;
  const fs::path near = fs::relative(file, fs::current_path(failed), failed);
  if (failed || near.empty() || near.begin()->string() == "..") return file.filename().string();
  return near.generic_string();
}

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

experiment_record experiment_of(const experiment_spec& spec) {
  if (spec.file.empty()) return {};
  return {portable_path(spec.file), spec.artifact.paper, spec.artifact.id, spec.scale};
}

std::string requested_manifest(const run_request& request, const experiment_spec& spec,
                               const std::string& source_hash,
                               const std::vector<experiment_point>& points) {
  run_manifest manifest;
  manifest.file = portable_path(request.file);
  manifest.text = read_file(request.file, largest_experiment);
  manifest.scale = spec.scale;
  manifest.overrides = request.overrides;
  manifest.source_hash = source_hash;
  return manifest_json(manifest, spec, points);
}

std::string manifest_json(const run_manifest& m, const experiment_spec& spec,
                          const std::vector<experiment_point>& points) {
  ordered_json out;
  out["manifest_version"] = manifest_version;
  out["experiment"] = {{"file", m.file}, {"sha256", sha256_hex(m.text)}, {"text", m.text}};
  out["paper"] = spec.artifact.paper;
  out["artifact"] = spec.artifact.id;
  out["title"] = spec.title;
  out["scale"] = m.scale;
  out["set"] = m.overrides;
  out["source_hash"] = m.source_hash;
  for (const evidence_key& key : evidence_key_list()) {
    std::string name = key.name;
    std::ranges::replace(name, '.', '_');
    std::visit([&](const auto field) { out["evidence"][name] = spec.evidence.*field; }, key.field);
  }
  out["plan"] = ordered_json::array();
  for (const experiment_point& p : points) out["plan"].push_back(of_point(p));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

run_manifest read_manifest(const fs::path& file) {
  if (!fs::exists(file)) {
    throw environment_error(file.string() + " is missing; only runs of an experiment file have it");
  }
  const ordered_json in = tree_of(read_file(file, largest_manifest));
  try {
    if (in.is_discarded()) throw std::runtime_error("no JSON");
    const int version = in.at("manifest_version");
    if (version != manifest_version) {
      throw std::runtime_error("manifest version " + std::to_string(version) +
                               " is not known to this program");
    }
    run_manifest m;
    m.file = in.at("experiment").at("file");
    m.text = in.at("experiment").at("text");
    m.paper = in.value("paper", "");
    m.artifact = in.value("artifact", "");
    m.scale = in.at("scale");
    m.overrides = in.at("set").get<std::vector<std::string>>();
    m.source_hash = in.at("source_hash");
    if (sha256_hex(m.text) != in.at("experiment").at("sha256").get<std::string>()) {
      throw std::runtime_error("the experiment's text does not have the hash it is said to have");
    }
    return m;
  } catch (const std::exception& problem) {
    throw environment_error(file.string() + ": broken manifest: " + problem.what());
  }
}

}  // namespace unmask
