// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Next-token decoding with a KV cache: the prompt enters in one forward, which also decides the
// first token; then one row per step. Row p - 1 predicts position p.
#include "harness/decode/registry.h"
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/parts/common.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

class one_token final : public pace_policy {
 public:
  explicit one_token(bool stop) : pace_policy({1, 1, false, 0, 1}), stop_(stop) {}

  std::int32_t canvas_length(const model_config&, const sequence_request& request) const override {
    return request_positions("autoregressive", request);
  }

  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override {
    const std::int32_t prompt = b.at(s).prompt_length;
    return next_.at(s) > prompt ? 0 : prefill_piece(prompt - entered_.at(s));
  }

  void start(batch& b, std::int32_t s) override {
    next_.at(s) = b.at(s).prompt_length;
    entered_.at(s) = 0;
  }

  sequence_step plan(const batch& b, std::int32_t s) override {
    const std::int32_t next = next_.at(s);
    sequence_step step;
    step.active = true;
    const bool prefill = next == b.at(s).prompt_length;
    step.what = prefill ? forward_kind::prefill : forward_kind::denoise;
    step.first = prefill ? entered_.at(s) : next - 1;
    step.last = prefill ? entered_.at(s) + prefill_rows(b, s) : next;
    const bool decides = step.last == next;  // not an early piece of the prompt
    step.candidate_first = next;
    step.candidate_last = next + (decides ? 1 : 0);
    step.quota = 1;
    step.kv_length = step.last;
    return step;
  }

  void observe(batch& b, std::int32_t s, const sequence_step& step, const step_outcome&) override {
    sequence& q = b.at(s);
    entered_.at(s) = step.last;
    if (step.candidate_last == step.candidate_first) return;
    const std::int32_t decided = step.candidate_first;
    next_.at(s) = decided + 1;
    bool stopped = false;
    if (stop_) end_of_answer(b, s, decided, decided + 1, b.model().stop_ids, &stopped);
    if (stopped || decided + 1 == q.length) {
      q.finished = true;
      q.output_end = decided + 1;
    }
  }

 private:
  bool stop_;
  per_sequence<std::int32_t> next_, entered_;
};

class last_token final : public unmask_policy {
 public:
  explicit last_token(sample_params sampling) : sampling_(sampling) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    const backend& backend = b.backend();
    const confidence_out out = c.judged();
    if (sampling_.temperature <= 0) {
      backend.run(op::confidence{head_input, head, c.set(b.capacity()), {}, out});
      return;
    }
    if (!logits_) logits_ = backend.allocate(dtype::f32, {b.capacity(), b.model().vocabulary});
    sampling_.noise = {b.seeds(), b.steps()};
    const tensor_view rows = logits_.view().first(c.count);
    backend.run(op::logits{head_input, head, c.row.as<std::int32_t>(), rows});
    backend.run(op::sample{c.set(b.capacity()), rows, sampling_, out});
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    b.backend().run(op::accept_top{c.set(b.capacity()), c.probability.as<float>(),
                                   plan.arrays.quota, c.accept.as<std::uint8_t>()});
  }

 private:
  sample_params sampling_;
  tensor logits_;
};

method_info autoregressive_info() {
  method_info m;
  m.name = "autoregressive";
  m.summary = "next-token decoding with a KV cache";
  m.paper = "baseline of the block-diffusion papers";
  m.source = "methods/baselines/autoregressive";
  m.pace = "one token";
  m.rows = "prompt once, then the last token";
  m.shape = {row_extent::token};
  m.keys = "causal";
  m.cache = "append";
  m.unmask = "last token";
  m.parameters = {varying_above_zero(
                      real_spec("temperature", 0.0, 0, 100, "sampling temperature; 0: greedy", "")),
                  real_spec("top_p", 1.0, 1e-6, 1, "nucleus of the sampling", ""),
                  integer_spec("top_k", 0, 0, 1e6, "sample among the k best; 0: all", ""),
                  flag_spec("stop", true, "end at the first stop token of the model", "")};
  m.check = [](const model_config& model, const parameters&) {
    if (model.attention != mask_kind::causal || !model.shifted_logits) {
      throw usage_error("autoregressive cannot decode " + model.name +
                        ": it needs a causal next-token model");
    }
  };
  m.make = [](const model_config&, const parameters& p) {
    recipe r;
    r.pace = std::make_unique<one_token>(p.flag("stop"));
    r.rows = std::make_unique<row_policy>();
    r.keys = std::make_unique<key_policy>();
    r.cache = std::make_unique<append_cache>();
    sample_params sampling;
    sampling.temperature = static_cast<float>(p.real("temperature"));
    sampling.top_p = static_cast<float>(p.real("top_p"));
    sampling.top_k = static_cast<std::int32_t>(p.integer("top_k"));
    r.unmask = std::make_unique<last_token>(sampling);
    return r;
  };
  return m;
}

const register_method registered(autoregressive_info());

}  // namespace
}  // namespace unmask
