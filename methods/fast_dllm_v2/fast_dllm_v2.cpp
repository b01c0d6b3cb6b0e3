// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Fast-dLLM v2 (2025): blocks of a block-causal model whose row p predicts token p + 1, decoded
// sub-block by sub-block; K/V of the rest of a block may be reused while a sub-block is refined.
#include <algorithm>

#include "methods/parts/block_parameters.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct nested_settings {
  std::int32_t block = 32, sub_block = 8;
  bool sub_block_cache = false;
  bool stops_inside = true;  // stop ids are looked for before every forward; false: in clean blocks
  std::vector<std::int32_t> stop_ids;
};

// Whole blocks of the prompt enter first. The arg-max of the last row of such a forward, and of the
// forward that commits a block, is the seed: the first token of the next block.
class nested_blocks final : public pace_policy {
 public:
  explicit nested_blocks(nested_settings s)
      : pace_policy({s.block, s.block + 1, true, 0, s.block}), settings_(std::move(s)) {}

  std::int32_t canvas_length(const model_config&, const sequence_request& request) const override {
    request_positions("fast_dllm_v2", request, settings_.block);
    const std::int32_t block = settings_.block;
    if (request.gen_length < block) {
      throw usage_error("fast_dllm_v2: gen_length " + std::to_string(request.gen_length) +
                        " is less than one block of " + std::to_string(block));
    }
    const auto prompt = static_cast<std::int32_t>(request.prompt.size());
    if (prompt == 0)
      throw usage_error("fast_dllm_v2: the prompt is empty: nothing predicts a token");
    return prompt / block * block + request.gen_length / block * block + 1;
  }

  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override {
    const progress& p = progress_.at(s);
    return prefill_piece(b.at(s).prompt_length / settings_.block * settings_.block - p.entered);
  }

  void start(batch& b, std::int32_t s) override {
    progress_.at(s) = {};
    progress& p = progress_.at(s);
    p.first = b.at(s).prompt_length / settings_.block * settings_.block;
    p.filled = b.at(s).prompt_length;
  }

  sequence_step plan(const batch& b, std::int32_t s) override {
    const progress& p = progress_.at(s);
    sequence_step step;
    step.active = true;
    step.quota = 1;
    if (const std::int32_t rows = prefill_rows(b, s); rows > 0) {
      step.what = forward_kind::prefill;
      step.first = p.entered;
      step.last = p.entered + rows;
      const bool seeds = step.last == b.at(s).prompt_length;
      step.candidate_first = step.last;
      step.candidate_last = step.last + (seeds ? 1 : 0);
      step.block_first = step.last - settings_.block;
    } else {
      plan_block(b, s, p, step);
    }
    step.kv_length = step.block_last = step.block_first + settings_.block;
    return step;
  }

  void observe(batch& b, std::int32_t s, const sequence_step& step, const step_outcome&) override {
    progress& p = progress_.at(s);
    const std::int32_t end = p.first + settings_.block;
    if (step.what == forward_kind::prefill) {
      p.entered = step.last;
      if (step.candidate_last > step.candidate_first) open(b, s, p.first);
    } else if (step.what == forward_kind::commit) {
      ++p.blocks;
      open(b, s, end);
    } else {
      p.cached = p.cached || step.last - step.first == settings_.block;
      if (stops(b, s, p.filled, end)) finish(b, s);
    }
  }

 private:
  struct progress {
    std::int32_t first = 0;    // of the block in work
    std::int32_t filled = 0;   // its first position that was a mask when it was opened
    std::int32_t entered = 0;  // prompt positions in the cache
    std::int32_t blocks = 0;   // committed
    bool cached = false;       // a forward of the whole block has been made
  };

  void plan_block(const batch& b, std::int32_t s, const progress& p, sequence_step& step) const {
    const std::int32_t end = p.first + settings_.block;
    const std::uint8_t* states = b.state().row<std::uint8_t>(s);
    step.block_first = step.first = p.first;
    step.last = end;
    const auto mask =
        static_cast<std::int32_t>(std::find(states + p.first, states + end, state_masked) - states);
    if (mask == end) {
      step.what = forward_kind::commit;
      step.candidate_first = end;
      step.candidate_last = end + 1;
      return;
    }
    step.candidate_first = mask - (mask - p.first) % settings_.sub_block;
    step.candidate_last = step.candidate_first + settings_.sub_block;
    // The row before the first position would be missing, were it still a mask.
    if (!settings_.sub_block_cache || !p.cached || mask == step.candidate_first) return;
    step.first = step.candidate_first;
    step.last = step.candidate_last;
  }

  // The seed is there; the block behind it opens, or the answer ends.
  void open(batch& b, std::int32_t s, std::int32_t first) {
    progress& p = progress_.at(s);
    p.first = first;
    p.filled = first + 1;
    p.cached = false;
    const sequence& q = b.at(s);
    bool stopped = false;
    if (settings_.stops_inside) {
      end_of_answer(b, s, q.prompt_length, first + 1, settings_.stop_ids, &stopped);
    }
    if (stopped || p.blocks == q.request.gen_length / settings_.block) finish(b, s);
  }

  // Whether a stop id in [first, last) ends the answer: with no mask before it, or none at all.
  bool stops(const batch& b, std::int32_t s, std::int32_t first, std::int32_t last) const {
    const std::uint8_t* states = b.state().row<std::uint8_t>(s);
    const auto mask =
        static_cast<std::int32_t>(std::find(states + first, states + last, state_masked) - states);
    if (!settings_.stops_inside && mask < last) return false;
    bool stopped = false;
    end_of_answer(b, s, first, mask, settings_.stop_ids, &stopped);
    return stopped;
  }

