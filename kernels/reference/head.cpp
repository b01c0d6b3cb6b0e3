// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The LM head and what decoding reads from it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/head.h"
#include "kernels/noise.h"
#include "kernels/reference/backend.h"
#include "kernels/refused.h"

namespace unmask::reference {

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// First index of the largest value; NaN and -infinity never win against a larger number. 0 when
// nothing does.
std::size_t arg_max(const std::vector<double>& value) {
  std::size_t best = 0;
  double largest = minus_infinity;
  for (std::size_t v = 0; v < value.size(); ++v) {
    if (value[v] > largest) {
      largest = value[v];
      best = v;
    }
  }
  return best;
}

// Largest value of all but one index.
double largest_but(const std::vector<double>& value, std::size_t index) {
  double largest = minus_infinity;
  for (std::size_t v = 0; v < value.size(); ++v) {
    if (v != index && value[v] > largest) largest = value[v];
  }
  return largest;
}

std::vector<double> softmax(std::vector<double> value) {
  const double largest = value[arg_max(value)];
  double total = 0;
  for (double& v : value) total += v = std::exp(v - largest);
  for (double& v : value) v /= total;
  return value;
}

// p = softmax; margin = best - second best p; negative entropy = sum_v p_v ln(p_v + 1e-10).
void describe(const std::vector<double>& p, std::size_t token, std::int32_t c,
              const confidence_out& out) {
  if (out.token != nullptr) out.token[c] = static_cast<std::int32_t>(token);
  if (out.probability != nullptr) out.probability[c] = static_cast<float>(p[token]);
  if (out.residual != nullptr) {
    double rest = 0;
    for (std::size_t v = 0; v < p.size(); ++v) rest += v == token ? 0.0 : p[v];
    out.residual[c] = static_cast<float>(rest);
  }
  if (out.margin != nullptr) {
    const std::size_t best = arg_max(p);
    const double second = p.size() > 1 ? largest_but(p, best) : 0.0;
    out.margin[c] = static_cast<float>(p[best] - second);
  }
  if (out.negative_entropy != nullptr) {
    double sum = 0;
    for (const double v : p) sum += v * std::log(v + 1e-10);
    out.negative_entropy[c] = static_cast<float>(sum);
  }
}

// y [n, columns] = x[row] W^T rounded to float32, of a whole head.
void multiply_rows(const tensor_view& x, const packed_matrix& head, const std::int32_t* row,
                   const tensor_view& y) {
  const matrix& w = as_reference(head);
  std::vector<double> product(static_cast<std::size_t>(w.out_features));
  for (std::int64_t i = 0; i < y.rows(); ++i) {
    multiply_row(x.row<float>(row[i]), w, product.data());
    for (std::int64_t v = 0; v < w.out_features; ++v) {
      y.row<float>(i)[v] = static_cast<float>(product[static_cast<std::size_t>(v)]);
    }
  }
}

// The same of any head: the logits of a cut one are those of the whole, and so is all that is said of them.
void logits_of(const tensor_view& x, const packed_matrix& head, const std::int32_t* row,
               const tensor_view& y) {
  const cut_head* cut = as_cut(head);
  if (cut == nullptr) {
    multiply_rows(x, head, row, y);
    return;
  }
  const std::int64_t n = y.rows(), widest = cut->widest();
  const auto piece = static_cast<std::size_t>(n * widest),
             sent = static_cast<std::size_t>(cut->sent_of_logits(n));
  std::vector<float> mine(sent), all(cut->pieces() / cut->own.size() * sent);
  for (std::size_t i = 0; i < cut->own.size(); ++i) {
    tensor_view of_piece =
        make_view(mine.data() + i * piece, dtype::f32, {n, cut->own[i]->out_features});
    of_piece.row_stride = widest;
    multiply_rows(x, *cut->own[i], row, of_piece);
  }
  gather_logits(*cut, x, row, mine.data(), all.data(), y);
}

// logit = x[row] W^T rounded to float32, -infinity when banned or refused;
// token = argmax_v logit_v, or with noise argmax_v logit_v - t ln(-ln u_v), u_v = draw v of the
// candidate's stream; p = softmax(logit / temperature). The softmax is taken in float64 whatever
// accumulate_double says.
void confidence(const op::confidence& args) {
  if (!(args.params.temperature > 0)) throw std::logic_error("confidence: temperature must be > 0");
  const auto vocabulary = static_cast<std::size_t>(args.head.out_features);
  const token_list banned = with_refused(args.head, {args.params.banned, args.params.banned_count});
  const std::int64_t count = args.candidates.count;
  std::vector<float> memory(static_cast<std::size_t>(count) * vocabulary);
  const tensor_view all = make_view(memory.data(), dtype::f32, {count, args.head.out_features});
  logits_of(args.x, args.head, args.candidates.row, all);
  std::int32_t s = 0;  // sequence of candidate c
  for (std::int32_t c = 0; c < args.candidates.count; ++c) {
    while (c >= args.candidates.begin[s + 1]) ++s;
    std::vector<double> logit(all.row<float>(c), all.row<float>(c) + vocabulary);
    for (std::int32_t i = 0; i < banned.count; ++i) {
      logit[static_cast<std::size_t>(banned.token[i])] = minus_infinity;
    }
    const std::size_t best = arg_max(logit);
    std::size_t token = best;
    if (args.params.gumbel_temperature > 0) {
      std::vector<double> noised(vocabulary);
      const std::uint64_t key = noise_key(args.candidates, args.params.noise, s, c);
      for (std::size_t v = 0; v < vocabulary; ++v) {
        const double u = uniform_open(key, v);
        noised[v] = logit[v] - double{args.params.gumbel_temperature} * std::log(-std::log(u));
      }
      token = arg_max(noised);
    }
    std::vector<double> scaled(vocabulary);
    for (std::size_t v = 0; v < vocabulary; ++v) scaled[v] = logit[v] / args.params.temperature;
    describe(softmax(std::move(scaled)), token, c, args.out);
    if (args.out.top2_logit_gap != nullptr) {
      args.out.top2_logit_gap[c] = static_cast<float>(logit[best] - largest_but(logit, best));
    }
  }
}

// out[i] = x[row[i]] W^T.
void logits(const op::logits& args) {
  check_whole_logits(args.head);
  logits_of(args.x, args.head, args.row, args.out);
}

// Sampling. l = logits / temperature (unchanged when temperature is 0); tokens in
// descending order of l (lowest index first on ties) are kept while the probability before them
// does not exceed top_p and while fewer than top_k are kept; p = softmax over the kept ones.
// temperature 0: arg-max. Else the first v, in vocabulary order, whose cumulative p exceeds draw
// 0 of the row's stream. top2_logit_gap is that of the logits as given; `original`: so is all else that is said.
void sample(const op::sample& args) {
  const auto vocabulary = static_cast<std::size_t>(args.logits.columns());
  std::int32_t s = 0;  // sequence of candidate c
  for (std::int32_t c = 0; c < args.candidates.count; ++c) {
    while (c >= args.candidates.begin[s + 1]) ++s;
    float* row = args.logits.row<float>(c);
    std::vector<double> value(row, row + vocabulary);
    if (args.out.top2_logit_gap != nullptr) {
      const std::size_t best = arg_max(value);
      args.out.top2_logit_gap[c] = static_cast<float>(value[best] - largest_but(value, best));
    }
    const std::vector<double> given = value;
    if (args.params.temperature > 0) {
      for (double& v : value) v /= double{args.params.temperature};
    }
    if (args.params.top_p < 1.0F || args.params.top_k > 0) {
      std::vector<std::size_t> order(vocabulary);
      std::iota(order.begin(), order.end(), std::size_t{0});
      // NaN sorts last: a comparison with it must not break the ordering.
      const auto key = [&](std::size_t v) {
        return std::isnan(value[v]) ? minus_infinity : value[v];
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
      const std::vector<double> p = softmax(value);
      std::vector<bool> kept(vocabulary, false);
      double before = 0;
      for (std::size_t i = 0; i < vocabulary; ++i) {
        if (args.params.top_p < 1.0F && before > double{args.params.top_p}) break;
        if (args.params.top_k > 0 && i >= static_cast<std::size_t>(args.params.top_k)) break;
        kept[order[i]] = true;
        before += p[order[i]];
      }
      for (std::size_t v = 0; v < vocabulary; ++v) {
        if (!kept[v]) value[v] = minus_infinity;
      }
    }
    const std::vector<double> p = softmax(value);
    std::size_t token = arg_max(value);
    if (args.params.temperature > 0) {
      const double u = uniform_open(noise_key(args.candidates, args.params.noise, s, c), 0);
      double cumulative = 0;
      for (std::size_t v = 0; v < vocabulary; ++v) {
        cumulative += p[v];
        if (p[v] > 0) token = v;  // rounding may leave the sum below u: the last kept token
        if (cumulative > u) break;
      }
    }
    for (std::size_t v = 0; v < vocabulary; ++v) row[v] = static_cast<float>(p[v]);
    describe(args.params.original ? softmax(given) : p, token, c, args.out);
  }
}

}  // namespace

const register_operations<confidence, logits, sample> registered(target::reference);

}  // namespace unmask::reference
