// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/head_kernels.h"
#include "methods/credit_decoding/kernels/credit.h"

namespace unmask::cuda::UNMASK_TARGET {

struct credit_params {
  candidate_set candidates;
  const float* logits;
  std::int64_t stride;
  int vocabulary;
  const std::int32_t* first;
  const std::int32_t* fresh;
  float alpha, exponent, decay;
  std::int32_t refused;
  std::int32_t* listed;
  std::int64_t listed_stride;
  std::int32_t* tokens;
  float* credits;
  std::int64_t list_stride;
  int room;
  std::int32_t* token;
  float* probability;
  float* score;
};

UNMASK_DEVICE float raised(const credit_params& p, const float* logit, const std::int32_t* tokens,
                           const float* credits, int i) {
  return logit[tokens[i]] + p.alpha * logf(credits[i] + 1.0F);
}

// Fades the list, enters the favourite, and judges the raised logits. Lists are short: one thread.
UNMASK_DEVICE void judge_credits(const credit_params& p, int c, std::int32_t favourite,
                                 double raw_best, double raw_sum) {
  const int s = sequence_of_candidate(p.candidates, c);
  const std::int64_t place = p.candidates.position[c] - p.first[s];
  std::int32_t* size = p.listed + s * p.listed_stride + place;
  std::int32_t* tokens = p.tokens + s * p.list_stride + place * p.room;
  float* credits = p.credits + s * p.list_stride + place * p.room;
  const float* logit = p.logits + c * p.stride;
  int n = p.fresh[s] != 0 ? 0 : *size;
  int found = -1;
  for (int i = 0; i < n; ++i) {
    credits[i] *= p.decay;
    if (tokens[i] == favourite) found = i;
  }
  // (1 / raw_sum) ** exponent, without the function that nvcc calls for a power of doubles.
  const float more = static_cast<float>(exp(-static_cast<double>(p.exponent) * log(raw_sum)));
  if (found >= 0) {
    credits[found] += more;
  } else if (n < p.room) {
    tokens[n] = favourite;
    credits[n] = more;
    ++n;
  }
  *size = n;
  float best = -INFINITY;
  std::int32_t token = 0;
  for (int i = 0; i < n; ++i) {
    const float f = raised(p, logit, tokens, credits, i);
    if (f > best || (f == best && tokens[i] < token)) {
      best = f;
      token = tokens[i];
    }
  }
  const double top = static_cast<double>(best);
  double sum = raw_sum * exp(raw_best - top);
  for (int i = 0; i < n; ++i) {
    sum += exp(static_cast<double>(raised(p, logit, tokens, credits, i)) - top) -
           exp(static_cast<double>(logit[tokens[i]]) - top);
  }
  const float q = static_cast<float>(1.0 / sum);
  p.token[c] = token;
  p.probability[c] = q;
  p.score[c] = token == p.refused ? -INFINITY : q;
}

// One block for each candidate.
UNMASK_KERNEL void credited_confidence_kernel(credit_params p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int c = static_cast<int>(block_index());
  const float* logit = p.logits + c * p.stride;
  const std::int32_t favourite = best_of_row(block, logit, p.vocabulary);
  const double best = static_cast<double>(logit[favourite]);
  const double sum = sum_of_exponentials(block, logit, p.vocabulary, best);
  if (block.rank() == 0) judge_credits(p, c, favourite, best, sum);
}

UNMASK_KERNEL void accept_near_best_kernel(op::accept_near_best p) {
  shared_allocator shared;
  const block_group block = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  const float* score = p.score + first;
  with_keys(score, n, block, [&](const auto& group, const auto& key) {
    std::uint64_t best = 0;
    for (int i = group.rank(); i < n; i += group.size()) {
      const std::uint64_t mine = order_value(key(i), i);
      if (key(i) > lowest_key && mine > best) best = mine;
    }
    best = group_max(group, best);
    const float near = best == 0 ? p.threshold : score[index_of(best)] - p.slack;
    const float limit = near < p.threshold ? near : p.threshold;
    for (int i = group.rank(); i < n; i += group.size()) {
      p.accept[first + i] = key(i) > lowest_key && score[i] >= limit ? 1 : 0;
    }
  });
}

namespace {

void credited_confidence(const device_backend& device, const op::credited_confidence& args) {
  credit_params p{};
  p.candidates = device.in(args.candidates);
  p.logits = device.in(args.logits).as<float>();
  p.stride = args.logits.row_stride;
  p.vocabulary = static_cast<int>(args.logits.columns());
  p.first = device.in(args.first);
  p.fresh = device.in(args.fresh);
  p.alpha = args.alpha;
  p.exponent = args.exponent;
  p.decay = args.decay;
  p.refused = args.refused;
  p.listed = device.out(args.listed).as<std::int32_t>();
  p.listed_stride = args.listed.row_stride;
  p.tokens = device.out(args.tokens).as<std::int32_t>();
  p.credits = device.out(args.credits).as<float>();
  p.list_stride = args.tokens.row_stride;
  p.room = static_cast<int>(args.tokens.shape[2]);
  p.token = device.out(args.token);
  p.probability = device.out(args.probability);
  p.score = device.out(args.score);
  device.work().launch("credited_confidence", block_each(args.candidates.count),
                       credited_confidence_kernel, p);
}

void accept_near_best(const device_backend& device, const op::accept_near_best& args) {
  device.work().launch("accept_near_best", block_each(args.candidates.sequences),
                       accept_near_best_kernel,
                       {device.in(args.candidates), device.in(args.score), args.threshold,
                        args.slack, device.out(args.accept)});
}

}  // namespace

const register_operations<credited_confidence, accept_near_best> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
