// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/imposed_commits.h"

#include <algorithm>
#include <charconv>

#include "harness/base/error.h"
#include "kernels/random.h"

namespace unmask {
namespace {

constexpr std::int32_t usual_block = 32;  // of models that were trained without blocks

std::int32_t number_after(const std::string& from, const std::string& prefix) {
  const std::string digits = from.substr(prefix.size());
  std::int32_t n = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (problem != std::errc() || end != digits.data() + digits.size() || n < 1) {
    throw usage_error("commits \"" + from + "\": " + prefix + "N needs a whole number from 1 on");
  }
  return n;
}

}  // namespace

std::int32_t filler_of(const model_config& model) {
  std::int32_t id = 0;
  while (id == model.mask_id || std::ranges::find(model.stop_ids, id) != model.stop_ids.end()) ++id;
  return id;
}

trajectory_source commits_of(const std::string& from, const loaded_workload& workload,
                             const std::vector<std::int32_t>& lengths, const model_config& model,
                             std::int32_t pace_block, std::uint64_t seed) {
  if (from.starts_with("replay:")) return load_trajectories(from.substr(7));
  // Blocks of a block-causal model lie on absolute positions, those of others begin with the answer.
  const bool absolute = model.attention == mask_kind::block_causal;
  const std::int32_t block = absolute ? std::max(model.block, 2) : usual_block;
  const auto draw = [lengths, &workload, absolute, seed](const auto& make) {
    return [lengths, &workload, absolute, seed, make](std::int64_t id) {
      const std::size_t item = static_cast<std::size_t>(id) % workload.requests.size();
      const auto prompt = static_cast<std::int32_t>(workload.requests[item].prompt.size());
      return make(absolute ? prompt : 0, lengths[item] - prompt,
                  stream_key(seed, 31, static_cast<std::uint64_t>(id)));
    };
  };
  if (from.starts_with("steady:")) {
    const std::int32_t commits = number_after(from, "steady:");
    return draw([block, commits](std::int32_t prompt, std::int32_t tokens, std::uint64_t key) {
      return steady_trajectory(block, commits, prompt, tokens, key);
    });
  }
  const commit_statistics& c = find_commits(from == "lengths" ? workload.record.family : from);
  // Token by token there is one candidate and nothing to draw.
  const commit_process process =
      pace_block == 1 ? commit_process{block, 0, 0} : fit_commits(c.mean, c.deviation, block);
  return draw([process](std::int32_t prompt, std::int32_t tokens, std::uint64_t key) {
    return draw_trajectory(process, prompt, tokens, key);
  });
}

bool imposes_ranks(const std::string& from, const loaded_model& model) {
  return model.record.weights == "synthetic" || !from.starts_with("replay:");
}

}  // namespace unmask
