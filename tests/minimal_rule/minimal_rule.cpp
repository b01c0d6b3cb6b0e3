// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A minimal rule: unmask the tokens whose confidence rose in the last forward passes, else the surest.
#include <algorithm>
#include <numeric>

#include "harness/decode/registry.h"
#include "methods/parts/host_rule.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

struct past {
  std::vector<float> confidence;  // by position; 0: not seen yet
  std::vector<std::int64_t> rises;
};

class rising_rule final : public host_rule<past> {
 public:
  rising_rule(std::unique_ptr<unmask_policy> base, const parameters& p)
      : host_rule(std::move(base)), rises_(p.integer("rises")), at_most_(p.integer("at_most")) {}

  void choose(const host_candidates& c, past& memory) override {
    memory.confidence.resize(static_cast<std::size_t>(c.request.length));
    memory.rises.resize(memory.confidence.size());
    std::vector<std::size_t> best(c.position.size()), ready;
    std::iota(best.begin(), best.end(), 0);
    std::ranges::stable_sort(best, std::greater{}, [&](std::size_t i) { return c.confidence[i]; });
    for (const std::size_t i : best) {
      const auto p = static_cast<std::size_t>(c.position[i]);
      const float before = std::exchange(memory.confidence[p], c.confidence[i]);
      memory.rises[p] = before > 0 && c.confidence[i] > before ? memory.rises[p] + 1 : 0;
      if (memory.rises[p] >= rises_ && std::ssize(ready) < at_most_) ready.push_back(i);
    }
    if (ready.empty()) ready = {best.front()};
    for (const std::size_t i : ready) c.accept[i] = decision_take;
  }

 private:
  std::int64_t rises_, at_most_;
};

method_info rising_info() {
  method_info m;
  m.name = "rising";
  m.summary = "tokens whose confidence rose: the rule in 40 lines of methods/ADDING.md";
  m.paper = "none";
  m.source = "tests/minimal_rule";
  m.pace = m.rows = m.keys = m.cache = "as the base";
  m.unmask = "what rose so often in a row; else the surest";
  m.parameters = {
      choice_spec("base", {"block_diffusion", "fast_dllm"}, "whose other components", "us"),
      integer_spec("rises", 2, 0, 1e6, "forward passes in a row", "us"),
      integer_spec("at_most", 4, 1, 1e6, "tokens in a forward pass", "us"),
      varying_above_zero(real_spec("temperature", 0, 0, 100, "of drawn tokens; 0: greedy", "us")),
      block_length_spec(32, 1, 64, "tokens per block", "us")};
  // With a threshold both bases leave a block as soon as nothing is masked in it.
  const auto base = [](const parameters& p) {
    const std::string name = p.text("base");
    parameter_map settings = {{"threshold", 0.9}, {"block_length", p.integer("block_length")}};
    if (p.real("temperature") > 0) {
      settings["temperature"] = p.real("temperature");
      if (name == "block_diffusion") settings["sampler"] = "multinomial";
    }
    return parameters(method_registry::instance().find(name).resolve("", settings));
  };
  m.check = [base](const model_config& model, const parameters& p) {
    method_registry::instance().find(p.text("base")).check(model, base(p));
  };
  m.make = [base](const model_config& model, const parameters& p) {
    recipe r = method_registry::instance().make(p.text("base"), model, base(p));
    r.unmask = std::make_unique<rising_rule>(std::move(r.unmask), p);
    return r;
  };
  return m;
}

const register_method registered(rising_info());

}  // namespace
}  // namespace unmask
