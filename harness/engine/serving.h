// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a served request felt like. All in seconds; NaN where it is not defined. Percentiles over
// requests are formed by harness/measure, which knows how many samples they need.
#pragma once

#include <string>
#include <vector>

#include "harness/engine/engine.h"

namespace unmask {

enum class tpot_definition : std::uint8_t {
  stream,  // (last emission - first emission) / (n - 1): what streaming clients of LMDeploy and
           // SGLang compute; with whole blocks the first block's time is left out, its tokens not
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
// Gaps between successive emissions, appended.
void inter_block_of(const request_record& r, std::vector<double>& gaps);

// Backlog: requests in the system on average over the last third of the arrivals, against the
// middle third. A system that keeps up has them alike; `growing` when the last third holds more
// than 1.5 times the middle one and at least four requests more.
struct backlog {
  double middle = 0, last = 0;
  bool growing = false;
};
backlog backlog_of(const std::vector<request_record>& requests);

}  // namespace unmask
