// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/plan.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/devices/device.h"
#include "harness/model/share.h"
#include "harness/plan/serve_settings.h"
#include "harness/plan/settings.h"
#include "harness/rows/json_of.h"
#include "harness/rows/row_table.h"

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

bool runs_on(const method_entry& method, const model_entry& model, const workload_entry& workload) {
  // Names or roles; an empty list holds all.
  const auto among = [](const std::vector<std::string>& wanted, const std::string& name) {
    return wanted.empty() || (!name.empty() && std::ranges::find(wanted, name) != wanted.end());
  };
  const auto model_among = [&](const std::vector<std::string>& wanted) {
    return among(wanted, model.name) || among(wanted, model.role);
  };
  return model_among(method.models) && model_among(workload.models) &&
         among(method.workloads, workload.name);
}

// Whatever the model: check_share() is asked when it is known.
void check_ranks(const run_settings& run) {
  const model_share share = share_of(0, run);
  if (share.is_cut()) refuse_int8(weight_format_of(run));
  if (run.ranks > 1 && run.gemm == "fastest") {
    throw usage_error(
        "`gemm` fastest needs ranks = 1: each rank would time its products and might take others; "
        "own or library is the same on all");
  }
}

// Where all settings of a point are known, whatever their order.
void check_run(run_settings& run) {
  if (run.kind == "serve") {
    run.serve = resolve_parameters("[serve]", serve_parameters(), run.serve);
    check_serve(run.serve);
  }
  const bool drawn = run.kind == "serve" && parameters(run.serve).text("commits") != "model";
  if (run.repeat_window > 0 && (drawn || run.impose != "none")) {
    throw usage_error(
        "`repeat_window` needs answers of the model: tokens that are imposed or drawn are all "
        "alike");
  }
  check_run_device(run);
  check_ranks(run);
}

// Equal run settings together, so that the methods under them can be measured in turn.
std::vector<experiment_point> in_groups(const std::vector<experiment_point>& points) {
  std::vector<experiment_point> sorted;
  std::vector<bool> taken(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (taken[i]) continue;
    for (std::size_t j = i; j < points.size(); ++j) {
      if (taken[j] || !measured_in_turn(points[i], points[j])) continue;
      taken[j] = true;
      sorted.push_back(points[j]);
      sorted.back().position = sorted.size() - 1;
    }
  }
  return sorted;
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
  const std::vector<std::string> workloads = names_in(spec.workloads, &workload_entry::name);
  const auto check_models = [&](const std::vector<std::string>& names, const std::string& place) {
    for (const std::string& name : names) find_known("model", name, known, place);
  };
  for (const workload_entry& w : spec.workloads) {
    check_models(w.models, where + ": the workload '" + w.name + "'");
  }
  for (const method_entry& method : spec.methods) {
    check_models(method.models, method.where);
    for (const std::string& name : method.workloads) {
      find_known("workload", name, workloads, method.where);
    }
  }
}

bool overridden(const experiment_spec& spec, const std::string& key) {
  return std::ranges::any_of(
      spec.overrides, [&](const dotted_setting& o) { return short_key(o.key) == short_key(key); });
}

// A parameter that its method refuses is the mistake of the --set or sweep that gave it, not of the
// method's entry: the message begins with that one.
void check_values(const experiment_point& p, const method_info& method,
                  const std::vector<std::string>& names, const combination& settings) {
  for (const dotted_setting& s : settings) {
    if (!s.key.starts_with("params.") && !s.key.starts_with("method.")) continue;
    experiment_point alone;
    alone.method = p.method;
    alone.label = p.label;
    if (!apply_setting(alone, s, names)) continue;
    for (const auto& [name, value] : alone.params) {
      if (p.params.at(name) != value) continue;  // another setting came later
      located(s.where, [&] { resolve_parameters(method.name, method.parameters, alone.params); });
    }
  }
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
    for (const parameter_spec& p : methods(m.name).parameters) names.insert(p.name);
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

// A point of several seeds that nothing draws is one point: the first, named as of any seed.
class once_for_all_seeds {
 public:
  // Whether an earlier point of the list is this one under another seed.
  bool has(experiment_point p, std::vector<experiment_point>& points) {
    const std::int64_t seed = std::exchange(p.run.seed, 0);
    const auto [first, fresh] = first_.emplace(point_id(p) + p.label, points.size());
    if (fresh) return false;
    experiment_point& kept = points[first->second];
    if (kept.run.seed == seed) return false;
    std::string part = fmt::format("seed={}", kept.run.seed);
    if (const auto at = kept.variation.find(part); at != std::string::npos) {
      kept.variation.replace(at, part.size(), any_seed);
    }
    return true;
  }

 private:
  std::map<std::string, std::size_t> first_;
};

}  // namespace

