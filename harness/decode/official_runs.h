// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Recorded runs of official implementations name their parameters as those do. Each method
// translates them itself, in its own folder; `unmask golden` replays the runs.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/parameters.h"

namespace unmask::inline decode {

// How one golden file (decode/NAME.jsonl) is replayed: by which method, under which settings.
struct official_runs {
  std::string name;    // of the file, without its ending
  std::string method;  // a registered method
  // The method's parameters from the recorded ones. A recorded null is absent, and a recorded list
  // is text with commas.
  parameter_map (*settings)(const parameter_map& recorded);
};

// Registers them while the program starts; a duplicate name throws std::logic_error.
struct register_official_runs {
  explicit register_official_runs(official_runs runs);
};

// Null when no method has registered runs of that name.
const official_runs* find_official_runs(const std::string& name);

// The recorded parameters of these names, unchanged; names that were not recorded are left out.
parameter_map take(const parameter_map& recorded, const std::vector<std::string>& names);

// Whether the recorded parameter is this text.
bool says(const parameter_map& recorded, const std::string& name, const std::string& text);

}  // namespace unmask::decode
