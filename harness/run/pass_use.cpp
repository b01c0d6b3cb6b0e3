// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/pass_use.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

std::string told_use(const device_use& use) {
  json all = json::object();
  for (const auto& [name, value] : numbers_of(use)) {
    if (*value) all[name] = **value;
  }
  return all.dump();
}

void put_use_of_ranks(pass_record& pass, const std::vector<std::string>& told) {
  std::vector<device_use> ranks;
  for (const std::string& one : told) ranks.push_back(use_in(one));
  put_use(pass, use_of_all(ranks));
  const auto lacks = [](const device_use& use) { return !use.joules; };
  const auto first = std::ranges::find_if(ranks, lacks);
  if (first == ranks.end() || std::ranges::all_of(ranks, lacks)) return;
  pass.unmetered = fmt::format(
      "no energy: the driver of rank {} does not say what its device takes", first - ranks.begin());
}

}  // namespace unmask
