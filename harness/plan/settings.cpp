// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/plan/serve_settings.h"

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
    find_known("key of [serve]", key.substr(6), names_in(serve_parameters(), &parameter_spec::name),
               where);
    return;
  }
  if (key.starts_with("method.")) {
    const method_key parts = split_method_key(key);
    if (!parts.label.empty() && !parts.name.empty()) return;
    throw usage_error(where + ": `" + key + "` must be method.LABEL.PARAMETER");
  }
  for (const char* form : {"params.NAME", "method.LABEL.NAME", "serve.NAME"})
    known.emplace_back(form);
  // A known prefix in front says nothing of what was meant.
  throw usage_error(where + ": " + unknown_name("setting", without_prefix(key), known));
}

const std::vector<evidence_key>& evidence_key_list() {
  using e = evidence_settings;
  static const std::vector<evidence_key> list = {
      {"repetitions.min", 1, 100000, &e::min_repetitions,
       "fewest repetitions; `repetitions = N` is N and no more"},
      {"repetitions.max", 1, 100000, &e::max_repetitions, "most repetitions"},
      {"more_items", 1, 1000, &e::more_items, "as many times the items that the workloads ask for"},
      {"more_repetitions", 1, 1000, &e::more_repetitions,
       "as many times the repetitions, and the seeds of a search"},
      {"warmup", 0, 1000, &e::warmup, "repetitions before the first timed one"},
      {"ci_half_width", 0, 1, &e::ci_half_width,
       "go on until half of the 95 % interval of the mean is at most this share of the mean"},
      {"paired", 0, 0, &e::paired,
       "measure all sweep points of a model and workload in turn, with equally many repetitions; "
       "rows keep items"}};
  return list;
}

bool set_evidence(evidence_settings& e, const dotted_setting& s) {
  struct setter {
    evidence_settings& e;
    const evidence_key& key;
    const dotted_setting& s;
    void operator()(std::int64_t evidence_settings::*field) const {
      e.*field = integer(s, static_cast<std::int64_t>(key.low));
      if (e.*field > static_cast<std::int64_t>(key.high)) {
        throw usage_error(fmt::format("{}: `{}` is {} but must be at most {}", s.where, s.key,
                                      e.*field, key.high));
      }
    }
    void operator()(double evidence_settings::*field) const {
      const auto* real = std::get_if<double>(&s.value);
      e.*field = real ? *real : static_cast<double>(integer(s, 0));
      if (!(e.*field >= key.low && e.*field <= key.high)) {
        wrong_type(s, fmt::format("a number from {} to {}", key.low, key.high));
      }
    }
    void operator()(bool evidence_settings::*field) const {
      const auto* flag = std::get_if<bool>(&s.value);
      if (!flag) wrong_type(s, "true or false");
      e.*field = *flag;
    }
  };
  const std::string key = without_prefix(s.key);
  bool known = false;
  for (const evidence_key& k : evidence_key_list()) {
    const std::string name = k.name;
    if (key != name && (key != "repetitions" || !name.starts_with("repetitions."))) continue;
    std::visit(setter{e, k, s}, k.field);
    known = true;
  }
  if (key == "repetitions.min") e.max_repetitions = std::max(e.max_repetitions, e.min_repetitions);
  if (key == "repetitions.max") e.min_repetitions = std::min(e.max_repetitions, e.min_repetitions);
  return known;
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
    if (of_method) find_known("parameter of " + point.method, name, parameter_names, s.where);
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
  located(s.where, [&] { check_run_keys(run); });
  return true;
}

std::optional<std::string> named_file(const parameter_value& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (!text) return std::nullopt;
  for (const std::string_view prefix : {"file:", "replay:"}) {
    if (text->starts_with(prefix)) return text->substr(prefix.size());
  }
  return std::nullopt;
}

std::string short_key(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

}  // namespace unmask
