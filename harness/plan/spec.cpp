// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/spec.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <type_traits>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"
#include "harness/plan/locate.h"
#include "harness/plan/needs.h"
#include "harness/plan/overlay.h"
#include "harness/plan/read_keys.h"
#include "harness/plan/serve_settings.h"
#include "harness/plan/settings.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

// key: of run_key_list() or evidence_key_list().
void read_into(toml_reader& r, const auto& key, auto& into) {
  using value = std::remove_reference_t<decltype(into)>;
  if constexpr (std::is_same_v<value, std::string>) {
    r.text(key.name, into);
  } else if constexpr (std::is_same_v<value, bool>) {
    r.flag(key.name, into);
  } else if constexpr (std::is_same_v<value, double>) {
    r.real(key.name, into, key.low, key.high);
  } else {
    r.integer(key.name, into, static_cast<value>(key.low), static_cast<value>(key.high));
  }
}

void read_run(toml_reader& r, experiment_spec& spec) {
  run_settings& run = spec.run;
  evidence_settings& e = spec.evidence;
  for (const run_key& key : run_key_list()) {
    std::visit([&](const auto field) { read_into(r, key, run.*field); }, key.field);
  }
  for (const evidence_key& key : evidence_key_list()) {
    // Of the dotted ones, repetitions.min and .max, each bounds the other: read below.
    if (std::string_view(key.name).find('.') != std::string_view::npos) continue;
    std::visit([&](const auto field) { read_into(r, key, e.*field); }, key.field);
  }
  const toml::node* repetitions = r.find("repetitions");
  if (repetitions && repetitions->is_table()) {
    r.table("repetitions", [&](toml_reader& inner) {
      inner.integer("min", e.min_repetitions, 1, 100000);
      e.max_repetitions = std::max(e.max_repetitions, e.min_repetitions);
      inner.integer("max", e.max_repetitions, e.min_repetitions, 100000);
    });
  } else if (repetitions) {
    r.integer("repetitions", e.min_repetitions, 1, 100000);
    e.max_repetitions = e.min_repetitions;
  }
  located(r.where(), [&] { check_run_keys(run); });
}

// A file outside the tree names the models that come with the program like one inside.
fs::path model_folder(const fs::path& file, const std::string& path) {
  const fs::path given = beside(file, path);
  std::error_code none;
  if (fs::path(path).is_absolute() || fs::exists(given, none)) return given;
  return find_embedded(path, file.parent_path()).value_or(given);
}

// "ORG/NAME", as --model takes it: where no such folder is, what $UNMASK_MODELS or a Hugging Face
// cache holds under this name.
void read_published_name(const std::string& path, model_entry& model) {
  std::error_code none;
  const bool named = std::ranges::count(path, '/') == 1 && !path.starts_with('/') &&
                     !path.starts_with('.') && !path.ends_with('/');
  if (!named || fs::exists(model.path, none)) return;
  const std::optional<fs::path> found = find_weights(path);
  if (!found) return;  // reading it then says that there is no such folder
  model.published = path;
  model.path = *found;
  if (model.name.empty()) model.name = fs::path(path).filename().string();
}

model_entry read_model(toml_reader& r, const fs::path& file) {
  model_entry model;
  key_reader reader(r, "[[model]]", file);
  each_key(model, reader);
  reader.check();
  const std::string path = model.path.string();
  if (path.starts_with("weights:") && path.size() > 8) {
    model.published = path.substr(8);
    // Left as it stands when absent: reading it then names what is missing.
    model.path = find_weights(model.published).value_or(path);
    if (model.name.empty()) model.name = fs::path(model.published).filename().string();
  } else {
    model.path = model_folder(file, path);
    read_published_name(path, model);
  }
  if (model.name.empty()) {
    const fs::path trimmed = model.path.has_filename() ? model.path : model.path.parent_path();
    model.name = trimmed.filename().string();
  }
  if (model.weights != "checkpoint" && !seed_of_weights(model.weights)) {
    throw usage_error(r.where() + ": `model.weights` is '" + model.weights +
                      "' but must be \"checkpoint\" or \"random:SEED\", a whole number below 2^64");
  }
  return model;
}

