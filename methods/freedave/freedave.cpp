// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FreeDave (2025): what a forward predicts is also a guess of the next steps. The next forward computes
// the canvas as it would be after 1, 2, .. d of them, and the longest chain in which each is what its
// predecessor decides is accepted: the tokens of one step a forward, in fewer forwards.
#include "kernels/head.h"
#include "methods/freedave/draft_pace.h"
#include "methods/freedave/kernels/drafts.h"
#include "methods/parts/block_parameters.h"
#include "methods/parts/specs.h"

namespace unmask::freedave {
namespace {

struct step_rule {
  float threshold = 0;  // 0: none
  bool in_order = false;
};

class verified_unmask final : public unmask_policy {
 public:
  verified_unmask(shared_branches shared, const step_rule& rule)
      : shared_(std::move(shared)), rule_(rule) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), {}, c.judged()});
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    if (!order_) {
      order_ = b.backend().allocate(dtype::i32, {c.accept.view().rows()});
      row_begin_.resize(plan.of.size() + 1);
    }
    branch_state& of = *shared_;
    std::int32_t rows = 0;
    for (std::size_t s = 0; s < plan.of.size(); ++s) {
      const sequence_step& step = plan.of[s];
      row_begin_[s] = rows;
      if (!step.active || step.recompute) of.branches[s] = 0;
      const std::int32_t copies = step.recompute ? 1 : of.branches[s];
      rows += step.active ? copies * (step.last - step.first) : 0;
    }
    row_begin_.back() = rows;
    const settings& set = of.set;
    b.backend().run(op::verify_drafts{.candidates = c.set(b.capacity()),
                                      .row_begin = row_begin_.data(),
                                      .branches = of.branches.data(),
                                      .width = of.width.data(),
                                      .first_only = of.first_only.data(),
                                      .block_last = of.block_last.data(),
                                      .confidence = c.probability.as<float>(),
                                      .per_step = set.per_step,
                                      .use_threshold = rule_.threshold > 0,
                                      .threshold = rule_.threshold,
                                      .in_order = rule_.in_order,
                                      .exact = set.causal,
                                      .block = set.eager ? set.block_length : 0,
                                      .guess = of.guess,
                                      .turn = of.turn,
                                      .order = order_.as<std::int32_t>(),
                                      .token = c.token.as<std::int32_t>(),
                                      .chosen = of.chosen.as<std::int32_t>(),
                                      .left = of.left.as<std::int32_t>(),
                                      .left_in_block = of.left_in_block.as<std::int32_t>(),
                                      .accept = c.accept.as<std::uint8_t>()});
  }

 private:
  shared_branches shared_;
  step_rule rule_;
  tensor order_;
  shared_vector<std::int32_t> row_begin_;
};

recipe make(const model_config& model, const parameters& p) {
  settings s;
  s.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  if (s.block_length == 0) s.block_length = model.block > 0 ? model.block : 32;
  s.draft_steps = static_cast<std::int32_t>(p.integer("draft_steps"));
  s.per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  s.causal = model.attention == mask_kind::block_causal;
  s.shifted = model.shifted_logits;
  s.prefix = !s.causal && p.text("cache") == "prefix";
  s.eager = p.flag("eager");
  if (p.flag("early_exit")) s.exit_ids = stop_ids_of("freedave", model, p.text("stop"));
  const auto shared = std::make_shared<branch_state>(s);
  recipe r;
  r.pace = std::make_unique<draft_pace>(shared);
  r.rows = std::make_unique<branch_rows>(shared);
  r.keys = std::make_unique<branch_keys>(shared);
  r.cache = std::make_unique<branch_slots>(s);
  r.unmask = std::make_unique<verified_unmask>(
      shared, step_rule{static_cast<float>(p.real("threshold")), p.text("order") != "confidence"});
  return r;
}

void check(const model_config& model, const parameters& p) {
  const bool causal = model.attention == mask_kind::block_causal;
  if (model.attention == mask_kind::causal || model.mask_id < 0) {
    throw usage_error("freedave cannot decode " + model.name +
                      ": it needs a model with a mask token");
  }
  if (causal && model.shifted_logits) {
    throw usage_error("freedave cannot decode " + model.name + ": " + model.name +
                      " predicts each token from the position before it, which freedave takes only "
                      "from bidirectional models");
  }
  if (p.flag("eager") && !causal) {
    throw usage_error("freedave: eager=true changes the tokens of a bidirectional model such as " +
                      model.name);
  }
  stop_ids_of("freedave", model, p.text("stop"));
}

parameter_map official(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"block_length", "draft_steps", "tokens_per_step", "threshold",
                                    "eager", "early_exit"});
  if (const auto at = recorded.find("order"); at != recorded.end()) {
    m["order"] =
        std::string(at->second == parameter_value("confidence") ? "confidence" : "left_to_right");
  }
  const auto cache = recorded.find("cache");
  if (cache != recorded.end() && cache->second == parameter_value("prefix")) {
    m["cache"] = std::string("prefix");
  }
  const auto stop = recorded.find("stop_ids");
  m["stop"] = stop == recorded.end() ? std::string("none") : stop->second;
  return m;
}

method_info info() {
  method_info m;
  m.name = "freedave";
  m.summary = "drafts from the last prediction, verified side by side: fewer passes, same tokens";
  m.paper = "FreeDave (2025), arXiv 2510.00294";
  m.source = "methods/freedave";
  m.pace = "block, until complete; drafts may run into further blocks";
  m.rows = "branches of the block: the response, and the response with guesses of the next steps";
  m.shape = {row_extent::block};
  m.keys = "what is outside the window, and a position's own branch";
  m.cache = "KV write pass; on bidirectional models as fast_dllm";
  m.unmask = "top-n or threshold, and all steps whose drafts the pass confirms";
  const std::string code = "FreeDave generation/core.py";
  m.parameters = {
      block_length_spec(0, 0, 4096, "tokens per block; 0: what the model was trained with, or 32",
                        code),
      integer_spec("draft_steps", 4, 1, 64, "branches of a pass; 1: one step per pass", code),
      tokens_per_step_spec(1, 1, 256, "tokens that one step unmasks", code),
      real_spec("threshold", 0, 0, 2,
                "a step unmasks all tokens at least this confident, if there are any; 0: none",
                code),
      choice_spec("order", {"confidence", "left_to_right"}, "which tokens a step unmasks first",
                  code),
      choice_spec("cache", {"dual", "prefix"},
                  "bidirectional models: KV around the block are reused, or those before it", code),
      flag_spec("eager", false, "block-causal models: drafts may run into the blocks behind", code),
      flag_spec("early_exit", true, "end behind a block of nothing but stop ids", code),
      text_spec("stop", "model", "stop ids: 'model', 'none' or ids with commas", code)};
  m.knobs = {{"draft_steps", "decided_early", "1"}};
  m.presets["trado"] = {{"block_length", 4}, {"draft_steps", 8}, {"eager", true}};
  m.presets["trado-threshold"] = {
      {"block_length", 4}, {"draft_steps", 8}, {"eager", true}, {"threshold", 0.9}};
  m.presets["dream"] = {{"block_length", 32}, {"draft_steps", 8}};
  m.presets["llada"] = {{"block_length", 32}, {"draft_steps", 4}};
  m.check = check;
  m.make = make;
  return m;
}

const register_method registered(info(), {{"freedave", official}});

}  // namespace
}  // namespace unmask::freedave
