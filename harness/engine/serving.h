// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Latencies of served requests, in seconds; NaN if one is not defined. harness/measure forms the
// percentiles over requests, because it knows how many samples they need.
#pragma once

#include <string>
#include <vector>

#include "harness/engine/engine.h"

namespace unmask {

enum class tpot_definition : std::uint8_t {
  stream,  // (last emission - first emission) / (n - 1), as streaming clients of LMDeploy and
           // SGLang compute it; if whole blocks are emitted, the first block's tokens count and
           // its time does not
  decode,  // (finish - prefill done) / n
  e2e      // (finish - arrival) / n
};
const std::vector<std::string>& tpot_names();
tpot_definition parse_tpot(const std::string& name);  // usage error with the nearest name

// Time per output token of a finished request; n: its tokens.
double tpot_of(const request_record& r, tpot_definition definition);
// Time to first block: arrival to the first tokens handed out.
double ttfb_of(const request_record& r);
double queue_time_of(const request_record& r);  // arrival to admission
double e2e_of(const request_record& r);         // arrival to finish
// Appends the seconds between successive emissions.
void inter_block_of(const request_record& r, std::vector<double>& gaps);

// Backlog: mean number of requests in the system in the last third of the arrivals and in the
// middle third. A system that keeps up has equal numbers. `growing`: the last third has more than
// 1.5 times as many as the middle one, and at least four more.
struct backlog {
  double middle = 0, last = 0;
  bool growing = false;
};
backlog backlog_of(const std::vector<request_record>& requests);

}  // namespace unmask