void add_benchmark(const toml_reader& r, workload_entry w, const std::string& name,
                   experiment_spec& spec) {
  check_benchmark(r.where(), w.benchmark);
  const std::string task = w.benchmark.task.empty() ? "" : "/" + w.benchmark.task;
  w.name = name.empty() ? w.benchmark.name + task : name;
  spec.workloads.push_back(std::move(w));
}

void read_workload(toml_reader& r, const fs::path& file, experiment_spec& spec) {
  workload_table stated;
  key_reader reader(r, "[[workload]]", file);
  each_key(stated, reader);
  reader.check();
  const auto& [tasks, benchmarks, own, trace, name, entry] = stated;
  workload_entry w = entry;
  if (!w.rater.empty()) w.rater = model_folder(file, w.rater.string());
  if ((!tasks.empty() && benchmarks.empty()) + (!own.empty()) + (!trace.empty()) +
          (!w.lengths.empty()) + (!benchmarks.empty()) !=
      1) {
    throw usage_error(r.where() +
                      ": [[workload]] needs one of `tasks`, `file`, `trace`, `lengths` and "
                      "`benchmark`");
  }
  if (trace.empty() != w.trace_format.empty()) {
    throw usage_error(r.where() + ": [[workload]] needs `format` with `trace`, and only then");
  }
  item_selection heads;
  heads.limit = w.items.limit;
  if ((!trace.empty() || !w.lengths.empty()) && w.items != heads) {
    throw usage_error(r.where() +
                      ": `offset`, `draw`, `spread` and `context` choose among tasks; a trace and "
                      "`lengths` take `limit` alone");
  }
  if (!w.rater.empty() && tasks.empty() && own.empty()) {
    throw usage_error(r.where() +
                      ": `judge` reads the answers to `tasks` or to the items of `file`");
  }
  if (!name.empty() && std::max(tasks.size(), benchmarks.size()) > 1) {
    throw usage_error(r.where() + ": `name` is of one task; give each its own [[workload]]");
  }
  if (benchmarks.size() > 1 && !tasks.empty()) {
    throw usage_error(r.where() + ": `tasks` belong to one benchmark; name one");
  }
  w.benchmark.base = file.parent_path();
  if (!w.benchmark.path.empty()) w.benchmark.path = beside(file, w.benchmark.path.string());
  benchmark_request nothing;
  nothing.base = w.benchmark.base;
  if (r.find("benchmark") == nullptr && w.benchmark != nothing) {
    throw usage_error(r.where() +
                      ": harness, task, prompt, path, kind, shots, trials and mc_num belong to a "
                      "`benchmark`; name one");
  }
  for (const std::string& benchmark : benchmarks) {
    w.benchmark.name = benchmark;
    if (tasks.empty()) add_benchmark(r, w, name, spec);
    for (const std::string& task : tasks) {
      w.benchmark.task = task;
      add_benchmark(r, w, name.empty() ? task : name, spec);
    }
  }
  if (!benchmarks.empty()) return;
  if (!w.lengths.empty()) {
    w.name = name.empty() ? w.lengths : name;
    spec.workloads.push_back(w);
    return;
  }
  const std::string path = (own.empty() ? trace : own).string();
  if (!path.empty()) {
    // A trace that lies with the datasets, "trace:FILE", is left as it stands when absent.
    w.file =
        path.starts_with("trace:") ? find_trace(path.substr(6)).value_or(path) : beside(file, path);
    w.name = w.file.stem().string();
  }
  if (!name.empty()) w.name = name;
  if (tasks.empty()) spec.workloads.push_back(w);
  for (const std::string& task : tasks) {
    const fs::path near = r.file_of(*r.find("tasks")).parent_path();
    w.file = located(r.where(), [&] { return find_task(task, near); });
    w.name = name.empty() ? task : name;
    spec.workloads.push_back(w);
  }
}

method_entry read_method(toml_reader& r) {
  method_entry m;
  key_reader reader(r, "[[method]]", "");
  each_key(m, reader);
  reader.check();
  if (m.label.empty()) m.label = m.name;
  m.where = r.where();
  return m;
}