  void finish(batch& b, std::int32_t s) {
    sequence& q = b.at(s);
    const std::uint8_t* states = b.state().row<std::uint8_t>(s);
    const auto decided = static_cast<std::int32_t>(
        std::find(states + q.prompt_length, states + q.length, state_masked) - states);
    q.finished = true;
    q.output_end = end_of_answer(b, s, q.prompt_length, decided, settings_.stop_ids);
  }

  nested_settings settings_;
  per_sequence<progress> progress_;
};

// A held batch computes nothing again: what a sub-block forward reads beside its rows must stay.
class unheld_rows final : public row_policy {
 public:
  void select(const batch& b, const step_choice& plan, row_lists& rows) override {
    first_.assign(plan.arrays.first, plan.arrays.first + b.capacity());
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const auto place = static_cast<std::size_t>(s);
      if (plan.of[place].recompute) first_[place] = plan.arrays.last[s];
    }
    step_choice seen;
    seen.arrays = plan.arrays;
    seen.arrays.first = first_.data();
    row_policy::select(b, seen, rows);
  }

 private:
  std::vector<std::int32_t> first_;
};

nested_settings nested_settings_of(const model_config& model, const parameters& p) {
  nested_settings s;
  const auto block = static_cast<std::int32_t>(p.integer("block_length"));
  s.block = block > 0 ? block : model.block;
  const auto sub_block = static_cast<std::int32_t>(p.integer("sub_block_length"));
  s.sub_block = sub_block > 0 ? sub_block : s.block;
  s.sub_block_cache = p.flag("sub_block_cache");
  s.stops_inside = p.text("loop") == "hf";
  s.stop_ids = stop_ids_of("fast_dllm_v2", model, p.text("stop"));
  return s;
}

recipe make_nested(const model_config& model, const parameters& p) {
  const nested_settings s = nested_settings_of(model, p);
  block_unmask_settings u;
  u.threshold = static_cast<float>(p.real("threshold"));
  u.strict = true;
  u.block = s.block;
  recipe r;
  r.pace = std::make_unique<nested_blocks>(s);
  r.rows = std::make_unique<unheld_rows>();
  r.keys = std::make_unique<key_policy>(s.block);
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<block_unmask>(u);
  return r;
}

void check_nested(const model_config& model, const parameters& p) {
  if (model.mask_id < 0) {
    throw usage_error("fast_dllm_v2 cannot decode " + model.name + ": the model has no mask token");
  }
  if (model.attention != mask_kind::block_causal || !model.shifted_logits) {
    throw usage_error("fast_dllm_v2 cannot decode " + model.name +
                      ": it needs block-causal attention and logits of the row before");
  }
  const nested_settings s = nested_settings_of(model, p);
  if (s.block < 1) {
    throw usage_error("fast_dllm_v2: " + model.name + " names no block length; set block_length");
  }
  if (s.block % s.sub_block != 0) {
    throw usage_error("fast_dllm_v2: sub_block_length " + std::to_string(s.sub_block) +
                      " does not divide the block length " + std::to_string(s.block));
  }
}

method_info nested_info() {
  method_info m;
  m.name = "fast_dllm_v2";
  m.summary =
      "blocks decoded sub-block by sub-block; the next block's first token comes for nothing";
  m.paper = "Fast-dLLM v2 (2025), arXiv 2509.26328";
  m.source = "methods/fast_dllm_v2";
  m.pace = "sub-blocks of a block; prefill and KV write pass unmask the next token";
  m.rows = "block, or sub-block";
  m.shape = {row_extent::block};
  m.keys = "history and block";
  m.cache = "KV write pass; inside a block as the last pass left it";
  m.unmask = "threshold inside the sub-block";
  const std::string model_code = "Fast_dLLM_v2 modeling.py generate",
                    eval = "Fast-dLLM v2/generation_functions.py";
  m.parameters = {
      block_length_spec(0, 0, 256, "tokens per block; 0: the model's trained length", model_code),
      integer_spec("sub_block_length", 8, 0, 256, "tokens per sub-block; 0: the whole block",
                   model_code),
      real_spec("threshold", 0.9, 0, 2, "unmask every token more confident than this, at least one",
                eval),
      flag_spec(
          "sub_block_cache", false,
          "a sub-block whose first token is unmasked is computed by itself, over the block's KV",
          model_code),
      choice_spec("loop", {"hf", "eval"},
                  "hf: stop ids are looked for before every pass; eval: only in complete blocks, "
                  "and not in seeds",
                  model_code),
      text_spec("stop", "model", "stop ids: 'model', 'none' or ids with commas", model_code)};
  m.knobs = {{"threshold", "decided_early", "1"}, {"sub_block_cache", "kv_reused", "false"}};
  m.presets["hf"] = {{"threshold", 1.0}};
  m.presets["eval"] = {{"loop", "eval"}};
  m.presets["eval-score"] = {{"loop", "eval"}, {"threshold", 1.0}};
  m.presets["sub-block-cache"] = {{"sub_block_cache", true}};
  m.check = check_nested;
  m.make = make_nested;
  return m;
}

parameter_map nested_official(const parameter_map& recorded) {
  parameter_map m =
      take(recorded, {"block_length", "sub_block_length", "threshold", "sub_block_cache"});
  m["loop"] = recorded.at("preset");
  const auto stop = recorded.find("stop_ids");
  m["stop"] = stop == recorded.end() ? std::string("none") : stop->second;
  return m;
}

const register_method registered(nested_info(), {{"fast_dllm_v2", nested_official}});

}  // namespace
}  // namespace unmask
