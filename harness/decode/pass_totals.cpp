// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/pass_totals.h"

namespace unmask {

std::optional<double> total_spec::of(const pass_totals& t) const {
  return std::visit(
      [&](const auto member) -> std::optional<double> {
        const std::optional value(t.*member);
        if (!value) return std::nullopt;
        return static_cast<double>(*value);
      },
      field);
}

const std::vector<total_spec>& total_list() {
#define UNMASK_SPEC(type, field, unit, told, metric, meaning) \
  {#field, unit, told_as::told, metric, meaning, &pass_totals::field},
  static const std::vector<total_spec> list = {UNMASK_PASS_TOTALS(UNMASK_SPEC)};
#undef UNMASK_SPEC
  return list;
}

pass_totals counted_part(pass_totals t) {
  for (const total_spec& spec : total_list()) {
    if (const auto* time = std::get_if<double pass_totals::*>(&spec.field)) t.** time = 0;
  }
  return t;
}

}  // namespace unmask
