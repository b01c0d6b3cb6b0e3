// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The requests of a served point as a file that clients of other servers replay.
#pragma once

#include <string>
#include <vector>

#include "harness/plan/plan.h"

namespace unmask {

// One JSON object a line, in the order of arrival: timestamp (milliseconds from 0, as Mooncake's traces have
// it), input_length and output_length in tokens of the model, output_tokens (the same number), and of
// workloads with texts prompt and text: the prompt behind the chat template, as the model gets it. Requests
// beyond those of the workload ask these again, as the engine does. Under `search` the arrivals are those of
// serve.rate.
// Usage errors: no point is served; the points differ in their requests (both are named).
std::string request_list(const std::vector<experiment_point>& points);

}  // namespace unmask
