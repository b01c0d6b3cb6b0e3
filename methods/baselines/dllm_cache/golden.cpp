// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/vanilla/golden.h"

namespace unmask {
namespace {

// dLLM-Cache utils/generate_function.py and dllm_cache/hooks/cache_hook_{LLaDA,Dream}.py
parameter_map settings(const parameter_map& recorded) {
  parameter_map m = whole_canvas_settings(recorded);
  m.merge(take(recorded, {"prompt_interval_kp", "response_interval_kr", "transfer_ratio"}));
  return m;
}

const register_official_runs runs({"dllm_cache", "dllm_cache", settings});

}  // namespace
}  // namespace unmask
