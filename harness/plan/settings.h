// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Dotted keys: the one vocabulary of sweeps and of --set.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/plan/plan.h"

namespace unmask {

// Usage error beginning with `where` unless the key is one of: a key of run_keys.h (also as
// run.KEY), limit (also as workload.limit), params.NAME, method.LABEL.NAME (also
// method.LABEL.params.NAME), serve.NAME.
void check_setting_key(const std::string& key, const std::string& where);

// The keys of [run] that say how much to measure, declared once: files, --set and manifests read
// and write them by this list. "repetitions" stands for repetitions.min and repetitions.max.
struct evidence_key {
  const char* name;
  double low, high;  // of numbers
  std::variant<std::int64_t evidence_settings::*, double evidence_settings::*,
               bool evidence_settings::*>
      field;
  const char* meaning;
};
const std::vector<evidence_key>& evidence_key_list();

// False when the key is none of them.
bool set_evidence(evidence_settings& evidence, const dotted_setting& setting);

// Put a setting into a point whose params are those given, not yet resolved. False when it does
// not concern this point: another method, or a parameter this method does not have.
bool apply_setting(experiment_point& point, const dotted_setting& setting,
                   const std::vector<std::string>& parameter_names);

// The file that a value names, "file:PATH" of a method's parameter or "replay:PATH" of recorded
// trajectories, under whichever key; nothing else names one.
std::optional<std::string> named_file(const parameter_value& value);

// The last part of the key: what a reader wants to see beside the value.
std::string short_key(const std::string& key);

}  // namespace unmask
