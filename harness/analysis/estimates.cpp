// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/estimates.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace unmask {
namespace {

// What the samples of a row tell: seconds themselves, or a number of tokens over them.
enum class clock_kind { none, seconds, rate };
clock_kind clock_of(const std::string& metric) {
  if (metric == "wall_seconds") return clock_kind::seconds;
  if (metric == "tokens_per_second" || metric == "canvas_tokens_per_second") {
    return clock_kind::rate;
  }
  return clock_kind::none;
}

// What a value is the mean of, by repetition or by seed; empty: it was found once.
std::vector<double> samples_of(const result_row& row, const std::string& metric) {
  if (clock_of(metric) == clock_kind::none) {
    const auto found = row.metrics.find(metric);
    const bool several = found != row.metrics.end() && found->second.samples.size() > 1;
    return several ? found->second.samples : std::vector<double>{};
  }
  std::vector<double> values = row.samples.seconds;
  if (clock_of(metric) == clock_kind::seconds) return values;
  const auto tokens =
      row.value_of(metric == "tokens_per_second" ? "output_tokens" : "committed").value_or(0);
  for (double& v : values) v = tokens / v;
  return values;
}

// Seed by seed the same requests arrived at the same times, whoever schedules them.
bool same_arrivals(const result_row& a, const result_row& b) {
  const auto drawn = [](parameter_map serve) {
    for (const char* ours : {"policy", "forwards_per_turn", "paging", "recompute", "log"}) {
      serve.erase(ours);
    }
    return serve;
  };
  return a.run.seed == b.run.seed && a.workload.family == b.workload.family &&
         drawn(a.run.serve) == drawn(b.run.serve);
}

// Of a sample of items, not of a count of them all; maxima are what they are.
bool is_sampled(const std::string& metric) {
  return metric.starts_with("probes.") && !metric.ends_with("_max");
}

// Where what belongs to a value lies: "a.b[2]" with "_ci95" is "a.b_ci95[2]".
std::string beside(const std::string& metric, const char* suffix) {
  const std::size_t last = metric.rfind('.');
  const std::size_t at = std::min(metric.find('[', last + 1), metric.size());
  return metric.substr(0, at) + suffix + metric.substr(at);
}

// A number by the path behind its first name, "importance.auc[1]": of a probe, or of the calibration.
std::optional<row_value> number_at(const result_row& row, const std::string& text,
                                   const std::string& path) {
  std::string pointer;
  for (const char c : path.substr(std::min(path.find('.'), path.size()))) {
    if (c != ']') pointer += c == '.' || c == '[' ? '/' : c;
  }
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json::json_pointer place(pointer);
  if (!root.is_object() || !root.contains(place) || !root[place].is_number()) return {};
  const bool synthetic = row.model.weights == "synthetic";
  return row_value{root[place].get<double>(), synthetic ? origin::synthetic : origin::counted};
}

std::optional<row_value> probe_value(const result_row& row, const std::string& path) {
  const std::string name = path.substr(0, path.find('.'));
  // Where it lay before schema 1.3; files that name it so keep their meaning.
  if (name == "calibration") return number_at(row, row.calibration, path);
  const auto found = row.probes.find(name);
  if (found == row.probes.end()) return {};
  return number_at(row, found->second, path);
}

bool same_items(const result_row& a, const result_row& b) {
  return !a.items.empty() && a.items.id == b.items.id && a.workload.hash == b.workload.hash;
}

std::vector<double> finite_only(const std::vector<double>& scores,
                                const std::vector<double>& other) {
  std::vector<double> kept;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i]) && std::isfinite(other[i])) kept.push_back(scores[i]);
  }
  return kept;
}

}  // namespace

std::optional<row_value> value_in(const result_row& row, const std::string& metric) {
  if (metric == "score") {
    if (!row.score || row.model.weights == "synthetic") return {};
    // OpenCompass averages subjects and tasks, whatever their number of items.
    const bool of_groups = row.workload.benchmark.harness.starts_with("OC-") &&
                           std::isfinite(row.score->mean_of_groups);
    return row_value{of_groups ? row.score->mean_of_groups : row.score->mean, origin::counted};
  }
  if (metric.starts_with("probes.")) return probe_value(row, metric.substr(7));
  if (metric.starts_with("calibration.")) return number_at(row, row.calibration, metric);
  const auto found = row.metrics.find(metric);
  if (found == row.metrics.end() || !std::isfinite(found->second.value)) return {};
  return row_value{found->second.value, found->second.from};
}

std::optional<estimate> ratio_of(const result_row& left, const result_row& right,
                                 const std::string& left_metric, const std::string& right_metric) {
  const auto a = value_in(left, left_metric), b = value_in(right, right_metric);
  if (!a || !b || b->value == 0) return {};
  const std::vector<double> times = samples_of(left, left_metric),
                            others = samples_of(right, right_metric);
  const bool searched = left_metric.starts_with("slo_") && right_metric.starts_with("slo_");
  const bool pairs = times.size() == others.size() &&
                     (searched ? same_arrivals(left, right) : left.run_id == right.run_id);
  if (!times.empty() && !others.empty()) {
    estimate of = pairs ? paired_ratio(times, others) : unpaired_ratio(times, others);
    if (searched) of.unit_of_n = "seeds";
    if (std::isfinite(of.value)) return of;
  }
  estimate e{a->value / b->value, {}, 0, "items", ""};
  e.n = static_cast<std::size_t>(std::min(left.workload.items, right.workload.items));
  if (left.workload.hash == right.workload.hash) {
    const item_shares x = shares_of(left, left_metric), y = shares_of(right, right_metric);
    if (!x.empty() && x.size() == y.size()) return ratio_over_items(x, y);
  }
  if (left_metric.starts_with("probes.") || right_metric.starts_with("probes.")) {
    e.how = "of a sample of items, no interval";
  } else if (a->from == origin::measured || b->from == origin::measured) {
    e = {e.value, {}, 1, "repetitions", "measured once, no interval"};
  } else {
    e.how = "counted";
    e.range = interval{e.value, e.value};
  }
  return e;
}

