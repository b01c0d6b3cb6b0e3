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
// One line per key with default and meaning, for --help.
std::string serve_help();

}  // namespace unmask
