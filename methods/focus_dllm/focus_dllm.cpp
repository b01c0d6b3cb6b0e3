// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Focus-dLLM: the confidences of the previous step say which masked positions are about to be
// decided; only windows around them are computed, and beyond the first layers they attend to
// attention sinks, the most relevant prompt blocks and the response. A reading of the paper: its
// authors have released no code. Every choice the paper leaves open is a parameter.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "methods/focus_dllm/sparse_context.h"
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

// Rows around the tokens that the previous step was surest of (eqs 4 and 5).
class focused_rows final : public flagged_rows {
 public:
  focused_rows(std::shared_ptr<focus_dllm_state> state, bool dream)
      : state_(std::move(state)), dream_(dream) {}

  void select(const batch& b, const step_choice& plan, row_lists& rows) override {
    remember();
    flagged_rows::select(b, plan, rows);
    const std::int32_t* position = rows.position.as<std::int32_t>();
    const std::int32_t* begin = rows.begin.as<std::int32_t>();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      focus_dllm_sequence& q = state_->of.at(s);
      q.focus_rows.clear();
      if (!plan.of[static_cast<std::size_t>(s)].active) continue;
      const std::int32_t* at = position + begin[s];
      for (const std::int32_t p : q.focus) {
        at = std::lower_bound(at, position + begin[s + 1], p);
        q.focus_rows.push_back(static_cast<std::int32_t>(at - position));
      }
    }
  }

 private:
  void remember() {
    const candidate_set seen = std::exchange(state_->judged, {});
    for (std::int32_t s = 0; s < seen.sequences; ++s) {
      for (std::int32_t i = seen.begin[s]; i < seen.begin[s + 1]; ++i) {
        state_->of.at(s).confidence[static_cast<std::size_t>(seen.position[i])] = state_->score[i];
      }
    }
  }
  void mark(const batch& b, std::int32_t s, const sequence_step& step,
            std::uint8_t* compute) override {
    const focus_dllm_settings& f = state_->settings;
    focus_dllm_sequence& q = state_->of.at(s);
    const std::int32_t length = b.at(s).length;
    q.focus.clear();
    if (step.step == 0) {
      std::fill(compute, compute + length, std::uint8_t{1});
      q.confidence.assign(static_cast<std::size_t>(length),
                          -std::numeric_limits<float>::infinity());
      return;
    }
    const std::uint8_t* token = b.state().row<std::uint8_t>(s);
    for (std::int32_t p = step.block_first; p < step.block_last; ++p) {
      if (token[p] == state_masked) q.focus.push_back(p);
    }
    const auto masked = static_cast<std::int32_t>(q.focus.size());
    std::fill(compute, compute + length, std::uint8_t{0});
    if (f.past_confidence) {
      const auto wanted = static_cast<std::int32_t>(std::floor(f.rho * step.quota));
      const std::int32_t k = std::clamp(wanted, std::min(1, masked), masked);
      std::stable_sort(q.focus.begin(), q.focus.end(), [&](std::int32_t x, std::int32_t y) {
        return q.confidence[static_cast<std::size_t>(x)] >
               q.confidence[static_cast<std::size_t>(y)];
      });
      q.focus.resize(static_cast<std::size_t>(k));
      std::sort(q.focus.begin(), q.focus.end());
      const std::int32_t half = f.window / 2;
      for (const std::int32_t p : q.focus) {
        const std::int32_t low = std::max(0, p - std::max(half, dream_ ? 1 : 0));
        std::fill(compute + low, compute + std::min(length, p + half + 1), std::uint8_t{1});
      }
    } else {
      // Ablation without the indicator: the whole block is active and asks for its keys.
      q.focus.resize(0);
      for (std::int32_t p = step.block_first; p < step.block_last; ++p) q.focus.push_back(p);
      std::fill(compute + step.block_first - (dream_ ? 1 : 0), compute + step.block_last,
                std::uint8_t{1});
    }
    // Every token was decided early: the schedule still makes its forward, over one row.
    if (q.focus.empty()) {
      q.focus.push_back(step.block_first);
      compute[step.block_first] = 1;
    }
    if (f.forget) {
      std::fill(q.confidence.begin(), q.confidence.end(), -std::numeric_limits<float>::infinity());
    }
    q.touched_prompt =
        static_cast<std::int32_t>(std::find(compute, compute + length, std::uint8_t{1}) - compute);
  }
  std::shared_ptr<focus_dllm_state> state_;
  bool dream_;
};

// Decides as the base model's loop does; every confidence it saw is remembered when the next step
// chooses its rows, because the host has waited for this one by then.
class remembering_unmask final : public ranked_unmask {
 public:
  remembering_unmask(unmask_settings u, std::shared_ptr<focus_dllm_state> state)
      : ranked_unmask(std::move(u)), state_(std::move(state)) {}
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    ranked_unmask::judge(b, plan, head_input, head, c);
    state_->judged = c.set(b.capacity());
    state_->score = score(c);
  }

 private:
  std::shared_ptr<focus_dllm_state> state_;
};

