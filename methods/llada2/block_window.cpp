// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/llada2/block_window.h"

#include <algorithm>

#include "methods/parts/block_parameters.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/specs.h"

namespace unmask::llada2 {

std::vector<parameter_spec> shared_parameters() {
  const std::string code = "modeling_llada2_moe.py, generate";
  return {block_length_spec(0, 0, 256, "tokens per block; 0: the model's trained length", code),
          real_spec("threshold", 0.95, 0, 2, "unmask every mask that is more confident", code),
          choice_spec("cache", {"blocks", "none"},
                      "blocks: KV of finished blocks are kept, which changes no token; none: every "
                      "pass computes the whole window, as the published code does",
                      code),
          text_spec("stop", "model", "stop ids: 'model', 'none' or ids with commas", code),
          flag_spec("eos_early_stop", false,
                    "end at a stop id as soon as all before it is unmasked", code)};
}

settings settings_of(const std::string& method, const model_config& model, const parameters& p) {
  settings s;
  s.method = method;
  s.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  if (s.block_length == 0) s.block_length = model.block;
  s.whole_window = p.text("cache") == "none";
  s.stop_ids = stop_ids_of(method, model, p.text("stop"));
  s.stop_at_once = p.flag("eos_early_stop");
  return s;
}

void check(const std::string& method, const model_config& model, const parameters& p) {
  if (model.attention != mask_kind::block_causal || model.mask_id < 0) {
    throw usage_error(method + " cannot decode " + model.name +
                      ": it needs a block-causal model with a mask token");
  }
  need_in_place(method, model);
  if (p.integer("block_length") == 0 && model.block <= 0) {
    throw usage_error(method + ": " + model.name +
                      " does not name its block length; set block_length");
  }
  stop_ids_of(method, model, p.text("stop"));
}

parameter_map recorded_settings(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"block_length", "threshold", "cache", "eos_early_stop"});
  const auto stop = recorded.find("stop_ids");
  m["stop"] = stop == recorded.end() ? std::string("none") : stop->second;
  return m;
}

std::int32_t block_window::canvas_length(const model_config&,
                                         const sequence_request& request) const {
  if (request.gen_length <= 0) {
    throw usage_error(settings_.method + ": gen_length must be positive");
  }
  return round_up(static_cast<std::int32_t>(request.prompt.size()) + request.gen_length,
                  settings_.block_length);
}

void block_window::start(batch& b, std::int32_t s) {
  progress& p = progress_.at(s);
  p = {};
  p.first = b.at(s).prompt_length / settings_.block_length * settings_.block_length;
  b.set_state(s, 0, p.first, state_cached);
}

// The prompt's whole blocks; what is left of it enters with the first block.
std::int32_t block_window::prefill_rows(const batch& b, std::int32_t s) const {
  if (settings_.whole_window) return 0;
  const std::int32_t whole =
      b.at(s).prompt_length / settings_.block_length * settings_.block_length;
  return prefill_piece(std::max(whole - progress_.at(s).entered, 0));
}

// LLaDA2.0: step i of S gets B / S masks, the first B mod S steps one more, whatever the prompt has
// taken of the block. LLaDA2.1: always num_to_transfer.
std::int32_t block_window::quota(const batch& b, std::int32_t s) const {
  if (settings_.edits()) return settings_.num_to_transfer;
  const std::int32_t steps =
      std::max(std::min(settings_.steps, b.at(s).request.gen_length / settings_.minimal_topk), 1);
  const std::int32_t block = settings_.block_length;
  return block / steps + (progress_.at(s).step < block % steps ? 1 : 0);
}

sequence_step block_window::plan(const batch& b, std::int32_t s) {
  progress& p = progress_.at(s);
  sequence_step step;
  step.active = true;
  const std::int32_t prefill = prefill_rows(b, s);
  if (prefill > 0) {
    step.what = forward_kind::prefill;
    step.first = p.entered;
    step.last = p.entered + prefill;
    step.candidate_first = step.candidate_last = step.last;
  } else {
    step.first = settings_.whole_window ? 0 : p.first;
    step.last = block_end(p);
    step.what = p.commits ? forward_kind::commit : forward_kind::denoise;
    step.candidate_first = p.first;
    step.candidate_last = p.commits ? p.first : step.last;
    step.quota = p.commits ? 0 : quota(b, s);
    p.had_masks = b.count(s, p.first, step.last, state_masked) > 0;
  }
  step.kv_length = step.last;
  step.block_first = p.first;
  step.block_last = block_end(p);
  step.step = p.step;
  return step;
}

