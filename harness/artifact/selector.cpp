// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/artifact/selector.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"

namespace unmask {
namespace {

const std::vector<std::string> plain_keys = {
    "label",      "method", "preset", "model",  "workload", "variation", "batch_size",
    "gen_length", "seed",   "device", "format", "kv_type",  "kind"};

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

std::optional<std::string> of_map(const parameter_map& map, const std::string& name) {
  const auto found = map.find(name);
  if (found == map.end()) return {};
  return to_string(found->second);
}

// What the samples of a row tell: seconds themselves, or a number of tokens over them.
enum class clock_kind { none, seconds, rate };
clock_kind clock_of(const std::string& metric) {
  if (metric == "wall_seconds") return clock_kind::seconds;
  if (metric == "tokens_per_second" || metric == "canvas_tokens_per_second") {
    return clock_kind::rate;
  }
  return clock_kind::none;
}

// The metric's value in each repetition; empty without samples.
std::vector<double> per_repetition(const result_row& row, const std::string& metric) {
  std::vector<double> values = row.samples.seconds;
  if (clock_of(metric) == clock_kind::seconds) return values;
  const auto tokens =
      row.value_of(metric == "tokens_per_second" ? "output_tokens" : "committed").value_or(0);
  for (double& v : values) v = tokens / v;
  return values;
}

// Relative half width of a value that was found several times within one row: the serving capacity,
// searched with several seeds.
std::optional<double> spread_of(const result_row& row, const std::string& metric) {
  if (metric != "slo_capacity_requests_per_second") return {};
  const auto found = row.value_of("slo_capacity_half_width");
  return found && std::isfinite(*found) ? found : std::nullopt;
}

// What a value is the mean of, by seed or repetition; null: it was found once.
const std::vector<double>* samples_of(const result_row& row, const std::string& metric) {
  const auto found = row.metrics.find(metric);
  if (found == row.metrics.end() || found->second.samples.size() < 2) return nullptr;
  return &found->second.samples;
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

// One step of a probe's path: "auc[1]" is auc, then 1.
const nlohmann::json* step_into(const nlohmann::json* at, const std::string& part) {
  const std::size_t bracket = part.find('[');
  const std::string name = part.substr(0, bracket);
  if (!name.empty()) {
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &(*at)[name];
  }
  for (std::size_t b = bracket; b != std::string::npos; b = part.find('[', b + 1)) {
    const std::size_t close = part.find(']', b);
    if (close == std::string::npos || !at->is_array()) return nullptr;
    const auto index = as_number(part.substr(b + 1, close - b - 1));
    if (!index || *index < 0 || *index >= static_cast<double>(at->size())) return nullptr;
    at = &(*at)[static_cast<std::size_t>(*index)];
  }
  return at;
}

// A number by the path that follows the first name: of a probe, or of the calibration.
std::optional<row_value> number_at(const result_row& row, const std::string& text,
                                   const std::string& path) {
  const std::size_t dot = path.find('.');
  const nlohmann::json root = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json* at = &root;
  for (std::size_t begin = dot; at && begin != std::string::npos;) {
    const std::size_t end = path.find('.', begin + 1);
    at = step_into(at, path.substr(begin + 1, end == std::string::npos ? end : end - begin - 1));
    begin = end;
  }
  if (!at || !at->is_number()) return {};
  const bool synthetic = row.model.weights == "synthetic";
  return row_value{at->get<double>(), synthetic ? origin::synthetic : origin::counted};
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

void check_row_key(const std::string& key, const std::string& where) {
  if (std::ranges::find(plain_keys, key) != plain_keys.end()) return;
  if ((key.starts_with("params.") && key.size() > 7) ||
      (key.starts_with("serve.") && key.size() > 6)) {
    return;
  }
  std::vector<std::string> known = plain_keys;
  known.emplace_back("params.NAME");
  known.emplace_back("serve.NAME");
  throw usage_error(where + ": " + unknown_name("key of a row", key, known));
}

std::optional<std::string> setting_of(const result_row& row, const std::string& key) {
  if (key == "label") return row.label;
  if (key == "method") return row.method;
  if (key == "preset") return row.preset;
  if (key == "model") return row.model.name;
  if (key == "workload") return row.workload.family;
  if (key == "variation") return row.variation;
  if (key == "batch_size") return std::to_string(row.run.batch_size);
  if (key == "gen_length") return std::to_string(row.run.gen_length);
  if (key == "seed") return std::to_string(row.run.seed);
  if (key == "device") return row.run.device;
  if (key == "format") return row.run.format;
  if (key == "kv_type") return row.run.kv_type;
  if (key == "kind") return row.run.kind;
  if (key.starts_with("params.")) return of_map(row.params, key.substr(7));
  if (key.starts_with("serve.")) return of_map(row.run.serve, key.substr(6));
  return {};
}

std::optional<double> number_of(const result_row& row, const std::string& key) {
  const auto text = setting_of(row, key);
  return text ? as_number(*text) : std::nullopt;
}

bool row_selector::matches(const result_row& row) const {
  return std::ranges::all_of(keys, [&](const auto& wanted) {
    const auto found = setting_of(row, wanted.first);
    if (!found) return false;
    return std::ranges::any_of(wanted.second, [&](const parameter_value& v) {
      if (to_string(v) == *found) return true;
      const auto here = as_number(*found), there = as_number(to_string(v));  // 1 and 1.0
      return here && there && *here == *there;
    });
  });
}

std::string row_selector::text() const {
  std::string out;
  for (const auto& [key, values] : keys) {
    out += (out.empty() ? "" : ", ") + key + " = ";
    for (std::size_t i = 0; i < values.size(); ++i) out += (i ? "|" : "") + to_string(values[i]);
  }
  return out.empty() ? "any row" : out;
}

std::vector<result_row> believable_rows(const std::vector<result_row>& rows) {
  std::map<std::string, const result_row*> last;
  for (const result_row& row : rows) last[row.point_id] = &row;
  std::vector<result_row> kept;
  for (const result_row& row : rows) {
    const bool good = is_reportable(row);
    if (last[row.point_id] == &row && good) kept.push_back(row);
  }
  return kept;
}

std::string circumstance_of(const result_row& row, const std::set<std::string>& free) {
  std::string text;
  for (const char* key : {"model", "workload", "batch_size", "gen_length", "seed", "device",
                          "format", "kv_type", "kind"}) {
    if (!free.contains(key)) text += *setting_of(row, key) + "\n";
  }
  for (const auto& [name, value] : row.run.serve) {
    if (!free.contains("serve." + name)) text += name + "=" + to_string(value) + "\n";
  }
  return text;
}

std::optional<row_value> value_in(const result_row& row, const std::string& metric) {
  if (metric == "score") {
    if (!row.score || row.model.weights == "synthetic") return {};
    return row_value{row.score->mean, origin::counted};
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
  const bool clocks =
      clock_of(left_metric) != clock_kind::none && clock_of(right_metric) != clock_kind::none;
  if (clocks) {
    const std::vector<double> x = per_repetition(left, left_metric);
    const std::vector<double> y = per_repetition(right, right_metric);
    const bool pairs = left.run_id == right.run_id && x.size() == y.size();
    const estimate e = pairs ? paired_ratio(x, y) : unpaired_ratio(x, y);
    if (std::isfinite(e.value)) return e;
  }
  estimate e{a->value / b->value, {}, 0, "items", ""};
  e.n = static_cast<std::size_t>(std::min(left.workload.items, right.workload.items));
  const auto timed = [](origin from) { return from == origin::measured; };
  if (const std::vector<double>* x = samples_of(left, left_metric),
      *y = samples_of(right, right_metric);
      x && y) {
    const bool searched = left_metric.starts_with("slo_") && right_metric.starts_with("slo_");
    const bool pairs = x->size() == y->size() &&
                       (searched ? same_arrivals(left, right) : left.run_id == right.run_id);
    if (pairs || !searched) {
      estimate of = pairs ? paired_ratio(*x, *y) : unpaired_ratio(*x, *y);
      if (searched) {
        of.unit_of_n = "seeds";
        of.how = "paired by the seeds of the search";
      }
      if (std::isfinite(of.value)) return of;
    }
  }
  const auto spread_a = spread_of(left, left_metric), spread_b = spread_of(right, right_metric);
  if (spread_a || spread_b) {
    // Relative half widths are distances on the log scale; those of separate searches add in
    // squares.
    const double half = std::hypot(spread_a.value_or(0), spread_b.value_or(0));
    e.range = interval{e.value * std::exp(-half), e.value * std::exp(half)};
    e.how = "over searches with several seeds";
  } else if (left_metric.starts_with("probes.") || right_metric.starts_with("probes.")) {
    e.how = "of a sample of items, no interval";
  } else if (timed(a->from) || timed(b->from)) {
    e.how = "measured once, no interval";
  } else {
    e.how = "counted";
    e.range = interval{e.value, e.value};
  }
  return e;
}

std::optional<estimate> score_difference_of(const result_row& left, const result_row& right) {
  const auto a = value_in(left, "score"), b = value_in(right, "score");
  if (!a || !b) return {};
  if (same_items(left, right)) {
    const estimate e = paired_score_difference(finite_only(left.items.score, right.items.score),
                                               finite_only(right.items.score, left.items.score));
    if (e.n > 0) return e;
  }
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
  } else if (const auto low = value_in(row, metric + "_ci95[0]"),
             high = value_in(row, metric + "_ci95[1]");
             metric.starts_with("probes.") && low && high) {
    e.range = interval{low->value, high->value};
    e.how = "bootstrap over items";
  } else if (metric.starts_with("probes.") && !metric.ends_with("_max")) {
    e.how = "of a sample of items, no interval";
  } else if (v->from != origin::measured) {
    e.range = interval{v->value, v->value};
  } else {
    e.how = "measured once, no interval";
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
