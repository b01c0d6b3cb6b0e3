// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/past_hours.h"

#include <gtest/gtest.h>

namespace unmask {
namespace {

const std::string here =
    R"({"cpu_model": "a", "cpus_usable": 2, "omp_threads": 2, "gpus": [], "load_average": [1]})";

result_row row_of(const std::string& id, std::vector<double> seconds, std::string environment) {
  result_row row;
  row.point_id = id;
  row.samples.seconds = std::move(seconds);
  row.environment = std::move(environment);
  return row;
}

// One warm-up and three repetitions of 900 s and of 90 s: 4 (900 + 90) s are 1.1 hours.
TEST(past_hours, are_those_of_this_machines_rows) {
  experiment_spec spec;
  spec.evidence.warmup = 1;
  spec.evidence.min_repetitions = 3;
  std::vector<experiment_point> points(2);
  points[0].id = "p", points[1].id = "q";
  const std::string busy =
      R"({"cpu_model": "a", "cpus_usable": 2, "omp_threads": 2, "gpus": [], "load_average": [9]})";
  const std::string other =
      R"({"cpu_model": "a", "cpus_usable": 4, "omp_threads": 4, "gpus": [], "load_average": [1]})";
  std::vector<result_row> rows = {row_of("p", {1}, here), row_of("p", {800, 1000}, busy),
                                  row_of("q", {90}, here), row_of("r", {5000}, here)};
  EXPECT_EQ(past_hours(spec, points, rows, here),
            "hours of this machine, by its rows of 2 of 2 points: 1.1\n");
  rows[2].environment = other;
  EXPECT_EQ(past_hours(spec, points, rows, here),
            "hours of this machine, by its rows of 1 of 2 points: at least 1.0\n");
  rows[1].samples.seconds.clear();  // FAILED
  rows[0].environment = "";
  EXPECT_EQ(past_hours(spec, points, rows, here),
            "hours of this machine: unknown; no point has a row of it\n");
}

}  // namespace
}  // namespace unmask
