// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From served requests and forwards to the values of a row.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/decode/pass_totals.h"
#include "harness/devices/machine_use.h"
#include "harness/engine/serving.h"
#include "harness/rows/row.h"

namespace unmask {

// What the pictures of a run's requests took; all 0 where none was shown.
struct picture_work {
  std::int64_t tower_runs = 0;
  double flops = 0, seconds = 0;
};

// What several ranks took and held in a run, each of them told by all.
struct rank_work {
  std::int64_t sum_calls = 0, sum_bytes = 0;   // of one rank: sums, and bytes of others
  double sum_seconds = 0;                      // of rank 0
  double skew = 0;                             // slowest / fastest rank, without its sums
  std::size_t weight_bytes = 0, kv_bytes = 0;  // of the rank with most
  std::string transport = {};                  // by which their bytes go
  int machines = 1;                            // on which they are
};

struct served_run {
  std::vector<request_record> requests;  // ordered by arrival
  std::vector<iteration_record> iterations;
  engine_totals totals;
  pass_totals loop;  // of the loop that served it
  machine_use use;   // who used the processors meanwhile
  picture_work pictures;
  std::optional<rank_work> ranks;       // nothing of one rank
  std::map<std::string, double> rates;  // of several engines, in place of those of one; else empty
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

// Values by name; results/FORMAT.md defines them. `time`: where the times come from, `tokens`:
// where the tokens do. Percentiles only where statistics.h says that the requests earn them.
std::map<std::string, metric> serving_values(const served_run& run,
                                             const serving_objective& objective, origin time,
                                             origin tokens);

// What several engines served together: their requests and forwards, the rates of all of them
// added, the time of the last. `objective` as above.
served_run together(std::vector<served_run> engines, const serving_objective& objective);

// Requests that count: without the first and last share of arrivals.
std::vector<const request_record*> counted_requests(const served_run& run, double trim);

// The times of every request, in the order of arrival, as JSON: {"arrival": [s], "admitted": [s],
// "prefill_done": [s], "first_emission": [s], "last_emission": [s], "finish": [s], "tokens": [n], "end":
// [outcome]}. Seconds from the first arrival's clock, to the microsecond; null: it did not come to that.
std::string request_times(const std::vector<request_record>& requests);

// One line per forward under a header line.
std::string iteration_csv(const std::vector<iteration_record>& iterations);

}  // namespace unmask
