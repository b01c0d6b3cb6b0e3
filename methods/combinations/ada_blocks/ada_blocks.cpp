// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM's freeze rule as the decision of block diffusion: pace, rows, keys and cache of
// block_diffusion, and a token of the block is decided when the history of its confidence lies
// nearer to the best token's than to that of rank K + 1. Nobody has published this.
#include "methods/ada_dlm/policies.h"
#include "methods/parts/block_parameters.h"

namespace unmask {
namespace {

// block_pace that tells the rule where the block is and what K is in this step.
class ranked_block_pace final : public block_pace {
 public:
  ranked_block_pace(block_settings blocks, ada_dlm::settings rule,
                    std::shared_ptr<ada_dlm::shared_state> shared)
      : block_pace(blocks),
        block_(blocks.block_length),
        rule_(std::move(rule)),
        shared_(std::move(shared)) {}

  void start(batch& b, std::int32_t s) override {
    block_pace::start(b, s);
    shared_->make_room(b, rule_);
    shared_->forget(b, s);
  }

  sequence_step plan(const batch& b, std::int32_t s) override {
    const sequence_step step = block_pace::plan(b, s);
    const auto place = static_cast<std::size_t>(s);
    const bool decides = step.candidate_last > step.candidate_first;
    const std::int32_t first = decides
                                   ? std::max(step.candidate_last - block_, b.at(s).prompt_length)
                                   : step.candidate_last;
    shared_->enter_scope(b, s, first, step.candidate_last);
    shared_->rank[place] = ada_dlm::boundary_rank(
        rule_, block_, b.count(s, first, step.candidate_last, state_masked), b.at(s).length);
    return step;
  }

 private:
  std::int32_t block_;
  ada_dlm::settings rule_;
  std::shared_ptr<ada_dlm::shared_state> shared_;
};

recipe make_ada_blocks(const model_config& model, const parameters& p) {
  block_settings s = block_settings_of("ada_blocks", model, p);
  ada_dlm::settings rule = ada_dlm::decision_settings(p);
  const auto shared = std::make_shared<ada_dlm::shared_state>();
  recipe r;
  r.keys = std::make_unique<key_policy>(s.block_length);
  r.pace = std::make_unique<ranked_block_pace>(std::move(s), rule, shared);
  r.rows = std::make_unique<row_policy>();
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<ada_dlm::unmask>(std::move(rule), shared);
  r.views.state_bytes = [shared] { return shared->bytes(); };
  return r;
}

// Of block_diffusion's parameters those that say where blocks begin and end. `steps` makes the
// quota that limit_to_quota refers to.
std::vector<parameter_spec> ada_block_parameters() {
  std::vector<parameter_spec> all = ada_dlm::decision_parameters();
  for (parameter_spec& spec : block_parameters(0.9)) {
    const bool blocks = spec.name == "block_length" || spec.name == "steps" ||
                        spec.name == "stop" || spec.name == "stop_in_prompt_block";
    if (blocks) all.push_back(std::move(spec));
  }
  return all;
}

void check_ada_blocks(const model_config& model, const parameters& p) {
  check_block_model("ada_blocks", model, p);
  ada_dlm::check_decision("ada_blocks", p);
  if (p.integer("steps") > 0 && !p.flag("limit_to_quota")) {
    throw usage_error(
        "ada_blocks: steps makes a quota that only limit_to_quota heeds; set that too");
  }
}

method_info ada_blocks_info() {
  method_info m;
  m.name = "ada_blocks";
  m.summary = "block diffusion that unmasks by Ada-DLM's two-centroid freeze rule";
  m.paper = "unpublished combination: SDAR / LMDeploy blocks, Ada-DLM (ACL 2026) decisions";
  m.source = "methods/combinations/ada_blocks";
  m.pace = "block: prefill, denoise, write KV";
  m.rows = "whole block";
  m.shape = {row_extent::block};
  m.keys = "history and block";
  m.cache = "KV write pass";
  m.unmask = "two-centroid freeze among the masks of the block";
  m.parameters = ada_block_parameters();
  m.knobs = {{"rule", "decided_early"}};
  m.presets["moving-average-control"] = {{"rule", "moving_average"}};
  m.presets["threshold-control"] = {{"rule", "threshold"}};
  m.check = check_ada_blocks;
  m.make = make_ada_blocks;
  return m;
}

const register_method registered(ada_blocks_info());

}  // namespace
}  // namespace unmask
