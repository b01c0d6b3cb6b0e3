// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Activity tracing: kernels, copies and fills of a run with the phase that launched each. One trace
// at a time in a process, never together with counters (cupti_counters.h) and never in a timed run.
//
//   kernel_trace trace(&clock);
//   { const listening while_here(&trace); run(); }
//   const kernel_table table = correlate(trace.finish());
#pragma once

#include <memory>

#include "harness/profile/kernel_table.h"
#include "harness/profile/phases.h"

namespace unmask::inline profile {

// Empty when CUPTI can be opened here; else one sentence. Says nothing about a GPU.
std::string why_no_cupti();

class kernel_trace final : public phase_listener, public step_listener {
 public:
  // Starts tracing; hands every event on to `next` (may be null). Environment error without CUPTI,
  // driver or GPU, or when another tool holds it.
  explicit kernel_trace(phase_listener* next);
  ~kernel_trace() override;

  void enter(profile_phase phase, std::int64_t payload) override;
  void leave(profile_phase phase) override;
  void work(profile_phase phase, const phase_work& done) override;
  void step(const step_numbers& held) override;

  // Waits for nothing: call it when the device is idle. Flushes every buffer and stops.
  activity_records finish();
  // Added to a record's time gives nanoseconds of the steady clock.
  std::int64_t offset() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace unmask::profile