void block_window::observe(batch& b, std::int32_t s, const sequence_step& step,
                           const step_outcome& outcome) {
  progress& p = progress_.at(s);
  if (step.what == forward_kind::prefill) {
    p.entered = step.last;
    return;
  }
  if (step.what == forward_kind::commit) {
    open_next_block(b, s);
    return;
  }
  ++p.step;
  if (!p.had_masks) ++p.post;
  if (!settings_.edits() && settings_.stop_at_once && stops_at_once(b, s)) return;
  if (!is_done(b, s, outcome)) return;
  // A forward that changed nothing ran on the block's final tokens: its K/V are exact.
  leave_block(b, s, outcome.quiet());
}

// LLaDA2.0: no mask is left. LLaDA2.1: a forward on a clean block changed nothing, or a clean block
// has had its forwards.
bool block_window::is_done(const batch& b, std::int32_t s, const step_outcome& outcome) const {
  const progress& p = progress_.at(s);
  const bool clean = b.count(s, p.first, block_end(p), state_masked) == 0;
  if (!settings_.edits()) return clean;
  if (!p.had_masks && outcome.quiet()) return true;
  return clean && p.post + 1 > settings_.max_post_steps;
}

// After a stop id was decided: everything between the prompt and the first stop id of the canvas is.
bool block_window::stops_at_once(batch& b, std::int32_t s) {
  progress& p = progress_.at(s);
  const sequence& q = b.at(s);
  const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
  const std::int32_t last = block_end(p);
  const auto is_stop = [&](std::int32_t id) {
    return std::ranges::find(settings_.stop_ids, id) != settings_.stop_ids.end();
  };
  const auto ends =
      static_cast<std::int32_t>(std::count_if(canvas + q.prompt_length, canvas + last, is_stop));
  const bool decided_one = ends > p.ends;
  p.ends = ends;
  if (!decided_one) return false;
  bool stopped = false;
  const std::int32_t end = end_of_answer(b, s, q.prompt_length, last, settings_.stop_ids, &stopped);
  if (!stopped || b.count(s, q.prompt_length, end, state_masked) > 0) return false;
  finish(b, s, last);
  return true;
}

void block_window::leave_block(batch& b, std::int32_t s, bool exact) {
  progress& p = progress_.at(s);
  const sequence& q = b.at(s);
  const std::int32_t last = block_end(p);
  bool stopped = false;
  if (settings_.edits() ? settings_.stop_at_once : settings_.stop_after_block) {
    end_of_answer(b, s, q.prompt_length, std::max(last, q.prompt_length), settings_.stop_ids,
                  &stopped);
  }
  if (stopped || last >= q.length) {
    finish(b, s, last);
  } else if (settings_.whole_window || exact) {
    open_next_block(b, s);
  } else {
    p.commits = true;
  }
}

void block_window::open_next_block(batch& b, std::int32_t s) {
  progress& p = progress_.at(s);
  b.set_state(s, p.first, block_end(p), state_cached);
  p = {.first = block_end(p), .entered = p.entered, .ends = p.ends};
}

// The answer ends behind its first stop id, or after gen_length tokens.
void block_window::finish(batch& b, std::int32_t s, std::int32_t last) {
  sequence& q = b.at(s);
  q.finished = true;
  const std::int32_t budget = std::min(last, q.prompt_length + q.request.gen_length);
  q.output_end = end_of_answer(b, s, q.prompt_length, budget, settings_.stop_ids);
}

bool block_window::closed(const batch& b, std::int32_t s, std::int32_t first,
                          std::int32_t last) const {
  const progress& p = progress_.at(s);
  const std::int32_t final = p.commits ? block_end(p) : p.first;
  return pace_policy::closed(b, s, first, last) && (b.at(s).finished || last <= final);
}

recipe make_loop(settings s) {
  recipe r;
  r.keys = std::make_unique<key_policy>(s.block_length);
  r.rows = std::make_unique<row_policy>();
  if (s.whole_window) {
    r.cache = std::make_unique<no_cache>();
  } else {
    r.cache = std::make_unique<append_cache>();
  }
  r.pace = std::make_unique<block_window>(std::move(s));
  return r;
}

}  // namespace unmask::llada2
