// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Activity tracing: kernels, copies and fills of a run with the phase that launched each. One trace
// at a time in a process, never together with counters (cupti_counters.h) and never in a timed run.
//
//   const auto trace = trace_kernels(&clock);
//   { const listening while_here(trace.get()); run(); }
//   const kernel_table table = correlate(trace->finish());
#pragma once

#include <memory>

#include "harness/profile/kernel_table.h"
#include "harness/profile/phases.h"

namespace unmask {

// Empty when CUPTI can be opened here; else one sentence. Says nothing about a GPU.
std::string why_no_cupti();

class kernel_trace : public phase_listener, public step_listener {
 public:
  // Waits for nothing: call it when the device is idle. Flushes every buffer and stops.
  virtual activity_records finish() = 0;
  // Added to a record's time gives nanoseconds of the steady clock.
  virtual std::int64_t offset() const = 0;
};

// Starts tracing; hands every event on to `next` (may be null). Environment error without CUPTI,
// driver or GPU, or when another tool holds it.
std::unique_ptr<kernel_trace> trace_kernels(phase_listener* next);

}  // namespace unmask
