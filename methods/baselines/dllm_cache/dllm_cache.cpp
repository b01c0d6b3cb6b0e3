// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// dLLM-Cache (Liu et al., 2025): whole-canvas decoding that keeps K, V and the outputs of every
// layer, refreshes prompt and response at long intervals, and in between computes only the response
// rows whose V has moved most.
#include "methods/parts/canvas_recipe.h"
#include "methods/parts/common.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct intervals {
  std::int32_t prompt = 50, response = 7;  // forwards
  double transfer_ratio = 0.25;
};

// K_p, K_r and rho of the paper; the step counts over the whole answer. Layer 0 is always computed
// in full, which feature_policy::first_layer says.
class interval_refresh final : public feature_policy {
 public:
  explicit interval_refresh(const intervals& i) : intervals_(i) {}
  layer_refresh refresh(const batch& b, std::int32_t, std::int32_t s) const override {
    const sequence& q = b.at(s);
    layer_refresh r;
    r.prompt = q.step % intervals_.prompt == 0;
    r.response = q.step % intervals_.response == 0;
    r.probe = intervals_.transfer_ratio > 0;
    r.moved = static_cast<std::int32_t>(q.request.gen_length * intervals_.transfer_ratio);
    return r;
  }

 private:
  intervals intervals_;
};

method_info dllm_cache_info() {
  method_info m;
  m.name = "dllm_cache";
  m.summary = "decoding of the whole response that reuses K, V and layer outputs between refreshes";
  m.paper =
      "dLLM-Cache: Accelerating Diffusion Large Language Models with Adaptive Caching "
      "(Liu et al., 2025)";
  m.source = "methods/baselines/dllm_cache";
  m.pace = "block schedule (LLaDA) or time schedule (Dream)";
  m.rows = "prompt and response; beyond the first layer those due and those whose V moved most";
  m.keys = "all";
  m.cache = "K, V, attention and feed-forward outputs of every layer";
  m.unmask = "as vanilla";
  const std::string source = "cache_hook_LLaDA.py, cache_hook_Dream.py";
  m.knobs = {{"transfer_ratio", "rows_skipped", "1"}};
  m.parameters = canvas_parameters();
  append(m.parameters,
         {integer_spec("prompt_interval_kp", 50, 1, 1e6,
                       "passes from one refresh of the prompt to the next (K_p)", source),
          integer_spec("response_interval_kr", 7, 1, 1e6,
                       "passes from one refresh of the response to the next (K_r)", source),
          real_spec("transfer_ratio", 0.25, 0, 1,
                    "share of the response computed in between, those whose V is least similar "
                    "to the stored one; 0: none",
                    source)});
  const auto preset = [&](const char* name, std::int64_t kp, std::int64_t kr) {
    m.presets[name] = {
        {"prompt_interval_kp", kp}, {"response_interval_kr", kr}, {"transfer_ratio", 0.25}};
  };
  preset("llada-instruct", 50, 7);
  preset("llada-1.5", 100, 6);
  preset("dream-base", 100, 2);
  preset("dream-instruct", 50, 2);
  m.check = [](const model_config& model, const parameters& p) {
    check_canvas("dllm_cache", model, p);
    if (model.moe.experts > 0) {
      throw usage_error("dllm_cache cannot decode " + model.name +
                        ": it stores the output of dense feed-forward layers only");
    }
  };
  m.make = [](const model_config& model, const parameters& p) {
    recipe r = make_canvas("dllm_cache", model, p);
    r.cache = std::make_unique<append_cache>(/*keeps_decided=*/true);
    r.features = std::make_unique<interval_refresh>(intervals{
        static_cast<std::int32_t>(p.integer("prompt_interval_kp")),
        static_cast<std::int32_t>(p.integer("response_interval_kr")), p.real("transfer_ratio")});
    return r;
  };
  return m;
}

// dLLM-Cache utils/generate_function.py and dllm_cache/hooks/cache_hook_{LLaDA,Dream}.py
parameter_map from_official(const parameter_map& recorded) {
  parameter_map m = whole_canvas_settings(recorded);
  m.merge(take(recorded, {"prompt_interval_kp", "response_interval_kr", "transfer_ratio"}));
  return m;
}

const register_method registered(dllm_cache_info(), {{"dllm_cache", from_official}});

}  // namespace
}  // namespace unmask
