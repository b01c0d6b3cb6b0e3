// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/moe.h"
#include "kernels/reference/backend.h"

namespace unmask::reference {

namespace {

// Indices of the n largest values, best first; ties go to the lowest index.
std::vector<std::int32_t> top(const std::vector<double>& value, std::int32_t n) {
  std::vector<std::int32_t> order(value.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return value[a] > value[b]; });
  order.resize(static_cast<std::size_t>(n));
  return order;
}

// s = sigmoid(x W^T) or softmax(x W^T); s' = s + bias. A group's score is the sum of its two
// largest s'; experts outside the best groups_kept groups drop out; the k largest s' are used.
// weight = s (without the bias) / (their sum + 1e-20) * scaling. Scores are rounded to float32
// before they are compared, as in the official router.
void moe_route(const op::moe_route& args) {
  const std::int32_t experts = args.router.experts, per_group = experts / args.router.groups;
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  for (std::int64_t r = 0; r < args.x.rows(); ++r) {
    if (args.router.sequence != nullptr && args.router.sequence[r] < 0) {
      std::fill_n(args.expert.row<std::int32_t>(r), args.expert.columns(), -1);
      std::fill_n(args.weight.row<float>(r), args.expert.columns(), 0.0F);
      continue;
    }
    std::vector<double> score(static_cast<std::size_t>(experts));
    for (std::int32_t e = 0; e < experts; ++e) {
      double dot = 0;
      for (std::int64_t d = 0; d < args.x.columns(); ++d) {
        dot += double{args.x.row<float>(r)[d]} * args.router.weight.row<float>(e)[d];
      }
      score[e] = args.router.sigmoid ? 1.0 / (1.0 + std::exp(-dot)) : dot;
    }
    if (!args.router.sigmoid) {
      const double largest = *std::max_element(score.begin(), score.end());
      double total = 0;
      for (double& s : score) total += s = std::exp(s - largest);
      for (double& s : score) s /= total;
    }
    std::vector<double> selection(score.size());
    for (std::int32_t e = 0; e < experts; ++e) {
      const float bias = args.router.bias.data != nullptr ? args.router.bias.as<float>()[e] : 0.0F;
      selection[e] = double{static_cast<float>(score[e]) + bias};
    }
    if (args.router.groups > 1) {
      std::vector<double> group_score(static_cast<std::size_t>(args.router.groups));
      for (std::int32_t g = 0; g < args.router.groups; ++g) {
        std::vector<double> inside(selection.begin() + g * per_group,
                                   selection.begin() + (g + 1) * per_group);
        std::sort(inside.rbegin(), inside.rend());
        group_score[g] = inside[0] + (per_group > 1 ? inside[1] : 0.0);
      }
      std::vector<bool> kept(static_cast<std::size_t>(args.router.groups), false);
      for (const std::int32_t g : top(group_score, args.router.groups_kept)) kept[g] = true;
      for (std::int32_t e = 0; e < experts; ++e) {
        if (!kept[e / per_group]) selection[e] = minus_infinity;
      }
    }
    const auto chosen = top(selection, args.router.experts_per_token);
    double total = 1e-20;
    for (const std::int32_t e : chosen) total += score[e];
    for (std::int32_t i = 0; i < args.router.experts_per_token; ++i) {
      const double w = args.router.normalize ? score[chosen[i]] / total : score[chosen[i]];
      args.expert.row<std::int32_t>(r)[i] = chosen[i];
      args.weight.row<float>(r)[i] = static_cast<float>(w * args.router.scaling);
    }
    if (args.router.shared > 0) {
      args.expert.row<std::int32_t>(r)[args.router.experts_per_token] = experts;
      args.weight.row<float>(r)[args.router.experts_per_token] = 1;
    }
  }
}

void moe_held(const op::moe_held& args) {
  for (std::int64_t r = 0; r < args.expert.rows(); ++r) {
    for (std::int64_t i = 0; i < args.expert.columns(); ++i) {
      const std::int32_t e = args.expert.row<std::int32_t>(r)[i];
      args.to.row<std::int32_t>(r)[i] = e >= args.first && e < args.last ? e - args.first : -1;
    }
  }
}

// y[r] += sum_i weight[r, i] * down_e(silu(gate_e x) * up_e x).
void moe_feed_forward(const op::moe_feed_forward& args) {
  const std::int64_t width = args.x.columns(), hidden = args.experts.hidden;
  std::vector<double> gate_up(static_cast<std::size_t>(2 * hidden));
  std::vector<float> activation(static_cast<std::size_t>(hidden));
  std::vector<double> down(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < args.x.rows(); ++r) {
    std::vector<double> sum(args.y.row<float>(r), args.y.row<float>(r) + width);
    for (std::int64_t i = 0; i < args.expert.columns(); ++i) {
      if (args.expert.row<std::int32_t>(r)[i] < 0) continue;
      const auto e = static_cast<std::size_t>(args.expert.row<std::int32_t>(r)[i]);
      multiply_row(args.x.row<float>(r), as_reference(*args.experts.gate_up[e]), gate_up.data());
      for (std::int64_t f = 0; f < hidden; ++f) {
        const double g = gate_up[f];
        activation[f] = static_cast<float>(g / (1.0 + std::exp(-g)) * gate_up[hidden + f]);
      }
      multiply_row(activation.data(), as_reference(*args.experts.down[e]), down.data());
      for (std::int64_t d = 0; d < width; ++d) sum[d] += args.weight.row<float>(r)[i] * down[d];
    }
    for (std::int64_t d = 0; d < width; ++d) args.y.row<float>(r)[d] = static_cast<float>(sum[d]);
  }
}

}  // namespace

const register_operations<moe_route, moe_held, moe_feed_forward> registered(target::reference);

}  // namespace unmask::reference
