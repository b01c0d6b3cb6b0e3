// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Closed-loop decoding: every request is there at the start. A fixed number of batch slots decodes;
// a slot whose answer is done takes the next request at once, whose prompt enters in the forward
// passes of the other slots. The timer covers admission, every forward pass and every decision. It
// does not cover tokenising, detokenising, scoring, printing and the allocation of the loop.
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
  double first_block_seconds = 0;  // from admission until the first token was unmasked
};

struct closed_loop_result : pass_totals {
  std::vector<decoded_answer> answers;  // in the order of the requests
  double seconds = 0;                   // wall time of the whole run, recording_seconds left out
  graph_counts graphs;                  // segments of layers, captured and replayed
  std::string learnt;                   // pace_policy::learnt()
};

// Decodes all requests with `batch_size` batch slots. The loop's buffers are made before the clock
// starts. Throws a usage error if a request does not fit the model.
closed_loop_result run_closed_loop(const transformer& model, const method_info& method,
                                   const parameters& settings,
                                   const std::vector<sequence_request>& requests,
                                   std::int32_t batch_size, step_observer* observer = nullptr);

// Returns the rows that a transformer must be made for to decode these requests at this batch size.
std::int32_t rows_needed(const model_config& model, const method_info& method,
                         const parameters& settings, const std::vector<sequence_request>& requests,
                         std::int32_t batch_size);

}  // namespace unmask
