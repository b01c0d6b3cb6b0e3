// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/official_runs.h"

namespace unmask {
namespace {

// Sparse-dLLM opencompass/models/sparse_dllm/{llada_generate.py,dream/generation_utils.py}
parameter_map settings(const parameter_map& recorded) {
  return take(recorded, {"steps", "block_length", "retention_ratio", "kernel_size", "pooling",
                         "delay", "eviction", "temperature", "alg", "eps"});
}

const register_official_runs runs({"sparse_dllm", "sparse_dllm", settings});

}  // namespace
}  // namespace unmask
