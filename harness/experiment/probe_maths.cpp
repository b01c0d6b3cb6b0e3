// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/probe_maths.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_map>

#include "kernels/random.h"

namespace unmask::probe_maths {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// The judgement of a position in a step, or null.
const judged* find(const std::vector<judged>& step, std::int32_t position) {
  const auto at = std::lower_bound(step.begin(), step.end(), position,
                                   [](const judged& j, std::int32_t p) { return j.position < p; });
  return at != step.end() && at->position == position ? &*at : nullptr;
}

// For each position that is decided: the step and the token.
struct ending {
  std::size_t step;
  std::int32_t token;
};
std::map<std::int32_t, ending> endings(const decision_trace& trace) {
  std::map<std::int32_t, ending> ends;
  for (std::size_t t = 0; t < trace.size(); ++t) {
    for (const judged& j : trace[t]) {
      if (j.accepted) ends[j.position] = {t, j.token};
    }
  }
  return ends;
}

}  // namespace

confidence_pairs pairs_of(const decision_trace& trace) {
  confidence_pairs pairs;
  for (std::size_t t = 1; t < trace.size(); ++t) {
    for (const judged& now : trace[t]) {
      const judged* before = find(trace[t - 1], now.position);
      if (!before) continue;
      pairs.before.push_back(before->confidence);
      pairs.now.push_back(now.confidence);
    }
  }
  return pairs;
}

double correlation(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  if (a.size() < 2 || a.size() != b.size()) return nothing;
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : nothing;
}

share recall_of_top(const decision_trace& trace, std::int32_t k) {
  share recalled;
  for (std::size_t t = 1; t < trace.size(); ++t) {
    for (const judged& now : trace[t]) {
      const judged* mine = now.accepted ? find(trace[t - 1], now.position) : nullptr;
      if (!mine) continue;
      std::int32_t rank = 0;
      for (const judged& other : trace[t - 1]) {
        if (other.accepted) continue;  // no longer masked
        rank += other.confidence > mine->confidence ||
                (other.confidence == mine->confidence && other.position < mine->position);
      }
      recalled.count(rank < k);
    }
  }
  return recalled;
}

double share::value() const {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : nothing;
}

std::size_t tenth_of(float confidence) {
  return static_cast<std::size_t>(std::clamp(confidence * 10, 0.0F, 9.0F));
}

share stagnation_of(const decision_trace& trace, double tau) {
  share s;
  for (std::size_t t = 1; t < trace.size(); ++t) {
    for (const judged& now : trace[t]) {
      const judged* before = find(trace[t - 1], now.position);
      if (!before) continue;
      s.count(now.token == before->token && double{now.confidence} < tau);
    }
  }
  return s;
}

std::vector<share> missed_stable(const decision_trace& trace, double tau) {
  const auto ends = endings(trace);
  std::vector<share> steps(trace.size());
  // Backwards: a position stays stable until its arg-max differs from what it ends with.
  std::unordered_map<std::int32_t, bool> stable;
  for (std::size_t t = trace.size(); t-- > 0;) {
    for (const judged& now : trace[t]) {
      const auto end = ends.find(now.position);
      if (end == ends.end() || end->second.step < t) continue;
      bool& still = stable.try_emplace(now.position, true).first->second;
      still = still && now.token == end->second.token;
      if (still) steps[t].count(double{now.confidence} < tau);
    }
  }
  return steps;
}

decline post_peak_decline(const decision_trace& trace, double margin) {
  decline d;
  std::unordered_map<std::int32_t, judged> peak;
  for (const std::vector<judged>& step : trace) {
    for (const judged& now : step) {
      const auto [at, first] = peak.try_emplace(now.position, now);
      if (now.accepted) {
        ++d.decided;
        const double drop = double{at->second.confidence} - now.confidence;
        if (drop > margin) {
          ++d.declined;
          d.drop += drop;
          if (at->second.token != now.token) {
            d.other.push_back({now.position, at->second.token, now.token});
          }
        }
      }
      if (!first && now.confidence > at->second.confidence) at->second = now;
    }
  }
  return d;
}

