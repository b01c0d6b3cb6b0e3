// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Recorded parameters of LLaDA's and Dream's official loops, for this and for every method that
// changes only what such a loop computes.
#pragma once

#include "harness/decode/official_runs.h"

namespace unmask {

// Dream's where `alg` was recorded, otherwise LLaDA's.
parameter_map whole_canvas_settings(const parameter_map& recorded);

}  // namespace unmask
