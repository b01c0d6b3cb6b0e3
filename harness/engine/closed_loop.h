// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Closed-loop decoding: the engine with every request there at the start, its prompts entering in
// the forwards of the others, and a fixed number of places, each refilled as soon as its answer is
// done. What the timer covers: admission, every forward and every decision; not covered:
// tokenising, detokenising, scoring, printing, allocation of the loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/decode/step_loop.h"

namespace unmask {

struct decoded_answer {
  std::vector<std::int32_t> output;  // generated tokens, up to where the method stopped
  sequence_counters counters;
  double seconds = 0;              // from admission to finish
  double first_block_seconds = 0;  // from admission until the first token was decided
};

struct closed_loop_result : pass_totals {
  std::vector<decoded_answer> answers;  // in the order of the requests
  double seconds = 0;                   // wall time of the whole run, recording_seconds left out
  graph_counts graphs;                  // segments of layers, captured and replayed
  std::string learnt;                   // pace_policy::learnt()
};

// Decode all requests with `batch_size` places. The loop's buffers are made before the clock
// starts. Throws a usage error when a request cannot fit the model.
closed_loop_result run_closed_loop(const transformer& model, const method_info& method,
                                   const parameters& settings,
                                   const std::vector<sequence_request>& requests,
                                   std::int32_t batch_size, step_observer* observer = nullptr);

// Rows a transformer must be made for, to decode these requests at this batch size.
std::int32_t rows_needed(const model_config& model, const method_info& method,
                         const parameters& settings, const std::vector<sequence_request>& requests,
                         std::int32_t batch_size);

}  // namespace unmask
