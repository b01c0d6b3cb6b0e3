// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/likelihood.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/base/error.h"
#include "harness/decode/plain_forward.h"
#include "kernels/random.h"

namespace unmask {
namespace {

// Purposes of the streams of a request.
constexpr std::uint64_t start_stream = 31, position_stream = 32;

// A uniform draw of 0..n-1.
std::int32_t uniform_below(std::uint64_t key, std::uint64_t index, std::int32_t n) {
  return std::min(static_cast<std::int32_t>(uniform_open(key, index) * n), n - 1);
}

// `count` of `length` positions, each subset alike (the first part of a Fisher-Yates shuffle).
std::vector<std::int32_t> random_subset(std::uint64_t key, std::int32_t length,
                                        std::int32_t count) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(length));
  std::iota(all.begin(), all.end(), 0);
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t at = i + uniform_below(key, static_cast<std::uint64_t>(i), length - i);
    std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(at)]);
  }
  all.resize(static_cast<std::size_t>(count));
  std::ranges::sort(all);
  return all;
}

likelihood_round llada_round(const likelihood_settings& s, std::int32_t length, std::uint64_t key,
                             std::int32_t round) {
  const auto r = static_cast<std::uint64_t>(round);
  const std::int32_t k = 1 + uniform_below(stream_key(key, start_stream), r, length);
  likelihood_round rows;
  for (const std::int32_t count : llada_counts(k, length, s.batch_size)) {
    const std::uint64_t stream = stream_key(stream_key(key, position_stream, r), rows.size());
    rows.push_back({random_subset(stream, length, count),
                    static_cast<double>(count) / static_cast<double>(length)});
  }
  return rows;
}

likelihood_round dream_round(const likelihood_settings& s, std::int32_t length, std::uint64_t key,
                             std::int32_t round) {
  const auto r = static_cast<std::uint64_t>(round);
  const double u = uniform_open(stream_key(key, start_stream), r);
  likelihood_round rows(static_cast<std::size_t>(s.batch_size));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double t = std::fmod(u + static_cast<double>(i) / s.batch_size, 1.0);
    rows[i].share = 0.999 * t + 0.001;
    const std::uint64_t stream = stream_key(stream_key(key, position_stream, r), i);
    for (std::int32_t p = 0; p + 1 < length; ++p) {
      if (uniform_open(stream, static_cast<std::uint64_t>(p)) < rows[i].share) {
        rows[i].positions.push_back(p);
      }
    }
  }
  return rows;
}

// Cross entropy of a token under a row of logits: log sum exp - logit.
double cross_entropy(const std::vector<double>& logits, std::int32_t token) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double l : logits) sum += std::exp(l - top);
  return top + std::log(sum) - logits[static_cast<std::size_t>(token)];
}

// The rows of a round that have something masked, as sequences, and which logits are wanted.
struct prepared_round {
  std::vector<std::vector<std::int32_t>> sequences;
  std::vector<std::int32_t> rows;    // over all sequences end to end
  std::vector<std::int32_t> target;  // token at each of them
  std::vector<double> share;         // of each of them
};

prepared_round prepare(const std::vector<std::int32_t>& context,
                       const std::vector<std::int32_t>& continuation, const likelihood_round& masks,
                       std::int32_t mask_id, std::int32_t shift) {
  prepared_round p;
  const auto length = static_cast<std::int32_t>(context.size() + continuation.size());
  for (const masked_row& row : masks) {
    if (row.positions.empty()) continue;
    std::vector<std::int32_t> ids = context;
    ids.insert(ids.end(), continuation.begin(), continuation.end());
    const auto begin = static_cast<std::int32_t>(p.sequences.size()) * length;
    for (const std::int32_t position : row.positions) {
      const std::int32_t at = static_cast<std::int32_t>(context.size()) + position;
      p.rows.push_back(begin + at - shift);
      p.target.push_back(ids[static_cast<std::size_t>(at)]);
      p.share.push_back(row.share);
      ids[static_cast<std::size_t>(at)] = mask_id;
    }
    p.sequences.push_back(std::move(ids));
  }
  return p;
}

}  // namespace

std::vector<std::int32_t> llada_counts(std::int32_t k, std::int32_t length, std::int32_t rows) {
  const auto start = static_cast<float>(k);
  const auto end = static_cast<float>(k + (rows - 1) * (static_cast<double>(length) / rows));
  const float step = rows > 1 ? (end - start) / static_cast<float>(rows - 1) : 0;
  std::vector<std::int32_t> counts;
  for (std::int32_t i = 0; i < rows; ++i) {
    // linspace counts from the nearer end.
    const float x = i < rows / 2 || rows == 1 ? start + step * static_cast<float>(i)
                                              : end - step * static_cast<float>(rows - 1 - i);
    counts.push_back((static_cast<std::int32_t>(std::nearbyint(x)) - 1) % length + 1);
  }
  return counts;
}

