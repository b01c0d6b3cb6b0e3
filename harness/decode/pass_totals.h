// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a pass adds up over all its sequences. The list below is the only one: fields, kept passes,
// metrics of a row and their documentation are made from it, so that a new number is one line here
// and the line that measures it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace unmask {

// How a row tells a number of its passes.
enum class told_as : std::uint8_t {
  nothing,  // it is in kept passes alone
  total,    // of the first pass; a time only if it is above 0
  share     // of pass_totals::all_seconds(), in each pass and in the mean; a time
};

// X(type, field, unit, told, metric, meaning). `field` is its name in kept passes as well, `metric`
// that in a result row, or "". Integers are counted. Reals are times: measured, and of a closed batch
// alone. An optional one is absent if nothing reports it.
#define UNMASK_PASS_TOTALS(X)                                                                      \
  X(std::int64_t, steps, "forwards", total, "batched_forwards", "of the whole batch")              \
  X(std::size_t, peak_kv_bytes, "bytes", total, "peak_kv_bytes",                                   \
    "most pages in use at a time, over all stored layers, and stored layer outputs")               \
  X(std::optional<std::size_t>, state_bytes, "bytes", total, "state_bytes",                        \
    "allocated besides, for all batch slots: what the unmask policy keeps of a request between "   \
    "steps, such as Ada-DLM's history. Absent if a method does not report it")                     \
  X(double, recording_seconds, "s", total, "recording_seconds",                                    \
    "CUDA graphs recorded in a closed batch, left out of all its other times; absent where none "  \
    "were")                                                                                        \
  X(double, step_seconds, "s", nothing, "",                                                        \
    "forwards and decisions: rows, layers, final norm, head, confidence, what is decided, commit") \
  /* Not attention that also sums its mass by key. */                                              \
  X(double, selection_seconds, "s", share, "selection_share",                                      \
    "wall time of choosing rows and keys, scoring, evicting and copying / time of all steps (one " \
    "pass)")                                                                                       \
  X(double, rule_seconds, "s", share, "rule_share",                                                \
    "wall time of the rule that decides tokens, without LM head and what reads whole "             \
    "distributions (confidences, divergences) / the same time")                                    \
  X(double, planning_seconds, "s", share, "planning_share",                                        \
    "wall time of planning what of each sequence enters a step (blocks, chunks) / the same time")

struct pass_totals {
#define UNMASK_FIELD(type, field, unit, told, metric, meaning) type field{};
  UNMASK_PASS_TOTALS(UNMASK_FIELD)
#undef UNMASK_FIELD

  // Selection and rule are parts of step_seconds, planning stands beside it. 0: no step was timed.
  double all_seconds() const {
    return step_seconds > 0 ? step_seconds + planning_seconds : 0;
  }
};

struct total_spec {
  const char *name, *unit;
  told_as told;
  const char *metric, *meaning;
  std::variant<std::int64_t pass_totals::*, std::size_t pass_totals::*,
               std::optional<std::size_t> pass_totals::*, double pass_totals::*>
      field;
  bool counted() const { return !std::holds_alternative<double pass_totals::*>(field); }
  // Nothing if it is absent.
  std::optional<double> of(const pass_totals& t) const;
};

// In the order of the list above.
const std::vector<total_spec>& total_list();

// The same without its times.
pass_totals counted_part(pass_totals t);

}  // namespace unmask
