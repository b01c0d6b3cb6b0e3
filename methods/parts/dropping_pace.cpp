// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/dropping_pace.h"

#include <algorithm>

#include "methods/parts/specs.h"

namespace unmask::dpad {

void dropping_pace::start(batch& b, std::int32_t s) {
  blocks_->start(b, s);
  active_->at(s) = {};
}

sequence_step dropping_pace::plan(const batch& b, std::int32_t s) {
  sequence_step step = blocks_->plan(b, s);
  active_suffix& active = active_->at(s);
  if (active.block_first != step.block_first) {
    const sequence& q = b.at(s);
    const std::int32_t block =
        (step.block_first - q.prompt_length) / std::max(step.block_last - step.block_first, 1);
    active = {step.block_first, step.block_last,
              choose_suffix(dropout_, q.request, block, step.block_last, q.length)};
  }
  step.kv_length = step.block_last + static_cast<std::int32_t>(active.kept.size());
  return step;
}

std::vector<parameter_spec> dropout_parameters(const std::string& kind) {
  const std::string code = "DPad generate_dropout.py";
  std::vector<std::string> kinds = {"gaussian", "uniform", "none"};
  std::ranges::stable_partition(kinds, [&](const std::string& of) { return of == kind; });
  return {
      varying_at({"gaussian", "uniform"},
                 choice_spec("dropout", kinds,
                             "which suffix masks stay: fewer with the distance, preserved_tokens "
                             "of the window, all",
                             code)),
      integer_spec("window", 256, 1, 1e6, "positions behind the block that may stay", code),
      real_spec("sigma", 4.0, 0, 100, "gaussian: standard deviations that the window spans", code),
      real_spec("scale", 2.0, 0, 1e6, "gaussian: factor on the probability to stay", code),
      integer_spec("preserved_tokens", 32, 0, 1e6, "uniform: positions that stay", code)};
}

dropout_settings dropout_of(const parameters& p) {
  return {p.text("dropout"), static_cast<std::int32_t>(p.integer("window")), p.real("sigma"),
          p.real("scale"), static_cast<std::int32_t>(p.integer("preserved_tokens"))};
}

}  // namespace unmask::dpad
