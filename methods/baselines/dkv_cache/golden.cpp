// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/official_runs.h"

namespace unmask {
namespace {

// dKV-Cache generation_utils/{llada_dkv_cache_decode,llada_dkv_cache_greedy,dream_generation_utils}.py
parameter_map settings(const parameter_map& recorded) {
  return take(recorded, {"steps", "block_length", "variant", "refresh_interval", "window_size",
                         "shift_type", "temperature", "alg", "eps"});
}

const register_official_runs runs({"dkv_cache", "dkv_cache", settings});

}  // namespace
}  // namespace unmask
