// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/head_kernels.h"
#include "methods/wino/kernels/revoke.h"

namespace unmask::cuda::UNMASK_TARGET {

struct present_params {
  candidate_set candidates;
  const float* logits;
  std::int64_t stride;
  int vocabulary;
  const std::int32_t* canvas;
  std::int64_t canvas_stride;
  const std::uint8_t* state;
  std::int64_t state_stride;
  std::int32_t* token;
  float* probability;
};

// One block for each candidate.
UNMASK_KERNEL void confidence_of_present_kernel(present_params p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int c = static_cast<int>(block_index());
  const float* logit = p.logits + c * p.stride;
  const std::int32_t best = best_of_row(block, logit, p.vocabulary);
  const double top = static_cast<double>(logit[best]);
  const double sum = sum_of_exponentials(block, logit, p.vocabulary, top);
  if (block.rank() != 0) return;
  const int s = sequence_of_candidate(p.candidates, c);
  const std::int64_t position = p.candidates.position[c];
  const bool masked = p.state[s * p.state_stride + position] == state_masked;
  const std::int32_t token = masked ? best : p.canvas[s * p.canvas_stride + position];
  p.token[c] = token;
  p.probability[c] = static_cast<float>(exp(static_cast<double>(logit[token]) - top) / sum);
}

struct reopen_params {
  candidate_set candidates;
  const std::uint8_t* state;
  std::int64_t state_stride;
  const float* probability;
  float threshold, threshold_back;
  bool strict, by_earlier;
  double share;
  std::int32_t least_cap, most_cap, least, first_allowance;
  const std::int32_t* restart;
  std::int32_t* taken;
  std::uint8_t* accept;
};

UNMASK_DEVICE int smaller_of(int a, int b) {
  return a < b ? a : b;
}
UNMASK_DEVICE int larger_of(int a, int b) {
  return a > b ? a : b;
}

// One block for each sequence. Those that pass a threshold are the best, so that both decisions are
// cuts of an order.
UNMASK_KERNEL void accept_and_reopen_kernel(reopen_params p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  if (n == 0) return;
  const float* probability = p.probability + first;
  std::uint8_t* accept = p.accept + first;
  const auto masked = [&](int i) {
    return p.state[s * p.state_stride + p.candidates.position[first + i]] == state_masked;
  };
  const int masks = block.count(n, masked);
  const int passing = block.count(n, [&](int i) {
    const float x = probability[i];
    return masked(i) && (p.strict ? x > p.threshold : x >= p.threshold);
  });
  const int doubtful =
      block.count(n, [&](int i) { return !masked(i) && probability[i] < p.threshold_back; });
  const int share = static_cast<int>(product(p.share, static_cast<double>(masks)));
  const int cap = smaller_of(larger_of(share, p.least_cap), p.most_cap);
  const int take = larger_of(smaller_of(passing, cap), smaller_of(p.least, masks));
  const int earlier = p.restart[s] != 0 ? p.first_allowance : p.taken[s];
  const int allowed = p.by_earlier ? (take > 1 ? earlier - 1 : 0) : take - p.least;
  const int reopen = larger_of(smaller_of(doubtful, allowed), 0);
  const auto confident = [&](int i) { return masked(i) ? order_key(probability[i]) : 0U; };
  for_each_taken(block, n, confident, top_cut(block, n, take, confident),
                 [&](int i, bool taken) { accept[i] = taken ? decision_take : decision_keep; });
  const auto doubted = [&](int i) { return masked(i) ? 0U : order_key(-probability[i]); };
  for_each_taken(block, n, doubted, top_cut(block, n, reopen, doubted), [&](int i, bool taken) {
    if (taken) accept[i] = decision_reopen;
  });
  if (block.rank() == 0) p.taken[s] = take;
}

namespace {

void confidence_of_present(const device_backend& device, const op::confidence_of_present& args) {
  present_params p{};
  p.candidates = device.in(args.candidates);
  p.logits = device.in(args.logits).as<float>();
  p.stride = args.logits.row_stride;
  p.vocabulary = static_cast<int>(args.logits.columns());
  p.canvas = device.in(args.canvas).as<std::int32_t>();
  p.canvas_stride = args.canvas.row_stride;
  p.state = device.in(args.state).as<std::uint8_t>();
  p.state_stride = args.state.row_stride;
  p.token = device.out(args.token);
  p.probability = device.out(args.probability);
  device.work().launch("confidence_of_present", block_each(args.candidates.count),
                       confidence_of_present_kernel, p);
}

void accept_and_reopen(const device_backend& device, const op::accept_and_reopen& args) {
  reopen_params p{};
  p.candidates = device.in(args.candidates);
  p.state = device.in(args.state).as<std::uint8_t>();
  p.state_stride = args.state.row_stride;
  p.probability = device.in(args.probability);
  p.threshold = args.threshold;
  p.threshold_back = args.threshold_back;
  p.strict = args.strict;
  p.by_earlier = args.by_earlier;
  p.share = args.share;
  p.least_cap = args.least_cap;
  p.most_cap = args.most_cap;
  p.least = args.least;
  p.first_allowance = args.first_allowance;
  p.restart = device.in(args.restart);
  p.taken = device.out(args.taken);
  p.accept = device.out(args.accept);
  device.work().launch("accept_and_reopen", block_each(args.candidates.sequences),
                       accept_and_reopen_kernel, p);
}

}  // namespace

const register_operations<confidence_of_present, accept_and_reopen> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
