// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Block diffusion as LMDeploy serves it and as SDAR's own loop runs it: all positions of a block
// are recomputed each step over the exact cache of earlier blocks.
#include <charconv>

#include "methods/baselines/block_diffusion/block_pace.h"

namespace unmask {
namespace {

struct block_unmask_settings {
  std::string remasking;
  float threshold = 0;
  bool strict = false;
  float temperature = 1;
  bool at_least_quota = false;  // SDAR: never fewer than the schedule's count
  std::int32_t block = 32;
};

class block_unmask final : public unmask_policy {
 public:
  explicit block_unmask(block_unmask_settings s) : settings_(std::move(s)) {}

  void judge(const batch& b, const step_plan&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    confidence_params params;
    params.temperature = settings_.temperature;
    b.backend().confidence(
        head_input, head, c.set(b.capacity()), params,
        {c.token.as<std::int32_t>(), c.probability.as<float>(), c.margin.as<float>(),
         c.negative_entropy.as<float>(), c.top2_gap.as<float>()});
  }

  void decide(const batch& b, const step_plan& plan, candidate_lists& c) override {
    const ops& run = b.backend();
    const candidate_set set = c.set(b.capacity());
    const float* score = c.probability.as<float>();
    std::uint8_t* accept = c.accept.as<std::uint8_t>();
    const std::int32_t* quota = c.quota.as<std::int32_t>();
    if (settings_.remasking == "low_confidence_static") {
      run.accept_top(set, score, quota, accept);
    } else if (settings_.remasking == "sequential") {
      block_begin_.clear();
      for (const sequence_step& step : plan.of) {
        block_begin_.push_back(step.active ? step.last - settings_.block : 0);
      }
      run.accept_sequential(set, block_begin_.data(), settings_.block, quota, accept);
    } else {
      run.accept_threshold(set, score, settings_.threshold, settings_.strict, true, accept);
      if (settings_.at_least_quota) {
        if (!also_) also_ = run.allocate(dtype::u8, {c.accept.view().rows()});
        run.accept_top(set, score, quota, also_.as<std::uint8_t>());
        run.merge_accept(c.count, also_.as<std::uint8_t>(), false, accept);
      }
    }
  }

 private:
  block_unmask_settings settings_;
  std::vector<std::int32_t> block_begin_;
  tensor also_;
};

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    std::int32_t id = 0;
    const auto [next, failure] = std::from_chars(p, end, id);
    if (failure != std::errc{} || (next != end && *next != ',')) {
      throw usage_error(
          "block_diffusion: stop must be 'model', 'none' or token ids with commas, "
          "not '" +
          text + "'");
    }
    ids.push_back(id);
    p = next == end ? end : next + 1;
  }
  return ids;
}

recipe make_block_diffusion(const model_config& model, const parameters& p) {
  block_settings s;
  s.engine = p.text("loop") == "engine";
  s.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  if (s.block_length == 0) s.block_length = model.block;
  s.steps = static_cast<std::int32_t>(p.integer("steps"));
  s.stop_in_prompt_block = p.flag("stop_in_prompt_block");
  const std::string& stop = p.text("stop");
  s.use_stop_ids = stop != "none";
  s.stop_ids = stop == "model" ? model.stop_ids
                               : (s.use_stop_ids ? parse_ids(stop) : std::vector<std::int32_t>{});
  block_unmask_settings u;
  u.remasking = p.text("remasking");
  u.threshold = static_cast<float>(p.real("threshold"));
  u.strict = p.text("accept_compare") == ">";
  u.temperature = static_cast<float>(p.real("temperature"));
  u.at_least_quota = !s.engine;
  u.block = s.block_length;
  recipe r;
  r.keys = std::make_unique<key_policy>(s.block_length);
  r.pace = std::make_unique<block_pace>(std::move(s));
  r.rows = std::make_unique<row_policy>();
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<block_unmask>(u);
  return r;
}

method_info block_diffusion_info() {
  method_info m;
  m.name = "block_diffusion";
  m.summary = "blocks of masks over an exact cache of earlier blocks (SDAR, LLaDA2.0)";
  m.paper = "SDAR (JetAstra, 2025) and LMDeploy's dLLM engine";
  m.source = "methods/baselines/block_diffusion";
  m.pace = "block: prefill, denoise, commit";
  m.rows = "whole block";
  m.keys = "history and block";
  m.cache = "commit forward";
  m.unmask = "threshold, static count or sequential";
  const std::string engine = "LMDeploy strategies/dllm", sdar = "SDAR generate.py";
  m.parameters = {{"block_length",
                   std::int64_t{0},
                   "tokens per block; 0: the model's trained length",
                   0,
                   64,
                   {},
                   engine},
                  {"steps",
                   std::int64_t{0},
                   "denoising steps per block (static, sequential); 0: block_length",
                   0,
                   64,
                   {},
                   engine},
                  {"remasking",
                   std::string("low_confidence_dynamic"),
                   "rule that decides tokens",
                   -1e300,
                   1e300,
                   {"low_confidence_dynamic", "low_confidence_static", "sequential"},
                   engine},
                  {"threshold",
                   0.9,
                   "dynamic: decide every token at least this confident, at least one",
                   0,
                   2,
                   {},
                   engine},
                  {"accept_compare",
                   std::string(">="),
                   "comparison with the threshold",
                   -1e300,
                   1e300,
                   {">=", ">"},
                   engine},
                  {"temperature",
                   1.0,
                   "divides the logits before the confidence softmax",
                   1e-3,
                   100,
                   {},
                   engine},
                  {"loop",
                   std::string("engine"),
                   "engine: LMDeploy's block life cycle; hf: SDAR's",
                   -1e300,
                   1e300,
                   {"engine", "hf"},
                   sdar},
                  {"stop",
                   std::string("model"),
                   "stop ids: 'model', 'none' or ids with commas",
                   -1e300,
                   1e300,
                   {},
                   engine},
                  {"stop_in_prompt_block",
                   true,
                   "honour stop ids in a first block shared with the prompt; "
                   "false: LMDeploy's oversight",
                   -1e300,
                   1e300,
                   {},
                   engine}};
  m.presets["engine"] = {{"stop_in_prompt_block", false}};
  m.presets["hf"] = {{"loop", std::string("hf")}, {"accept_compare", std::string(">")}};
  m.check = [](const model_config& model, const parameters& p) {
    if (p.integer("block_length") == 0 && model.block <= 0) {
      throw usage_error("block_diffusion: " + model.name +
                        " does not name its block length; set block_length");
    }
    if (model.attention != mask_kind::block_causal || model.mask_id < 0) {
      throw usage_error("block_diffusion cannot decode " + model.name +
                        ": it needs a block-causal model with a mask token");
    }
  };
  m.make = make_block_diffusion;
  return m;
}

const register_method registered(block_diffusion_info());

}  // namespace
}  // namespace unmask
