// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/vanilla/golden.h"

namespace unmask {
namespace {

// LLaDA generate.py
parameter_map llada(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"steps", "block_length", "remasking", "temperature",
                                    "threshold", "factor", "until_clean"});
  m["schedule"] = std::string("llada");
  return m;
}

// Dream generation_utils.py
parameter_map dream(const parameter_map& recorded) {
  parameter_map m =
      take(recorded, {"steps", "alg", "eps", "temperature", "threshold", "alg_temp", "top_p"});
  m["schedule"] = std::string("dream");
  return m;
}

const register_official_runs llada_runs({"vanilla_llada", "vanilla", llada});
const register_official_runs dream_runs({"vanilla_dream", "vanilla", dream});

}  // namespace

parameter_map whole_canvas_settings(const parameter_map& recorded) {
  return recorded.count("alg") > 0 ? dream(recorded) : llada(recorded);
}

}  // namespace unmask