recipe make_focus_dllm(const model_config& model, const parameters& p) {
  auto state = std::make_shared<focus_dllm_state>();
  focus_dllm_settings& f = state->settings;
  f.rho = p.real("rho");
  f.window = static_cast<std::int32_t>(p.integer("window"));
  f.dense_layers = static_cast<std::int32_t>(p.integer("dense_layers"));
  const std::int64_t tail = p.integer("dense_tail_layers");
  f.dense_tail_layers = static_cast<std::int32_t>(tail >= 0 ? tail : (is_dream(model) ? 4 : 0));
  f.alpha = p.real("alpha");
  f.sink_fraction = p.real("sink_fraction");
  f.prompt_block_size = static_cast<std::int32_t>(p.integer("prompt_block_size"));
  f.past_confidence = p.flag("past_confidence");
  f.sparse_attention = p.flag("sparse_attention");
  f.sinks = p.flag("sinks");
  using choice = focus_dllm_settings::choice;
  const std::string& blocks = p.text("selection");
  f.blocks = blocks == "random" ? choice::random : blocks == "last" ? choice::last : choice::score;
  f.forget = p.text("inactive_confidence") == "none";
  recipe r;
  r.rows = std::make_unique<focused_rows>(state, is_dream(model));
  r.keys = std::make_unique<sparse_context>(state);
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<remembering_unmask>(sampling_settings(model, p), state);
  const auto steps = static_cast<std::int32_t>(p.integer("steps"));
  const auto tokens_per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  const auto block_length = static_cast<std::int32_t>(p.integer("block_length"));
  if (is_dream(model)) {
    dream_block_schedule::settings t;
    t.method = "focus_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.block_length = block_length;
    t.eps = static_cast<float>(p.real("eps"));
    t.partial = block_schedule::window::canvas;
    t.first_token = false;
    r.pace = std::make_unique<dream_block_schedule>(t);
  } else {
    block_schedule::settings t;
    t.method = "focus_dllm";
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.block_length = block_length;
    t.leftovers = false;
    r.pace = std::make_unique<block_schedule>(t);
  }
  return r;
}

void check_focus_dllm(const model_config& model, const parameters& p) {
  need_bidirectional("focus_dllm", model);
  if (p.flag("sparse_attention") && p.integer("dense_layers") < 1) {
    throw usage_error(
        "focus_dllm: dense_layers must be at least 1, the sinks come from the last "
        "dense layer");
  }
  if (p.flag("past_confidence") && p.real("rho") < 1) {
    throw usage_error(
        "focus_dllm: rho must be at least 1, because a step unmasks none but the rho n positions "
        "that it computes and the schedule wants n: masks would be left");
  }
}

method_info focus_dllm_info() {
  method_info m;
  m.name = "focus_dllm";
  m.summary = "confidence-guided windows over sinks, top prompt blocks and response";
  m.paper = "Focus-dLLM (2026), a reading of the paper: no official code exists";
  m.source = "methods/focus_dllm";
  m.pace = "block schedule, full refresh at block entry";
  m.rows = "windows around the top rho * n positions by past confidence";
  m.shape = {row_extent::block, 0.5, true};
  m.keys = "dense in the first layers; then sinks, top blocks of the prompt, the response";
  m.cache = "refreshed at block entry; active positions overwrite theirs";
  m.unmask = "top-n of the schedule among active positions";
  const std::string eq = "Focus-dLLM eq. ";
  m.knobs = {{"sparse_attention", "keys_hidden", "false"},
             {"past_confidence", "rows_skipped", "false"}};
  m.parameters = {
      real_spec("rho", 4.0, 0, 1e6, "focus positions per token that the schedule unmasks",
                eq + "4"),
      integer_spec("window", 8, 0, 4096,
                   "window w: positions i - w/2 .. i + w/2 around each focus position", eq + "5"),
      flag_spec("past_confidence", true,
                "choose positions by past confidence (PCGI); false: the whole block is active",
                "Focus-dLLM Table 2"),
      choice_spec(
          "inactive_confidence", {"stale", "none"},
          "confidence of positions not computed last step: their last value (stale) or none",
          eq + "4, unstated"),
      flag_spec("sparse_attention", true, "sparse keys beyond the dense layers; false: all keys",
                "Focus-dLLM Table 2"),
      integer_spec("dense_layers", 6, 0, 1000,
                   "first layers that attend to everything; the last of them finds the sinks",
                   "Focus-dLLM section 5"),
      integer_spec("dense_tail_layers", -1, -1, 1000,
                   "last layers that attend to everything; -1: 4 for Dream, 0 else",
                   "Focus-dLLM section 5"),
      real_spec("alpha", 0.5, 0, 1, "share of the prompt's blocks that sparse layers see",
                eq + "8"),
      varying_at({"random"},
                 choice_spec("selection", {"score", "random", "last"},
                             "the prompt's blocks that sparse layers see: by score (the paper), or "
                             "as controls drawn anew by every layer, or the last ones",
                             eq + "8")),
      integer_spec("prompt_block_size", 64, 1, 65536,
                   "tokens of a prompt block (mean of its post-RoPE keys; the last may be ragged)",
                   eq + "7"),
      flag_spec("sinks", true, "sparse layers also see the sinks", "Focus-dLLM Table 3"),
      real_spec(
          "sink_fraction", 0.01, 0, 1,
          "sinks per prompt token, at least one: largest mean attention of the active positions",
          eq + "6")};
  append(m.parameters, schedule_parameters());
  append(m.parameters, sampling_parameters());
  m.presets["paper"] = {};
  m.presets["pcgi-only"] = {{"sparse_attention", false}};
  m.presets["sparse-attention-only"] = {{"past_confidence", false}};
  m.presets["no-sinks"] = {{"sinks", false}};
  m.check = check_focus_dllm;
  m.make = make_focus_dllm;
  return m;
}

// No official code exists: these runs are an independent reading of the paper.
parameter_map from_official(const parameter_map& recorded) {
  return take(recorded, {"steps", "block_length", "rho", "window", "dense_layers",
                         "dense_tail_layers", "alpha", "sink_fraction", "prompt_block_size"});
}

const register_method registered(focus_dllm_info(), {{"focus_dllm", from_official}});

}  // namespace
}  // namespace unmask
