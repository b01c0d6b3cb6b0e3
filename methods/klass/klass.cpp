// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// KLASS (NeurIPS 2025): a mask is decided where the model is sure and its distribution has stopped
// moving for some forwards; where that is nowhere so, the schedule's best are.
#include "kernels/head.h"
#include "methods/baselines/common.h"
#include "methods/baselines/specs.h"
#include "methods/baselines/vanilla/loop_parameters.h"
#include "methods/baselines/vanilla/schedules.h"
#include "methods/klass/kernels/history.h"

namespace unmask {
namespace {

struct klass_settings {
  float threshold = 0, limit = 0;
  std::int32_t history = 2;
  op::ready_choice choice = op::ready_choice::all;
  std::int32_t block_length = 0;  // 0: the canvas
  bool dream = false;
};

class settled_unmask final : public unmask_policy {
 public:
  explicit settled_unmask(const klass_settings& s)
      : unmask_policy({.masks_by_id = true}), settings_(s) {}

  void judge(const batch& b, const step_plan& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    const backend& backend = b.backend();
    grow(b, c);
    note_steps(b, plan);
    const tensor_view logits = logits_.view().first(c.count);
    backend.run(op::logits{head_input, head, c.row.as<std::int32_t>(), logits});
    backend.run(op::compare_distributions{
        .candidates = c.set(b.capacity()),
        .logits = logits,
        .origin = origin_.data(),
        .fresh = fresh_.data(),
        .epsilon = 1e-12,
        .limit = settings_.limit,
        .history = settings_.history,
        // The official history begins with zeros, which are below any limit but 0.
        .still_before = settings_.limit > 0 ? settings_.history - 1 : 0,
        .owner = owner_,
        .still = still_,
        .kept = kept_,
        .scale = scale_,
        .token = c.token.as<std::int32_t>(),
        .probability = c.probability.as<float>(),
        .doubt = c.score.as<float>(),
        .moved = c.margin.as<float>(),
        .settled = settled_.as<std::uint8_t>()});
  }

  void decide(const batch& b, const step_plan& plan, candidate_lists& c) override {
    b.backend().run(op::accept_settled{.candidates = c.set(b.capacity()),
                                       .last = last_.data(),
                                       .allowed = allowed_.data(),
                                       .probability = c.probability.as<float>(),
                                       .doubt = c.score.as<float>(),
                                       .moved = c.margin.as<float>(),
                                       .settled = settled_.as<std::uint8_t>(),
                                       .threshold = settings_.threshold,
                                       .strict = !settings_.dream,
                                       .choice = settings_.choice,
                                       .quota = plan.arrays.quota,
                                       .at_most = settings_.dream ? 1 : b.max_length(),
                                       .accept = c.accept.as<std::uint8_t>()});
  }

  // recipe_views::state_bytes
  std::size_t bytes() const { return bytes_; }

 private:
  // What the step is to each sequence. LLaDA's loop does not use the rule in the first history - 1
  // forwards of a block.
  void note_steps(const batch& b, const step_plan& plan) {
    for (std::size_t s = 0; s < plan.of.size(); ++s) {
      const sequence_step& step = plan.of[s];
      if (!step.active) continue;
      const sequence& q = b.at(static_cast<std::int32_t>(s));
      origin_[s] = q.prompt_length;
      fresh_[s] = q.step == 0 ? 1 : 0;
      last_[s] = step.block_last;
      allowed_[s] = settings_.dream || step.step >= settings_.history - 1 ? 1 : 0;
    }
  }

  // Distributions are held of the block in work and of the next one, whose first comparison is with
  // the last forward before it.
  void grow(const batch& b, const candidate_lists& c) {
    const backend& backend = b.backend();
    const std::int64_t vocabulary = b.model().vocabulary;
    if (!owner_) {
      const std::int64_t sequences = b.capacity();
      const std::int64_t places =
          settings_.block_length > 0 ? 2 * settings_.block_length : b.max_length();
      for (shared_vector<std::int32_t>* v : {&origin_, &fresh_, &last_, &allowed_}) {
        v->resize(static_cast<std::size_t>(sequences));
      }
      owner_ = backend.allocate(dtype::i32, {sequences, places});
      still_ = backend.allocate(dtype::i32, {sequences, places});
      kept_ = backend.allocate(dtype::f32, {sequences, places, vocabulary});
      scale_ = backend.allocate(dtype::f32, {sequences, places, 2});
      settled_ = backend.allocate(dtype::u8, {c.accept.view().rows()});
      bytes_ = static_cast<std::size_t>(sequences * places * (vocabulary + 4)) * sizeof(float);
    }
    if (logits_ && logits_.view().rows() >= c.count) return;
    logits_ = backend.allocate(dtype::f32, {c.count, vocabulary});
  }

