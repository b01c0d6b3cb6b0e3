// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sampling after temperature, top-k and top-p, one block per candidate, without sorting.
//
// Kept are the first tokens in the order (logit descending, index ascending) while fewer than
// top_k come before and while the probability before does not exceed top_p. The last kept token is
// found digit by digit: the logits, as unsigned keys that sort alike, are counted (or their
// probabilities summed) per 8-bit digit, from the highest digit down, among those that share the
// digits found so far; ties of the whole key go by index. Probabilities are summed as 64-bit fixed
// point (2^-56), so that the sums of concurrent threads do not depend on their order.
#pragma once

#include "kernels/cuda/head_kernels.h"
#include "kernels/head.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int sample_threads = 256;
constexpr double fixed_one = 0x1.0p56;

struct sample_kernel_params {
  float* logit;  // [C, vocabulary], becomes probabilities
  std::int64_t logit_stride;
  int vocabulary;
  candidate_set candidates;
  noise_source noise;
  double temperature;  // 0: arg-max
  double top_p;
  int top_k;
  bool original;  // what is said is of softmax(logits as given)
  confidence_out out;
};

// Keys sort like the numbers; NaN below -infinity, where it is never kept before a number.
UNMASK_DEVICE std::uint32_t sort_key(float z) {
  if (z != z) return 0;
  const std::uint32_t u = bits_of(z);
  return (u & 0x80000000U) != 0 ? ~u : u | 0x80000000U;
}

struct best_entry {
  float value;
  std::int32_t token;
};

// The largest value, lowest token on ties, over the block; on every thread. scratch: one per warp.
UNMASK_DEVICE best_entry block_best(best_entry mine, const shared_array<best_entry>& scratch) {
#pragma unroll
  for (int mask = warp_size / 2; mask > 0; mask /= 2) {
    const best_entry other{shuffle_xor(mine.value, mask), shuffle_xor(mine.token, mask)};
    if (other.value > mine.value || (other.value == mine.value && other.token < mine.token)) {
      mine = other;
    }
  }
  sync_block();
  if (lane_index() == 0) scratch[warp_index()] = mine;
  sync_block();
  best_entry all = scratch[0];
  for (int w = 1; w < sample_threads / warp_size; ++w) {
    const best_entry other = scratch[w];
    if (other.value > all.value || (other.value == all.value && other.token < all.token)) {
      all = other;
    }
  }
  return all;
}

UNMASK_DEVICE std::uint64_t fixed_point(double p) {
  return p > 0 ? static_cast<std::uint64_t>(p * fixed_one) : 0;
}

