// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/counters.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace unmask {
namespace {

std::string text_of(double count) {
  const std::string text = std::to_string(count);
  return text.substr(0, text.find('.'));
}

}  // namespace

double counter_spec::of(const sequence_counters& c) const {
  return std::visit([&](const auto member) { return static_cast<double>(c.*member); }, field);
}

const std::vector<counter_spec>& counter_list() {
#define UNMASK_SPEC(type, field, metric, unit, whole, meaning) \
  {metric, unit, whole, meaning, &sequence_counters::field},
  static const std::vector<counter_spec> list = {UNMASK_COUNTERS(UNMASK_SPEC)};
#undef UNMASK_SPEC
  return list;
}

void add_counters(sequence_counters& to, const sequence_counters& more) {
  for (const counter_spec& spec : counter_list()) {
    std::visit([&](const auto member) { to.*member += more.*member; }, spec.field);
  }
}

std::string broken_counters(const sequence_counters& c) {
  const auto named = [](std::string_view metric) {
    return std::ranges::find(counter_list(), metric, &counter_spec::metric);
  };
  for (const counter_spec& spec : counter_list()) {
    const double count = spec.of(c);
    if (!std::isfinite(count)) return std::string(spec.metric) + " is not finite";
    if (count < 0) return std::string(spec.metric) + " is negative";
    if (*spec.whole == '\0') continue;
    // A token that is masked again was decided all the same, and may be decided once more.
    const bool of_decisions = std::string_view(spec.whole) == "committed" && c.reopened > 0;
    const double whole =
        named(spec.whole)->of(c) + (of_decisions ? static_cast<double>(c.reopened) : 0.0);
    if (count > whole) {
      return std::string(spec.metric) + " is " + text_of(count) + ", more than the " +
             text_of(whole) + " of " + spec.whole + (of_decisions ? " and reopened" : "") +
             " that it is a part of";
    }
  }
  return "";
}

}  // namespace unmask
