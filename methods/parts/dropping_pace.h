// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A schedule whose blocks drop far masks when they begin, and the parameters that say which.
#pragma once

#include <memory>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/decode/policies.h"
#include "methods/parts/active_suffix.h"
#include "methods/parts/suffix_choice.h"

namespace unmask::dpad {

// The forwards of `blocks` with keys of prompt, blocks and what stays behind the block in work.
class dropping_pace final : public pace_policy {
 public:
  dropping_pace(std::unique_ptr<pace_policy> blocks, std::shared_ptr<active_suffixes> active,
                dropout_settings dropout)
      : blocks_(std::move(blocks)), active_(std::move(active)), dropout_(std::move(dropout)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override {
    return blocks_->canvas_length(model, request);
  }
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    blocks_->observe(b, s, step, outcome);
  }

 private:
  std::unique_ptr<pace_policy> blocks_;
  std::shared_ptr<active_suffixes> active_;
  dropout_settings dropout_;
};

// dropout (by default `kind`), window, sigma, scale, preserved_tokens.
std::vector<parameter_spec> dropout_parameters(const std::string& kind);
dropout_settings dropout_of(const parameters& p);

}  // namespace unmask::dpad
