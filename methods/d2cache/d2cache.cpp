// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// d2Cache (ICLR 2026): a forward computes the masks that are likely to be decided soon, the tokens
// that were just decided, and the positions that receive most attention; the K/V of all others stay.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/d2cache/kernels/rollout.h"
#include "methods/d2cache/row_choice.h"
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask::d2 {
namespace {

struct d2_settings {
  row_settings rows;
  double sigma = 10, prior_sigma = 10;  // prior_sigma 0: no certainty prior
  std::int32_t at_least = 1;            // tokens of a step
  float threshold = 0;
};

// What the policies know of a sequence.
struct d2_progress {
  row_evidence evidence;
  decided_density density, prior;  // of the rows' and of the decisions' sigma
  bool behind = false;             // a step was decided since `next` was made
  std::vector<std::uint8_t> next;  // [N] rows of the next forward
};

struct d2_state {
  d2_settings settings;
  per_sequence<d2_progress> of;
  const candidate_lists* judged = nullptr;  // of the last step; the loop's own
  tensor importance;  // [S, length] float32, of the last forward of each sequence
};

class d2_pace final : public pace_policy {
 public:
  d2_pace(const block_schedule::settings& blocks, std::shared_ptr<d2_state> state)
      : blocks_(blocks), state_(std::move(state)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override {
    return blocks_.canvas_length(model, request);
  }
  void start(batch& b, std::int32_t s) override {
    blocks_.start(b, s);
    const auto positions = b.at(s).length - b.at(s).prompt_length;
    const auto all = static_cast<std::size_t>(positions);
    d2_progress& p = state_->of.at(s);
    p = {};
    p.evidence.prompt = b.at(s).prompt_length;
    p.evidence.confidence.assign(all, 1.0F);
    p.evidence.masked.assign(all, 1);
    p.density.start(positions, state_->settings.sigma);
    if (state_->settings.prior_sigma > 0) p.prior.start(positions, state_->settings.prior_sigma);
  }
  // The first forward judges the whole answer, because its confidences rank masks to the end.
  sequence_step plan(const batch& b, std::int32_t s) override {
    sequence_step step = blocks_.plan(b, s);
    if (b.at(s).step == 0) step.candidate_last = b.at(s).length;
    step.quota = state_->settings.at_least;
    return step;
  }
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    d2_progress& p = state_->of.at(s);
    note_decisions(s, step, p.evidence);
    const std::uint8_t* states = b.state().row<std::uint8_t>(s) + p.evidence.prompt;
    for (std::size_t j = 0; j < p.evidence.masked.size(); ++j) {
      if (p.evidence.masked[j] == 0 || states[j] == state_masked) continue;
      p.evidence.masked[j] = 0;
      p.density.decide(static_cast<std::int32_t>(j));
      if (state_->settings.prior_sigma > 0) p.prior.decide(static_cast<std::int32_t>(j));
    }
    p.behind = true;
    blocks_.observe(b, s, step, outcome);
  }

 private:
  // What was decided, also as the mask id, and which masks of the block there were.
  void note_decisions(std::int32_t s, const sequence_step& step, row_evidence& e) const {
    e.decided.assign(e.masked.size(), 0);
    e.open.assign(e.masked.size(), 0);
    const candidate_lists& c = *state_->judged;
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      const std::int32_t position = c.position.as<std::int32_t>()[i];
      const auto j = static_cast<std::size_t>(position - e.prompt);
      e.decided[j] = c.accept.as<std::uint8_t>()[i];
      e.open[j] = position < step.block_last ? 1 : 0;
    }
  }

  block_schedule blocks_;
  std::shared_ptr<d2_state> state_;
};

class chosen_rows final : public flagged_rows {
 public:
  explicit chosen_rows(std::shared_ptr<d2_state> state) : state_(std::move(state)) {}

 protected:
  void mark(const batch& b, std::int32_t s, const sequence_step& step,
            std::uint8_t* compute) override {
    d2_progress& p = state_->of.at(s);
    if (p.behind) {
      p.evidence.density = &p.density;
      p.evidence.importance = state_->importance.row<float>(s);
      p.next = choose_rows(state_->settings.rows, p.evidence);
      p.behind = false;
    }
    if (step.recompute) {  // a row that saw a token of the last step would have other K/V
      std::fill_n(compute, b.at(s).length, std::uint8_t{0});
    } else if (p.next.empty()) {
      std::fill_n(compute, b.at(s).length, std::uint8_t{1});
    } else {
      std::ranges::copy(p.next, compute);
    }
  }

 private:
  std::shared_ptr<d2_state> state_;
};

// Keys are all of them; on the way the attention is rolled out over the layers.
class rolled_out_keys final : public key_policy {
 public:
  explicit rolled_out_keys(std::shared_ptr<d2_state> state)
      : key_policy(0, {.chooses = true}), state_(std::move(state)) {}

  void choose(const layer_rows& layer, const paged_kv& cache) override {
    const batch& b = layer.state;
    const model_config& model = b.model();
    prepare(b, layer.rows.rows);
    const tensor_view weight = weights(layer.layer, layer.rows.rows);
    const std::int32_t* kv_length = layer.plan.arrays.kv_length;
    b.score(op::mean_attention{layer.rows, layer.q, cache, kv_length,
                               1.0F / std::sqrt(static_cast<float>(model.head_dim)), weight});
    if (layer.layer + 1 < model.layers) return;
    tensor_view from;
    for (std::int32_t l = model.layers - 1; l >= 0; --l) {
      const tensor_view to =
          l == 0 ? state_->importance.view() : between_[static_cast<std::size_t>(l % 2)].view();
      b.score(op::roll_out{layer.rows, kv_length, weights(l, layer.rows.rows), from, to});
      from = to;
    }
  }

 private:
  // Room for the weights of a forward of so many rows; grown outside steady state only.
  void prepare(const batch& b, std::int32_t rows) {
    if (rows <= room_) return;
    room_ = rows;
    weights_.clear();
    for (std::int32_t l = 0; l < b.model().layers; ++l) {
      weights_.push_back(b.backend().allocate(dtype::f32, {rows, b.max_length()}));
    }
    if (state_->importance) return;
    for (tensor& t : between_) {
      t = b.backend().allocate(dtype::f32, {b.capacity(), b.max_length()});
    }
    state_->importance =
        b.backend().allocate(dtype::f32, {b.capacity(), b.max_length()}, memory_use::host_visible);
  }
  tensor_view weights(std::int32_t layer, std::int32_t rows) const {
    return weights_[static_cast<std::size_t>(layer)].view().first(rows);
  }

  std::shared_ptr<d2_state> state_;
  std::int32_t room_ = 0;
  std::vector<tensor> weights_;  // [rows, length] of each layer
  std::array<tensor, 2> between_;
};

// Confidence, or confidence times the density of decided neighbours. A mask whose row was not computed
// has logits of zero: token 0, confidence 1 / V.
class density_unmask final : public unmask_policy {
 public:
  explicit density_unmask(std::shared_ptr<d2_state> state)
      : unmask_policy({.masks_by_id = true, .without_rows = true}), state_(std::move(state)) {}

  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    const backend& backend = b.backend();
    list_computed(b, c);
    if (!token_ || token_.view().rows() < c.token.view().rows()) {
      const std::int64_t n = c.token.view().rows();
      token_ = backend.allocate(dtype::i32, {n}, memory_use::host_visible);
      probability_ = backend.allocate(dtype::f32, {n}, memory_use::host_visible);
    }
    const candidate_set computed{b.capacity(), static_cast<std::int32_t>(row_.size()),
                                 begin_.data(), position_.data(), row_.data()};
    confidence_params params;
    params.accumulate_double = true;
    confidence_out out;
    out.token = token_.as<std::int32_t>();
    out.probability = probability_.as<float>();
    if (computed.count > 0) {
      backend.run(op::confidence{head_input, head, computed, params, out});
    }
    backend.synchronize();
    score(b, plan, c, 1.0F / static_cast<float>(b.model().vocabulary));
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    const backend& backend = b.backend();
    const candidate_set set = c.set(b.capacity());
    backend.run(
        op::accept_top{set, c.score.as<float>(), plan.arrays.quota, c.accept.as<std::uint8_t>()});
    const float threshold = state_->settings.threshold;
    if (threshold > 0) {
      if (!also_ || also_.view().rows() < c.accept.view().rows()) {
        also_ = backend.allocate(dtype::u8, {c.accept.view().rows()});
      }
      backend.run(op::accept_threshold{set, c.score.as<float>(), threshold, false, false,
                                       also_.as<std::uint8_t>()});
      backend.run(
          op::merge_accept{c.count, also_.as<std::uint8_t>(), false, c.accept.as<std::uint8_t>()});
    }
    learn(b, plan, c);
  }

  // The pace reads the decisions, once the loop has waited for them.
  void learn(const batch&, const step_choice&, const candidate_lists& c) override {
    state_->judged = &c;
  }

 private:
  void list_computed(const batch& b, const candidate_lists& c) {
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    begin_.assign(1, 0);
    position_.clear();
    row_.clear();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
        if (c.row.as<std::int32_t>()[i] < 0) continue;
        position_.push_back(c.position.as<std::int32_t>()[i]);
        row_.push_back(c.row.as<std::int32_t>()[i]);
      }
      begin_.push_back(static_cast<std::int32_t>(row_.size()));
    }
  }

  void score(const batch& b, const step_choice& plan, candidate_lists& c, float unseen) {
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    std::size_t next = 0;
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
      d2_progress& p = state_->of.at(s);
      for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
        const bool computed = c.row.as<std::int32_t>()[i] >= 0;
        const std::int32_t position = c.position.as<std::int32_t>()[i];
        const std::int32_t j = position - p.evidence.prompt;
        float& probability = c.probability.as<float>()[i];
        probability = computed ? probability_.as<float>()[next] : unseen;
        c.token.as<std::int32_t>()[i] = computed ? token_.as<std::int32_t>()[next] : 0;
        next += computed ? 1 : 0;
        if (b.at(s).step == 0) p.evidence.confidence[static_cast<std::size_t>(j)] = probability;
        float& score = c.score.as<float>()[i];
        if (position >= step.block_last) {
          score = -std::numeric_limits<float>::infinity();
        } else {
          const double weight = state_->settings.prior_sigma > 0 ? p.prior.at(j) : 1.0;
          score = static_cast<float>(double{probability} * weight);
        }
      }
    }
  }

  std::shared_ptr<d2_state> state_;
  shared_vector<std::int32_t> begin_, position_, row_;  // candidates with a row
  tensor token_, probability_;                          // of those
  tensor also_;
};

