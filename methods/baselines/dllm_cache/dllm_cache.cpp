// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// dLLM-Cache (Liu et al., 2025): whole-canvas decoding that keeps K, V and the outputs of every
// layer, refreshes prompt and response at long intervals, and in between computes only the response
// rows whose V has moved most.
#include "methods/parts/canvas_recipe.h"
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct intervals {
  std::int32_t prompt = 50, response = 7;  // forwards
  double transfer_ratio = 0.25;
};

// K_p, K_r and rho of the paper; the step counts over the whole answer.
class interval_refresh final : public feature_policy {
 public:
  interval_refresh(const intervals& i, const feature_settings& s)
      : feature_policy(s), intervals_(i) {}
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
                    source),
          later(flag_spec("first_layer_always", true,
                          "layer 0 computes every position in every pass; the hooks of LLaDA-V and "
                          "MMaDA treat it as the others",
                          source)),
          later(real_spec(
              "same_above", 1, 0, 1,
              "a cosine of V above it counts as 1, so that rounding chooses no position", "")),
          later(choice_spec(
              "stores", {"all", "moved"},
              "V that a comparison leaves stored: of all positions compared, or of those "
              "computed then (LLaDA-V)",
              "cache_hook_LLaDA_V.py"))});
  const auto preset = [&](const char* name, std::int64_t kp, std::int64_t kr) {
    m.presets[name] = {
        {"prompt_interval_kp", kp}, {"response_interval_kr", kr}, {"transfer_ratio", 0.25}};
  };
  preset("llada-instruct", 50, 7);
  preset("llada-1.5", 100, 6);
  preset("dream-base", 100, 2);
  preset("dream-instruct", 50, 2);
  // Without a first layer that is always computed most V stay as they are.
  const parameter_map every_layer = {{"first_layer_always", false}, {"same_above", 0.99999}};
  preset("llada-v", 25, 7);
  m.presets["llada-v"].insert(every_layer.begin(), every_layer.end());
  m.presets["llada-v"].insert({{"stores", "moved"}, {"stop_sequences", eot_of_llada}});
  preset("mmada", 20, 5);
  m.presets["mmada"].insert(every_layer.begin(), every_layer.end());
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
    feature_settings features;
    features.first_layer = p.flag("first_layer_always") ? 1 : 0;
    features.same = static_cast<float>(1 - p.real("same_above"));
    features.stores_all = p.text("stores") == "all";
    r.features = std::make_unique<interval_refresh>(
        intervals{static_cast<std::int32_t>(p.integer("prompt_interval_kp")),
                  static_cast<std::int32_t>(p.integer("response_interval_kr")),
                  p.real("transfer_ratio")},
        features);
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
