// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Token sampling: the reference's arithmetic step for step in float64, so that a draw is the same
// token, but the vocabulary is sorted only as far as top_p and top_k look.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/scratch.h"
#include "kernels/head.h"
#include "kernels/noise.h"

namespace unmask::cpu {

namespace {

struct largest_two {
  std::int64_t best = 0;
  double first = -std::numeric_limits<double>::infinity();
  double second = first;
};

template <class Get>
largest_two find_two(std::int64_t n, Get get) {
  largest_two l;
  for (std::int64_t v = 0; v < n; ++v) {
    const double x = get(v);
    if (x > l.first) {
      l.second = l.first;
      l.first = x;
      l.best = v;
    } else if (x > l.second) {
      l.second = x;
    }
  }
  return l;
}

// p[v] = 0 for all but the leading tokens that top_p and top_k keep.
void filter(const float* logit, std::int64_t n, const sample_params& params, std::uint64_t* order,
            double* weight, double total) {
  for (std::int64_t v = 0; v < n; ++v) order[v] = rank_key(logit[v], static_cast<std::uint32_t>(v));
  std::int64_t sorted = 0, kept = 0;
  double before = 0;
  while (kept < n) {
    if (params.top_p < 1.0F && before > double{params.top_p}) break;
    if (params.top_k > 0 && kept >= params.top_k) break;
    if (kept == sorted) {
      // Sort the next stretch, four times as long as everything before it.
      const std::int64_t next = std::min(n, std::max<std::int64_t>(64, 4 * sorted));
      if (next < n) std::nth_element(order + sorted, order + next, order + n);
      std::sort(order + sorted, order + next);
      sorted = next;
    }
    before += weight[static_cast<std::uint32_t>(order[kept])] / total;
    ++kept;
  }
  for (std::int64_t i = kept; i < n; ++i) weight[static_cast<std::uint32_t>(order[i])] = 0;
}

void sample_row(const float* logit, std::int64_t n, const sample_params& params, std::uint64_t key,
                std::int32_t c, const confidence_out& out) {
  thread_local scratch weight_memory, order_memory;
  double* p = weight_memory.get<double>(n);
  const largest_two raw = find_two(n, [&](std::int64_t v) { return double{logit[v]}; });
  const double divisor = params.temperature > 0 ? double{params.temperature} : 1.0;
  const double largest = raw.first / divisor;
  const auto sum = [&] {
    double total = 0;
    for (std::int64_t v = 0; v < n; ++v) total += p[v];
    return total;
  };
  for (std::int64_t v = 0; v < n; ++v) p[v] = std::exp(double{logit[v]} / divisor - largest);
  double total = sum();
  if (params.top_p < 1.0F || params.top_k > 0) {
    filter(logit, n, params, order_memory.get<std::uint64_t>(n), p, total);
    total = sum();
  }
  for (std::int64_t v = 0; v < n; ++v) p[v] /= total;

  std::int64_t token = raw.best;
  if (params.temperature > 0) {
    const double u = uniform_open(key, 0);
    double cumulative = 0;
    for (std::int64_t v = 0; v < n; ++v) {
      cumulative += p[v];
      if (p[v] > 0) token = v;  // rounding may leave the sum below u: the last kept token
      if (cumulative > u) break;
    }
  }
  if (params.original) {
    for (std::int64_t v = 0; v < n; ++v) p[v] = std::exp(double{logit[v]} - raw.first);
    total = sum();
    for (std::int64_t v = 0; v < n; ++v) p[v] /= total;
  }
  if (out.token != nullptr) out.token[c] = static_cast<std::int32_t>(token);
  if (out.probability != nullptr) out.probability[c] = static_cast<float>(p[token]);
  if (out.margin != nullptr) {
    const largest_two two = find_two(n, [&](std::int64_t v) { return p[v]; });
    out.margin[c] = static_cast<float>(p[two.best] - (n > 1 ? two.second : 0.0));
  }
  if (out.negative_entropy != nullptr) {
    double entropy = 0;
    for (std::int64_t v = 0; v < n; ++v) {
      if (p[v] != 0) entropy += p[v] * std::log(p[v] + 1e-10);
    }
    out.negative_entropy[c] = static_cast<float>(entropy);
  }
  if (out.top2_logit_gap != nullptr) {
    out.top2_logit_gap[c] = static_cast<float>(raw.first - raw.second);
  }
}

void sample(const op::sample& args) {
  thread_local scratch key_memory;
  std::uint64_t* keys = key_memory.get<std::uint64_t>(std::int64_t{args.candidates.count});
  if (args.params.temperature > 0) {
    for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
      for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
        keys[c] = noise_key(args.candidates, args.params.noise, s, c);
      }
    }
  }
  const std::int64_t n = args.logits.columns();
#pragma omp parallel for schedule(dynamic) if (args.candidates.count * n > parallel_elements / 16)
  for (std::int32_t c = 0; c < args.candidates.count; ++c) {
    sample_row(args.logits.row<float>(c), n, args.params, args.params.temperature > 0 ? keys[c] : 0,
               c, args.out);
  }
}

}  // namespace

const register_operations<sample> registered(target::cpu);

}  // namespace unmask::cpu
