// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Functions in Python for two more slots: how far a step reaches, and which rows are computed.
#pragma once

#include <memory>
#include <string>

#include "harness/decode/policies.h"
#include "harness/python/engine/steps.h"

namespace unmask::python {

// The pace of a recipe, whose steps the function `pace` of the rule may shorten: candidates up to so many
// positions from the first mask, and another quota. What a step computes stays the base's.
std::unique_ptr<pace_policy> paced(std::unique_ptr<pace_policy> base,
                                   std::shared_ptr<const asked_rule> rule);

// The rows of a recipe, of which the function `rows` of the rule chooses in forward passes that can
// unmask. Usage error for a recipe whose rows have to be computed: its cache keeps no K/V, or moves
// them, or its own rows are narrowed inside a forward pass.
std::unique_ptr<row_policy> chosen_rows(std::unique_ptr<row_policy> base, const cache_policy& cache,
                                        std::shared_ptr<const asked_rule> rule);

}  // namespace unmask::python
