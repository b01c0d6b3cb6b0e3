// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/experiment/serve_settings.h"

namespace unmask {
namespace {

std::vector<std::string> plain_keys() {
  std::vector<std::string> names = {"limit"};
  for (const run_key& key : run_key_list()) names.emplace_back(key.name);
  return names;
}

std::string without_prefix(const std::string& key) {
  for (const char* prefix : {"run.", "workload."}) {
    if (key.starts_with(prefix)) return key.substr(std::string(prefix).size());
  }
  return key;
}

[[noreturn]] void wrong_type(const dotted_setting& s, const std::string& wanted) {
  throw usage_error(s.where + ": `" + s.key + "` takes " + wanted + ", not '" + to_string(s.value) +
                    "'");
}

std::int64_t integer(const dotted_setting& s, std::int64_t low) {
  const auto* whole = std::get_if<std::int64_t>(&s.value);
  if (!whole) wrong_type(s, "an integer");
  if (*whole < low) {
    throw usage_error(s.where + ": `" + s.key + "` is " + std::to_string(*whole) +
                      " but must be at least " + std::to_string(low));
  }
  return *whole;
}

std::string text(const dotted_setting& s) {
  const auto* value = std::get_if<std::string>(&s.value);
  if (!value) wrong_type(s, "a string");
  return *value;
}

// "method.LABEL.NAME": labels may hold dots, so the name is what follows the last one.
struct method_key {
  std::string label, name;
};
method_key split_method_key(const std::string& key) {
  const std::size_t last = key.rfind('.');
  std::string label = key.substr(7, last > 7 ? last - 7 : 0);
  if (label.ends_with(".params")) label.resize(label.size() - 7);
  return {label, key.substr(last + 1)};
}

}  // namespace

void check_setting_key(const std::string& key, const std::string& where) {
  std::vector<std::string> known = plain_keys();
  if (std::ranges::find(known, without_prefix(key)) != known.end()) return;
  if (key.starts_with("params.") && key.size() > 7) return;
  if (key.starts_with("serve.")) {
    std::vector<std::string> names;
    for (const parameter_spec& p : serve_parameters()) names.push_back(p.name);
    const std::string name = key.substr(6);
    if (std::ranges::find(names, name) != names.end()) return;
    throw usage_error(where + ": " + unknown_name("key of [serve]", name, names));
  }
  if (key.starts_with("method.")) {
    const method_key parts = split_method_key(key);
    if (!parts.label.empty() && !parts.name.empty()) return;
    throw usage_error(where + ": `" + key + "` must be method.LABEL.PARAMETER");
  }
  for (const char* form : {"params.NAME", "method.LABEL.NAME", "serve.NAME"})
    known.emplace_back(form);
  throw usage_error(where + ": " + unknown_name("setting", key, known));
}

void check_run_settings(const run_settings& run) {
  for (const run_key& key : run_key_list()) {
    if (const auto* whole = std::get_if<std::int64_t run_keys::*>(&key.field)) {
      const std::int64_t value = run.**whole;
      if (value >= key.low && value <= key.high) continue;
      throw usage_error(
          fmt::format("`{}` is {} but must be from {} to {}", key.name, value, key.low, key.high));
    }
    const std::vector<std::string> known = key.choices();
    if (!known.empty() && std::ranges::find(known, key.text(run)) == known.end()) {
      throw usage_error(unknown_name(key.name, key.text(run), known));
    }
  }
}

void check_kv_type(const run_settings& run) {
  if (run.kv_type == "bf16" && !run.device.starts_with("cuda")) {
    throw usage_error("`kv_type` \"bf16\" needs device \"cuda\": device \"" + run.device +
                      "\" keeps keys and values in f32; use \"auto\" or \"f32\"");
  }
}

bool set_evidence(evidence_settings& e, const dotted_setting& s) {
  const std::string key = without_prefix(s.key);
  if (key == "repetitions") {
    e.min_repetitions = e.max_repetitions = integer(s, 1);
  } else if (key == "repetitions.min") {
    e.min_repetitions = integer(s, 1);
    e.max_repetitions = std::max(e.max_repetitions, e.min_repetitions);
  } else if (key == "repetitions.max") {
    e.max_repetitions = integer(s, 1);
    e.min_repetitions = std::min(e.max_repetitions, e.min_repetitions);
  } else if (key == "more_items") {
    e.more_items = integer(s, 1);
  } else if (key == "more_repetitions") {
    e.more_repetitions = integer(s, 1);
  } else if (key == "warmup") {
    e.warmup = integer(s, 0);
  } else if (key == "ci_half_width") {
    const auto* real = std::get_if<double>(&s.value);
    const double width = real ? *real : static_cast<double>(integer(s, 0));
    if (!(width >= 0 && width <= 1)) wrong_type(s, "a number from 0 to 1");
    e.ci_half_width = width;
  } else if (key == "paired") {
    const auto* flag = std::get_if<bool>(&s.value);
    if (!flag) wrong_type(s, "true or false");
    e.paired = *flag;
  } else {
    return false;
  }
  return true;
}

bool apply_setting(experiment_point& point, const dotted_setting& s,
                   const std::vector<std::string>& parameter_names) {
  const bool of_method = s.key.starts_with("method.");
  if (of_method || s.key.starts_with("params.")) {
    std::string name = s.key.substr(7);
    if (of_method) {
      const method_key parts = split_method_key(s.key);
      if (parts.label != point.label && parts.label != point.method) return false;
      name = parts.name;
    }
    const bool has = std::ranges::find(parameter_names, name) != parameter_names.end();
    if (!has && of_method) {
      throw usage_error(s.where + ": " +
                        unknown_name("parameter of " + point.method, name, parameter_names));
    }
    if (has) point.params[name] = s.value;
    return has;
  }
  const std::string key = without_prefix(s.key);
  run_settings& run = point.run;
  if (key.starts_with("serve.")) {
    if (run.kind != "serve") {
      throw usage_error(s.where + ": `" + s.key + "` needs kind = \"serve\"");
    }
    run.serve[key.substr(6)] = s.value;
    return true;
  }
  if (key == "limit") point.workload.items.limit = integer(s, 0);
  if (const run_key* declared = find_run_key(key)) {
    if (const auto* whole = std::get_if<std::int64_t run_keys::*>(&declared->field)) {
      run.** whole = integer(s, declared->low);
    } else {
      run.*std::get<std::string run_keys::*>(declared->field) = text(s);
    }
  }
  try {
    check_run_settings(run);
  } catch (const error& problem) {
    throw usage_error(s.where + ": " + problem.what());
  }
  return true;
}

std::string short_key(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

}  // namespace unmask