  klass_settings settings_;
  tensor logits_, owner_, still_, kept_, scale_, settled_;
  shared_vector<std::int32_t> origin_, fresh_, last_, allowed_;
  std::size_t bytes_ = 0;
};

op::ready_choice choice_of(const std::string& strategy) {
  if (strategy == "max_conf") return op::ready_choice::surest;
  if (strategy == "min_kl") return op::ready_choice::stillest;
  return op::ready_choice::all;
}

recipe make(const model_config& model, const parameters& p) {
  const bool dream = is_dream(model);
  block_schedule::settings t;
  t.method = "klass";
  t.steps = static_cast<std::int32_t>(p.integer("steps"));
  t.block_length = dream ? 0 : static_cast<std::int32_t>(p.integer("block_length"));
  t.until_clean = true;
  t.within_steps = true;
  t.leftovers = false;
  t.judge_next_block = true;
  auto rule = std::make_unique<settled_unmask>(
      klass_settings{.threshold = static_cast<float>(p.real("confidence_threshold")),
                     .limit = static_cast<float>(p.real("kl_threshold")),
                     .history = static_cast<std::int32_t>(p.integer("kl_history")),
                     .choice = choice_of(p.text("strategy")),
                     .block_length = t.block_length,
                     .dream = dream});
  recipe r;
  r.pace = std::make_unique<block_schedule>(t);
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<no_cache>();
  r.views.state_bytes = [of = rule.get()] { return of->bytes(); };
  r.unmask = std::move(rule);
  return r;
}

// The scripts of the authors' repository.
std::map<std::string, parameter_map> presets() {
  const auto dream = [](double confidence, double kl) {
    return parameter_map{{"confidence_threshold", confidence}, {"kl_threshold", kl}};
  };
  const auto llada = [&](double confidence, double kl) {
    parameter_map m = dream(confidence, kl);
    m["block_length"] = 64;
    return m;
  };
  return {{"llada-gsm8k", llada(0.6, 0.015)},     {"llada-math", llada(0.6, 0.01)},
          {"llada-humaneval", llada(0.9, 0.01)},  {"llada-mbpp", llada(0.7, 0.01)},
          {"dream-gsm8k", dream(0.9, 0.001)},     {"dream-math", dream(0.9, 0.005)},
          {"dream-humaneval", dream(0.8, 0.001)}, {"dream-mbpp", dream(0.9, 0.001)}};
}

method_info info() {
  method_info m;
  m.name = "klass";
  m.summary = "decides where the model is sure and its distribution has stopped moving";
  m.paper = "KLASS (NeurIPS 2025), arXiv 2511.05664";
  m.source = "methods/klass";
  m.pace = "block (LLaDA) or canvas (Dream), until clean or out of steps";
  m.rows = "prompt and whole canvas";
  m.keys = "all";
  m.cache = "none";
  m.unmask = "threshold on confidence and on divergence from the last forwards; else top-n";
  const std::string code = "KLASS llada_klass.py, dream_klass.py";
  m.parameters = {
      real_spec("confidence_threshold", 0.9, 0, 1,
                "a mask has to be more confident (Dream: or equally); 1: never", code),
      real_spec("kl_threshold", 0.01, 0, 1e6,
                "and its distribution to move less than this, nats; 0: never", code),
      integer_spec("kl_history", 2, 1, 1024, "for so many forwards in a row", code),
      choice_spec("strategy", {"all", "max_conf", "min_kl"},
                  "of those: all, the most confident, the one that moved least", code),
      integer_spec("steps", 0, 0, 1e6,
                   "forwards for the whole canvas; what is masked then stays so; 0: gen_length",
                   code),
      integer_spec("block_length", 32, 0, 1e6, "LLaDA: tokens per block; 0: one block", code)};
  m.knobs = {{"confidence_threshold", "decided_early", "1"}};
  m.presets = presets();
  m.check = [](const model_config& model, const parameters&) {
    need_bidirectional("klass", model);
  };
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  return take(recorded, {"confidence_threshold", "kl_threshold", "kl_history", "strategy", "steps",
                         "block_length"});
}

const register_method registered(info(), {{"klass", official}});

}  // namespace
}  // namespace unmask
