// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// CreditDecoding (2025): a token that was the favourite of earlier forwards has credit, which raises
// its logit, so that it passes the threshold sooner.
#include "kernels/head.h"
#include "methods/credit_decoding/kernels/credit.h"
#include "methods/hierarchical/whole_window.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct credit_settings {
  float threshold = 0, alpha = 0, exponent = 0, decay = 0;
  std::int32_t block_length = 0;
};

class credit_unmask final : public unmask_policy {
 public:
  explicit credit_unmask(const credit_settings& s)
      : unmask_policy({.masks_by_id = true}), settings_(s) {}

  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    const backend& backend = b.backend();
    grow(b, c.count);
    for (std::size_t s = 0; s < plan.of.size(); ++s) fresh_[s] = plan.of[s].step == 0 ? 1 : 0;
    const tensor_view logits = logits_.view().first(c.count);
    backend.run(op::logits{head_input, head, c.row.as<std::int32_t>(), logits});
    backend.run(op::credited_confidence{.candidates = c.set(b.capacity()),
                                        .logits = logits,
                                        .first = plan.arrays.block_first,
                                        .fresh = fresh_.data(),
                                        .alpha = settings_.alpha,
                                        .exponent = settings_.exponent,
                                        .decay = settings_.decay,
                                        .refused = b.model().mask_id,
                                        .listed = listed_,
                                        .tokens = tokens_,
                                        .credits = credits_,
                                        .token = c.token.as<std::int32_t>(),
                                        .probability = c.probability.as<float>(),
                                        .score = c.score.as<float>()});
  }

  void decide(const batch& b, const step_choice&, candidate_lists& c) override {
    b.backend().run(op::accept_near_best{c.set(b.capacity()), c.score.as<float>(),
                                         settings_.threshold, 1e-5F, c.accept.as<std::uint8_t>()});
  }

  // recipe_views::state_bytes
  std::size_t bytes() const { return bytes_; }

 private:
  // A position's favourite changes only when a token was decided before it, so that its list holds
  // at most as many tokens as the block has positions.
  void grow(const batch& b, std::int64_t candidates) {
    const backend& backend = b.backend();
    if (!listed_) {
      const std::int64_t places = b.capacity(), block = settings_.block_length;
      fresh_.resize(static_cast<std::size_t>(places));
      listed_ = backend.allocate(dtype::i32, {places, block});
      tokens_ = backend.allocate(dtype::i32, {places, block, block});
      credits_ = backend.allocate(dtype::f32, {places, block, block});
      bytes_ = static_cast<std::size_t>(places * block * (1 + 2 * block)) * sizeof(float);
    }
    if (logits_ && logits_.view().rows() >= candidates) return;
    logits_ = backend.allocate(dtype::f32, {candidates, b.model().vocabulary});
  }

  credit_settings settings_;
  tensor logits_, listed_, tokens_, credits_;
  shared_vector<std::int32_t> fresh_;
  std::size_t bytes_ = 0;
};

recipe make(const model_config& model, const parameters& p) {
  const auto real = [&](const char* name) { return static_cast<float>(p.real(name)); };
  recipe r = dinfer::make_loop("credit_decoding", model, p);
  auto rule = std::make_unique<credit_unmask>(
      credit_settings{.threshold = real("threshold"),
                      .alpha = real("credit_alpha"),
                      .exponent = real("boost_gamma"),
                      .decay = real("decay_beta"),
                      .block_length = static_cast<std::int32_t>(p.integer("block_length"))});
  r.views.state_bytes = [of = rule.get()] { return of->bytes(); };
  r.unmask = std::move(rule);
  return r;
}

method_info info() {
  method_info m;
  m.name = "credit_decoding";
  m.summary = "tokens that were favourites in earlier passes reach the threshold sooner";
  m.paper = "CreditDecoding (2025), arXiv 2510.06133";
  m.source = "methods/credit_decoding";
  m.pace = "block, until clean";
  m.rows = "prompt and whole response";
  m.keys = "all";
  m.cache = "none";
  m.unmask = "threshold on logits raised by the credit of a block's earlier passes";
  const std::string code = "dInfer parallel_strategy.py";
  m.parameters = {
      real_spec("threshold", 0.9, 0, 2, "unmask every mask at least this confident", code),
      real_spec("credit_alpha", 0.7, 0, 100, "logits + alpha ln(1 + credit); 0: no credit", code),
      real_spec("boost_gamma", 0.2, 0, 100, "a favourite of probability p gets p^gamma", code),
      real_spec("decay_beta", 0.8, 0, 1, "factor on all credits at each pass", code)};
  append(m.parameters, dinfer::loop_parameters());
  m.knobs = {{"threshold", "decided_early"}};
  m.presets["llada-moe"] = {{"threshold", 0.76}};
  m.check = [](const model_config& model, const parameters& p) {
    dinfer::check("credit_decoding", model, p);
  };
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  parameter_map m = dinfer::recorded_settings(recorded);
  for (const auto& [name, value] :
       take(recorded, {"threshold", "credit_alpha", "boost_gamma", "decay_beta"})) {
    m[name] = value;
  }
  return m;
}

const register_method registered(info(), {{"credit_decoding", official}});

}  // namespace
}  // namespace unmask
