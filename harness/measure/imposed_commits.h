// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where commits come from that no model decides: [run] impose, with every layer computed, and
// [serve] commits, without one.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/engine/trajectory.h"
#include "harness/measure/execute_parts.h"

namespace unmask {

// "replay:FILE": recorded trajectories by request ([serve] record writes them). "steady:N": N tokens
// in every step. A name of published_commits(), or "lengths": that of the workload's lengths; drawn
// anew for every request of the run's seed. `lengths`: positions of each request of the workload;
// pace_block: tokens that the method's pace decides together. Usage error for anything else.
trajectory_source commits_of(const std::string& from, const loaded_workload& workload,
                             const std::vector<std::int32_t>& lengths, const model_config& model,
                             std::int32_t pace_block, std::uint64_t seed);

// A token that ends nothing and is no mask.
std::int32_t filler_of(const model_config& model);

// Whether the rows that FOCUS keeps are ranked by the commits too: always, but where a recording is
// replayed on weights that mean something.
bool imposes_ranks(const std::string& from, const loaded_model& model);

}  // namespace unmask