void read_sweep(toml_reader& r, experiment_spec& spec) {
  std::string mode = "cross";
  r.text("mode", mode);
  if (mode == "factorial") mode = "cross";  // its name in the design of experiments
  spec.mode = static_cast<sweep_mode>(
      r.choice("sweep mode", mode, {"cross", "zip", "one-at-a-time", "leave-one-out"}));
  r.leaves([&](const std::string& key, const toml::node& node) {
    sweep_axis axis{key, {}, r.where(node)};
    check_setting_key(key, axis.where);
    const toml::array* values = node.as_array();
    if (!values || values->empty()) {
      r.fail(node, "`sweep." + key + "` takes an array with at least one value");
    }
    for (const toml::node& value : *values) {
      axis.values.push_back(toml_scalar(value, r.where(value) + ": `sweep." + key + "`"));
    }
    if (spec.mode == sweep_mode::zip && !spec.axes.empty() &&
        spec.axes.front().values.size() != axis.values.size()) {
      r.fail(node, "`sweep." + key + "` has " + std::to_string(axis.values.size()) +
                       " values, but mode \"zip\" needs as many as `sweep." +
                       spec.axes.front().key + "` has, " +
                       std::to_string(spec.axes.front().values.size()));
    }
    spec.axes.push_back(std::move(axis));
  });
}

void read_probe(toml_reader& r, experiment_spec& spec) {
  key_reader reader(r, "[probe]", spec.file);
  each_key(spec.probe, reader);
  reader.check();
  std::set<std::string> seen;
  for (const std::string& name : spec.probe.names) {
    if (seen.insert(name).second) continue;
    throw usage_error(r.where() + ": `probe.names` names '" + name + "' twice");
  }
}

// Serving has keys and workloads of its own.
void check_kind(const experiment_spec& spec) {
  if (spec.run.kind == "serve") {
    located(spec.file, [&] { resolve_parameters("[serve]", serve_parameters(), spec.run.serve); });
    return;
  }
  if (!spec.run.serve.empty()) {
    throw usage_error(spec.file + ": [serve] needs kind = \"serve\"");
  }
  for (const workload_entry& w : spec.workloads) {
    if (w.lengths.empty() && w.trace_format.empty()) continue;
    throw usage_error(spec.file + ": the workload '" + w.name + "' needs kind = \"serve\"");
  }
}

void unique(const std::vector<std::string>& names, const std::string& file, const std::string& what,
            const std::string& how) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (seen.insert(name).second) continue;
    throw usage_error(file + ": two " + what + " are called '" + name + "'; " + how);
  }
}

// Two workloads may share a name where no model runs both.
void unique_workloads(const experiment_spec& spec) {
  for (auto a = spec.workloads.begin(); a != spec.workloads.end(); ++a) {
    for (auto b = spec.workloads.begin(); b != a; ++b) {
      const bool apart = !a->models.empty() && !b->models.empty() &&
                         std::ranges::none_of(a->models, [&](const std::string& name) {
                           return std::ranges::find(b->models, name) != b->models.end();
                         });
      if (a->name != b->name || apart) continue;
      throw usage_error(spec.file + ": two workloads are called '" + a->name +
                        "'; give one another `name`");
    }
  }
}

bool is_plain_name(const std::string& name) {
  return !name.empty() &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

void read_artifact(toml_reader& r, const fs::path& file, artifact_header& a) {
  key_reader reader(r, "[artifact]", file);
  each_key(a, reader);
  for (const auto& [key, value] : {std::pair("paper", a.paper), std::pair("id", a.id)}) {
    if (is_plain_name(value)) continue;
    throw usage_error(r.where() + ": [artifact] needs `" + key +
                      "`, of small letters, digits and _, not '" + value + "'");
  }
  reader.check();
}

// Nothing to plan: the file says why.
bool explains_itself(const experiment_spec& spec) {
  return !spec.not_run.empty() && spec.models.empty();
}

}  // namespace

