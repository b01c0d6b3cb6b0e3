// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/block_diffusion/golden.h"

namespace unmask {
namespace {

// FOCUS opencompass/models/sdar.py (hf) and lmdeploy/pytorch/strategies/dllm (engine). The official
// loops sample; their recorded runs take the arg-max.
parameter_map delayed_cache(const parameter_map& recorded) {
  parameter_map m = block_loop_settings(recorded);
  const bool hf = says(recorded, "preset", "hf");
  m["mask_track"] = std::string(hf ? "id" : "state");
  m["partial_prefill"] = !hf;
  m["commit_last"] = hf;
  const bool full = says(recorded, "commit", "full block forward");
  m["commit"] = std::string(full ? "full" : "frozen");
  return m;
}

parameter_map focus(const parameter_map& recorded) {
  parameter_map m = delayed_cache(recorded);
  const bool hf = says(recorded, "preset", "hf");
  m.merge(take(recorded, {"selection", "alpha", "std_ddof"}));
  if (const auto k = recorded.find("K"); k != recorded.end()) m["k"] = k->second;
  if (const auto k = recorded.find("initial_K"); k != recorded.end()) m["initial_k"] = k->second;
  m["average_scope"] = std::string(hf ? "block_carry" : "block");
  m["adjacency"] = std::string(hf ? "rows" : "positions");
  const bool processed = says(recorded, "layer1_keys", "up to max processed");
  m["layer1_keys"] = std::string(processed ? "processed" : "retained");
  return m;
}

const register_official_runs plain({"delayed_cache", "delayed_cache", delayed_cache});
const register_official_runs neighbour({"delayed_cache_plus", "delayed_cache_plus", delayed_cache});
const register_official_runs evicting({"focus", "focus", focus});

}  // namespace
}  // namespace unmask
