// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// DSB (2026): the window of candidates starts at the first mask, and its end moves on by one for every
// decided token, so that it never waits for a hard token at a border. DSB Cache refreshes the rows
// left of the window too.
#include <algorithm>

#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/ranked_unmask.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct window_settings {
  std::int32_t block_length = 32;      // masks that the window begins with
  std::int32_t max_block_length = -1;  // positions of the window at most; -1: to the end ("greedy")
  std::int32_t steps = 0;              // of the schedule over the whole canvas; 0: one a token
  bool cached = false;
  std::int32_t prefix_window = 24, suffix_window = 0;
  bool first_token = false;  // Dream with a cache: a full forward decides the first mask alone
};

class sliding_window final : public pace_policy {
 public:
  explicit sliding_window(const window_settings& s) : settings_(s) {}

  std::int32_t canvas_length(const model_config&, const sequence_request& request) const override {
    return request_positions("dsb", request);
  }

  void start(batch& b, std::int32_t s) override {
    const std::int32_t prompt = b.at(s).prompt_length;
    progress_.at(s) = {.first = prompt,
                       .last = prompt + settings_.block_length,
                       .suffix = settings_.suffix_window};
    // With a cache the window is moved behind the forwards, else before them.
    if (!settings_.cached) move(b, s);
  }

  sequence_step plan(const batch& b, std::int32_t s) override {
    const sequence& q = b.at(s);
    const progress& p = progress_.at(s);
    sequence_step step;
    step.active = true;
    step.last = step.kv_length = q.length;
    step.candidate_first = q.prompt_length;
    step.block_first = p.first;
    step.candidate_last = step.block_last = std::min(p.last, q.length);
    step.step = p.step;
    step.quota = quota(q.request.gen_length, settings_.cached ? 0 : p.step);
    if (!settings_.cached) return step;
    if (p.full) {
      if (settings_.first_token) {
        step.candidate_first = p.first;
        step.candidate_last = std::min(p.first + 1, q.length);
      }
      return step;
    }
    step.first = p.first - std::min(std::max(p.moved, settings_.prefix_window), p.first);
    step.last = std::min(p.last + p.suffix, q.length);
    step.candidate_last = step.last;
    // The code leaves out the suffix window by an index that counts from the window's first row.
    if (p.suffix > 0) step.candidate_last = std::min(step.last, step.first + p.last);
    return step;
  }

  void observe(batch& b, std::int32_t s, const sequence_step&,
               const step_outcome& outcome) override {
    sequence& q = b.at(s);
    progress& p = progress_.at(s);
    ++p.step;
    p.decided += outcome.taken;
    p.since_full = (p.full ? 0 : p.since_full) + outcome.taken;
    p.idle = outcome.taken > 0 ? 0 : p.idle + 1;
    move(b, s);
    p.full = settings_.cached && p.since_full >= settings_.block_length;
    // A model that keeps deciding the mask id would never come clean: leave after a canvas of tries.
    const bool clean = b.count(s, q.prompt_length, q.length, state_masked) == 0;
    if (!clean && p.idle < q.request.gen_length) return;
    q.finished = true;
    q.output_end = q.length;
  }

 private:
  struct progress {
    std::int32_t first = 0, last = 0;  // the window; `last` may lie behind the canvas
    std::int32_t suffix = 0;           // positions behind it that are computed; it only shrinks
    std::int32_t moved = 0;            // positions that the window slid over in the last step
    std::int32_t step = 0, decided = 0, since_full = 0, idle = 0;
    bool full = true;
  };

  // The window begins at its first mask and ends behind as many positions as it began with and were
  // decided since.
  void move(const batch& b, std::int32_t s) {
    const sequence& q = b.at(s);
    progress& p = progress_.at(s);
    const std::int32_t from = settings_.cached ? p.first : q.prompt_length;
    const std::int32_t end = std::min(p.last, q.length);
    const std::uint8_t* state = b.state().row<std::uint8_t>(s);
    const std::uint8_t* mask = std::find(state + from, state + std::max(end, from), state_masked);
    const auto first = static_cast<std::int32_t>(mask - state);
    p.moved = first - p.first;
    p.first = first;
    const std::int32_t bound =
        settings_.max_block_length < 0 ? q.length : first + settings_.max_block_length;
    p.last = std::min(q.prompt_length + settings_.block_length + p.decided, bound);
    p.suffix = std::min(q.length - p.last, p.suffix);
  }

  std::int32_t quota(std::int32_t tokens, std::int32_t step) const {
    const std::int32_t steps = settings_.steps > 0 ? settings_.steps : tokens;
    return step < steps ? block_schedule::quota(tokens, steps, step) : 1;
  }

