// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/vanilla/golden.h"

namespace unmask {
namespace {

// SparseD models/{LLaDA/generate.py,Dream/generation_utils.py}: the logits that choose the pattern
// are divided by sqrt(heads) where Dream's code does so, by sqrt(head_dim) in LLaDA's.
parameter_map settings(const parameter_map& recorded) {
  parameter_map m = whole_canvas_settings(recorded);
  m.merge(take(recorded, {"skip", "select", "block_size"}));
  const bool heads = says(recorded, "pattern_scale", "sqrt(n_heads)");
  m["pattern_scale"] = std::string(heads ? "heads" : "head_dim");
  return m;
}

const register_official_runs runs({"sparse_d", "sparse_d", settings});

}  // namespace
}  // namespace unmask