std::vector<experiment_point> make_plan(const experiment_spec& spec,
                                        const method_catalogue& methods) {
  const std::string where = spec.file.empty() ? "experiment" : spec.file;
  const auto place_of = [&](const method_entry& m) { return m.where.empty() ? where : m.where; };
  check_names(spec, where);
  std::map<std::string, std::vector<std::string>> parameter_names;
  for (const method_entry& m : spec.methods) {
    parameter_names[m.name] = located(
        place_of(m), [&] { return names_in(methods(m.name).parameters, &parameter_spec::name); });
  }
  std::vector<experiment_point> points;
  std::map<std::string, std::string> seen;  // the label of each id
  std::set<std::string> used;
  once_for_all_seeds any;
  const std::vector<combination> sweep = combinations(spec);
  for (const model_entry& model : spec.models) {
    for (const workload_entry& workload : spec.workloads) {
      for (const combination& settings : sweep) {
        for (const method_entry& method : spec.methods) {
          if (!runs_on(method, model, workload)) continue;
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
          for (const auto* all : {&model.settings, &settings, &spec.overrides}) {
            check_values(p, methods(method.name), parameter_names[method.name], *all);
          }
          p.params = located(place_of(method),
                             [&] { return methods(method.name).resolve(method.preset, p.params); });
          p.identity = identity_of(methods(method.name).parameters, p.params);
          located(where, [&] { check_run(p.run); });
          if (p.run.ranks > 1 && !spec.probe.names.empty()) {
            throw usage_error(where + ": `probe` needs ranks = 1: probes look at whole layers");
          }
          with_more_evidence(p, spec.evidence);
          p.id = point_id(p);
          if (!spec.evidence.paired && !varies(p, methods(p.method)) && any.has(p, points))
            continue;
          if (const auto [same, fresh] = seen.emplace(p.id, p.label);
              !fresh && same->second != p.label) {
            p.twin = p.label;
            p.id = point_id(p);
          } else if (!fresh) {
            continue;
          }
          if (p.twin.empty() || seen.emplace(p.id, p.label).second) points.push_back(std::move(p));
        }
      }
    }
  }
  std::vector<dotted_setting> all = spec.overrides;
  for (const combination& settings : sweep) all.insert(all.end(), settings.begin(), settings.end());
  for (const model_entry& model : spec.models) {
    all.insert(all.end(), model.settings.begin(), model.settings.end());
  }
  for (const dotted_setting& s : all) {
    if (!used.contains(s.key)) check_used(s, spec, methods);
  }
  return in_groups(points);
}

std::string canonical_workload(const workload_entry& workload) {
  return keys_in_ids<nlohmann::json>(workload).dump();
}

std::string canonical_settings(const experiment_point& p) {
  nlohmann::json all = {{"model", keys_in_ids<nlohmann::json>(p.model)},
                        {"workload", keys_in_ids<nlohmann::json>(p.workload)},
                        {"method", p.method},
                        {"params", json_of<nlohmann::json>(p.identity)}};
  for (const run_key& key : run_key_list()) {
    if (key.is_part_of_ids(p.run)) all[key.name] = key.text(p.run);
  }
  nlohmann::json &model = all["model"], &workload = all["workload"];
  model["hash"] = p.model.hash;
  workload["name"] = p.workload.name;
  workload["hash"] = p.workload.hash;
  if (!p.workload.benchmark.name.empty()) {
    workload["benchmark"] = nlohmann::json::parse(canonical_benchmark(p.workload.benchmark));
  }
  if (p.model.layers > 0) model["layers"] = p.model.layers;
  if (p.workload.prompt_tokens > 0) workload["prompt_tokens"] = p.workload.prompt_tokens;
  if (!p.files.empty()) all["files"] = p.files;
  if (!p.twin.empty()) all["label"] = p.twin;
  if (p.run.kind == "serve") all["serve"] = json_of<nlohmann::json>(serve_identity(p.run.serve));
  return all.dump();
}

bool varies(const experiment_point& p, const method_info& method) {
  const workload_entry& w = p.workload;
  const bool drawn = w.prompt_tokens > 0 || !w.trace_format.empty() || !w.lengths.empty() ||
                     p.run.kind == "serve" || p.run.impose != "none" ||
                     w.benchmark.kind != "generate";
  return drawn || varies(method.parameters, p.params);
}

std::string note_of_any_seed(const std::vector<experiment_point>& points) {
  const auto once = std::ranges::count_if(points, [](const experiment_point& p) {
    return p.variation.find(any_seed) != std::string::npos;
  });
  if (once == 0) return "";
  return fmt::format("{}: {} measured once, for nothing in {} reads the seed", any_seed,
                     once == 1 ? "1 point is" : fmt::format("{} points are", once),
                     once == 1 ? "it" : "them");
}

std::string title_of(const experiment_point& p) {
  return p.model.name + " " + p.workload.name + " " + p.label +
         (p.variation.empty() ? "" : " (" + p.variation + ")");
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

bool measured_in_turn(const experiment_point& a, const experiment_point& b) {
  return a.model.name == b.model.name && a.workload.name == b.workload.name &&
         a.workload.items == b.workload.items && a.run == b.run;
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

}  // namespace unmask
