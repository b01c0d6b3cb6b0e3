// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/head_kernels.h"
#include "methods/parts/kernels/history.h"

namespace unmask::cuda::UNMASK_TARGET {

struct history_params {
  candidate_set candidates;
  const float* logits;
  std::int64_t stride;
  int vocabulary, places;
  const std::int32_t* origin;
  const std::int32_t* fresh;
  double epsilon;
  float limit;
  std::int32_t history, still_before;
  std::int32_t* owner;
  std::int64_t owner_stride;
  std::int32_t* still;
  std::int64_t still_stride;
  float* kept;
  std::int64_t kept_stride;
  float* scale;
  std::int64_t scale_stride;
  std::int32_t* token;
  float* probability;
  float* doubt;
  float* moved;
  std::uint8_t* settled;
};

// One block for each candidate: arg-max, sum, divergence, each one pass over the logits.
UNMASK_KERNEL void compare_distributions_kernel(history_params p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int c = static_cast<int>(block_index());
  const int s = sequence_of_candidate(p.candidates, c);
  const std::int32_t position = p.candidates.position[c];
  const int place = (position - p.origin[s]) % p.places;
  std::int32_t* owner = p.owner + s * p.owner_stride + place;
  std::int32_t* still = p.still + s * p.still_stride + place;
  float* kept = p.kept + s * p.kept_stride + static_cast<std::int64_t>(place) * p.vocabulary;
  float* scale = p.scale + s * p.scale_stride + static_cast<std::int64_t>(place) * 2;
  const bool known = p.fresh[s] == 0 && *owner == position;
  const double kept_scale = static_cast<double>(scale[0]) + static_cast<double>(scale[1]);
  const float* logit = p.logits + c * p.stride;

  const int token = best_of_row(block, logit, p.vocabulary);
  const double best = static_cast<double>(logit[token]);
  double part = 0;
  for (int v = block.rank(); v < p.vocabulary; v += block.size()) {
    if (v != token) part += exp(static_cast<double>(logit[v]) - best);
  }
  const double rest = group_sum(block, part);
  const double all = best + log(1 + rest);
  double change = 0;
  for (int v = block.rank(); v < p.vocabulary; v += block.size()) {
    const double now = exp(static_cast<double>(logit[v]) - all);
    const double then = known ? exp(static_cast<double>(kept[v]) - kept_scale) : 0.0;
    change += now * (log(now + p.epsilon) - log(then + p.epsilon));
    kept[v] = logit[v];
  }
  // Every thread has read owner and scale before the sum is known.
  const float moved = static_cast<float>(group_sum(block, change));
  if (block.rank() != 0) return;
  const int before = known ? *still : p.still_before;
  const int now = moved < p.limit ? before + 1 : 0;
  *still = now;
  *owner = position;
  scale[0] = static_cast<float>(all);
  scale[1] = static_cast<float>(all - static_cast<double>(scale[0]));
  p.token[c] = token;
  p.probability[c] = static_cast<float>(1 / (1 + rest));
  p.doubt[c] = static_cast<float>(-rest / (1 + rest));
  p.moved[c] = moved;
  p.settled[c] = now >= p.history ? 1 : 0;
}

UNMASK_KERNEL void accept_settled_kernel(op::accept_settled p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  const auto candidate = [&](int i) {
    const std::uint32_t key = order_key(p.doubt[first + i]);
    return key > lowest_key && p.candidates.position[first + i] < p.last[s] ? key : 0U;
  };
  const auto ready = [&](int i) {
    const float probability = p.probability[first + i];
    const bool passes = p.strict ? probability > p.threshold : probability >= p.threshold;
    return p.allowed[s] != 0 && p.settled[first + i] != 0 && passes && candidate(i) != 0;
  };
  const int found = block.count(n, ready);
  if (found == 0) {
    const int quota = p.quota[s] < p.at_most ? p.quota[s] : p.at_most;
    take_top(block, n, candidate, quota, p.accept + first);
    return;
  }
  const int wanted = p.choice == op::ready_choice::all ? found : 1;
  const auto rank = [&](int i) -> std::uint32_t {
    if (!ready(i)) return 0;
    return p.choice == op::ready_choice::stillest ? order_key(-p.moved[first + i]) : candidate(i);
  };
  take_top(block, n, rank, wanted, p.accept + first);
}

namespace {

void compare_distributions(const device_backend& device, const op::compare_distributions& args) {
  history_params p{};
  p.candidates = device.in(args.candidates);
  p.logits = device.in(args.logits).as<float>();
  p.stride = args.logits.row_stride;
  p.vocabulary = static_cast<int>(args.logits.columns());
  p.places = static_cast<int>(args.owner.columns());
  p.origin = device.in(args.origin);
  p.fresh = device.in(args.fresh);
  p.epsilon = args.epsilon;
  p.limit = args.limit;
  p.history = args.history;
  p.still_before = args.still_before;
  p.owner = device.out(args.owner).as<std::int32_t>();
  p.owner_stride = args.owner.row_stride;
  p.still = device.out(args.still).as<std::int32_t>();
  p.still_stride = args.still.row_stride;
  p.kept = device.out(args.kept).as<float>();
  p.kept_stride = args.kept.row_stride;
  p.scale = device.out(args.scale).as<float>();
  p.scale_stride = args.scale.row_stride;
  p.token = device.out(args.token);
  p.probability = device.out(args.probability);
  p.doubt = device.out(args.doubt);
  p.moved = device.out(args.moved);
  p.settled = device.out(args.settled);
  device.work().launch("compare_distributions", block_each(args.candidates.count),
                       compare_distributions_kernel, p);
}

void accept_settled(const device_backend& device, const op::accept_settled& args) {
  device.work().launch("accept_settled", block_each(args.candidates.sequences),
                       accept_settled_kernel,
                       {device.in(args.candidates), device.in(args.last), device.in(args.allowed),
                        device.in(args.probability), device.in(args.doubt), device.in(args.moved),
                        device.in(args.settled), args.threshold, args.strict, args.choice,
                        device.in(args.quota), args.at_most, device.out(args.accept)});
}

}  // namespace

const register_operations<compare_distributions, accept_settled> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