std::vector<confidence_peak> peaks_of(const decision_trace& trace) {
  const auto ends = endings(trace);
  std::map<std::int32_t, std::pair<float, confidence_peak>> best;
  for (std::size_t t = 0; t < trace.size(); ++t) {
    for (const judged& now : trace[t]) {
      const auto end = ends.find(now.position);
      if (end == ends.end() || end->second.step < t) continue;
      const confidence_peak here = {now.position, static_cast<std::int32_t>(t), now.token};
      const auto [at, first] = best.try_emplace(now.position, now.confidence, here);
      if (!first && now.confidence > at->second.first) at->second = {now.confidence, here};
    }
  }
  std::vector<confidence_peak> peaks;
  for (const auto& [position, peak] : best) peaks.push_back(peak.second);
  return peaks;
}

std::vector<std::int32_t> canvas_of(const decision_trace& trace, std::int32_t first,
                                    std::int32_t length) {
  std::vector<std::int32_t> canvas(static_cast<std::size_t>(length), -1);
  for (const auto& [position, end] : endings(trace)) {
    if (position < first || position >= first + length) continue;
    canvas[static_cast<std::size_t>(position - first)] = end.token;
  }
  return canvas;
}

std::size_t answer_length(std::span<const std::int32_t> canvas,
                          std::span<const std::int32_t> stop_ids) {
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    if (std::ranges::find(stop_ids, canvas[i]) != stop_ids.end()) return i + 1;
  }
  return canvas.size();
}

contradiction contradictions(const decision_trace& trace, std::int32_t first,
                             std::span<const std::int32_t> other,
                             std::span<const std::int32_t> stop_ids) {
  contradiction c;
  const std::vector<std::int32_t> mine =
      canvas_of(trace, first, static_cast<std::int32_t>(other.size()));
  const std::size_t end = std::max(answer_length(mine, stop_ids), answer_length(other, stop_ids));
  for (const auto& [position, ending] : endings(trace)) {
    const auto i = static_cast<std::size_t>(position - first);
    if (position < first || i >= other.size() || other[i] < 0) continue;
    const bool differs = other[i] != ending.token;
    c.by_confidence[tenth_of(find(trace[ending.step], position)->confidence)].count(differs);
    c.canvas.count(differs);
    if (i < end) c.answer.count(differs);
  }
  return c;
}

std::vector<std::int64_t> decided_per_step(const decision_trace& trace) {
  std::vector<std::int64_t> n;
  for (const std::vector<judged>& step : trace) {
    n.push_back(
        std::count_if(step.begin(), step.end(), [](const judged& j) { return j.accepted; }));
  }
  return n;
}

std::vector<std::int64_t> judged_per_step(const decision_trace& trace) {
  std::vector<std::int64_t> n;
  for (const std::vector<judged>& step : trace) {
    n.push_back(static_cast<std::int64_t>(step.size()));
  }
  return n;
}

void add_to_histogram(std::span<const std::int64_t> values, std::vector<std::int64_t>& counts) {
  for (const std::int64_t v : values) {
    if (v >= static_cast<std::int64_t>(counts.size()))
      counts.resize(static_cast<std::size_t>(v) + 1);
    ++counts[static_cast<std::size_t>(v)];
  }
}

std::vector<double> interval_over_items(
    std::size_t items, const std::function<double(std::span<const std::size_t>)>& value,
    int resamples) {
  if (items < 2) return {};
  std::vector<double> drawn;
  std::vector<std::size_t> index(items);
  for (int r = 0; r < resamples; ++r) {
    const std::uint64_t stream = stream_key(2026, 19, static_cast<std::uint64_t>(r));
    for (std::size_t i = 0; i < items; ++i) {
      const double u = uniform_open(stream, i);
      index[i] = std::min(items - 1, static_cast<std::size_t>(u * static_cast<double>(items)));
    }
    if (const double v = value(index); std::isfinite(v)) drawn.push_back(v);
  }
  if (drawn.empty()) return {};
  return {percentile_of(drawn, 0.025), percentile_of(drawn, 0.975)};
}

double area_under_curve(std::span<const float> positive, std::span<const float> negative) {
  if (positive.empty() || negative.empty()) return nothing;
  std::vector<float> below(negative.begin(), negative.end());
  std::sort(below.begin(), below.end());
  double above = 0;
  for (const float p : positive) {
    const auto [low, high] = std::equal_range(below.begin(), below.end(), p);
    above += static_cast<double>(low - below.begin()) + 0.5 * static_cast<double>(high - low);
  }
  return above / (static_cast<double>(positive.size()) * static_cast<double>(negative.size()));
}