  window_settings settings_;
  per_sequence<progress> progress_;
};

recipe make(const model_config& model, const parameters& p) {
  const auto integer = [&](const char* name) { return static_cast<std::int32_t>(p.integer(name)); };
  unmask_settings u = sampling_settings(model, p);
  u.threshold = static_cast<float>(p.real("threshold"));
  u.factor = static_cast<float>(p.real("factor"));
  if (is_dream(model)) u.score = "confidence_threshold";
  set_confidence_dtype(u, is_dream(model), p);
  window_settings w;
  w.block_length = integer("block_length");
  w.max_block_length = integer("max_block_length");
  w.steps = integer("steps");
  w.cached = p.text("cache") == "window";
  w.prefix_window = integer("prefix_window");
  w.suffix_window = integer("suffix_window");
  w.first_token = is_dream(model);
  recipe r;
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  if (w.cached) {
    r.cache = std::make_unique<append_cache>();
  } else {
    r.cache = std::make_unique<no_cache>();
  }
  r.pace = std::make_unique<sliding_window>(w);
  r.unmask = std::make_unique<ranked_unmask>(u);
  return r;
}

void check(const model_config& model, const parameters& p) {
  need_bidirectional("dsb", model);
  if (p.real("threshold") > 0 && p.real("factor") > 0) {
    throw usage_error("dsb: threshold and factor exclude each other; set one of them to 0");
  }
  if (p.integer("max_block_length") == 0) {
    throw usage_error("dsb: max_block_length is a number of positions, or -1 for no limit");
  }
  if (!is_dream(model)) return;
  if (p.real("threshold") <= 0) {
    throw usage_error(
        "dsb: Dream decodes by threshold alone; set threshold above 0 and factor to 0");
  }
  if (p.text("cache") == "window" && p.integer("prefix_window") == 0) {
    throw usage_error(
        "dsb: Dream needs prefix_window of at least 1, because the first mask of a window is read "
        "from the row before it");
  }
  if (p.text("cache") == "window" && p.integer("suffix_window") != 0) {
    throw usage_error("dsb: suffix_window is published for LLaDA only; set it to 0");
  }
}

method_info info() {
  method_info m;
  m.name = "dsb";
  m.summary = "a window of candidates that slides on with every unmasked token";
  m.paper = "DSB (2026), arXiv 2602.05992";
  m.source = "methods/dsb";
  m.pace = "window from the first mask on, until clean";
  m.rows = "all; with DSB Cache the window, positions left of it, and all after a block of tokens";
  m.shape = {.extent = row_extent::block, .refreshes = true};
  m.keys = "all";
  m.cache = "none, or refreshed after a block of unmasked tokens";
  m.unmask = "threshold, factor or top-n inside the window";
  const std::string code = "DSB generate.py";
  m.parameters = {
      block_length_spec(32, 1, 1e6, "masks that the window begins with", code),
      integer_spec("max_block_length", -1, -1, 1e6,
                   "positions of the window at most; -1: no limit (greedy)", code),
      choice_spec("cache", {"window", "none"},
                  "window: DSB Cache, a full pass after every block_length unmasked tokens", code),
      integer_spec("prefix_window", 24, 0, 1e6,
                   "positions left of the window that are computed, those it slid over at least",
                   code),
      integer_spec("suffix_window", 0, 0, 1e6, "positions right of it that are computed (LLaDA)",
                   code),
      real_spec("threshold", 0.9, 0, 2,
                "unmask every token at least this confident, at least one; 0: factor or schedule",
                code),
      real_spec("factor", 0.0, 0, 100, "n-th best needs confidence 1 - factor / (n + 1); 0: off",
                code),
      steps_spec(0, 0, 1e6,
                 "schedule over the whole response if threshold and factor are 0; 0: gen_length",
                 code),
      confidence_parameter()};
  append(m.parameters, sampling_parameters());
  m.knobs = {{"threshold", "decided_early", "0"}};
  m.presets["const"] = {{"max_block_length", 32}};
  m.presets["dream"] = {{"prefix_window", 4}};
  m.check = check;
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"block_length", "max_block_length", "cache", "prefix_window",
                                    "suffix_window", "factor", "steps"});
  const auto threshold = recorded.find("threshold");
  m["threshold"] = threshold == recorded.end() ? parameter_value(0.0) : threshold->second;
  return m;
}

const register_method registered(info(), {{"dsb", official}});

}  // namespace
}  // namespace unmask
