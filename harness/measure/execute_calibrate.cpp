// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Methods that have to know the machine they run on (method_info::calibrate): the clock they ask.
#include <algorithm>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "harness/base/ranks/group.h"
#include "harness/engine/latency.h"
#include "harness/measure/execute_parts.h"
#include "harness/rows/json_of.h"

namespace unmask {
namespace {

std::string cell_name(const std::string& key, const parameter_map& given, std::int32_t requests) {
  std::string name = key;
  for (const auto& [parameter, value] : given) {
    name += "\n";
    name += parameter;
    name += "=";
    name += to_string(value);
  }
  return name + "\n" + std::to_string(requests);
}

// Lighter than a profile for its own sake (latency.h): it stands before every run.
latency_grid grid_of(std::int32_t requests, const model_config& model) {
  latency_grid grid;
  grid.batches = {requests};
  grid.context = std::min(128, model.max_positions / 4);
  grid.warmup = 2;
  grid.repeats = 7;
  return grid;
}

}  // namespace

point_calibration::point_calibration(const method_info& method, const model_config& model,
                                     parameter_map params, std::int32_t requests, std::string key,
                                     std::shared_ptr<step_time_store> store)
    : method_(method),
      model_(model),
      settings_(std::move(params)),
      requests_(requests),
      key_(std::move(key)),
      store_(std::move(store)) {}

recipe point_calibration::make(const parameter_map& given) const {
  const parameters settings(method_.resolve("", given));
  method_.check(model_, settings);
  return method_.make(model_, settings);
}

// What the method would ask for, answered without measuring.
std::int32_t point_calibration::rows() const {
  std::int32_t rows = 0;
  if (!method_.calibrate) return rows;
  method_.calibrate(model_, settings_, requests_,
                    [&](const parameter_map& given, const std::vector<std::int32_t>& requests) {
                      const std::int32_t block = make(given).pace->shape().block;
                      std::vector<step_time> times;
                      for (const std::int32_t n : requests) {
                        const auto made = [&](std::int32_t) { return make(given); };
                        rows = std::max(rows, latency_rows(model_, made, grid_of(n, model_)));
                        times.push_back({n, std::int64_t{n} * std::max(block, 1), 1});
                      }
                      return times;
                    });
  return rows;
}

// That of the store, or measured now. Ranks ask the store of rank 0: one that was started later has
// measured less, and would measure alone.
step_time point_calibration::time_of(const transformer& packed, const parameter_map& given,
                                     std::int32_t requests) {
  const std::string name = cell_name(key_, given, requests);
  step_time time;
  bool known = store_->contains(name);
  if (known) time = store_->at(name);
  if (rank_group* ranks = current_ranks()) {
    static_assert(std::is_trivially_copyable_v<step_time>);
    known = ranks->from_first(known ? 1.0 : 0.0) != 0;
    if (known) ranks->from_first(&time, sizeof time);
  }
  if (!known) {
    const auto samples = measure_latency(
        packed, [&](std::int32_t) { return make(given); }, grid_of(requests, model_));
    time = {requests, samples.front().rows, samples.front().seconds};
  }
  (*store_)[name] = time;
  return time;
}

void point_calibration::run(const transformer& packed, const cost_model* cost) {
  if (done_ || !method_.calibrate) return;
  modelled_ = cost != nullptr;
  found_ = method_.calibrate(
      model_, settings_, requests_,
      [&](const parameter_map& given, const std::vector<std::int32_t>& requests) {
        std::vector<step_time> times;
        for (const std::int32_t n : requests) {
          if (cost) {
            forward_shape shape;
            shape.requests = n;
            shape.rows = std::int64_t{n} * std::max(make(given).pace->shape().block, 1);
            times.push_back({n, shape.rows, cost->seconds(shape)});
            continue;
          }
          times.push_back(time_of(packed, given, n));
        }
        return times;
      });
  done_ = true;  // not before: one that ended with an error is made again
  if (!found_) return;
  parameter_map filled = settings_.values();
  for (const auto& [name, value] : found_->settings) filled[name] = value;
  settings_ = parameters(std::move(filled));
}

std::string point_calibration::memory() const {
  nlohmann::json out;
  if (found_) {
    out = {{"settings", json_of<nlohmann::json>(found_->settings)},
           {"report", found_->report},
           {"modelled", modelled_}};
  }
  if (!learnt_.empty()) out["learnt"] = learnt_;
  return out.is_null() ? "" : out.dump();
}

void point_calibration::remember(const std::string& memory) {
  const nlohmann::json in = nlohmann::json::parse(memory);
  const std::string learnt = in.value("learnt", "");
  if (!learnt.empty() && !nlohmann::json::accept(learnt)) throw std::runtime_error("no JSON");
  if (in.contains("report")) {  // all or nothing
    calibration found;
    const bool modelled = in.at("modelled");
    found.report = in.at("report");
    if (!nlohmann::json::parse(found.report).is_object()) throw std::runtime_error("no object");
    parameter_map filled = settings_.values();
    for (const auto& [name, value] : in.at("settings").items()) {
      filled[name] = found.settings[name] = parameter_of(value);
    }
    settings_ = parameters(std::move(filled));
    found_ = std::move(found);
    modelled_ = modelled;
    done_ = true;
  }
  learnt_ = learnt;
}

std::string point_calibration::report() const {
  nlohmann::json out;
  if (found_) {
    out = nlohmann::json::parse(found_->report);
    // The origin is the harness's to state, not the method's.
    out["origin"] = modelled_ ? "analytic" : "measured";
  }
  if (!learnt_.empty()) out["learnt"] = nlohmann::json::parse(learnt_);
  return out.is_null() ? "" : out.dump();
}

}  // namespace unmask
