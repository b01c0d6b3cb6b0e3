// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The decodes that probes ask for (probe_source): the same requests, one after the other, under
// another order or by the slowest sensible baseline.
#pragma once

#include <vector>

#include "harness/decode/registry.h"
#include "harness/experiment/probe.h"

namespace unmask {

// The requests again under `method`; with an order, decided in that order (with_order()). Request
// ids must be 0, 1, 2, ... A refusal is reported as `problem`, not thrown.
probe_decode decode_again(const transformer& model, const method_info& method,
                          const parameters& settings, const std::vector<sequence_request>& requests,
                          const trajectory_source* order);

// One token per forward, the most confident first: vanilla in blocks of `block` (0: one) for
// bidirectional models, block_diffusion with low_confidence_static for block-causal ones. Other
// models have no such reference.
probe_decode decode_reference(const transformer& model,
                              const std::vector<sequence_request>& requests, std::int64_t block);

}  // namespace unmask
