// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/request.h"

#include <algorithm>
#include <sstream>

#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/package.h"
#include "harness/base/toml_reader.h"
#include "harness/plan/overlay.h"
#include "harness/plan/settings.h"
#include "harness/rows/json_of.h"

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

// FILE relative to `folder`; empty where it is not below.
std::string name_below(const fs::path& file, const fs::path& folder) {
  if (folder.empty()) return {};
  const fs::path near = file.lexically_relative(folder);
  return near.empty() || near.begin()->string() == ".." ? "" : near.generic_string();
}

// `file` as the manifest keeps it: of this program's tree, of another one's folder `experiments`, or
// below the current folder.
std::string portable_path(const fs::path& file) {
  std::error_code none;
  const fs::path real = fs::weakly_canonical(fs::absolute(file), none);
  if (none) return file.filename().string();
  if (const std::string name = name_below(real, program_root()); !name.empty()) return name;
  for (fs::path tree = real.parent_path(); tree.has_relative_path(); tree = tree.parent_path()) {
    if (tree.filename() == "experiments") return name_below(real, tree.parent_path());
  }
  const std::string name = name_below(real, fs::weakly_canonical(fs::current_path(none), none));
  return name.empty() ? file.filename().string() : name;
}

}  // namespace

fs::path file_of(const run_manifest& manifest, const fs::path& folder) {
  const fs::path name = manifest.file, root = program_root();
  const fs::path inside = (root / name).lexically_normal();
  std::error_code none;
  const bool ours = name.has_parent_path() && !name_below(inside, root).empty() &&
                    fs::is_directory(inside.parent_path(), none);
  return ours ? inside : folder / name.filename();
}

run_request request_again(const fs::path& manifest) {
  run_request request;
  request.again = read_manifest(manifest);
  request.scale = request.again->scale;
  request.file = file_of(*request.again, manifest.parent_path());
  return request;
}

experiment_spec requested_spec(const run_request& request) {
  experiment_spec spec =
      request.again ? parse_spec(request.again->text, request.file, request.scale, request.bounds)
                    : read_spec(request.file, request.scale, request.bounds);
  if (request.again) {
    for (const std::string& assignment : request.again->overrides) apply_override(spec, assignment);
  }
  check_paths(spec, request.bounds);
  for (const std::string& assignment : request.overrides) apply_override(spec, assignment);
  return spec;
}

std::string whole_experiment(const fs::path& file) {
  return whole_text(toml_text(file, "experiment"), file, {});
}

std::string whole_experiment_json(const fs::path& file) {
  const extended_table whole = with_what_it_extends(toml_text(file, "experiment"), file, {});
  std::ostringstream out;
  out << toml::json_formatter(whole.table) << "\n";
  return out.str();
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
                               const std::vector<experiment_point>& points,
                               const std::vector<std::string>& pictures) {
  run_manifest manifest;
  if (request.again) manifest = *request.again;
  if (!request.again) {
    manifest.file = portable_path(request.file);
    const std::string text = read_file(request.file, largest_experiment);
    manifest.text = whole_text(text, request.file, request.bounds);
  }
  manifest.scale = spec.scale;
  manifest.overrides.insert(manifest.overrides.end(), request.overrides.begin(),
                            request.overrides.end());
  manifest.source_hash = source_hash;
  manifest.pictures = pictures;
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
  if (!m.pictures.empty()) out["pictures"] = m.pictures;
  for (const evidence_key& key : evidence_key_list()) {
    std::string name = key.name;
    std::ranges::replace(name, '.', '_');
    std::visit([&](const auto field) { out["evidence"][name] = spec.evidence.*field; }, key.field);
  }
  out["plan"] = ordered_json::array();
  for (const experiment_point& p : points) out["plan"].push_back(of_point(p));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

namespace {

std::string text_in(const ordered_json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) {
    throw std::runtime_error("`" + std::string(key) + "` is missing or no text");
  }
  return object[key].get<std::string>();
}

run_manifest manifest_of(const ordered_json& in) {
  if (!in.is_object()) throw std::runtime_error("no JSON object");
  const ordered_json version = in.contains("manifest_version") ? in["manifest_version"] : nullptr;
  if (version != manifest_version) {
    throw std::runtime_error("manifest version " + version.dump() +
                             " is not known to this program");
  }
  const ordered_json experiment = in.contains("experiment") ? in["experiment"] : nullptr;
  run_manifest m;
  m.file = text_in(experiment, "file");
  m.text = text_in(experiment, "text");
  if (in.contains("paper")) m.paper = text_in(in, "paper");
  if (in.contains("artifact")) m.artifact = text_in(in, "artifact");
  m.scale = text_in(in, "scale");
  if (!in.contains("set") || !in["set"].is_array()) {
    throw std::runtime_error("`set` is missing or no list");
  }
  for (const ordered_json& one : in["set"]) {
    if (!one.is_string()) throw std::runtime_error("`set` holds something that is no text");
    m.overrides.push_back(one.get<std::string>());
  }
  m.source_hash = text_in(in, "source_hash");
  if (sha256_hex(m.text) != text_in(experiment, "sha256")) {
    throw std::runtime_error("the experiment's text does not have the hash it is said to have");
  }
  return m;
}

}  // namespace

run_manifest read_manifest(const fs::path& file) {
  std::error_code none;
  if (!fs::exists(file, none)) {
    throw environment_error(file.string() + " is missing; only runs of an experiment file have it");
  }
  const ordered_json in = tree_of(read_file(file, largest_manifest));
  try {
    if (in.is_discarded()) throw std::runtime_error("no JSON");
    return manifest_of(in);
  } catch (const std::exception& problem) {
    throw environment_error(file.string() + ": broken manifest: " + problem.what());
  }
}

}  // namespace unmask
