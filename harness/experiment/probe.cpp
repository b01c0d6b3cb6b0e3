// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/probe.h"

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/engine/closed_loop.h"
#include "harness/experiment/probes.h"

namespace unmask {
namespace {

const std::map<std::string, probes::maker>& makers() {
  static const std::map<std::string, probes::maker> table = [] {
    std::map<std::string, probes::maker> all;
    for (const auto& of : {probes::of_attention(), probes::of_decisions(), probes::of_layers(),
                           probes::of_second_decodes(), probes::of_traces()}) {
      all.insert(of.begin(), of.end());
    }
    return all;
  }();
  return table;
}

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

std::string probe::result() const {
  nlohmann::json out = {{"requests", requests_}};
  report(out);
  // The text of a token may hold a part of a character only.
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> probe_names() {
  return keys_of(makers());
}

std::unique_ptr<probe> make_probe(const std::string& name, const probe_settings& settings,
                                  const probe_source& source) {
  find_known("probe", name, probe_names());
  return makers().at(name)(settings, source);
}

probe_observer::probe_observer(const probe_settings& settings, const probe_source& source) {
  for (const std::string& name : settings.names) {
    probes_.emplace_back(name, make_probe(name, settings, source));
  }
}

bool probe_observer::wants_layers() const {
  for (const auto& [name, p] : probes_) {
    if (p->wants_layers()) return true;
  }
  return false;
}

void probe_observer::begin_if_new(const batch& b) {
  if (b.capacity() != 1) throw std::logic_error("probe_observer: needs a batch of one place");
  if (in_step_ || b.at(0).step != 0) return;
  for (const auto& [name, p] : probes_) {
    if (running_) p->end();
    p->begin(b);
  }
  running_ = true;
}

void probe_observer::on_layer(const layer_view& layer) {
  begin_if_new(layer.state);
  in_step_ = true;
  for (const auto& [name, p] : probes_) {
    if (p->wants_layers()) p->on_layer(layer);
  }
}

void probe_observer::on_step(const step_view& step) {
  begin_if_new(step.state);
  in_step_ = false;
  for (const auto& [name, p] : probes_) p->on_step(step);
}

std::map<std::string, std::string> probe_observer::results() {
  std::map<std::string, std::string> all;
  for (const auto& [name, p] : probes_) {
    if (running_) p->end();
    p->finish();
    all[name] = p->result();
  }
  running_ = false;
  return all;
}

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