std::optional<std::uint64_t> seed_of_weights(const std::string& weights) {
  constexpr std::string_view random = "random:";
  if (!weights.starts_with(random)) return std::nullopt;
  std::uint64_t seed = 0;
  const char *first = weights.data() + random.size(), *last = weights.data() + weights.size();
  const auto [end, problem] = std::from_chars(first, last, seed);
  return problem == std::errc() && end == last ? std::optional(seed) : std::nullopt;
}

experiment_spec parse_spec(const std::string& text, const fs::path& file, const std::string& scale,
                           const path_bounds& bounds) {
  experiment_table read = overlaid_table(text, file, scale, bounds);
  experiment_spec spec;
  spec.file = file.string();
  spec.scales = read.scales;
  spec.scale = read.scale.name;
  spec.needs = read.scale.needs;
  spec.not_run = read.scale.not_run;
  toml_reader r(read.table, file.string(), "");
  r.find("layout");  // of the package (harness/python)
  r.table("artifact", [&](toml_reader& t) { read_artifact(t, file, spec.artifact); });
  if (!spec.artifact.not_reproducible.empty()) spec.not_run = spec.artifact.not_reproducible;
  key_reader reader(r, "", file);
  each_key(spec, reader);
  reader.check();
  spec.extends = read.extends;
  r.table("run", [&](toml_reader& t) { read_run(t, spec); });
  r.tables("model", [&](toml_reader& t) { spec.models.push_back(read_model(t, file)); });
  r.tables("workload", [&](toml_reader& t) { read_workload(t, file, spec); });
  r.tables("method", [&](toml_reader& t) { spec.methods.push_back(read_method(t)); });
  located(spec.file + ": `scale." + spec.scale + ".labels`", [&] {
    keep_named("label", read.scale.labels, spec.methods,
               [](const method_entry& m) { return std::array{m.label}; });
  });
  r.table("probe", [&](toml_reader& t) { read_probe(t, spec); });
  r.table("sweep", [&](toml_reader& t) { read_sweep(t, spec); });
  r.scalars("serve", spec.run.serve);
  r.finish();
  for (dotted_setting& s : read.scale.settings) {
    if (set_evidence(spec.evidence, s)) continue;
    check_setting_key(s.key, s.where);
    spec.overrides.push_back(std::move(s));
  }
  if (explains_itself(spec)) return spec;
  check_kind(spec);
  unique(names_in(spec.models, &model_entry::name), spec.file, "models", "give one another `name`");
  unique_workloads(spec);
  unique(names_in(spec.methods, &method_entry::label), spec.file, "methods", "give one a `label`");
  return spec;
}

experiment_spec read_spec(const fs::path& file, const std::string& scale,
                          const path_bounds& bounds) {
  return parse_spec(toml_text(file, "experiment"), file, scale, bounds);
}

experiment_spec read_any_scale(const fs::path& file) {
  const std::string text = toml_text(file, "experiment");
  return parse_spec(text, file, some_scale(text, file));
}

fs::path find_task(const std::string& name, const fs::path& beside) {
  if (fs::path(name).has_parent_path() || name == "..") {
    throw usage_error("a task has a name, not a path like '" + name + "'; `file` takes a path");
  }
  std::vector<std::string> known;
  for (const fs::path& place : embedded_places(beside)) {
    const fs::path file = place / "data" / (name + ".jsonl");
    if (is_file(file)) return file;
    for (const fs::path& other : entries_of(place / "data", ".jsonl")) {
      known.push_back(other.stem().string());
    }
  }
  throw usage_error(unknown_name("task", name, known) + "; " + looked_in(beside));
}

void apply_override(experiment_spec& spec, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == 0 || equals == std::string::npos) {
    throw usage_error("--set takes KEY=VALUE, not '" + assignment + "'");
  }
  dotted_setting setting{assignment.substr(0, equals), {}, "--set " + assignment};
  const std::string value = assignment.substr(equals + 1);
  try {
    const toml::table parsed = toml::parse("value = " + value);
    setting.value = toml_scalar(*parsed.get("value"), setting.where + ":");
  } catch (const toml::parse_error&) {
    setting.value = value;  // text without quotes
  }
  if (set_evidence(spec.evidence, setting)) return;
  check_setting_key(setting.key, setting.where);
  spec.overrides.push_back(std::move(setting));
}

}  // namespace unmask