UNMASK_KERNEL void UNMASK_THREADS(sample_threads) sample_kernel(sample_kernel_params p) {
  shared_allocator shared;
  const shared_array<best_entry> best_scratch = shared.take<best_entry>(8);
  const shared_array<double> sum_scratch = shared.take<double>(8);
  const shared_array<std::uint64_t> histogram = shared.take<std::uint64_t>(256);
  const shared_array<std::uint64_t> found = shared.take<std::uint64_t>(4);
  const int c = static_cast<int>(block_index()), t = static_cast<int>(thread_index());
  float* logit = p.logit + c * p.logit_stride;
  const double inverse = p.temperature > 0 ? 1.0 / p.temperature : 1.0;

  best_entry mine{-INFINITY, 0x7FFFFFFF};
  for (int v = t; v < p.vocabulary; v += sample_threads) {
    if (logit[v] > mine.value) mine = {logit[v], v};
  }
  const best_entry best = block_best(mine, best_scratch);
  if (p.out.top2_logit_gap != nullptr) {
    best_entry other{-INFINITY, 0x7FFFFFFF};
    for (int v = t; v < p.vocabulary; v += sample_threads) {
      if (v != best.token && logit[v] > other.value) other = {logit[v], v};
    }
    other = block_best(other, best_scratch);
    if (t == 0) p.out.top2_logit_gap[c] = best.value - other.value;
  }
  // Of the logits as given, before any of them is dropped.
  double given_total = 0, given_entropy = 0;
  float given_second = -INFINITY;
  if (p.original) {
    const auto given = [&](int v) {
      return exp(static_cast<double>(logit[v]) - static_cast<double>(best.value));
    };
    double sum = 0;
    best_entry next{-INFINITY, 0x7FFFFFFF};
    for (int v = t; v < p.vocabulary; v += sample_threads) {
      sum += given(v);
      if (v != best.token && logit[v] > next.value) next = {logit[v], v};
    }
    sync_block();
    given_total = block_sum(sum, sum_scratch);
    double entropy = 0;
    for (int v = t; v < p.vocabulary; v += sample_threads) {
      const double q = given(v) / given_total;
      entropy += q * log(q + 1e-10);
    }
    sync_block();
    given_entropy = block_sum(entropy, sum_scratch);
    given_second = block_best(next, best_scratch).value;
  }
  const auto weight = [&](int v) {
    return exp((static_cast<double>(logit[v]) - static_cast<double>(best.value)) * inverse);
  };

  // The last kept (key, index): everything from there up is kept.
  std::uint32_t last_key = 0;
  int last_ties = 0x7FFFFFFF;  // tokens of last_key that are kept, lowest index first
  if (p.top_p < 1.0 || p.top_k > 0) {
    double sum = 0;
    for (int v = t; v < p.vocabulary; v += sample_threads) sum += weight(v);
    sync_block();
    const double total = block_sum(sum, sum_scratch);
    for (int rule = 0; rule < 2; ++rule) {
      const bool by_mass = rule == 1;
      if (by_mass ? !(p.top_p < 1.0) : p.top_k <= 0) continue;
      // The last kept entry is the one at which the amount from the top first exceeds `limit`.
      const std::uint64_t limit =
          by_mass ? fixed_point(p.top_p) : static_cast<std::uint64_t>(p.top_k) - 1;
      std::uint64_t above = 0;  // amount of the keys above those considered
      std::uint32_t prefix = 0;
      bool everything = false;
      for (int shift = 24; shift >= 0 && !everything; shift -= 8) {
        sync_block();
        histogram[t] = 0;
        sync_block();
        for (int v = t; v < p.vocabulary; v += sample_threads) {
          const std::uint32_t key = sort_key(logit[v]);
          if (shift < 24 && key >> (shift + 8) != prefix >> (shift + 8)) continue;
          atomic_add(&histogram[static_cast<int>(key >> shift & 255U)],
                     by_mass ? fixed_point(weight(v) / total) : std::uint64_t{1});
        }
        sync_block();
        if (t == 0) {
          std::uint64_t before = above;
          int digit = 255;
          while (digit >= 0 && before + histogram[digit] <= limit) before += histogram[digit--];
          found[0] = before;
          found[1] = digit < 0 ? 256 : static_cast<std::uint64_t>(digit);
          found[2] = digit < 0 ? 0 : histogram[digit];
        }
        sync_block();
        above = found[0];
        everything = found[1] == 256;
        prefix |= static_cast<std::uint32_t>(found[1] & 255U) << shift;
      }
      if (everything) continue;
      // `above` is what lies strictly above the key; its ties have equal amounts.
      std::uint64_t count = 0;
      for (int v = t; v < p.vocabulary; v += sample_threads) {
        count += sort_key(logit[v]) == prefix ? 1 : 0;
      }
      sync_block();
      histogram[t] = count;
      sync_block();
      if (t == 0) {
        std::uint64_t all = 0;
        for (int i = 0; i < sample_threads; ++i) all += histogram[i];
        const std::uint64_t each = all > 0 ? found[2] / all : 1;
        found[3] = each > 0 ? (limit - above) / each + 1 : all;
      }
      sync_block();
      const int ties = found[3] > 0x7FFFFFFE ? 0x7FFFFFFE : static_cast<int>(found[3]);
      if (prefix > last_key || (prefix == last_key && ties < last_ties)) {
        last_key = prefix;
        last_ties = ties;
      }
    }
  }
  // Everything below the last key becomes -infinity, and its own ties beyond the first last_ties.
  if (last_key > 0 && last_ties < 0x7FFFFFFF) {
    double equal = 0;
    for (int v = t; v < p.vocabulary; v += sample_threads) {
      const std::uint32_t key = sort_key(logit[v]);
      if (key < last_key) logit[v] = -INFINITY;
      if (key == last_key) equal += 1;
    }
    sync_block();
    equal = block_sum(equal, sum_scratch);
    if (t == 0 && equal > last_ties) {  // rare: one thread walks the vocabulary
      int left = last_ties;
      for (int v = 0; v < p.vocabulary; ++v) {
        if (sort_key(logit[v]) == last_key && left-- <= 0) logit[v] = -INFINITY;
      }
    }
    sync_block();
  }

  double sum = 0;
  for (int v = t; v < p.vocabulary; v += sample_threads) sum += weight(v);
  sync_block();
  const double total = block_sum(sum, sum_scratch);
  int token = best.token == 0x7FFFFFFF ? 0 : best.token;
  if (p.temperature > 0) {
    // The first token, in vocabulary order, whose cumulative probability exceeds u; the last kept
    // one when rounding leaves the sum below. Each thread sums a run of neighbouring tokens.
    const double u = uniform_open(
        noise_key(p.candidates, p.noise, sequence_of_candidate(p.candidates, c), c), 0);
    const int run = (p.vocabulary + sample_threads - 1) / sample_threads;
    const int first = t * run, last = first + run < p.vocabulary ? first + run : p.vocabulary;
    double own = 0;
    for (int v = first; v < last; ++v) own += weight(v) / total;
    sync_block();
    double all = 0;
    const double end = block_scan(own, sum_scratch, &all);
    best_entry choice{-INFINITY, 0x7FFFFFFF};
    double cumulative = end - own;
    int positive = -1, hit = 0x7FFFFFFF;
    for (int v = first; v < last; ++v) {
      const double q = weight(v) / total;
      cumulative += q;
      if (q > 0) positive = v;
      if (cumulative > u && hit == 0x7FFFFFFF && q > 0) hit = v;
    }
    choice = {hit == 0x7FFFFFFF ? -1.0F : 1.0F, hit};
    choice = block_best(choice, best_scratch);
    if (choice.value > 0) {
      token = choice.token;
    } else {
      // Lowest token wins ties, so the largest index is the smallest negative.
      const best_entry end_entry =
          block_best({positive >= 0 ? 1.0F : -1.0F, -positive}, best_scratch);
      if (end_entry.value > 0) token = -end_entry.token;
    }
  }
  const float chosen = logit[token];  // kept, so as it was given
  // p = softmax over the kept ones, in place, and what was asked about it.
  double entropy = 0, others = 0;
  best_entry second{-INFINITY, 0x7FFFFFFF};
  for (int v = t; v < p.vocabulary; v += sample_threads) {
    const double q = weight(v) / total;
    entropy += q * log(q + 1e-10);
    if (v != token) others += q;
  }
  sync_block();
  entropy = block_sum(entropy, sum_scratch);
  sync_block();
  others = block_sum(others, sum_scratch);
  for (int v = t; v < p.vocabulary; v += sample_threads) {
    const float q = static_cast<float>(weight(v) / total);
    logit[v] = q;
    if (v != best.token && q > second.value) second = {q, v};
  }
  second = block_best(second, best_scratch);
  sync_block();
  if (t == 0) {
    const confidence_out& o = p.out;
    if (o.token != nullptr) o.token[c] = token;
    if (p.original) {
      const auto q = [&](float z) {
        return exp(static_cast<double>(z) - static_cast<double>(best.value)) / given_total;
      };
      if (o.probability != nullptr) o.probability[c] = static_cast<float>(q(chosen));
      if (o.residual != nullptr) o.residual[c] = static_cast<float>(1.0 - q(chosen));
      if (o.margin != nullptr) o.margin[c] = static_cast<float>(q(best.value) - q(given_second));
      if (o.negative_entropy != nullptr) o.negative_entropy[c] = static_cast<float>(given_entropy);
      return;
    }
    if (o.probability != nullptr) o.probability[c] = logit[token];
    if (o.residual != nullptr) o.residual[c] = static_cast<float>(others);
    if (o.margin != nullptr) {
      const float next = second.value > -INFINITY ? second.value : 0.0F;
      o.margin[c] = (best.token == 0x7FFFFFFF ? logit[0] : logit[best.token]) - next;
    }
    if (o.negative_entropy != nullptr) o.negative_entropy[c] = static_cast<float>(entropy);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
