// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/plan.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/experiment/serve_settings.h"
#include "harness/experiment/settings.h"

namespace unmask {
namespace {

using combination = std::vector<dotted_setting>;

dotted_setting at(const sweep_axis& axis, std::size_t i) {
  return {axis.key, axis.values[i], axis.where};
}

std::vector<combination> combinations(const experiment_spec& spec) {
  std::vector<combination> all;
  switch (spec.mode) {
    case sweep_mode::cross:
      all = {{}};
      for (const sweep_axis& axis : spec.axes) {
        std::vector<combination> longer;
        for (const combination& head : all) {
          for (std::size_t i = 0; i < axis.values.size(); ++i) {
            longer.push_back(head);
            longer.back().push_back(at(axis, i));
          }
        }
        all = std::move(longer);
      }
      break;
    case sweep_mode::zip:
      all.resize(spec.axes.empty() ? 1 : spec.axes.front().values.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        for (const sweep_axis& axis : spec.axes) all[i].push_back(at(axis, i));
      }
      break;
    case sweep_mode::one_at_a_time: {
      combination base;
      for (const sweep_axis& axis : spec.axes) base.push_back(at(axis, 0));
      all.push_back(base);
      for (std::size_t a = 0; a < spec.axes.size(); ++a) {
        for (std::size_t i = 1; i < spec.axes[a].values.size(); ++i) {
          all.push_back(base);
          all.back()[a] = at(spec.axes[a], i);
        }
      }
      break;
    }
    case sweep_mode::leave_one_out:
      all = {{}};
      for (const sweep_axis& axis : spec.axes) {
        for (std::size_t i = 0; i < axis.values.size(); ++i) all.push_back({at(axis, i)});
      }
      break;
  }
  return all;
}

// Whether a list of names or roles of models holds this one; an empty list holds all.
bool runs_on(const std::vector<std::string>& models, const model_entry& model) {
  return models.empty() || std::ranges::any_of(models, [&](const std::string& wanted) {
           return wanted == model.name || (!model.role.empty() && wanted == model.role);
         });
}

void require(bool present, const std::string& where, const std::string& what) {
  if (!present) throw usage_error(where + ": the experiment needs at least one " + what);
}

void check_names(const experiment_spec& spec, const std::string& where) {
  require(!spec.models.empty(), where, "[[model]]");
  require(!spec.workloads.empty(), where, "[[workload]]");
  require(!spec.methods.empty(), where, "[[method]]");
  std::vector<std::string> known;
  for (const model_entry& m : spec.models) {
    known.push_back(m.name);
    if (!m.role.empty()) known.push_back(m.role);
  }
  std::vector<std::string> workloads;
  for (const workload_entry& w : spec.workloads) workloads.push_back(w.name);
  const auto check_models = [&](const std::vector<std::string>& names, const std::string& place) {
    for (const std::string& name : names) {
      if (std::ranges::find(known, name) == known.end()) {
        throw usage_error(place + ": " + unknown_name("model", name, known));
      }
    }
  };
  for (const workload_entry& w : spec.workloads) {
    check_models(w.models, where + ": the workload '" + w.name + "'");
  }
  for (const method_entry& method : spec.methods) {
    check_models(method.models, method.where);
    for (const std::string& name : method.workloads) {
      if (std::ranges::find(workloads, name) == workloads.end()) {
        throw usage_error(method.where + ": " + unknown_name("workload", name, workloads));
      }
    }
  }
}

bool overridden(const experiment_spec& spec, const std::string& key) {
  return std::ranges::any_of(
      spec.overrides, [&](const dotted_setting& o) { return short_key(o.key) == short_key(key); });
}

// A sweep or --set that changed nothing anywhere is a mistake, not a wish.
void check_used(const dotted_setting& setting, const experiment_spec& spec,
                const method_catalogue& methods) {
  if (setting.key.starts_with("method.")) {
    std::vector<std::string> labels;
    for (const method_entry& m : spec.methods) labels.push_back("method." + m.label);
    throw usage_error(setting.where + ": " +
                      unknown_name("method of the experiment in", setting.key, labels));
  }
  std::set<std::string> names;
  for (const method_entry& m : spec.methods) {
    for (const std::string& name : methods.parameter_names(m.name)) names.insert(name);
  }
  throw usage_error(setting.where + ": " +
                    unknown_name("parameter of these methods", short_key(setting.key),
                                 {names.begin(), names.end()}));
}

// Times are of the same prompts however often they are taken, so only these two change a point.
void with_more_evidence(experiment_point& p, const evidence_settings& evidence) {
  p.workload.items.limit *= evidence.more_items;
  if (p.run.kind != "serve") return;
  auto& seeds = std::get<std::int64_t>(p.run.serve.at("search_seeds"));
  seeds *= evidence.more_repetitions;
}

}  // namespace

std::vector<experiment_point> make_plan(const experiment_spec& spec,
                                        const method_catalogue& methods) {
  const std::string where = spec.file.empty() ? "experiment" : spec.file;
  check_names(spec, where);
  std::map<std::string, std::vector<std::string>> parameter_names;
  for (const method_entry& m : spec.methods) {
    try {
      parameter_names[m.name] = methods.parameter_names(m.name);
    } catch (const error& problem) {
      throw usage_error((m.where.empty() ? where : m.where) + ": " + problem.what());
    }
  }

  std::vector<experiment_point> points;
  std::set<std::string> seen, used;
  const std::vector<combination> sweep = combinations(spec);
  for (const model_entry& model : spec.models) {
    for (const workload_entry& workload : spec.workloads) {
      for (const combination& settings : sweep) {
        for (const method_entry& method : spec.methods) {
          const std::vector<std::string>& at = method.workloads;
          if (!runs_on(method.models, model) || !runs_on(workload.models, model) ||
              (!at.empty() && std::ranges::find(at, workload.name) == at.end())) {
            continue;
          }
          experiment_point p;
          p.model = model;
          p.workload = workload;
          p.method = method.name;
          p.label = method.label;
          p.preset = method.preset;
          p.params = method.params;
          p.run = spec.run;
          for (const dotted_setting& s : model.settings) {
            if (apply_setting(p, s, parameter_names[method.name])) used.insert(s.key);
          }
          for (const dotted_setting& s : settings) {
            if (!apply_setting(p, s, parameter_names[method.name])) continue;
            used.insert(s.key);
            if (overridden(spec, s.key)) continue;
            p.variation +=
                (p.variation.empty() ? "" : " ") + short_key(s.key) + "=" + to_string(s.value);
          }
          for (const dotted_setting& s : spec.overrides) {
            if (apply_setting(p, s, parameter_names[method.name])) used.insert(s.key);
          }
          try {
            p.params = methods.resolve(method.name, method.preset, p.params);
          } catch (const error& problem) {
            throw usage_error((method.where.empty() ? where : method.where) + ": " +
                              problem.what());
          }
          try {
            if (p.run.kind == "serve") {
              p.run.serve = resolve_parameters("[serve]", serve_parameters(), p.run.serve);
              check_serve(p.run.serve);
            }
          } catch (const error& problem) {
            throw usage_error(where + ": " + problem.what());
          }
          try {
            check_kv_type(p.run);  // here, where all settings of the point are known
          } catch (const error& problem) {
            throw usage_error(where + ": " + problem.what());
          }
          with_more_evidence(p, spec.evidence);
          p.id = point_id(p);
          if (seen.insert(p.id).second) points.push_back(std::move(p));
        }
      }
    }
  }
  for (const combination& settings : sweep) {
    for (const dotted_setting& s : settings) {
      if (!used.contains(s.key)) check_used(s, spec, methods);
    }
  }
  for (const dotted_setting& s : spec.overrides) {
    if (!used.contains(s.key)) check_used(s, spec, methods);
  }
  for (const model_entry& model : spec.models) {
    for (const dotted_setting& s : model.settings) {
      if (!used.contains(s.key)) check_used(s, spec, methods);
    }
  }
  // Equal run settings together, so that the methods under them can be measured in turn.
  const auto group_of = [&](const experiment_point& p) {
    for (std::size_t i = 0; i < points.size(); ++i) {
      const experiment_point& q = points[i];
      if (q.model.name == p.model.name && q.workload.name == p.workload.name &&
          q.workload.items == p.workload.items && q.run == p.run) {
        return i;
      }
    }
    return points.size();
  };
  std::vector<std::pair<std::size_t, std::size_t>> order;
  for (std::size_t i = 0; i < points.size(); ++i) order.emplace_back(group_of(points[i]), i);
  std::ranges::stable_sort(order);
  std::vector<experiment_point> sorted;
  for (const auto& [group, i] : order) {
    sorted.push_back(points[i]);
    sorted.back().position = sorted.size() - 1;
  }
  return sorted;
}

std::string canonical_settings(const experiment_point& p) {
  const auto object = [](const parameter_map& map) {
    nlohmann::json out = nlohmann::json::object();
    for (const auto& [name, value] : map) {
      std::visit([&, &key = name](const auto& v) { out[key] = v; }, value);
    }
    return out;
  };
  const nlohmann::json params = object(p.params);
  nlohmann::json all = {
      {"model", {{"name", p.model.name}, {"weights", p.model.weights}, {"hash", p.model.hash}}},
      {"workload",
       {{"name", p.workload.name}, {"limit", p.workload.items.limit}, {"hash", p.workload.hash}}},
      {"method", p.method},
      {"params", params}};
  for (const run_key& key : run_key_list()) {
    if (!key.at_default(p.run)) all[key.name] = key.text(p.run);
  }
  // Absent at their defaults, for the ids of points that are older than these keys.
  const item_selection& items = p.workload.items;
  if (items.offset > 0) all["workload"]["offset"] = items.offset;
  if (items.seed > 0) all["workload"]["draw"] = items.seed;
  if (items.spread) all["workload"]["spread"] = true;
  if (items.context_high > 0) {
    all["workload"]["context"] = {items.context_low, items.context_high};
  }
  if (p.model.positions > 0) all["model"]["positions"] = p.model.positions;
  if (p.model.soften != 1) all["model"]["soften"] = p.model.soften;
  if (!p.workload.benchmark.name.empty()) {
    all["workload"]["benchmark"] = nlohmann::json::parse(canonical_benchmark(p.workload.benchmark));
  }
  if (p.workload.gen_length > 0) all["workload"]["gen_length"] = p.workload.gen_length;
  if (p.run.kind == "serve") all["serve"] = object(serve_identity(p.run.serve));
  return all.dump();
}

void renumber(std::vector<experiment_point>& points) {
  std::set<std::string> seen;
  std::vector<experiment_point> kept;
  for (experiment_point& p : points) {
    p.id = point_id(p);
    p.position = kept.size();
    if (seen.insert(p.id).second) kept.push_back(std::move(p));
  }
  points = std::move(kept);
}

std::string point_id(const experiment_point& p) {
  return sha256_hex(canonical_settings(p)).substr(0, 16);
}

shard parse_shard(const std::string& text) {
  shard part;
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, part.index);
  if (index.ec == std::errc() && index.ptr != end && *index.ptr == '/') {
    const auto count = std::from_chars(index.ptr + 1, end, part.count);
    if (count.ec == std::errc() && count.ptr == end && part.index < part.count) return part;
  }
  throw usage_error("--shard takes i/n with i from 0 to n - 1, not '" + text + "'");
}

std::vector<experiment_point> take_shard(const std::vector<experiment_point>& points, shard part) {
  const auto begin = [&](std::size_t i) {
    return points.begin() + static_cast<std::ptrdiff_t>(points.size() * i / part.count);
  };
  return {begin(part.index), begin(part.index + 1)};
}

std::string plan_table(const std::vector<experiment_point>& points) {
  std::string text =
      "| point | model | task | items | method | settings | batch | device |\n"
      "|---|---|---|---:|---|---|---:|---|\n";
  for (const experiment_point& p : points) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", p.id, p.model.name,
                        p.workload.name,
                        p.workload.items.limit > 0 ? std::to_string(p.workload.items.limit) : "all",
                        p.label, p.variation, p.run.batch_size, p.run.device);
  }
  return text + fmt::format("\n{} points\n", points.size());
}

}  // namespace unmask
