// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/manifest.h"

#include <fstream>

#include <unistd.h>
#include <nlohmann/json.hpp>

#include "harness/analysis/parameters_json.h"
#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"

namespace unmask {
namespace {

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
  for (const run_key& key : run_key_list()) {
    std::visit([&](const auto member) { out[key.name] = p.run.*member; }, key.field);
  }
  if (p.run.kind == "serve") out["serve"] = json_of<ordered_json>(p.run.serve);
  return out;
}

}  // namespace

std::string portable_path(const fs::path& file) {
  std::error_code failed;
  const fs::path near = fs::relative(file, fs::current_path(failed), failed);
  if (failed || near.empty() || near.begin()->string() == "..") return file.filename().string();
  return near.generic_string();
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
  out["evidence"] = {{"repetitions_min", spec.evidence.min_repetitions},
                     {"repetitions_max", spec.evidence.max_repetitions},
                     {"more_items", spec.evidence.more_items},
                     {"more_repetitions", spec.evidence.more_repetitions},
                     {"warmup", spec.evidence.warmup},
                     {"ci_half_width", spec.evidence.ci_half_width},
                     {"paired", spec.evidence.paired}};
  out["plan"] = ordered_json::array();
  for (const experiment_point& p : points) out["plan"].push_back(of_point(p));
  return out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void write_manifest(const fs::path& file, const std::string& json) {
  // Shards write the same manifest at the same time, so each has a file of its own beside it.
  const fs::path beside = file.string() + ".part" + std::to_string(::getpid());
  std::ofstream out(beside, std::ios::binary);
  out << json;
  out.close();
  std::error_code failed;
  if (out) fs::rename(beside, file, failed);
  if (!out || failed) throw environment_error("cannot write " + file.string());
}

run_manifest read_manifest(const fs::path& file) {
  if (!fs::exists(file)) {
    throw environment_error(file.string() + " is missing; only runs of an experiment file have it");
  }
  const ordered_json in = ordered_json::parse(read_file(file, largest_manifest), nullptr, false);
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
