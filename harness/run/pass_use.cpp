// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/pass_use.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/ranks/transport.h"
#include "harness/devices/device.h"

namespace unmask {
namespace {

using nlohmann::json;

// The numbers of a use, each under the name of its metric.
template <class Use>
auto numbers_of(Use& use) {
  return std::array{std::pair("energy_joules", &use.joules),
                    std::pair("watts_mean", &use.load.watts),
                    std::pair("clock_mhz_mean", &use.load.sm_clock_mhz),
                    std::pair("throttled_share", &use.load.throttled_share)};
}

device_use use_in(const std::string& told) {
  const json all = json::parse(told);
  device_use use;
  for (const auto& [name, value] : numbers_of(use)) {
    if (all.contains(name)) *value = all.at(name).get<double>();
  }
  return use;
}

// What other ranks did on the processors of rank 0 is the model's own work.
void put_processors_of_ranks(machine_use& use, const std::vector<std::string>& told) {
  const json first = json::parse(told.at(0));
  for (std::size_t rank = 1; rank < told.size(); ++rank) {
    const json one = json::parse(told[rank]);
    if (one.at("machine") != first.at("machine")) continue;
    const double own = one.value("own_seconds", std::nan(""));
    use.own_seconds += own;
    use.other_seconds -= own;
    use.threads = std::min(use.processors, use.threads + one.at("threads").get<double>());
  }
}

}  // namespace

energy_meter meter_of(const std::string& device) {
  const unmask::device* on = device_if_chosen(device);
  return on != nullptr ? on->energy() : energy_meter("");
}

void put_use(pass_record& pass, const device_use& use) {
  for (const auto& [name, value] : numbers_of(use)) {
    if (*value) pass.metrics[name] = {**value, origin::measured, {}};
  }
}

std::string told_use(const device_use& use, const machine_use& of_pass) {
  json all = json::object();
  for (const auto& [name, value] : numbers_of(use)) {
    if (*value) all[name] = **value;
  }
  all["machine"] = machine_id();
  all["threads"] = of_pass.threads;
  if (std::isfinite(of_pass.own_seconds)) all["own_seconds"] = of_pass.own_seconds;
  return all.dump();
}

void put_use_of_ranks(pass_record& pass, const std::vector<std::string>& told) {
  std::vector<device_use> ranks;
  for (const std::string& one : told) ranks.push_back(use_in(one));
  put_use(pass, use_of_all(ranks));
  put_processors_of_ranks(pass.use, told);
  const auto lacks = [](const device_use& use) { return !use.joules; };
  const auto first = std::ranges::find_if(ranks, lacks);
  if (first == ranks.end() || std::ranges::all_of(ranks, lacks)) return;
  pass.unmetered = fmt::format(
      "no energy: the driver of rank {} does not say what its device takes", first - ranks.begin());
}

}  // namespace unmask
