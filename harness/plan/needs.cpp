// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/needs.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/ranks/launch.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "harness/model/checkpoint.h"
#include "harness/plan/benchmark_prompts.h"
#include "harness/plan/locate.h"
#include "harness/plan/serve_settings.h"
#include "harness/plan/settings.h"
#include "harness/rows/row_table.h"
#include "harness/workload/benchmark_list.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

struct need_parts {
  std::string kind, value;
};
need_parts split(const std::string& need) {
  const std::size_t colon = need.find(':');
  if (colon == std::string::npos) return {need, ""};
  return {need.substr(0, colon), need.substr(colon + 1)};
}

bool one_of(const std::vector<std::string>& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

std::optional<double> number(const std::string& text) {
  const std::optional<double> value = as_number(text);
  return value > 0.0 ? value : std::nullopt;
}

// A benchmark as a need names it: NAME, or NAME/HARNESS[/CONFIG].
benchmark_request request_named(const std::string& value) {
  const std::size_t slash = std::min(value.find('/'), value.size());
  benchmark_request request;
  request.name = value.substr(0, slash);
  request.harness = slash < value.size() ? value.substr(slash + 1) : "";
  return request;
}

std::string too_little(const std::string& wanted, double here) {
  if (here >= number(wanted).value_or(0)) return "";
  return here == 0 ? "this machine has none" : fmt::format("this machine has {:.4g}", here);
}

std::string without_device(const std::string& name, const machine_view& m) {
  return m.lacks_device(name);
}

std::string without_model(const std::string& name, const machine_view&) {
  const fs::path config = fs::path("models") / name / "config.json";
  const auto found = find_embedded(config, {});
  return found ? outdated_text(found->parent_path()) : "not made yet: ./dev model " + name;
}

std::string without_benchmark(const std::string& name, const machine_view& m) {
  if (m.has_benchmark(name)) return "";
  const std::string lack = lacks_prompts(request_named(name), {});
  return lack.empty() ? "not on that machine" : lack;
}

need_kind kind_of(const need_parts& parts, const std::string& where = "") {
  const std::vector<need_kind> all = need_list();
  return all[find_known("need", parts.kind, names_in(all, &need_kind::name), where)];
}

}  // namespace

std::string need_kind::spelled() const {
  const char* values[] = {"", ":N", ":NAME"};
  return name + values[static_cast<std::size_t>(takes)];
}

