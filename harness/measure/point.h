// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A point as the runner sees it: prepared, measured any number of times, asked what it found. Who
// measures points (execute.cpp, a test's stand-in) and who orders them (run/runner.h) meet here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "harness/measure/record.h"
#include "harness/measure/work_meter.h"
#include "harness/plan/plan.h"
#include "harness/profile/phases.h"

namespace unmask {

// What a pass is about to do, for progress: requests to answer and positions to decide (0: unknown).
struct pass_size {
  std::int64_t items = 0, positions = 0;
};

// The time of each phase of a pass, without the phases inside it.
using phase_seconds = std::map<profile_phase, double>;

// One point, loaded and ready to be measured any number of times.
class prepared_point {
 public:
  virtual ~prepared_point() = default;
  virtual model_record model() const = 0;
  virtual workload_record workload() const = 0;
  virtual token_rules rules() const = 0;
  virtual std::vector<active_knob> knobs() const { return {}; }
  // It is that of the method's recipe (row_traits).
  virtual std::int32_t first_late_layer() const { return row_traits().first_late_layer(); }
  virtual pass_record pass() = 0;  // decode the whole workload once
  // Of the last pass that somebody listened to: those of ranks 1, 2, ... Empty: of one rank.
  virtual std::vector<phase_seconds> phases_of_other_ranks() const { return {}; }
  virtual pass_size size() const { return {workload().items, 0}; }
  // Passes add what they answer and decide to this meter, which outlives the point.
  virtual void count_in(work_meter& meter) { (void)meter; }
  // What later passes, and the row, need to know of what was measured before or in earlier ones (a
  // calibration), as text; and the way back, in another process, before its first pass. Empty: nothing.
  virtual std::string memory() const { return {}; }
  virtual void remember(const std::string& memory) { (void)memory; }
  // Parameters that were filled from measurements before the first pass; no part of the point's id.
  virtual parameter_map measured_settings() const { return {}; }
  // And what was measured for them, a JSON object; empty: nothing.
  virtual std::string calibration_report() const { return {}; }
  // Extra reports that are stored under `probes` although the experiment did not request a probe:
  // JSON objects by name.
  virtual std::map<std::string, std::string> measured_reports() const { return {}; }
  // Decodes once more, one request after the other, outside every timer, and writes down what the
  // probes need (probe_recorder). False where there is no such pass.
  virtual bool probe(const probe_settings& settings, std::ostream& out) {
    (void)settings, (void)out;
    return false;
  }
  // Detokenise and score; outside every timer.
  virtual std::vector<scored_answer> score(const pass_record& pass) = 0;
  // Scored answers as lines of lm-eval's sample files (workload/samples.h), by the files' names.
  virtual std::map<std::string, std::string> samples(const std::vector<scored_answer>& scores,
                                                     const std::string& run_id,
                                                     const std::string& point_id,
                                                     const std::string& date) const {
    (void)scores, (void)run_id, (void)point_id, (void)date;
    return {};
  }
};

struct preparation {
  std::unique_ptr<prepared_point> point;  // null: see verdict and reason
  row_verdict verdict = row_verdict::failed;
  std::string reason;
};

// The contact with models, methods and tasks; execute.cpp has the real one, tests a fake one.
class executor {
 public:
  virtual ~executor() = default;
  virtual method_catalogue methods() const = 0;
  // The hashes of a point's model and workload, where their files are there; and the device it
  // will really run on. Before its id is made.
  virtual void identify(experiment_point& point) { (void)point; }
  // Points of one group: same model, workload and run settings. Answers in the same order; an
  // error that concerns the whole group may be thrown.
  virtual std::vector<preparation> prepare(std::span<const experiment_point> group) = 0;
  virtual std::string environment() const = 0;  // JSON object, the build among it
  virtual std::string source_hash() const = 0;
  // Tells this build from every other, also from one of the same commit with edits of its own.
  virtual std::string program_hash() const { return source_hash(); }
};

// Looks at a point once more after its timed passes, outside every timer: JSON objects by name, kept
// beside the probes.
using point_watcher = std::function<std::map<std::string, std::string>(
    prepared_point& ready, const experiment_point& point, const measured_point& timed)>;

std::unique_ptr<executor> make_executor();  // the real one

}  // namespace unmask
