// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where the wall time of a run went, phase by phase. The clock listens to the phases of its thread
// and adds up, for each, how often it ran, its time and its own time: without the phases inside it.
// Own times add up to the time of the outermost ranges, so nothing is counted twice or lost.
//
//   phase_clock clock;
//   { const listening while_here(&clock); run(); }
//   for (const phase_total& t : clock.totals()) ...
//
// On a GPU without synchronisation these are launch times; use CUPTI there (cupti_trace.h).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "harness/profile/phases.h"

namespace unmask {

struct phase_total {
  profile_phase phase = profile_phase::step;
  std::int64_t calls = 0;
  double seconds = 0;      // phases inside it included
  double own_seconds = 0;  // without them
  double rows = 0, flops = 0;
  double bytes = 0;
  bool bytes_known = false;  // every report of work so far said how many
};

// One finished range, nanoseconds since the clock was made.
struct phase_event {
  profile_phase phase = profile_phase::step;
  std::int64_t payload = 0;
  std::int64_t begin = 0, end = 0;
};

// What a step held, at the time it was told: the end of the step.
struct step_event {
  std::int64_t at = 0;  // nanoseconds since the clock was made
  step_numbers held;
};

class phase_clock final : public phase_listener, public step_listener {
 public:
  // Keeps at most `most_events` single events, for the trace; totals have no limit.
  explicit phase_clock(std::size_t most_events = 0);

  void enter(profile_phase phase, std::int64_t payload) override;
  void leave(profile_phase phase) override;  // std::logic_error when ranges do not nest
  void work(profile_phase phase, const phase_work& done) override;
  void step(const step_numbers& held) override;

  // Returns the total of every phase that ran or had work, in the order of the enumeration.
  std::vector<phase_total> totals() const;
  // Time of the outermost ranges.
  double seconds() const { return outermost_; }
  const std::vector<phase_event>& events() const { return events_; }
  const std::vector<step_event>& steps() const { return steps_; }
  std::int64_t events_left_out() const { return left_out_; }
  bool balanced() const { return open_.empty(); }
  // The steady clock's nanoseconds at which the events' time starts.
  std::int64_t origin() const { return start_; }

 private:
  struct open_range {
    profile_phase phase;
    std::int64_t payload, begin, inside;  // nanoseconds of finished phases in it
  };
  std::int64_t now() const;

  std::int64_t start_;
  std::size_t most_events_;
  std::vector<open_range> open_;
  std::vector<phase_total> totals_;
  std::vector<phase_event> events_;
  std::vector<step_event> steps_;
  std::int64_t left_out_ = 0;
  double outermost_ = 0;
};

// Something that ran on a device, for the trace: the same clock as the events, or any other.
struct device_slice {
  std::string name;
  std::int64_t begin = 0, end = 0;  // nanoseconds
  std::uint32_t device = 0, stream = 0;
  profile_phase phase = profile_phase::step;
  bool attributed = false;  // `phase` means something
};

// A number over time that is neither a phase nor a step's, such as a device's power.
struct trace_samples {
  std::string name;
  std::vector<std::pair<std::int64_t, double>> values;  // nanoseconds on the clock of the events
};

// Chrome's trace event format (JSON object form, complete events, microseconds), which Perfetto and
// chrome://tracing load. The CPU phases are process 1; device d is process 2 + d, a thread a
// stream. Steps become counter tracks beside the phases, and a flow for each request through the
// forwards that it took part in.
void write_chrome_trace(std::ostream& out, const std::string& title,
                        const std::vector<phase_event>& events,
                        const std::vector<device_slice>& slices = {},
                        const std::vector<step_event>& steps = {},
                        const std::vector<trace_samples>& samples = {});

}  // namespace unmask
