// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// DPad (ICLR 2026): masks far behind the block in work are a scratchpad of which a few cells suffice.
// Each block keeps a random subset that thins out with the distance; the others do not exist for it.
#include "methods/parts/dropping_pace.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/ranked_unmask.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask::dpad {
namespace {

// What both schedules read alike.
template <class Settings>
Settings schedule_of(const model_config& model, const parameters& p) {
  Settings t;
  t.method = "dpad";
  t.steps = static_cast<std::int32_t>(p.integer("steps"));
  t.tokens_per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  t.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  t.until_clean = true;
  t.partial = window_of_cache(p.text("cache"));
  if (p.flag("early_termination")) t.stop_ids = {model.eos_id};
  t.fill_behind = true;
  return t;
}

std::unique_ptr<pace_policy> blocks_of(const model_config& model, const parameters& p) {
  if (!is_dream(model)) {
    return std::make_unique<block_schedule>(schedule_of<block_schedule::settings>(model, p));
  }
  auto t = schedule_of<dream_block_schedule::settings>(model, p);
  t.eps = static_cast<float>(p.real("eps"));
  t.endless = p.real("threshold") > 0;
  // Without a cache no forward is spent on the first token, and the count begins with step 1 too.
  t.first_token = p.text("cache") != "none";
  t.first_step = t.first_token ? 0 : 1;
  return std::make_unique<dream_block_schedule>(t);
}

recipe make(const model_config& model, const parameters& p) {
  unmask_settings u = sampling_settings(model, p);
  u.threshold = static_cast<float>(p.real("threshold"));
  if (is_dream(model)) u.score = u.threshold > 0 ? "confidence_threshold" : "entropy";
  u.gamma = static_cast<float>(p.real("gamma"));
  set_confidence_dtype(u, is_dream(model), p);
  const auto active = std::make_shared<active_suffixes>();
  recipe r;
  r.pace = std::make_unique<dropping_pace>(blocks_of(model, p), active, dropout_of(p));
  r.rows = std::make_unique<active_rows>(active);
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<compact_cache>(active, p.text("cache") != "none");
  r.unmask = std::make_unique<ranked_unmask>(u);
  r.views.slot_positions = slots_of(active);
  return r;
}

// The scripts of the authors' repository.
std::map<std::string, parameter_map> presets() {
  const auto gaussian = [](double sigma, double scale, std::int64_t window) {
    return parameter_map{{"sigma", sigma}, {"scale", scale}, {"window", window}};
  };
  return {{"llada-humaneval", gaussian(3, 2.3, 512)}, {"llada-mbpp", gaussian(3, 2.3, 128)},
          {"llada15", gaussian(3, 1.6, 256)},         {"dream-gsm8k", gaussian(4, 1.6, 256)},
          {"dream-math", gaussian(4, 1.6, 128)},      {"dream-humaneval", gaussian(3, 2.3, 128)},
          {"dream-mbpp", gaussian(3, 1.6, 128)}};
}

method_info info() {
  method_info m;
  m.name = "dpad";
  m.summary = "far masks after a block are left out before its first pass";
  m.paper = "DPad (ICLR 2026), arXiv 2508.14148";
  m.source = "methods/dpad";
  m.pace = "block schedule, until clean";
  m.rows = "prompt, blocks and kept suffix; with a cache as fast_dllm, of these";
  m.keys = "prompt, blocks and kept suffix";
  m.cache = "none, or refreshed at block entry";
  m.unmask = "top-n of the schedule; threshold or gamma when set";
  const std::string code = "DPad generate_dropout.py";
  m.parameters = dropout_parameters("gaussian");
  append(m.parameters,
         {choice_spec("cache", {"none", "prefix", "dual"},
                      "what is reused inside a block: nothing, KV before it, KV around it", code),
          flag_spec("early_termination", true,
                    "end the answer with a clean block that holds the end token", code),
          real_spec("threshold", 0.0, 0, 2,
                    "unmask every token at least this confident, at least one; 0: schedule", code),
          entropy_bound_parameter(), confidence_parameter()});
  append(m.parameters, schedule_parameters());
  append(m.parameters, sampling_parameters());
  m.knobs = {{"dropout", "rows_skipped", "none"}, {"threshold", "decided_early", "0"}};
  m.presets = presets();
  m.check = [](const model_config& model, const parameters& p) {
    need_bidirectional("dpad", model);
    check_entropy_bound("dpad", is_dream(model), p);
    if (p.flag("early_termination") && model.eos_id < 0) {
      throw usage_error("dpad: " + model.name +
                        " has no end token; set early_termination to false");
    }
  };
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  return take(recorded, {"dropout", "window", "sigma", "scale", "preserved_tokens", "cache",
                         "early_termination", "threshold", "steps", "block_length", "eps"});
}

const register_method registered(info(), {{"dpad", official}});

}  // namespace
}  // namespace unmask::dpad