recipe make(const model_config& model, const parameters& p) {
  const auto state = std::make_shared<d2_state>();
  d2_settings& s = state->settings;
  s.rows.current_k = static_cast<std::int32_t>(p.integer("current_k"));
  s.rows.rollout_p = p.real("rollout_p");
  s.rows.inflate_w = static_cast<std::int32_t>(p.integer("inflate_w"));
  s.rows.shifted = model.shifted_logits;
  s.sigma = p.real("sigma");
  s.prior_sigma = p.real("cp_sigma");
  s.at_least = static_cast<std::int32_t>(p.integer("num_transfer_tokens"));
  s.threshold = static_cast<float>(p.real("threshold"));
  block_schedule::settings blocks;
  blocks.method = "d2cache";
  blocks.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  blocks.until_clean = true;
  blocks.leftovers = false;
  recipe r;
  r.pace = std::make_unique<d2_pace>(blocks, state);
  r.rows = std::make_unique<chosen_rows>(state);
  r.keys = std::make_unique<rolled_out_keys>(state);
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<density_unmask>(state);
  return r;
}

method_info info() {
  method_info m;
  m.name = "d2cache";
  m.summary = "computes likely masks, new tokens and what receives most attention";
  m.paper = "d2Cache (ICLR 2026), arXiv 2509.23094";
  m.source = "methods/d2cache";
  m.pace = "block schedule, until clean";
  m.rows = "masks by confidence and density, new tokens, most attended positions";
  m.shape = {row_extent::canvas, 0.25};
  m.keys = "all";
  m.cache = "KV of other positions stay";
  m.unmask = "top-n by confidence, or by confidence times density; threshold when set";
  const std::string code = "d2Cache src/cache/d2cache.py",
                    loop = "d2Cache src/generation/vanilla.py";
  m.parameters = {
      block_length_spec(0, 0, 1e6, "tokens per block; 0: one block", loop),
      integer_spec("num_transfer_tokens", 1, 1, 1024, "tokens unmasked per step, or at least",
                   loop),
      real_spec("threshold", 0.0, 0, 2, "unmask every token of at least this score; 0: none", loop),
      real_spec("cp_sigma", 10.0, 0, 1e4,
                "certainty prior: confidence times density of this deviation; 0: confidence", loop),
      integer_spec("current_k", 32, 1, 1e6, "masks that a pass computes", code),
      real_spec("sigma", 10.0, 1e-3, 1e4, "deviation of the density that ranks those masks", code),
      real_spec("rollout_p", 0.1, 0, 1,
                "share of the others' importance that a pass computes, one position at least",
                code),
      integer_spec("inflate_w", 0, 0, 1e6,
                   "positions between two computed ones at most this far apart are computed too",
                   code)};
  m.knobs = {{"current_k", "rows_skipped"}, {"threshold", "decided_early", "0"}};
  m.presets["semi"] = {
      {"block_length", 32}, {"cp_sigma", 0.0}, {"inflate_w", 4}, {"threshold", 0.9}};
  m.check = [](const model_config& model, const parameters&) {
    need_bidirectional("d2cache", model);
  };
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"block_length", "num_transfer_tokens", "threshold", "cp_sigma",
                                    "current_k", "sigma", "rollout_p", "inflate_w"});
  m.try_emplace("cp_sigma", 0.0);
  return m;
}

const register_method registered(info(), {{"d2cache", official}});

}  // namespace
}  // namespace unmask::d2
