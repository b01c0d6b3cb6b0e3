// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a point, or the largest of its ranks, allocates before its first forward, for plans: worked out
// from the model's configuration and the method's own policies, with nothing loaded. What kernels need
// besides while they run is not in it: workspaces of libraries, logits, rows sorted by expert.
#pragma once

#include <vector>

#include "harness/decode/registry.h"
#include "harness/plan/spec.h"

namespace unmask {

struct run_memory {
  double weights = 0;  // packed, and the embedding as published, in bfloat16; without a tower
  double kept = 0;  // between forwards, of all places: K/V, outputs of layers and rows of pictures
  double activations = 0;  // of the widest forward
  double bytes() const { return weights + kept + activations; }
};

// `widest`: the requests that take most positions, one for each place. Throws as the method does where it
// cannot decode the model.
run_memory expected_memory(const model_config& model, const method_info& method,
                           const parameters& given, const run_settings& run,
                           const std::vector<sequence_request>& widest);

}  // namespace unmask
