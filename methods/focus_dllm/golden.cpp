// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/official_runs.h"

namespace unmask {
namespace {

// No official code exists: these runs are an independent reading of the paper.
parameter_map settings(const parameter_map& recorded) {
  return take(recorded, {"steps", "block_length", "rho", "window", "dense_layers",
                         "dense_tail_layers", "alpha", "sink_fraction", "prompt_block_size"});
}

const register_official_runs runs({"focus_dllm", "focus_dllm", settings});

}  // namespace
}  // namespace unmask
