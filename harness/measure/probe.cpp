// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/probe.h"

#include <algorithm>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/engine/closed_loop.h"
#include "harness/measure/probe_writer.h"

namespace unmask {
namespace {

constexpr std::size_t largest_results = std::size_t{1} << 30;

using probes::probe_writer;
using maker = std::unique_ptr<probe_writer> (*)(const probe_settings&, const probe_source&,
                                                std::ostream&);
// What a probe needs to have written down, if that is more than the decisions.
const std::map<std::string, maker>& writers() {
  static const std::map<std::string, maker> table = {{"attention", probes::write_attention},
                                                     {"decode_trace", probes::write_trace},
                                                     {"importance", probes::write_importance},
                                                     {"kv_change", probes::write_kv_change}};
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

probe_recorder::probe_recorder(const probe_settings& settings, const probe_source& source,
                               std::ostream& out) {
  out << nlohmann::json{{"kind", "probes"},          {"version", 1},
                        {"names", settings.names},   {"tau", settings.tau},
                        {"margin", settings.margin}, {"sink_share", settings.sink_share},
                        {"every", settings.every},   {"reference_block", settings.reference_block}}
             .dump()
      << "\n";
  writers_.push_back(probes::write_decisions(settings, source, out));
  for (const std::string& name : settings.names) {
    find_known("probe", name, probe_names());
    const auto more = writers().find(name);
    if (more != writers().end()) writers_.push_back(more->second(settings, source, out));
  }
}
probe_recorder::~probe_recorder() = default;

bool probe_recorder::wants_layers() const {
  return std::ranges::any_of(writers_, [](const auto& c) { return c->wants_layers(); });
}

void probe_recorder::begin_if_new(const batch& b) {
  if (b.capacity() != 1) throw std::logic_error("probe_recorder: needs a batch of one place");
  if (in_step_ || b.at(0).step != 0) return;
  for (const auto& c : writers_) {
    if (running_) c->end();
    c->begin(b);
  }
  running_ = true;
}

void probe_recorder::on_layer(const layer_view& layer) {
  begin_if_new(layer.state);
  in_step_ = true;
  for (const auto& c : writers_) {
    if (c->wants_layers()) c->on_layer(layer);
  }
}

void probe_recorder::on_step(const step_view& step) {
  begin_if_new(step.state);
  in_step_ = false;
  for (const auto& c : writers_) c->on_step(step);
}

void probe_recorder::finish() {
  for (const auto& c : writers_) {
    if (running_) c->end();
    c->finish();
  }
  running_ = false;
}

std::map<std::string, std::string> probe_results(const std::filesystem::path& trace) {
  const scratch_folder scratch;
  const std::filesystem::path written = scratch.path() / "probes.json";
  const package_end end =
      run_package_for_reason({"probes", trace.string(), "--output", written.string()});
  if (end.status != 0) throw environment_error("cannot compute the probes: " + end.reason);
  std::map<std::string, std::string> results;
  const auto all = nlohmann::json::parse(read_file(written, largest_results));
  for (const auto& [name, of] : all.items()) results[name] = of.dump();
  return results;
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
  return decode_again(model, method, parameters(method.resolve("", given)), requests, nullptr);
}

}  // namespace unmask