bool is_speed(const std::string& metric) {
  return clock_of(metric) != clock_kind::none || metric == "decode_tokens_per_second";
}

bool reads_the_clock(const std::string& metric) {
  if (metric.starts_with("probes.") || metric.starts_with("slo_")) return false;
  return metric.starts_with("calibration.") || metric.ends_with("_per_second") ||
         metric.ends_with("_seconds") || metric.ends_with("_share");
}

bool is_noisy(const result_row& row) {
  return row.samples.seconds.size() > 1 && row.samples.half_width > noisy_half_width;
}

item_shares shares_of(const result_row& row, const std::string& metric) {
  item_shares items;
  for (std::size_t i = 0;; ++i) {
    const std::string at = beside(metric, "_items") + "[" + std::to_string(i) + "]";
    const auto part = value_in(row, at + "[0]"), whole = value_in(row, at + "[1]");
    if (!part || !whole) return items;
    items.emplace_back(part->value, whole->value);
  }
}

std::pair<std::vector<double>, std::vector<double>> paired_scores(const result_row& left,
                                                                  const result_row& right) {
  if (!same_items(left, right)) return {};
  return {finite_only(left.items.score, right.items.score),
          finite_only(right.items.score, left.items.score)};
}

std::optional<estimate> score_difference_of(const result_row& left, const result_row& right) {
  const auto a = value_in(left, "score"), b = value_in(right, "score");
  if (!a || !b) return {};
  const auto [x, y] = paired_scores(left, right);
  if (!x.empty()) return paired_score_difference(x, y);
  return share_difference(a->value, static_cast<std::size_t>(left.score->n), b->value,
                          static_cast<std::size_t>(right.score->n));
}

std::optional<estimate> estimate_of(const result_row& row, const std::string& metric) {
  const auto v = value_in(row, metric);
  if (!v) return {};
  estimate e{v->value, {}, static_cast<std::size_t>(row.workload.items), "items", "counted"};
  if (metric == "score") {
    e.n = static_cast<std::size_t>(row.score->n);
    e.range = interval{row.score->low, row.score->high};
    e.how = "Wilson";
  } else if (clock_of(metric) != clock_kind::none && row.samples.seconds.size() > 1) {
    const double half = row.samples.half_width;
    e.n = row.samples.seconds.size();
    e.unit_of_n = "repetitions";
    e.how = "Student's t";
    // A rate is the inverse of a time: so are the ends of its interval.
    if (std::isfinite(half) && half < 1) {
      e.range = clock_of(metric) == clock_kind::seconds
                    ? interval{v->value * (1 - half), v->value * (1 + half)}
                    : interval{v->value / (1 + half), v->value / (1 - half)};
    }
  } else if (const item_shares items = shares_of(row, metric); !items.empty()) {
    const estimate share = share_over_items(items);
    e.range = share.range;
    e.n = share.n;
    e.how = share.how;
  } else if (const auto low = value_in(row, beside(metric, "_ci95") + "[0]"),
             high = value_in(row, beside(metric, "_ci95") + "[1]");
             is_sampled(metric) && low && high) {
    e.range = interval{low->value, high->value};
    e.how = "bootstrap over items";
  } else if (is_sampled(metric)) {
    e.how = "of a sample of items, no interval";
  } else if (const auto samples = samples_of(row, metric); !samples.empty()) {
    const double half = relative_half_width(samples) * mean_of(samples);
    e = {v->value,
         {},
         samples.size(),
         metric.starts_with("slo_") ? "seeds" : "repetitions",
         "Student's t"};
    if (std::isfinite(half)) e.range = interval{v->value - half, v->value + half};
  } else if (v->from != origin::measured) {
    e.range = interval{v->value, v->value};
  } else {
    e = {v->value, {}, 1, "repetitions", "measured once, no interval"};
  }
  return e;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (value == std::floor(value) && size < 1e6) return fmt::format("{:.0f}", value);
  return size >= 100   ? fmt::format("{:.1f}", value)
         : size >= 0.1 ? fmt::format("{:.3f}", value)
                       : fmt::format("{:.3g}", value);
}

std::string estimate_text(const estimate& e) {
  std::string text = short_number(e.value);
  const bool exact = e.range && e.range->low == e.range->high;
  if (e.range && !exact) {
    text += fmt::format(" [{}, {}]", short_number(e.range->low), short_number(e.range->high));
  }
  if (!e.range) text += " (no interval)";
  return text + fmt::format(", n = {} {}", e.n, e.unit_of_n);
}

}  // namespace unmask
