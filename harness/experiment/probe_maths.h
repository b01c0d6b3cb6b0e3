// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the probes compute, as functions of plain numbers: no model, no file, no state.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "harness/analysis/statistics.h"

namespace unmask::probe_maths {

// ---- traces of decisions ----------------------------------------------------------------------

// A masked position as one step judged it.
struct judged {
  std::int32_t position = 0;
  std::int32_t token = 0;  // arg-max
  float confidence = 0;    // its probability
  bool accepted = false;   // decided by this step
};

// One sequence: its candidates of every step that had any, in order of position.
using decision_trace = std::vector<std::vector<judged>>;

struct confidence_pairs {
  std::vector<double> before, now;  // of one position in neighbouring steps, masked in both
};
confidence_pairs pairs_of(const decision_trace& trace);

// Pearson's r; NaN under two samples or without spread.
double correlation(std::span<const double> a, std::span<const double> b);

// A part of a whole, counted.
struct share {
  std::int64_t part = 0, whole = 0;
  void count(bool yes) {
    ++whole;
    part += yes;
  }
  share& operator+=(const share& other) {
    part += other.part;
    whole += other.whole;
    return *this;
  }
  double value() const;  // NaN of nothing
};
template <class Items>
auto sum_of(const Items& items) {
  typename Items::value_type all;
  for (const auto& item : items) all += item;
  return all;
}
// Tenth 0 .. 9 of a confidence from 0 to 1.
std::size_t tenth_of(float confidence);
// 95 % percentile interval of a value over 1000 (or `resamples`) draws of `items` items with
// replacement, by a fixed generator; `value` gets the indices drawn. Empty under two items or where
// nothing finite came out.
std::vector<double> interval_over_items(
    std::size_t items, const std::function<double(std::span<const std::size_t>)>& value,
    int resamples = 1000);
// Of a value of the pooled items: of shares the sum of parts over the sum of wholes.
template <class Items>
std::vector<double> interval_of(const Items& items, double (Items::value_type::*value)() const) {
  return interval_over_items(items.size(), [&](std::span<const std::size_t> drawn) {
    typename Items::value_type all;
    for (const std::size_t i : drawn) all += items[i];
    return (all.*value)();
  });
}

// Of the tokens decided in a step, those whose position was among the k most confident of the step
// before (of the positions still masked; lowest position first on ties). Tokens of positions that
// the step before did not judge do not count (Focus-dLLM Fig. 1).
share recall_of_top(const decision_trace& trace, std::int32_t k);

// Positions whose arg-max is that of the step before and whose confidence is below tau, over all
// positions judged in both steps (Ada-DLM's S(t) over A(t)).
share stagnation_of(const decision_trace& trace, double tau);

// Per step: of the positions whose arg-max is from here on the token they end with, those below
// tau. Positions that no step decides are left out.
std::vector<share> missed_stable(const decision_trace& trace, double tau);

// A decided token has declined when its position was more than `margin` more confident in an
// earlier step.
struct decline_event {
  std::int32_t position = 0;
  std::int32_t peak_token = 0;  // arg-max when the position was most confident, first such step
  std::int32_t token = 0;       // decided
};
struct decline {
  std::int64_t decided = 0, declined = 0;
  double drop = 0;                   // summed over the declined
  std::vector<decline_event> other;  // the declined whose arg-max at the peak was another token
};
decline post_peak_decline(const decision_trace& trace, double margin);

// Where each decided position was most confident, first such step; ascending by position. `step`
// counts the steps of the trace.
struct confidence_peak {
  std::int32_t position = 0;
  std::int32_t step = 0;
  std::int32_t token = 0;  // arg-max then
};
std::vector<confidence_peak> peaks_of(const decision_trace& trace);

// Tokens of positions [first, first + length) as the trace ends; -1: never decided.
std::vector<std::int32_t> canvas_of(const decision_trace& trace, std::int32_t first,
                                    std::int32_t length);

// Positions of a canvas up to and including its first stop token, all without one.
std::size_t answer_length(std::span<const std::int32_t> canvas,
                          std::span<const std::int32_t> stop_ids);

// Decided tokens that another decode of the same request decided otherwise. Positions that either
// never decided do not count.
struct contradiction {
  share canvas;  // of all positions
  share answer;  // of those inside the longer of the two answers, its stop token included
  std::array<share, 10> by_confidence;  // those that differ, by tenth
};
contradiction contradictions(const decision_trace& trace, std::int32_t first,
                             std::span<const std::int32_t> other,
                             std::span<const std::int32_t> stop_ids);

std::vector<std::int64_t> decided_per_step(const decision_trace& trace);
std::vector<std::int64_t> judged_per_step(const decision_trace& trace);

// Adds to counts[n] for every n >= 0 of the list; grows counts.
void add_to_histogram(std::span<const std::int64_t> values, std::vector<std::int64_t>& counts);

// ---- classes and ranks ------------------------------------------------------------------------

// Probability that a positive is above a negative, ties one half; NaN when one side is empty.
double area_under_curve(std::span<const float> positive, std::span<const float> negative);

// Bin 0 .. bins - 1 of each value by its share of values below it, ties lowest index first:
// floor(bins * rank / n).
std::vector<std::int32_t> percentile_bins(std::span<const float> values, std::int32_t bins);

// Standard scores (v - mean) / sigma with sigma over n; zeros without spread.
std::vector<float> standard_scores(std::span<const float> values);

// Sums of which the skewness of values follows: mean cubed deviation over the deviation cubed.
struct third_moments {
  std::int64_t n = 0;
  double sum = 0, squares = 0, cubes = 0;
  void add(double v);
  third_moments& operator+=(const third_moments& other);
  double skewness() const;          // NaN without spread
  double size_of_skewness() const;  // its absolute value
};

// FOCUS, appendix D: the importance deltas of one item, or of several together.
struct importance_deltas {
  moments decodable, not_decodable;
  importance_deltas& operator+=(const importance_deltas& other);
  // gamma = mu / sigma (D.1): mean of the decodable over the deviation of the others, whose mean
  // the model takes for 0. Proposition D.1 needs gamma > 1. NaN without spread.
  double gamma() const;
  // The same without that assumption: the difference of the two means over sigma (the remark in D.3).
  double separation() const;
  double mean_of_others() const { return not_decodable.mean(); }
};

// ---- attention --------------------------------------------------------------------------------

// softmax_j(scale * q . key_j) for one query; keys end to end, each q.size() long.
std::vector<float> attention_row(std::span<const float> q, std::span<const float> keys,
                                 float scale);

// The n largest, ascending by index; lowest index first on ties.
std::vector<std::int32_t> largest(std::span<const double> values, std::int32_t n);

// |A and B| / |A|; both ascending.
double overlap(std::span<const std::int32_t> a, std::span<const std::int32_t> b);

// Mean of each cell when values [rows, columns] are cut into a grid of at most side x side cells of
// nearly equal size; grid is row-major, its shape in grid_rows and grid_columns.
struct small_map {
  std::int32_t rows = 0, columns = 0;
  std::vector<double> values;
};
small_map shrink(std::span<const float> values, std::int32_t rows, std::int32_t columns,
                 std::int32_t side);

// ---- caches -----------------------------------------------------------------------------------

// |a - b|_2.
double distance(std::span<const float> a, std::span<const float> b);

}  // namespace unmask::probe_maths
