// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The search for capacity: the highest rate of requests whose time per output token keeps the
// objective.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/measure/serve_metrics.h"

namespace unmask {

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
// says whether there was one.
capacity find_capacity(const std::function<rate_result(double rate)>& at, double objective,
                       double start, double step);

// Serves the workload once at a rate; `longer`: requests arrive for so many times serve.duration.
using served_at = std::function<served_run(double rate, std::uint64_t seed, double longer)>;

// Adds the values of serve.search_seeds searches, which begin with `seed`. `serve`: keys of [serve];
// `time`: where the times come from. Usage error if the requests are too few for a P90.
void add_capacity(std::map<std::string, metric>& into, const parameters& serve,
                  const serving_objective& objective, std::uint64_t seed, origin time,
                  const served_at& run);

}  // namespace unmask
