// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "harness/artifact/claims.h"
#include "harness/base/error.h"

namespace unmask {
namespace {

constexpr std::int64_t tiny_parameters = 100'000'000;
// A value timed once has no interval; it is judged as if it could be off by this factor either way.
constexpr double timed_once = 1.1;

enum class outcome : std::uint8_t { held, undecided, failed };

struct checked_point {
  std::string name;   // what the rows have in common, for the eye
  std::string shown;  // "FOCUS / DC+", the quantity
  estimate measured;
  std::string items;  // which items it is of: points of the same items err together
  outcome result = outcome::failed;
};

bool of_scores(const paper_claim& c) {
  return c.left.metric == "score";
}

// The bound that the quantity is held against, and the text of it.
struct bound {
  bool above = true, strict = true;
  double at = 1;
  std::string text;
  bool holds(double x) const {
    if (above) return strict ? x > at : x >= at;
    return strict ? x < at : x <= at;
  }
};

bound bound_of(const std::string& relation, double neutral, double slack) {
  bound b;
  b.above = relation == ">" || relation == ">=" || relation == "increasing" ||
            relation == "nondecreasing";
  b.strict =
      relation == ">" || relation == "<" || relation == "increasing" || relation == "decreasing";
  b.at = b.above ? neutral - slack : neutral + slack;
  b.text = fmt::format("{}{} {}", b.above ? ">" : "<", b.strict ? "" : "=", short_number(b.at));
  return b;
}

// Where the quantity may lie: its interval, or what is presumed of a single timing. Nothing for a
// score without items.
std::optional<interval> reach_of(const estimate& e, bool scores) {
  if (e.range) return e.range;
  if (scores || e.value <= 0) return {};
  return interval{e.value / timed_once, e.value * timed_once};
}

// The test that one quantity must pass, with its words. The whole reach within the wanted side
// holds, the whole of it outside fails, anything else is undecided.
struct point_test {
  std::string wanted;
  std::function<outcome(const interval&)> judge;
};

point_test within(double low, double high) {
  const std::string text =
      low == high ? short_number(low) : short_number(low) + " to " + short_number(high);
  return {text, [=](const interval& i) {
            const double slack = 1e-12 * std::max(std::abs(low), std::abs(high));
            if (i.low >= low - slack && i.high <= high + slack) return outcome::held;
            const bool apart = i.high < low - slack || i.low > high + slack;
            return apart ? outcome::failed : outcome::undecided;
          }};
}

point_test against(const bound& b) {
  return {b.text, [b](const interval& i) {
            const bool low = b.holds(i.low), high = b.holds(i.high);
            return low && high ? outcome::held : low || high ? outcome::undecided : outcome::failed;
          }};
}

point_test test_of(const paper_claim& c) {
  const double neutral = of_scores(c) ? 0 : 1;
  switch (c.kind) {
    case claim_kind::ratio:
      if (c.relation == "about") {
        return within(*c.expected * (1 - c.tolerance), *c.expected * (1 + c.tolerance));
      }
      return against(bound_of(c.relation, *c.expected, *c.expected * c.tolerance));
    case claim_kind::threshold:
      return against(bound_of(c.relation, *c.value,
                              of_scores(c) ? c.tolerance : std::abs(*c.value) * c.tolerance));
    case claim_kind::equal:
      return within(neutral - c.tolerance, neutral + c.tolerance);
    default:
      return against(bound_of(c.relation, neutral, c.tolerance));
  }
}

std::optional<estimate> compare(const paper_claim& c, const result_row& left,
                                const result_row& right) {
  if (of_scores(c)) return score_difference_of(left, right);
  const std::string& other = c.kind == claim_kind::monotone ? c.left.metric : c.right.metric;
  return ratio_of(left, right, c.left.metric, other);
}

std::string name_of_row(const result_row& row) {
  return row.label + (row.variation.empty() ? "" : " " + row.variation);
}

// Keys that either side fixes may differ between the sides.
std::set<std::string> fixed_keys(const paper_claim& c) {
  std::set<std::string> keys;
  for (const row_selector* s : {&c.left, &c.right}) {
    for (const auto& [key, values] : s->keys) keys.insert(key);
  }
  if (!c.along.empty()) keys.insert(c.along);
  return keys;
}

std::vector<const result_row*> selected(const std::vector<result_row>& rows,
                                        const row_selector& by) {
  std::vector<const result_row*> found;
  for (const result_row& row : rows) {
    if (by.matches(row)) found.push_back(&row);
  }
  return found;
}

std::string place_of(const result_row& row) {
  return fmt::format("{}, {}, batch {}", row.model.name, row.workload.family, row.run.batch_size);
}

using point_list = std::vector<checked_point>;

// A key both sides are narrowed by is free only as far as they differ in it: rows of the same
// workload are partners before any others are.
std::vector<const result_row*> partners_of(const result_row& left,
                                           const std::vector<const result_row*>& candidates,
                                           const std::set<std::string>& free) {
  std::vector<const result_row*> found;
  for (const result_row* right : candidates) {
    if (right != &left && circumstance_of(*right, free) == circumstance_of(left, free)) {
      found.push_back(right);
    }
  }
  if (found.size() < 2) return found;
  std::vector<const result_row*> same;
  for (const result_row* right : found) {
    if (circumstance_of(*right, {}) == circumstance_of(left, {})) same.push_back(right);
  }
  return same.empty() ? found : same;
}

point_list pairs(const paper_claim& c, const std::vector<result_row>& rows) {
  const std::set<std::string> free = fixed_keys(c);
  const auto right = selected(rows, c.right);
  point_list points;
  for (const result_row* row : selected(rows, c.left)) {
    auto partners = partners_of(*row, right, free);
    // Two values of one row: it is its own partner.
    if (c.left.metric != c.right.metric && c.right.matches(*row)) partners = {row};
    if (partners.size() > 1) {
      throw usage_error(
          fmt::format("{}: claim '{}': the left row {} ({}) has {} partners, among them {} and {}; "
                      "make `right` "
                      "narrower",
                      c.where, c.id, name_of_row(*row), place_of(*row), partners.size(),
                      name_of_row(*partners[0]), name_of_row(*partners[1])));
    }
    if (partners.empty()) continue;
    const auto e = compare(c, *row, *partners[0]);
    if (!e) continue;
    points.push_back({place_of(*row),
                      row->label + (of_scores(c) ? " - " : " / ") + partners[0]->label, *e,
                      row->workload.hash});
  }
  return points;
}

point_list series(const paper_claim& c, const std::vector<result_row>& rows) {
  std::set<std::string> free = {c.along};
  std::map<std::string, std::vector<const result_row*>> groups;
  std::vector<std::string> order;
  for (const result_row* row : selected(rows, c.left)) {
    if (!number_of(*row, c.along)) continue;
    const std::string key = circumstance_of(*row, free) + row->label;
    if (groups[key].empty()) order.push_back(key);
    groups[key].push_back(row);
  }
  point_list points;
  for (const std::string& key : order) {
    std::vector<const result_row*>& group = groups[key];
    std::ranges::stable_sort(group, {},
                             [&](const result_row* r) { return *number_of(*r, c.along); });
    for (std::size_t i = 1; i < group.size(); ++i) {
      const double before = *number_of(*group[i - 1], c.along),
                   now = *number_of(*group[i], c.along);
      if (before == now) {
        throw usage_error(fmt::format("{}: claim '{}': two rows have {} = {}; make `left` narrower",
                                      c.where, c.id, c.along, short_number(now)));
      }
      const auto e = compare(c, *group[i], *group[i - 1]);
      if (!e) continue;
      points.push_back({place_of(*group[i]),
                        fmt::format("{} from {} {} to {}", group[i]->label, c.along,
                                    short_number(before), short_number(now)),
                        *e, group[i]->workload.hash});
    }
  }
  return points;
}

point_list levels(const paper_claim& c, const std::vector<result_row>& rows) {
  point_list points;
  for (const result_row* row : selected(rows, c.left)) {
    if (const auto e = estimate_of(*row, c.left.metric)) {
      points.push_back({place_of(*row), name_of_row(*row), *e, row->workload.hash});
    }
  }
  return points;
}

// Interval of the mean of values that have their own: squares of the distances to the ends add up
// (Zou and Donner, Statistics in Medicine 27 (2008) 1693). Values of the same items err together:
// their distances are averaged as they are. The tasks themselves are taken as given.
interval interval_of_average(const std::vector<double>& values, const std::vector<interval>& ranges,
                             const std::vector<std::string>& items) {
  std::map<std::string, std::pair<double, double>> arms;  // sums, by items
  for (std::size_t i = 0; i < values.size(); ++i) {
    arms[items[i]].first += values[i] - ranges[i].low;
    arms[items[i]].second += ranges[i].high - values[i];
  }
  double below = 0, above = 0;
  for (const auto& [key, arm] : arms) {
    below += arm.first * arm.first;
    above += arm.second * arm.second;
  }
  const double mean = mean_of(values), n = static_cast<double>(values.size());
  return {mean - std::sqrt(below) / n, mean + std::sqrt(above) / n};
}

// Mean of the points, ratios geometrically; its interval from theirs. Where one of them has none,
// from the spread between the points.
checked_point averaged(const point_list& points, bool differences) {
  if (points.size() == 1) return points.front();
  std::vector<double> values;
  std::vector<interval> ranges;
  std::vector<std::string> items;
  std::map<std::string, std::size_t> n_of;  // items of each workload
  const auto scale = [&](double v) { return differences ? v : std::log(v); };
  for (const checked_point& p : points) {
    values.push_back(scale(p.measured.value));
    if (p.measured.range) {
      ranges.push_back({scale(p.measured.range->low), scale(p.measured.range->high)});
    }
    items.push_back(p.items);
    n_of[p.items] = std::max(n_of[p.items], p.measured.n);
  }
  checked_point mean{"", points.front().shown, {}, ""};
  const auto back = [&](double v) { return differences ? v : std::exp(v); };
  const auto [least, most] = std::ranges::minmax(values);
  mean.name = fmt::format("mean of {} points from {} to {}", points.size(),
                          short_number(back(least)), short_number(back(most)));
  estimate& e = mean.measured;
  e.value = back(mean_of(values));
  std::optional<interval> range = ranges.size() == values.size()
                                      ? interval_of_average(values, ranges, items)
                                      : interval_of_mean(values);
  if (range) e.range = interval{back(range->low), back(range->high)};
  e.unit_of_n = points.front().measured.unit_of_n;
  if (e.unit_of_n == "items") {
    for (const auto& [key, n] : n_of) e.n += n;
  } else {
    e.n = points.size();
    e.unit_of_n = "points";
  }
  e.how = "mean of points";
  return mean;
}

point_list aggregated(const paper_claim& c, point_list points) {
  if (points.empty() || c.aggregate == claim_aggregate::each) return points;
  if (c.aggregate == claim_aggregate::mean) {
    const bool absolute = of_scores(c) || c.kind == claim_kind::threshold;
    return {averaged(points, absolute)};
  }
  const auto by_value = [](const checked_point& a, const checked_point& b) {
    return a.measured.value < b.measured.value;
  };
  return {c.aggregate == claim_aggregate::max ? *std::ranges::max_element(points, by_value)
                                              : *std::ranges::min_element(points, by_value)};
}

std::string none_reason(const paper_claim& c, const std::vector<result_row>& all) {
  for (const result_row& row : all) {
    const bool good = is_reportable(row);
    if (!good && (c.left.matches(row) || c.right.matches(row))) {
      return fmt::format("NOT RUN: {} is {}: {}", name_of_row(row), name_of(row.verdict),
                         row.reason);
    }
  }
  return fmt::format("NOT RUN: no rows with {} for left ({}){}", c.left.metric, c.left.text(),
                     c.kind == claim_kind::monotone || c.kind == claim_kind::threshold
                         ? ""
                         : " and a partner for right (" + c.right.text() + ")");
}

// The narrowest interval that n items can have on which both sides agree: over how many are right.
interval interval_of_equal_answers(std::size_t n) {
  interval least{-1, 1};
  for (std::size_t right = 0; right <= n; ++right) {
    const estimate e = paired_share_difference(right, 0, 0, n - right);
    if (e.range && e.range->high - e.range->low < least.high - least.low) least = *e.range;
  }
  return least;
}

// What a point that decides nothing lacks. Of scores also whether more agreement could have helped:
// a tolerance of two points is out of reach of a dozen items, however they come out.
std::string undecided_reason(const paper_claim& c, const checked_point& shown,
                             const point_test& test) {
  const estimate& e = shown.measured;
  if (!e.range) {
    return of_scores(c) ? "; undecided: no interval"
                        : fmt::format("; undecided: timed once, {:.0f} % either way presumed",
                                      100 * (timed_once - 1));
  }
  std::string text =
      fmt::format("; underpowered: {} {}, interval [{}, {}] contains the bound", e.n, e.unit_of_n,
                  short_number(e.range->low), short_number(e.range->high));
  if (!of_scores(c) || c.kind == claim_kind::threshold) return text;
  const interval least = interval_of_equal_answers(e.n);
  if (c.tolerance > 0 && test.judge(least) == outcome::undecided) {
    text += fmt::format("; even {} equal answers leave at least [{}, {}]", e.n,
                        short_number(least.low), short_number(least.high));
  }
  return text;
}

std::string reason_of(const paper_claim& c, const claim_result& r, const point_list& points,
                      const checked_point& shown, const point_test& test) {
  std::string text;
  if (points.size() > 1) {
    text = fmt::format("{} of {} points hold{}; {}: ", r.held, points.size(),
                       r.undecided > 0 ? fmt::format(", {} undecided", r.undecided) : "",
                       r.held == points.size() ? "the closest" : "the worst");
  }
  text +=
      fmt::format("{} = {}, wanted {}", shown.shown, estimate_text(shown.measured), test.wanted);
  if (shown.name.find("mean of") != 0)
    text += " (" + shown.name + ")";
  else
    text += ", " + shown.name;
  if (shown.result == outcome::undecided) text += undecided_reason(c, shown, test);
  if (r.tiny_models) text += "; on tiny models, not the paper's";
  if (r.synthetic) text += "; synthetic weights";
  return text;
}

// The point that decides: the worst outcome, and among those the one farthest on the wrong side.
const checked_point& decisive(const point_list& points, const paper_claim& c) {
  const bool above = c.relation != "<" && c.relation != "<=" && c.relation != "decreasing" &&
                     c.relation != "nonincreasing";
  const double centre = c.kind == claim_kind::ratio ? *c.expected : of_scores(c) ? 0 : 1;
  const bool two_sided = c.kind == claim_kind::equal || c.relation == "about";
  const auto badness = [&](const checked_point& p) {
    const double v = p.measured.value;
    const double off = two_sided ? std::abs(v - centre) : above ? -v : v;
    return std::pair(static_cast<int>(p.result), off);
  };
  return *std::ranges::max_element(points, {}, badness);
}

}  // namespace

const char* name_of(claim_kind kind) {
  constexpr const char* names[] = {"ratio", "ordering", "monotone", "threshold", "equal"};
  return names[static_cast<std::size_t>(kind)];
}
const char* name_of(claim_verdict verdict) {
  constexpr const char* names[] = {"REPRODUCED", "PARTLY", "AMBIGUOUS", "NOT REPRODUCED",
                                   "NOT RUN"};
  return names[static_cast<std::size_t>(verdict)];
}

claim_result check_claim(const paper_claim& c, const std::vector<result_row>& all,
                         const std::string& scale) {
  claim_result result;
  result.scale = scale;
  const std::vector<result_row> rows = believable_rows(all);
  point_list points = c.kind == claim_kind::monotone    ? series(c, rows)
                      : c.kind == claim_kind::threshold ? levels(c, rows)
                                                        : pairs(c, rows);
  points = aggregated(c, std::move(points));
  if (points.empty()) {
    result.reason = none_reason(c, all);
    return result;
  }
  for (const result_row& row : rows) {
    if (!c.left.matches(row)) continue;
    result.tiny_models |= row.model.parameters < tiny_parameters;
    result.synthetic |= row.model.weights == "synthetic";
  }
  const point_test test = test_of(c);
  for (checked_point& p : points) {
    const auto reach = reach_of(p.measured, of_scores(c));
    p.result = reach ? test.judge(*reach) : outcome::undecided;
    result.held += p.result == outcome::held;
    result.undecided += p.result == outcome::undecided;
    result.failed += p.result == outcome::failed;
  }
  result.verdict = result.held == points.size() ? claim_verdict::reproduced
                   : result.held > 0            ? claim_verdict::partly
                   : result.failed > 0          ? claim_verdict::not_reproduced
                                                : claim_verdict::ambiguous;
  const checked_point& shown = decisive(points, c);
  result.measured = shown.measured;
  result.reason = reason_of(c, result, points, shown, test);
  return result;
}

}  // namespace unmask