likelihood_round draw_round(const likelihood_settings& settings, std::int32_t length,
                            std::uint64_t key, std::int32_t round) {
  const std::uint64_t stream = stream_key(settings.seed, key);
  return settings.rule == likelihood_rule::llada ? llada_round(settings, length, stream, round)
                                                 : dream_round(settings, length, stream, round);
}

double round_loss(const transformer& model, const std::vector<std::int32_t>& context,
                  const std::vector<std::int32_t>& continuation, const likelihood_round& masks,
                  const likelihood_settings& settings, std::int32_t& forwards) {
  const model_config& config = model.config();
  if (config.mask_id < 0) {
    throw environment_error(config.name +
                            ": has no mask token, so it gives no likelihood by masks");
  }
  const bool dream = settings.rule == likelihood_rule::dream;
  const prepared_round p = prepare(context, continuation, masks, config.mask_id, dream ? 1 : 0);
  if (p.rows.empty()) return 0;
  ++forwards;
  const tensor conditional = forward_rows(model, p.sequences, mask_kind::full, 1, p.rows);
  tensor unconditional;
  if (settings.guidance > 0) {
    std::vector<std::vector<std::int32_t>> without = p.sequences;
    for (auto& ids : without) {
      std::fill_n(ids.begin(), context.size(), config.mask_id);
    }
    ++forwards;
    unconditional = forward_rows(model, without, mask_kind::full, 1, p.rows);
  }
  double loss = 0;
  std::vector<double> logits(static_cast<std::size_t>(config.vocabulary));
  for (std::size_t r = 0; r < p.rows.size(); ++r) {
    const float* row = conditional.row<float>(static_cast<std::int64_t>(r));
    std::copy_n(row, logits.size(), logits.begin());
    if (settings.guidance > 0) {
      const float* other = unconditional.row<float>(static_cast<std::int64_t>(r));
      for (std::size_t v = 0; v < logits.size(); ++v) {
        logits[v] = other[v] + (settings.guidance + 1) * (logits[v] - other[v]);
      }
    }
    loss += cross_entropy(logits, p.target[r]) / p.share[r];
  }
  return loss / static_cast<double>(masks.size());
}

double causal_log_likelihood(const transformer& model, const std::vector<std::int32_t>& context,
                             const std::vector<std::int32_t>& continuation) {
  std::vector<std::int32_t> tokens = context, rows(continuation.size());
  tokens.insert(tokens.end(), continuation.begin(), continuation.end());
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(context.size()) - 1);
  const tensor all = forward_rows(model, {tokens}, mask_kind::causal, 1, rows);
  std::vector<double> logits(static_cast<std::size_t>(model.config().vocabulary));
  double sum = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy_n(all.row<float>(static_cast<std::int64_t>(r)), logits.size(), logits.begin());
    sum -= cross_entropy(logits, continuation[r]);
  }
  return sum;
}

likelihood_estimate log_likelihood(const transformer& model,
                                   const std::vector<std::int32_t>& context,
                                   const std::vector<std::int32_t>& continuation,
                                   const likelihood_settings& settings, std::uint64_t key) {
  const bool llada = settings.rule == likelihood_rule::llada;
  if (settings.batch_size < 1 || settings.mc_num < 1 ||
      (llada && settings.mc_num % settings.batch_size != 0)) {
    throw usage_error("mc_num " + std::to_string(settings.mc_num) + " must be a multiple of " +
                      std::to_string(settings.batch_size) + ", the rows of a round");
  }
  if (continuation.empty()) throw usage_error("a likelihood needs a continuation of some tokens");
  const auto length = static_cast<std::int32_t>(continuation.size());
  likelihood_estimate e;
  likelihood_settings drawn = settings;
  if (llada && length == 1) drawn.mc_num = drawn.batch_size = 1;  // every row is the same: exact
  e.rounds = std::max(drawn.mc_num / drawn.batch_size, 1);
  double mean = 0, squares = 0;  // Welford's running moments
  for (std::int32_t round = 0; round < e.rounds; ++round) {
    const double loss = round_loss(model, context, continuation,
                                   draw_round(drawn, length, key, round), drawn, e.forwards);
    const double off = loss - mean;
    mean += off / (round + 1);
    squares += off * (loss - mean);
  }
  e.log_likelihood = -mean;
  if (e.rounds > 1) e.standard_error = std::sqrt(squares / (e.rounds - 1) / e.rounds);
  return e;
}

}  // namespace unmask
