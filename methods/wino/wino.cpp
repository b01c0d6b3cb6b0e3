// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// WINO (2025): masks are decided above a low threshold, and in the same forward a shadow of the block,
// whose rows do not see the token at their own position, says how likely each decided token is; the
// unlikely ones become masks again.
#include <algorithm>

#include "kernels/head.h"
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/specs.h"
#include "methods/wino/kernels/revoke.h"
#include "methods/wino/shadow_block.h"

namespace unmask::wino {
namespace {

struct settings {
  std::int32_t block_length = 0;
  // The public port of the method: masks of the block only, by their id, and a limit on reopening by
  // what the step itself takes.
  bool port = false;
  float threshold = 0, threshold_back = 0;
  double cap_share = 0;
  std::int32_t min_cap = 0, max_cap = 0, num_to_transfer = 1;
};

// Block after block, each until its masks are gone. The official loop's masks are those of all
// positions up to the block's end as it is entered, by their id: one that an earlier block decided as
// the mask token is among them. Within a block a token equal to the mask id is decided.
class revoking_blocks final : public pace_policy {
 public:
  explicit revoking_blocks(const settings& s)
      : pace_policy({.more_rows = s.block_length}), settings_(s) {}

  std::int32_t canvas_length(const model_config&, const sequence_request& request) const override {
    if (request.gen_length > 0 && request.gen_length % settings_.block_length != 0) {
      throw usage_error("wino: gen_length " + std::to_string(request.gen_length) +
                        " is not a multiple of block_length " +
                        std::to_string(settings_.block_length));
    }
    return request_positions("wino", request);
  }

  void start(batch& b, std::int32_t s) override {
    progress_.at(s) = {.first = b.at(s).prompt_length};
  }

  sequence_step plan(const batch& b, std::int32_t s) override {
    const sequence& q = b.at(s);
    const progress& p = progress_.at(s);
    sequence_step step;
    step.active = true;
    step.last = q.length;
    step.kv_length = q.length;
    step.slots = q.length + settings_.block_length;
    step.block_first = p.first;
    step.block_last = step.candidate_last = p.first + settings_.block_length;
    step.candidate_first = settings_.port ? p.first : q.prompt_length;
    step.quota = settings_.num_to_transfer;
    step.step = p.step;
    return step;
  }

  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    ++progress_.at(s).step;
    const bool clean = b.count(s, step.candidate_first, step.candidate_last, state_masked) == 0;
    // The port decides the mask id for ever where a forward changes nothing: its next one is the same.
    if (!clean && !outcome.quiet()) return;
    sequence& q = b.at(s);
    progress_.at(s) = {.first = step.block_last};
    if (step.block_last == q.length) {
      q.finished = true;
      q.output_end = q.length;
    } else if (!settings_.port) {
      reopen_masks(b, s, step.block_last);
    }
  }

  bool closed(const batch& b, std::int32_t s, std::int32_t first,
              std::int32_t last) const override {
    if (b.at(s).finished) return true;
    const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
    return last <= progress_.at(s).first &&
           std::count(canvas + first, canvas + last, b.model().mask_id) == 0;
  }

 private:
  struct progress {
    std::int32_t first = 0;  // of the block in work
    std::int32_t step = 0;   // forwards that it has had
  };

  static void reopen_masks(batch& b, std::int32_t s, std::int32_t last) {
    const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
    const std::uint8_t* state = b.state().row<std::uint8_t>(s);
    for (std::int32_t p = b.at(s).prompt_length; p < last; ++p) {
      if (canvas[p] == b.model().mask_id && state[p] == state_decoded) b.reopen(s, p);
    }
  }

  settings settings_;
  per_sequence<progress> progress_;
};

class revoking_unmask final : public unmask_policy {
 public:
  explicit revoking_unmask(const settings& s)
      : unmask_policy({.masks_by_id = s.port, .reopens = true}), settings_(s) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    const backend& backend = b.backend();
    if (!logits_ || logits_.view().rows() < c.count) {
      logits_ = backend.allocate(dtype::f32, {c.count, b.model().vocabulary});
    }
    const tensor_view logits = logits_.view().first(c.count);
    backend.run(op::logits{head_input, head, c.row.as<std::int32_t>(), logits});
    backend.run(op::confidence_of_present{.candidates = c.set(b.capacity()),
                                          .logits = logits,
                                          .canvas = b.canvas(),
                                          .state = b.state(),
                                          .token = c.token.as<std::int32_t>(),
                                          .probability = c.probability.as<float>()});
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    if (!taken_) {
      taken_ = b.backend().allocate(dtype::i32, {b.capacity()});
      restart_.resize(plan.of.size());
    }
    for (std::size_t s = 0; s < plan.of.size(); ++s) restart_[s] = plan.of[s].step == 0 ? 1 : 0;
    b.backend().run(op::accept_and_reopen{.candidates = c.set(b.capacity()),
                                          .state = b.state(),
                                          .probability = c.probability.as<float>(),
                                          .threshold = settings_.threshold,
                                          .threshold_back = settings_.threshold_back,
                                          .strict = !settings_.port,
                                          .by_earlier = !settings_.port,
                                          .share = settings_.cap_share,
                                          .least_cap = settings_.min_cap,
                                          .most_cap = settings_.max_cap,
                                          .least = settings_.num_to_transfer,
                                          .first_allowance = 30,  // decoding.py
                                          .restart = restart_.data(),
                                          .taken = taken_.as<std::int32_t>(),
                                          .accept = c.accept.as<std::uint8_t>()});
  }

