// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/lists_json.h"

#include <variant>

#include "harness/model/config.h"
#include "harness/plan/format.h"
#include "harness/rows/json_of.h"
#include "harness/workload/benchmark_list.h"

namespace unmask {
namespace {

using json = nlohmann::ordered_json;
using paths = std::vector<std::filesystem::path>;

json value_of(const parameter_value& value) {
  return std::visit([](const auto& v) { return json(v); }, value);
}

json names_of(const paths& files) {
  json all = json::array();
  for (const std::filesystem::path& file : files) all.push_back(file.string());
  return all;
}

json parameter_json(const parameter_spec& p) {
  constexpr const char* types[] = {"bool", "integer", "real", "text"};
  json one = {{"name", p.name},
              {"type", types[p.default_value.index()]},
              {"default", value_of(p.default_value)},
              {"meaning", p.meaning}};
  if (!p.choices.empty()) one["choices"] = p.choices;
  if (p.choices.empty() && p.minimum > -1e299) one["minimum"] = p.minimum;
  if (p.choices.empty() && p.maximum < 1e299) one["maximum"] = p.maximum;
  if (!p.source.empty()) one["source"] = p.source;
  return one;
}

json artifact_json(const artifact_entry& a) {
  json one = {{"file", a.file.string()}};
  if (!a.problem.empty()) {
    one["problem"] = a.problem;
    return one;
  }
  one["paper"] = a.header.paper;
  one["id"] = a.header.id;
  one["title"] = a.header.title;
  one["not_reproducible"] = a.header.not_reproducible;
  one["scales"] = json::array();
  for (const artifact_scale& s : a.scales) {
    one["scales"].push_back(
        {{"name", s.entry.name}, {"obstacle", s.obstacle}, {"takes", s.entry.takes}});
  }
  return one;
}

json data_json(const benchmark_data& d) {
  return {{"name", d.name},
          {"home", d.home},
          {"hub", d.hub},
          {"licence", d.licence},
          {"files", json(d.files)}};
}

}  // namespace

std::string methods_json() {
  json all = json::array();
  for (const std::string& name : method_registry::instance().names()) {
    all.push_back({{"name", name}, {"summary", method_registry::instance().find(name).summary}});
  }
  return json_text(all);
}

std::string models_json(const paths& made, const paths& opt_in) {
  json all = json::array();
  for (const std::filesystem::path& path : made) {
    const model_config c = read_model_config(path);
    all.push_back({{"path", path.string()},
                   {"family", name_of(c.family)},
                   {"layers", c.layers},
                   {"hidden", c.hidden},
                   {"parameters", c.parameters()}});
  }
  for (const std::filesystem::path& path : opt_in) {
    all.push_back({{"path", path.string()}, {"opt_in", true}});
  }
  return json_text(all);
}

std::string files_json(const paths& files) {
  return json_text(names_of(files));
}

std::string experiments_json(const paths& files, const std::vector<artifact_entry>& artifacts) {
  json all = {{"experiments", names_of(files)}, {"artifacts", json::array()}};
  for (const artifact_entry& a : artifacts) all["artifacts"].push_back(artifact_json(a));
  return json_text(all);
}

std::string benchmarks_json(const std::string& name) {
  const benchmark_data* only = name.empty() ? nullptr : find_benchmark(name, "").data;
  json all = {
      {"benchmarks", json::array()}, {"harnesses", json::object()}, {"data", json::array()}};
  for (const benchmark& b : benchmarks()) {
    if (only && b.name != name) continue;
    all["benchmarks"].push_back({{"name", b.name},
                                 {"harness", b.harness},
                                 {"config", b.config},
                                 {"items", b.items},
                                 {"shots", b.shots},
                                 {"form", b.form},
                                 {"gen_length", b.gen_length},
                                 {"metric", b.metric},
                                 {"scorer", b.scorer}});
  }
  for (const auto& [id, version] : benchmark_harnesses()) all["harnesses"][id] = version;
  for (const benchmark_data* d : benchmark_data_sets()) {
    if (!only || d == only) all["data"].push_back(data_json(*d));
  }
  return json_text(all);
}

std::string method_json(const method_info& m) {
  json one = {{"name", m.name},     {"summary", m.summary}, {"paper", m.paper},
              {"source", m.source}, {"pace", m.pace},       {"rows", m.rows},
              {"keys", m.keys},     {"cache", m.cache},     {"unmask", m.unmask}};
  one["parameters"] = json::array();
  for (const parameter_spec& p : m.parameters) one["parameters"].push_back(parameter_json(p));
  one["presets"] = json::object();
  for (const auto& [name, settings] : m.presets) {
    one["presets"][name] = json::object();
    for (const auto& [key, value] : settings) one["presets"][name][key] = value_of(value);
  }
  return json_text(one);
}

std::string format_json() {
  json all = json::array();
  for (const format_table& table : format_tables()) {
    json keys = json::array();
    for (const format_key& key : table.keys) {
      keys.push_back({{"name", key.name},
                      {"type", key.type},
                      {"default", key.otherwise},
                      {"meaning", key.meaning}});
    }
    all.push_back({{"head", table.head}, {"says", table.says}, {"keys", keys}});
  }
  return json_text(all);
}

}  // namespace unmask
