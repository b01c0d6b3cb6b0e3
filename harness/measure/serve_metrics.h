// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From served requests and forwards to the values of a row, and the search for capacity.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/decode/pass_totals.h"
#include "harness/engine/serving.h"
#include "harness/rows/row.h"

namespace unmask {

struct served_run {
  std::vector<request_record> requests;  // ordered by arrival
  std::vector<iteration_record> iterations;
  engine_totals totals;
  pass_totals loop;  // of the loop that served it
};

struct serving_objective {
  tpot_definition tpot = tpot_definition::decode;
  double tpot_seconds = 0, ttfb_seconds = 0;  // 0: none
  double trim = 0.1;
};

// Marks the requests whose client leaves: keys cancel_* of [serve], drawn by seed and the index of
// the request, so that a longer run begins as a shorter one.
void add_cancellations(std::vector<request_order>& orders, const parameters& serve,
                       std::uint64_t seed);

// Values by name; results/README.md defines them. `time`: where the times come from, `tokens`:
// where the tokens do. Percentiles only where statistics.h says that the requests earn them.
std::map<std::string, metric> serving_values(const served_run& run,
                                             const serving_objective& objective, origin time,
                                             origin tokens);

// Requests that count: without the first and last share of arrivals.
std::vector<const request_record*> counted_requests(const served_run& run, double trim);

// One rate of the search.
struct rate_result {
  double p90 = 0;          // of the time per output token
  bool served = true;      // every request was answered
  bool backlog = false;    // more and more requests in the system (serving.h); ends no search
  bool saturated = false;  // serving took more than twice as long as the arrivals
  bool alone = false;      // no two requests were there at a time: lower rates change nothing
};
bool each_is_alone(const std::vector<request_record>& requests);  // ordered by arrival
struct capacity {
  double rate = 0;       // requests per second; 0: not even the lowest rate tried is served
  double tested_ok = 0;  // the highest rate of the grid that keeps the objective
  bool backlog = false;  // at that rate
  bool bounded = true;   // false: the objective still held at twice what can be served
  int runs = 0;
};
// Largest rate with p90 <= objective, which is all that Optimus (sections 7.1 and 7.4) asks of it:
// doubling or halving from `start`, then a grid of ratio `step`, then linear interpolation of p90
// between the two rates around the objective. Requests that wait to be admitted do not enter the
// time per output token of "decode", so that a long queue alone never ends the search; `backlog`
// says where there was one.
capacity find_capacity(const std::function<rate_result(double rate)>& at, double objective,
                       double start, double step);

// One line per forward under a header line.
std::string iteration_csv(const std::vector<iteration_record>& iterations);

}  // namespace unmask
