// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Streaming-dLLM (2026): behind the block in work only a window of masks and the last one exist, and
// the threshold falls with the share of rows that are still masks.
#include <algorithm>

#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/parts/active_suffix.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct streaming_settings {
  std::int32_t window = 96;
  double threshold = 0.9, alpha = 0.3;
};

struct streaming_state {
  streaming_settings settings;
  std::shared_ptr<active_suffixes> active = std::make_shared<active_suffixes>();
  per_sequence<float> threshold;  // of the forward in work
};

// Positions of [first, length) that stay: all where there are at most `window`, else the first `window`
// and the last one.
std::vector<std::int32_t> window_and_last(std::int32_t first, std::int32_t length,
                                          std::int32_t window) {
  std::vector<std::int32_t> kept;
  const bool drops = length - first > window;
  const std::int32_t last = drops ? first + window : length;
  for (std::int32_t p = first; p < last; ++p) kept.push_back(p);
  if (drops) kept.push_back(length - 1);
  return kept;
}

class streaming_pace final : public pace_policy {
 public:
  streaming_pace(const block_schedule::settings& blocks, std::shared_ptr<streaming_state> state)
      : blocks_(blocks), state_(std::move(state)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override {
    return blocks_.canvas_length(model, request);
  }
  void start(batch& b, std::int32_t s) override {
    blocks_.start(b, s);
    state_->active->at(s) = {};
  }
  sequence_step plan(const batch& b, std::int32_t s) override {
    sequence_step step = blocks_.plan(b, s);
    const streaming_settings& set = state_->settings;
    active_suffix& active = state_->active->at(s);
    if (active.block_first != step.block_first) {
      active = {step.block_first, step.block_last,
                window_and_last(step.block_last, b.at(s).length, set.window)};
    }
    const auto kept = static_cast<std::int32_t>(active.kept.size());
    step.kv_length = step.block_last + kept;
    double threshold = set.threshold;
    if (step.step > 0) {
      const double rows = step.block_last - step.block_first + kept;
      const double masks = b.count(s, step.block_first, step.block_last, state_masked) + kept;
      threshold *= 1.0 - set.alpha * (1.0 - masks / rows);
    }
    state_->threshold.at(s) = static_cast<float>(threshold);
    return step;
  }
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    blocks_.observe(b, s, step, outcome);
  }

 private:
  block_schedule blocks_;
  std::shared_ptr<streaming_state> state_;
};

// The surest candidate and all of at least the threshold of their sequence.
class scaled_threshold final : public unmask_policy {
 public:
  explicit scaled_threshold(std::shared_ptr<streaming_state> state)
      : unmask_policy({.masks_by_id = true}), state_(std::move(state)) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    confidence_params params;
    params.accumulate_double = true;
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, c.judged()});
  }

  // Sequences have thresholds of their own: one after the other.
  void decide(const batch& b, const step_choice&, candidate_lists& c) override {
    const candidate_set all = c.set(b.capacity());
    one_begin_.assign(static_cast<std::size_t>(b.capacity()) * 2, 0);
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const std::int32_t first = all.begin[s], count = all.begin[s + 1] - first;
      if (count == 0) continue;
      std::int32_t* begin = one_begin_.data() + std::int64_t{s} * 2;
      begin[1] = count;
      const candidate_set one{1, count, begin, all.position + first, all.row + first};
      b.backend().run(op::accept_threshold{one, c.probability.as<float>() + first,
                                           state_->threshold.at(s), false, true,
                                           c.accept.as<std::uint8_t>() + first});
    }
  }

 private:
  std::shared_ptr<streaming_state> state_;
  shared_vector<std::int32_t> one_begin_;  // [S, 2] each sequence as a batch of its own
};

recipe make_streaming(const model_config& model, const parameters& p) {
  const auto state = std::make_shared<streaming_state>();
  state->settings = {static_cast<std::int32_t>(p.integer("window_size")), p.real("threshold"),
                     p.real("confidence_alpha")};
  block_schedule::settings t;
  t.method = "streaming_dllm";
  t.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  t.until_clean = true;
  t.partial = block_schedule::window::suffix;
  if (p.flag("early_exit")) t.stop_ids = {model.eos_id};
  t.fill_behind = true;
  recipe r;
  r.pace = std::make_unique<streaming_pace>(t, state);
  r.rows = std::make_unique<active_rows>(state->active);
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<compact_cache>(state->active, true);
  r.unmask = std::make_unique<scaled_threshold>(state);
  r.views.slot_positions = slots_of(state->active);
  return r;
}

// Window and alpha by model, task and length: the paper's table of settings.
std::map<std::string, parameter_map> streaming_presets() {
  const auto of = [](std::int64_t window, double alpha) {
    return parameter_map{{"window_size", window}, {"confidence_alpha", alpha}};
  };
  return {{"llada-humaneval-256", of(192, 0.3)},  {"llada-humaneval-512", of(256, 0.4)},
          {"llada-gsm8k", of(96, 0.3)},           {"llada-mbpp", of(32, 0.3)},
          {"llada-math-256", of(128, 0.3)},       {"llada-math-512", of(256, 0.2)},
          {"llada15-humaneval-256", of(96, 0.3)}, {"llada15-humaneval-512", of(96, 0.4)},
          {"llada15-gsm8k-256", of(96, 0.4)},     {"llada15-gsm8k-512", of(128, 0.6)},
          {"llada15-mbpp", of(96, 0.3)},          {"llada15-math-256", of(96, 0.4)},
          {"llada15-math-512", of(192, 0.3)}};
}

method_info streaming_info() {
  method_info m;
  m.name = "streaming_dllm";
  m.summary = "a window and the last mask stand for the suffix; the threshold falls inside a block";
  m.paper = "Streaming-dLLM (2026), arXiv 2601.17917";
  m.source = "methods/streaming_dllm";
  m.pace = "block, until clean; an end token in a clean block ends the answer";
  m.rows = "prompt, blocks and kept suffix, then block and kept suffix";
  m.shape = {.extent = row_extent::block, .refreshes = true};
  m.keys = "prompt, blocks and kept suffix";
  m.cache = "refreshed at block entry";
  m.unmask = "threshold scaled by the share of masks, at least one";
  const std::string code = "Streaming-dLLM, LLaDA generate";
  m.parameters = {
      block_length_spec(32, 0, 1e6, "tokens per block; 0: one block", code),
      integer_spec("window_size", 96, 0, 1e6,
                   "masks behind the block that stay, beside the last one", code),
      real_spec("threshold", 0.9, 1e-6, 2, "confidence that a block's first pass asks for", code),
      real_spec("confidence_alpha", 0.3, 0, 1,
                "later passes ask for threshold (1 - alpha (1 - share of masks))", code),
      flag_spec("early_exit", true, "end the answer with a clean block that holds the end token",
                code)};
  m.knobs = {{"window_size", "rows_skipped"}, {"threshold", "decided_early"}};
  m.presets = streaming_presets();
  m.check = [](const model_config& model, const parameters& p) {
    need_bidirectional("streaming_dllm", model);
    need_in_place("streaming_dllm", model);
    if (p.flag("early_exit") && model.eos_id < 0) {
      throw usage_error("streaming_dllm: " + model.name +
                        " has no end token; set early_exit to false");
    }
  };
  m.make = make_streaming;
  return m;
}

parameter_map streaming_official(const parameter_map& recorded) {
  return take(recorded, {"block_length", "window_size", "threshold", "confidence_alpha"});
}

const register_method registered(streaming_info(), {{"streaming_dllm", streaming_official}});

}  // namespace
}  // namespace unmask