std::vector<std::int32_t> percentile_bins(std::span<const float> values, std::int32_t bins) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<std::int32_t> bin(values.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    bin[order[rank]] =
        static_cast<std::int32_t>(rank * static_cast<std::size_t>(bins) / order.size());
  }
  return bin;
}

std::vector<float> standard_scores(std::span<const float> values) {
  std::vector<float> scores(values.size(), 0.0F);
  if (values.empty()) return scores;
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0;
  for (const float v : values) square += (v - mean) * (v - mean);
  const double sigma = std::sqrt(square / n);
  if (!(sigma > 0)) return scores;
  for (std::size_t i = 0; i < values.size(); ++i) {
    scores[i] = static_cast<float>((values[i] - mean) / sigma);
  }
  return scores;
}

void third_moments::add(double v) {
  ++n;
  sum += v;
  squares += v * v;
  cubes += v * v * v;
}

third_moments& third_moments::operator+=(const third_moments& other) {
  n += other.n;
  sum += other.sum;
  squares += other.squares;
  cubes += other.cubes;
  return *this;
}

double third_moments::skewness() const {
  const auto count = static_cast<double>(n);
  const double mean = sum / count, variance = squares / count - mean * mean;
  if (!(variance > 0)) return std::nan("");
  const double third = cubes / count - 3 * mean * squares / count + 2 * mean * mean * mean;
  return third / (variance * std::sqrt(variance));
}

double third_moments::size_of_skewness() const {
  return std::fabs(skewness());
}

importance_deltas& importance_deltas::operator+=(const importance_deltas& other) {
  decodable += other.decodable;
  not_decodable += other.not_decodable;
  return *this;
}

double importance_deltas::gamma() const {
  const double sigma = not_decodable.deviation();
  return sigma > 0 ? decodable.mean() / sigma : std::nan("");
}

double importance_deltas::separation() const {
  const double sigma = not_decodable.deviation();
  return sigma > 0 ? (decodable.mean() - not_decodable.mean()) / sigma : std::nan("");
}

std::vector<float> attention_row(std::span<const float> q, std::span<const float> keys,
                                 float scale) {
  const std::size_t n = q.empty() ? 0 : keys.size() / q.size();
  std::vector<float> weight(n);
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < n; ++j) {
    float dot = 0;
    for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * keys[j * q.size() + d];
    weight[j] = dot * scale;
    best = std::max(best, weight[j]);
  }
  double sum = 0;
  for (float& w : weight) {
    w = std::exp(w - best);
    sum += w;
  }
  for (float& w : weight) w = static_cast<float>(w / sum);
  return weight;
}

std::vector<std::int32_t> largest(std::span<const double> values, std::int32_t n) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max(n, 0))));
  std::sort(order.begin(), order.end());
  return order;
}

double overlap(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  if (a.empty()) return nothing;
  std::vector<std::int32_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(a.size());
}

small_map shrink(std::span<const float> values, std::int32_t rows, std::int32_t columns,
                 std::int32_t side) {
  small_map map;
  map.rows = std::min(rows, side);
  map.columns = std::min(columns, side);
  for (std::int32_t r = 0; r < map.rows; ++r) {
    for (std::int32_t c = 0; c < map.columns; ++c) {
      const std::int32_t r0 = r * rows / map.rows, r1 = (r + 1) * rows / map.rows;
      const std::int32_t c0 = c * columns / map.columns, c1 = (c + 1) * columns / map.columns;
      double sum = 0;
      for (std::int32_t i = r0; i < r1; ++i) {
        for (std::int32_t j = c0; j < c1; ++j) {
          sum += values[static_cast<std::size_t>(i) * static_cast<std::size_t>(columns) +
                        static_cast<std::size_t>(j)];
        }
      }
      map.values.push_back(sum / ((r1 - r0) * (c1 - c0)));
    }
  }
  return map;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  }
  return std::sqrt(sum);
}

}  // namespace unmask::probe_maths
