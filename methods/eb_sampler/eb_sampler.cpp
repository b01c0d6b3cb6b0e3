// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// EB-sampler (Ben-Hamu et al., 2025): a forward decides the longest run of the surest masks whose
// entropies, without the largest of them, sum to at most gamma.
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/parts/common.h"
#include "methods/parts/kernels/entropy_bound.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct bound_settings {
  std::string order;  // entropy, confidence, margin
  float gamma = 0;
  bool without_largest = true;
  std::int32_t min_tokens = 1;
  bool ban_mask = false;
};

class bounded_unmask final : public unmask_policy {
 public:
  explicit bounded_unmask(bound_settings s)
      : unmask_policy({.masks_by_id = true}), settings_(std::move(s)) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    confidence_out out = c.judged();
    out.negative_entropy = c.negative_entropy.as<float>();
    if (settings_.order == "margin") out.margin = c.margin.as<float>();
    confidence_params params;
    params.accumulate_double = true;
    if (settings_.ban_mask) {
      if (banned_.empty()) banned_.push_back(b.model().mask_id);
      params.banned = banned_.data();
      params.banned_count = 1;
    }
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, out});
  }

  void decide(const batch& b, const step_choice&, candidate_lists& c) override {
    const tensor& score = settings_.order == "margin"       ? c.margin
                          : settings_.order == "confidence" ? c.probability
                                                            : c.negative_entropy;
    b.backend().run(op::accept_entropy_bound{
        c.set(b.capacity()), score.as<float>(), c.negative_entropy.as<float>(), settings_.gamma,
        settings_.without_largest, settings_.min_tokens, c.accept.as<std::uint8_t>()});
  }

 private:
  bound_settings settings_;
  shared_vector<std::int32_t> banned_;
};

recipe make(const model_config& model, const parameters& p) {
  const std::string& cache = p.text("cache");
  recipe r;
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  if (cache == "none") {
    r.cache = std::make_unique<no_cache>();
  } else {
    r.cache = std::make_unique<append_cache>();
  }
  block_schedule::settings t;
  t.method = "eb_sampler";
  t.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  t.until_clean = true;
  t.leftovers = false;
  t.partial = window_of_cache(cache);
  t.window_shift = model.shifted_logits ? 1 : 0;
  r.pace = std::make_unique<block_schedule>(t);
  r.unmask = std::make_unique<bounded_unmask>(
      bound_settings{.order = p.text("order"),
                     .gamma = static_cast<float>(p.real("gamma")),
                     .without_largest = p.text("rule") == "sum_minus_max",
                     .min_tokens = static_cast<std::int32_t>(p.integer("min_tokens")),
                     .ban_mask = p.flag("ban_mask_token")});
  return r;
}

method_info info() {
  method_info m;
  m.name = "eb_sampler";
  m.summary = "unmasks as many of the surest masks as a bound on their entropies allows";
  m.paper = "EB-sampler (Ben-Hamu et al., NeurIPS 2025), arXiv 2505.24857";
  m.source = "methods/eb_sampler";
  m.pace = "response or block, until clean";
  m.rows = "prompt and response; with a cache as fast_dllm";
  m.keys = "all";
  m.cache = "none, or refreshed at block entry";
  m.unmask = "the longest run whose entropies without the largest sum to at most gamma";
  m.parameters = {
      real_spec("gamma", 0.1, 0, 1e6, "bound on the sum of entropies, nats", "arXiv 2505.24857"),
      choice_spec("order", {"entropy", "confidence", "margin"},
                  "who comes first: lowest entropy, largest probability, largest margin of the two "
                  "best",
                  "arXiv 2505.24857"),
      choice_spec("rule", {"sum_minus_max", "sum_before"},
                  "entropies that count: all but the largest (the paper), all but the last",
                  "sum_before: d2Cache vanilla.py at batch 1"),
      integer_spec("min_tokens", 1, 1, 1024, "tokens that a pass unmasks at least",
                   "d2Cache vanilla.py, num_transfer_tokens"),
      flag_spec("ban_mask_token", false, "the mask token is never predicted",
                "UNI-D2 eb_sampler.py"),
      block_length_spec(0, 0, 1e6, "tokens per block; 0: the whole response", "d2Cache vanilla.py"),
      choice_spec("cache", {"none", "dual", "prefix"},
                  "KV that a block reuses: nothing, those around it, those before it",
                  "d2Cache vanilla.py")};
  m.knobs = {{"gamma", "decided_early", "0"}};
  m.presets["d2cache"] = {{"gamma", 0.001},
                          {"order", std::string("confidence")},
                          {"rule", std::string("sum_before")},
                          {"block_length", 32}};
  m.presets["pc-sampler"] = {{"gamma", 0.01}};
  m.presets["uni-d2"] = {{"order", std::string("confidence")}, {"ban_mask_token", true}};
  m.check = [](const model_config& model, const parameters&) {
    need_bidirectional("eb_sampler", model);
  };
  m.make = make;
  return m;
}

// d2Cache names the orders as Dream's loop does, UNI-D2 and PC-Sampler in words of their own.
parameter_map official(const parameter_map& recorded) {
  parameter_map m =
      take(recorded, {"gamma", "rule", "min_tokens", "ban_mask_token", "block_length", "cache"});
  const std::string& alg = std::get<std::string>(recorded.at("alg"));
  m["order"] = alg == "maskgit_plus"  ? std::string("confidence")
               : alg == "topk_margin" ? std::string("margin")
                                      : alg;
  return m;
}

const register_method registered(info(), {{"eb_sampler", official}});

}  // namespace
}  // namespace unmask
