// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/probe_decodes.h"

#include "harness/base/error.h"
#include "harness/engine/closed_loop.h"

namespace unmask {
namespace {

class decode_recorder final : public step_observer {
 public:
  void on_step(const step_view& step) override {
    steps += step.candidates.count > 0;
    recorder.on_step(step);
  }
  trajectory_recorder recorder;
  std::int64_t steps = 0;
};

}  // namespace

probe_decode decode_again(const transformer& model, const method_info& method,
                          const parameters& settings, const std::vector<sequence_request>& requests,
                          const trajectory_source* order) {
  probe_decode decode;
  method_info ordered = method;
  if (order) {
    ordered.make = [&method, order](const model_config& config, const parameters& p) {
      return with_order(method.make(config, p), *order);
    };
  }
  try {
    method.check(model.config(), settings);
    if (rows_needed(model.config(), method, settings, requests, 1) > model.max_rows()) {
      throw usage_error(method.name + " needs more rows than the probed method");
    }
    decode_recorder watch;
    run_closed_loop(model, ordered, settings, requests, 1, &watch);
    decode.steps = watch.steps;
    for (const sequence_request& r : requests) decode.of.push_back(watch.recorder.of(r.id));
  } catch (const error& refused) {
    decode.problem = refused.what();
  }
  return decode;
}

probe_decode decode_reference(const transformer& model,
                              const std::vector<sequence_request>& requests, std::int64_t block) {
  const bool bidirectional = model.config().attention == mask_kind::full;
  if (!bidirectional && model.config().attention != mask_kind::block_causal) {
    probe_decode none;
    none.problem = "a causal model decodes one token per forward in one order only";
    return none;
  }
  const std::string name = bidirectional ? "vanilla" : "block_diffusion";
  const method_info& method = method_registry::instance().find(name);
  parameter_map given;
  if (bidirectional) {
    given["block_length"] = block;
  } else {
    given["remasking"] = std::string("low_confidence_static");
  }
  const parameter_map all = resolve_parameters(name, method.parameters, given);
  return decode_again(model, method, parameters(all), requests, nullptr);
}

}  // namespace unmask