 private:
  settings settings_;
  tensor logits_, taken_;
  shared_vector<std::int32_t> restart_;
};

settings settings_of(const parameters& p) {
  const auto whole = [&](const char* name) { return static_cast<std::int32_t>(p.integer(name)); };
  settings s;
  s.block_length = whole("block_length");
  s.port = p.text("variant") == "port";
  s.threshold = static_cast<float>(p.real("threshold"));
  s.threshold_back = static_cast<float>(p.real("threshold_back"));
  s.cap_share = p.real("cap_share");
  s.num_to_transfer = whole("num_to_transfer");
  s.min_cap = whole("min_cap");
  s.max_cap = whole("max_cap");
  if (s.port) {  // the cap is never below what is taken anyway
    s.min_cap = std::max(s.min_cap, s.num_to_transfer);
    s.max_cap = std::max(s.max_cap, s.num_to_transfer);
  }
  return s;
}

recipe make(const model_config&, const parameters& p) {
  const settings s = settings_of(p);
  recipe r;
  r.pace = std::make_unique<revoking_blocks>(s);
  r.rows = std::make_unique<shadow_rows>(s.block_length);
  r.keys = std::make_unique<shadow_keys>();
  r.cache = std::make_unique<shadow_slots>(s.block_length);
  r.unmask = std::make_unique<revoking_unmask>(s);
  return r;
}

void check(const model_config& model, const parameters& p) {
  need_bidirectional("wino", model);
  need_in_place("wino", model);
  if (p.text("variant") == "official" && p.integer("num_to_transfer") != 1) {
    throw usage_error("wino: num_to_transfer belongs to variant=port; the official rule takes one");
  }
}

parameter_map official(const parameter_map& recorded) {
  parameter_map m =
      take(recorded, {"block_length", "variant", "threshold", "threshold_back", "cap_share"});
  const std::map<std::string, std::string> renamed = {{"min_accept_cap", "min_cap"},
                                                      {"max_accept_cap", "max_cap"},
                                                      {"num_transfer_tokens", "num_to_transfer"}};
  for (const auto& [theirs, ours] : renamed) {
    if (const auto at = recorded.find(theirs); at != recorded.end()) m[ours] = at->second;
  }
  return m;
}

method_info info() {
  method_info m;
  m.name = "wino";
  m.summary = "wide in, narrow out: many masks are unmasked, doubtful tokens are remasked";
  m.paper = "WINO (2025), arXiv 2507.18578";
  m.source = "methods/wino";
  m.pace = "block, until clean";
  m.rows = "prompt and response, and a shadow of the block";
  m.keys = "response; a shadow position sees all of it but its own, and the shadow";
  m.cache = "none";
  m.unmask = "threshold with a cap; unmasked tokens of low probability are remasked";
  const std::string code = "LLaDA/decoding.py", port = "d2Cache src/generation/wino.py";
  m.parameters = {
      block_length_spec(32, 1, 4096, "tokens per block", code),
      choice_spec(
          "variant", {"official", "port"},
          "official: remasks less than the step before took; port: less than this step takes",
          code + "; " + port),
      real_spec("threshold", 0.6, 0, 2, "unmask masks of more than this confidence", code),
      real_spec("threshold_back", 0.9, 0, 2,
                "remask a token whose probability is below this; 0: never", code),
      real_spec("cap_share", 0.7, 0, 1, "share of the masks that one pass may unmask", code),
      integer_spec("min_cap", 5, 1, 4096, "that share is at least so many", code),
      integer_spec("max_cap", 20, 1, 4096, "and at most so many", code),
      integer_spec("num_to_transfer", 1, 1, 4096,
                   "variant=port: masks that a pass unmasks at least", port)};
  m.knobs = {{"threshold", "decided_early", "1"}, {"threshold_back", "reopened", "0"}};
  const auto preset = [](double threshold) {
    return parameter_map{{"block_length", 128}, {"threshold", threshold}};
  };
  m.presets["gsm8k"] = preset(0.6);
  m.presets["math"] = m.presets["humaneval"] = m.presets["sudoku"] = preset(0.7);
  m.presets["mbpp"] = preset(0.8);
  m.presets["countdown"] = m.presets["arc"] = preset(0.5);
  m.check = check;
  m.make = make;
  return m;
}

const register_method registered(info(), {{"wino", official}});

}  // namespace
}  // namespace unmask::wino
