// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/official_runs.h"

namespace unmask {
namespace {

// Fast-dLLM llada/generate.py and dream/model/generation_utils_block.py
parameter_map settings(const parameter_map& recorded) {
  return take(recorded,
              {"steps", "block_length", "cache", "threshold", "factor", "temperature", "eps"});
}

const register_official_runs runs({"fast_dllm", "fast_dllm", settings});

}  // namespace
}  // namespace unmask
