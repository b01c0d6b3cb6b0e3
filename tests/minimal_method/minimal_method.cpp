// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A minimal method: what one looks like. It decodes as vanilla does, but takes the leftmost masks
// instead of the most confident: one slot of the recipe is replaced.
#include "methods/parts/canvas_recipe.h"
#include "methods/parts/ranked_unmask.h"
#include "tests/minimal_method/kernels/minimal_operation.h"

namespace unmask {
namespace {

// The head is asked as vanilla asks it; which candidates are taken does not depend on the answer.
class leftmost_unmask final : public ranked_unmask {
 public:
  leftmost_unmask() : ranked_unmask({}) {}
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    b.backend().run(op::accept_leftmost{.candidates = c.set(b.capacity()),
                                        .quota = plan.arrays.quota,
                                        .accept = c.accept.as<std::uint8_t>()});
  }
};

method_info minimal_info() {
  method_info m;
  m.name = "minimal";
  m.summary = "whole-canvas decoding from left to right: the worked example of methods/ADDING.md";
  m.paper = "none";
  m.source = "tests/minimal_method";
  m.pace = "as vanilla";
  m.rows = "prompt and whole response";
  m.keys = "all";
  m.cache = "none";
  m.unmask = "leftmost masks, as many as the schedule says";
  m.parameters = canvas_parameters();
  m.check = [](const model_config& model, const parameters& p) {
    check_canvas("minimal", model, p);
  };
  m.make = [](const model_config& model, const parameters& p) {
    recipe r = make_canvas("minimal", model, p);
    r.unmask = std::make_unique<leftmost_unmask>();
    return r;
  };
  return m;
}

const register_method registered(minimal_info());

}  // namespace
}  // namespace unmask
