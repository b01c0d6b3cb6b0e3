// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Block diffusion as LMDeploy serves it and as SDAR's own loop runs it: all positions of a block
// are recomputed each step over the exact cache of earlier blocks.
#include "methods/parts/block_parameters.h"

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

recipe make_block_diffusion(const model_config& model, const parameters& p) {
  block_settings s = block_settings_of("block_diffusion", model, p);
  recipe r;
  r.keys = std::make_unique<key_policy>(s.block_length);
  r.pace = std::make_unique<block_pace>(std::move(s));
  r.rows = std::make_unique<row_policy>();
  r.cache = std::make_unique<append_cache>();
  set_block_rule(model, p, r);
  return r;
}

method_info block_diffusion_info() {
  method_info m;
  m.name = "block_diffusion";
  m.summary = "blocks of masks over an exact cache of earlier blocks (SDAR, LLaDA2.0)";
  m.paper = "SDAR (JetAstra, 2025) and LMDeploy's dLLM engine";
  m.source = "methods/baselines/block_diffusion";
  m.pace = "block: prefill, denoise, write KV";
  m.rows = "whole block";
  m.shape = {row_extent::block};
  m.keys = "history and block";
  m.cache = "KV write pass";
  m.unmask = "threshold, static count or sequential";
  m.parameters = block_parameters(0.9);
  m.parameters.push_back(sampler_parameter());
  m.knobs = {{"remasking", "decided_early", "low_confidence_static"}};
  m.presets["engine"] = {{"stop_in_prompt_block", false}};
  m.presets["hf"] = {{"loop", "hf"}, {"accept_compare", ">"}, {"sampler", "multinomial"}};
  m.presets["hf_argmax"] = with_argmax(m.presets["hf"]);
  m.check = [](const model_config& model, const parameters& p) {
    check_block_model("block_diffusion", model, p);
  };
  m.make = make_block_diffusion;
  return m;
}

const register_method registered(block_diffusion_info(),
                                 {{"block_diffusion", block_loop_settings}});

}  // namespace
}  // namespace unmask
