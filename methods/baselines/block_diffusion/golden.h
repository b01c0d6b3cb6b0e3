// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Recorded parameters of the official block loops: `hf`, the loop of SDAR's OpenCompass model, and
// `engine`, LMDeploy's.
#pragma once

#include "harness/decode/official_runs.h"

namespace unmask {

// What every block method reads alike.
parameter_map block_loop_settings(const parameter_map& recorded);

}  // namespace unmask
