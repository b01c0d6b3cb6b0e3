// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/block_diffusion/golden.h"

namespace unmask {

parameter_map block_loop_settings(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"block_length", "steps", "remasking", "threshold",
                                    "accept_compare", "temperature"});
  m["loop"] = recorded.at("preset");
  m["stop_in_prompt_block"] = !says(recorded, "preset", "engine");
  const auto stop = recorded.find("stop_ids");
  m["stop"] = stop == recorded.end() ? std::string("none") : stop->second;
  return m;
}

namespace {

const register_official_runs runs({"block_diffusion", "block_diffusion", block_loop_settings});

}  // namespace
}  // namespace unmask
