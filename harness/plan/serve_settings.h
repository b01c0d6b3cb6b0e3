// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The keys of [serve]: how requests arrive, how they are batched, and what counts as served well.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/plan/spec.h"
#include "harness/workload/traces.h"

namespace unmask {

const std::vector<parameter_spec>& serve_parameters();
// Whether the key, "serve.NAME", names a file that the run writes.
bool is_written(const std::string& key);
// Usage error, in one sentence, for keys that contradict each other. `resolved`: every key.
void check_serve(const parameter_map& resolved);
// The keys that make a point's id: without those, at their defaults, that ids of earlier rows do not
// know.
parameter_map serve_identity(parameter_map resolved);
// Whether the `cost` of a virtual clock is the name of a GPU (devices/ceilings.h).
bool names_card(const std::string& cost);
// True when no layer of the model is computed: decisions come from elsewhere. Keys of [serve] may be those of a
// file or resolved.
bool runs_dry(const run_settings& run);
// The requests of a workload that is a trace or published lengths, the latter drawn by the run's seed:
// as many as it takes, cut to what [serve] and gen_length say.
std::vector<trace_request> request_lengths(const workload_entry& entry, const run_settings& run);
// When requests arrive, in seconds. `recorded`: of a trace, else empty; `requests`: of the workload;
// `longer`: they arrive for so many times serve.duration. Usage error where nothing says how many.
std::vector<double> arrival_times(const parameters& serve, const std::vector<double>& recorded,
                                  std::size_t requests, double rate, std::uint64_t seed,
                                  double longer = 1);

}  // namespace unmask
