// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The keys of [serve]: how requests arrive, how they are batched, and what counts as served well.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/parameters.h"

namespace unmask {

const std::vector<parameter_spec>& serve_parameters();
// Usage error, in one sentence, for keys that contradict each other. `resolved`: every key.
void check_serve(const parameter_map& resolved);
// The keys that make a point's id: without those for cancelling at their defaults, which ids of
// earlier rows do not know.
parameter_map serve_identity(parameter_map resolved);
// One line per key with default and meaning, for --help.
std::string serve_help();

}  // namespace unmask