std::vector<need_kind> need_list() {
  using text = const std::string&;
  using machine = const machine_view&;
  static const std::vector<need_kind> others = {
      {"gpus", need_value::number, "number of GPUs", "{} GPUs",
       [](text n, machine m) { return too_little(n, static_cast<double>(m.gpus)); }},
      {"gpu_memory_gb", need_value::number, "memory of one GPU, in units of 2^30 bytes",
       "a GPU with {} GB", [](text n, machine m) { return too_little(n, m.gpu_memory_gb); }},
      {"memory_gb", need_value::number, "memory of the machine, in units of 2^30 bytes",
       "{} GB of memory", [](text n, machine m) { return too_little(n, m.memory_gb); }},
      {"cores", need_value::number, "cores that this process may use", "{} cores",
       [](text n, machine m) { return too_little(n, m.cores); }},
      {"weights", need_value::name, "a model in $UNMASK_MODELS or the cache of Hugging Face",
       "weights {}",
       [](text name, machine m) -> std::string {
         return m.has_weights(name) ? "" : "not in $UNMASK_MODELS or the Hugging Face cache";
       }},
      {"model", need_value::name, "a model that `./dev model NAME` makes", "model {}",
       without_model},
      {"benchmark", need_value::name,
       "every file of a benchmark, or its prompts; NAME/HARNESS and NAME/HARNESS/CONFIG: as that "
       "harness asks it",
       "benchmark {}", without_benchmark},
      {"trace", need_value::name, "a file of requests in $UNMASK_DATASETS/traces", "trace {}",
       [](text file, machine m) -> std::string {
         return m.has_trace(file) ? "" : "not in $UNMASK_DATASETS/traces";
       }}};
  std::vector<need_kind> all;
  for (const device& d : device_list()) {
    if (!d.need.empty())
      all.push_back({d.name, need_value::none, d.need, "device {}", without_device});
  }
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

void check_need(const std::string& need, const std::string& where) {
  const need_parts parts = split(need);
  const need_kind kind = kind_of(parts, where);
  const std::string given = where + ": the need '" + need + "' must ";
  if (kind.takes == need_value::none && need != kind.name) {
    throw usage_error(given + "be " + kind.name + " alone");
  }
  if (kind.takes == need_value::number && !number(parts.value)) {
    throw usage_error(given + "be " + kind.spelled() + " with a number above 0");
  }
  if (kind.takes == need_value::name && parts.value.empty()) {
    throw usage_error(given + "name what it needs after the colon");
  }
  if (parts.kind == "benchmark") {
    const benchmark_request named = request_named(parts.value);
    located(where, [&] { find_benchmark(named.name, named.harness); });
  }
}

namespace {

// The values of a key of [run] whose own value is `there`: --set before the sweep before [run].
std::vector<std::string> values_of(const experiment_spec& spec, const std::string& key,
                                   const std::string& there) {
  std::vector<std::string> values = {there};
  for (const sweep_axis& axis : spec.axes) {
    if (short_key(axis.key) != key) continue;
    if (spec.mode != sweep_mode::leave_one_out) values.clear();
    for (const parameter_value& v : axis.values) values.push_back(to_string(v));
  }
  for (const dotted_setting& s : spec.overrides) {
    if (s.key == key || s.key == "run." + key) values = {to_string(s.value)};
  }
  return values;
}

// GPUs that a point of the experiment computes on together, at most; 1 where none computes on several.
std::int64_t most_gpus(const experiment_spec& spec) {
  const std::vector<std::string> asked = devices_of(spec);
  const auto is_asked = [&](const device& d) { return d.is_card && one_of(asked, d.name); };
  std::int64_t most = 1;
  if (std::ranges::any_of(device_list(), is_asked) && !runs_dry(spec.run)) {
    for (const std::string& ranks : values_of(spec, "ranks", std::to_string(spec.run.ranks))) {
      most = std::max(most, static_cast<std::int64_t>(number(ranks).value_or(1)));
    }
  }
  return most;
}

}  // namespace

std::vector<std::string> devices_of(const experiment_spec& spec) {
  std::vector<std::string> once;
  for (const std::string& d : values_of(spec, "device", spec.run.device)) {
    if (!one_of(once, d)) once.push_back(d);
  }
  return once;
}

std::vector<chosen_device> choose_devices(const experiment_spec& spec) {
  std::vector<chosen_device> chosen;
  for (const std::string& wanted : devices_of(spec)) {
    const chosen_device one = choose_device(wanted);
    const auto same = [&](const chosen_device& d) { return d.name == one.name; };
    if (std::ranges::none_of(chosen, same)) chosen.push_back(one);
  }
  return chosen;
}

std::vector<std::string> needs_of(const experiment_spec& spec) {
  std::vector<std::string> all;
  const auto add = [&](const std::string& need) {
    if (!one_of(all, need)) all.push_back(need);
  };
  for (const std::string& need : spec.needs) add(need);
  for (const device& d : device_list()) {
    if (!d.need.empty() && one_of(devices_of(spec), d.name)) add(d.name);
  }
  if (const std::int64_t gpus = most_gpus(spec); gpus > 1 && !is_started_rank()) {
    add(fmt::format("gpus:{}", gpus));
  }
  for (const model_entry& model : spec.models) {
    if (!model.published.empty()) add("weights:" + model.published);
    std::error_code none;
    if (fs::exists(model.path / delta_file, none)) {
      add("model:" + model.path.lexically_normal().filename().string());
    }
  }
  // Prompts that were written beforehand need no data, and fewer examples fewer files.
  for (const prompts_need& need : prompts_of(spec)) {
    const benchmark_request& r = need.request;
    if (!r.path.empty() || lacks_prompts(r, need.tokenizer).empty()) continue;
    add("benchmark:" + r.name + (r.harness.empty() ? "" : "/" + r.harness));
  }
  for (const workload_entry& w : spec.workloads) {
    if (w.file.string().starts_with("trace:")) add(w.file.string());
  }
  return all;
}

machine_view this_machine() {
  const environment here = capture_environment("");
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  machine_view m;
  m.gpus = here.cuda.devices.size();
  m.lacks_device = [](const std::string& name) { return find_device(name).unusable(); };
  for (const cuda::device_properties& d : here.cuda.devices) {
    m.gpu_memory_gb = std::max(m.gpu_memory_gb, static_cast<double>(d.memory_bytes) / gib);
  }
  m.memory_gb = static_cast<double>(here.memory_bytes) / gib;
  m.cores = std::max(here.cpus_usable, 1);
  m.has_weights = [](const std::string& name) { return find_weights(name).has_value(); };
  m.has_benchmark = [](const std::string& name) {
    return lacks_prompts(request_named(name), {}).empty();
  };
  m.has_trace = [](const std::string& file) { return find_trace(file).has_value(); };
  return m;
}

std::vector<std::string> missing_needs(const std::vector<std::string>& needs,
                                       const machine_view& machine) {
  std::vector<std::string> missing;
  for (const std::string& need : needs) {
    const need_parts parts = split(need);
    const need_kind kind = kind_of(parts);
    const bool named = kind.takes == need_value::none;
    const std::string found = kind.lacks(named ? kind.name : parts.value, machine);
    if (found.empty()) continue;
    missing.push_back(fmt::format(
        "{} ({})", fmt::format(fmt::runtime(kind.words), named ? need : parts.value), found));
  }
  return missing;
}

std::vector<std::string> missing_of(const experiment_spec& spec, const machine_view& machine) {
  std::vector<std::string> missing = missing_needs(needs_of(spec), machine);
  for (const prompts_need& need : prompts_of(spec)) {
    if (need.request.path.empty()) continue;  // its files are the experiment's own
    const std::string lack = lacks_prompts(need.request, need.tokenizer);
    if (!lack.empty()) missing.push_back("benchmark " + need.request.name + " (" + lack + ")");
  }
  return missing;
}

std::string cannot_run(const experiment_spec& spec, const machine_view& machine) {
  if (!spec.not_run.empty()) return "NOT RUN: " + spec.not_run;
  const std::string list = joined(missing_of(spec, machine), "; ");
  return list.empty() ? "" : "NOT RUN: needs " + list;
}

std::string obstacle_list(const experiment_spec& spec, const machine_view& machine) {
  const std::vector<std::string> missing =
      spec.not_run.empty() ? missing_of(spec, machine) : std::vector<std::string>{};
  if (missing.size() < 2) return cannot_run(spec, machine);
  return "NOT RUN: needs\n- " + joined(missing, "\n- ");
}

}  // namespace unmask
