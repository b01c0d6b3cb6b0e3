// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Runs an experiment: plan, then for each group of points with the same model and workload warm up,
// measure in alternating order, check, and append one row per point.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/measure/point.h"
#include "harness/rows/row_table.h"
#include "harness/run/progress.h"

namespace unmask {

struct run_options {
  std::filesystem::path output = "runs/latest";  // directory of row files
  shard part;
  std::vector<row_selector> only;  // points whose rows any of these matches; none: all points
  // Points alone whose results another run may find otherwise (plan.h, varies).
  bool varying = false;
  // Skip points that already have a row there; otherwise they are measured again, and the new row,
  // the last of its point, counts.
  bool resume = true;
  bool progress = true;  // on standard error
  bool samples = false;  // every answer in lm-eval's form: samples/POINT/samples_TASK_DATE.jsonl
  // What is written beside the rows (request.h), of the whole plan; empty: nothing.
  std::function<std::string(const std::vector<experiment_point>& plan)> manifest;
  point_watcher watch;    // a profiler's; empty: nobody
  bool continues = true;  // the same command goes on in the same folder
};

struct run_summary {
  std::string run_id;
  std::filesystem::path file;  // the rows
  std::size_t planned = 0, skipped = 0, measured = 0, not_supported = 0;
  std::size_t failed = 0;           // FAILED or INVALID
  std::vector<result_row> rows;     // of this run, in the order they were written
  std::vector<result_row> earlier;  // of the points of the plan that were skipped
  // The rows of the plan, whichever run wrote them, and of nothing else that lies in the folder.
  row_table of_plan() const;
  int exit_status() const { return failed > 0 ? 1 : 0; }
};

// The plan as it will run: ids know the model, the workload and the device. Of `options`, only the
// chosen points and the shard; usage error when none is chosen.
std::vector<experiment_point> plan_points(const experiment_spec& spec, executor& with,
                                          const run_options& options = {});

run_summary run_experiment(const experiment_spec& spec, const run_options& options, executor& with);
// With the real executor.
run_summary run_experiment(const experiment_spec& spec, const run_options& options);

// Groups of neighbouring points that share model, workload and run settings, none longer than the
// number of points one group keeps in flight; paired points are never parted.
std::vector<std::vector<experiment_point>> interleaved_groups(
    const std::vector<experiment_point>& points, bool paired = false);

}  // namespace unmask
