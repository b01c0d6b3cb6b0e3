// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "harness/analysis/claims.h"
#include "harness/base/error.h"

namespace unmask {
namespace {

constexpr std::int64_t tiny_parameters = 100'000'000;

struct checked_point {
  std::string name;   // what the rows have in common, for people to read
  std::string shown;  // "FOCUS / DC+", the quantity
  estimate measured;
  std::string items;  // which items it is of: points of the same items err together
  const result_row* left = nullptr;
  const result_row* right = nullptr;  // null where one row is judged
  finding result = finding::failed;
};

bool of_scores(const paper_claim& c) {
  return c.left.metric == "score";
}

bool absolute(const paper_claim& c) {
  return of_scores(c) || c.kind == claim_kind::threshold;
}

// Rows on a virtual clock or with weights without meaning: a statement about a model of the machine.
bool is_model(const result_row& row) {
  return row.model.weights == "synthetic" || setting_of(row, "serve.clock") == "virtual";
}

// "NOISY: \u00b131 %" of a speed that is known to no better than a quarter either way; else "".
std::string noise_of(const paper_claim& c, const estimate& e) {
  if (!is_speed(c.left.metric) || !e.range || !(e.range->low > 0)) return "";
  const double half = std::sqrt(e.range->high / e.range->low) - 1;
  return half > noisy_half_width ? fmt::format("NOISY: \u00b1{:.0f} %", 100 * half) : "";
}

// Where the whole interval of a quantity must lie, with its words.
struct point_test {
  std::string wanted;
  region where;
  std::optional<region> effect;  // differences of at least the claim's least one

  // Beside what `judge` says: an interval that excludes every difference worth the name fails.
  finding of(const interval& range) const {
    const finding found = judge(range, where);
    const bool none = effect && judge(range, *effect) == finding::failed;
    return found == finding::undecided && none ? finding::failed : found;
  }
  // The smaller of what either decision needs.
  double evidence(double value, const interval& range) const {
    const double factor = evidence_to_decide(value, range, where);
    return effect ? std::min(factor, evidence_to_decide(value, range, *effect)) : factor;
  }
};

point_test within(double low, double high) {
  return {low == high ? short_number(low) : short_number(low) + " to " + short_number(high),
          {low, high}};
}

// Beyond `neutral` in the direction of the relation, or short of it by no more than `slack`.
point_test beyond(const std::string& relation, double neutral, double slack) {
  const bool above = relation == ">" || relation == ">=" || relation == "increasing" ||
                     relation == "nondecreasing";
  const bool open =
      relation == ">" || relation == "<" || relation == "increasing" || relation == "decreasing";
  point_test test;
  const double at = above ? neutral - slack : neutral + slack;
  (above ? test.where.low : test.where.high) = at;
  test.where.open = open;
  test.wanted = fmt::format("{}{} {}", above ? ">" : "<", open ? "" : "=", short_number(at));
  return test;
}

point_test test_of(const paper_claim& c) {
  const double neutral = of_scores(c) ? 0 : 1;
  switch (c.kind) {
    case claim_kind::ratio:
      if (c.relation == "about") {
        return within(*c.expected * (1 - c.tolerance), *c.expected * (1 + c.tolerance));
      }
      return beyond(c.relation, *c.expected, *c.expected * c.tolerance);
    case claim_kind::threshold:
      return beyond(c.relation, *c.value,
                    of_scores(c) ? c.tolerance : std::abs(*c.value) * c.tolerance);
    case claim_kind::equal:
      return within(neutral - c.tolerance, neutral + c.tolerance);
    default: {
      point_test test = beyond(c.relation, neutral, c.tolerance);
      if (c.least > 0) test.effect = beyond(c.relation, neutral, -c.least).where;
      return test;
    }
  }
}

std::optional<estimate> compare(const paper_claim& c, const result_row& left,
                                const result_row& right) {
  if (of_scores(c)) return score_difference_of(left, right);
  const std::string& other = c.kind == claim_kind::monotone ? c.left.metric : c.right.metric;
  return ratio_of(left, right, c.left.metric, other);
}

// Keys that one side fixes otherwise than the other may differ between the sides.
std::set<std::string> fixed_keys(const paper_claim& c) {
  std::set<std::string> keys;
  for (const row_selector* s : {&c.left, &c.right}) {
    const auto& others = (s == &c.left ? c.right : c.left).keys;
    for (const auto& [key, values] : s->keys) {
      const auto same = others.find(key);
      if (same == others.end() || same->second != values) keys.insert(key);
    }
  }
  if (!c.along.empty()) keys.insert(c.along);
  return keys;
}

std::string place_of(const result_row& row) {
  return fmt::format("{}, {}, batch {}", row.model.name, row.workload.family, row.run.batch_size);
}

using point_list = std::vector<checked_point>;

point_list pairs(const paper_claim& c, const row_list& rows) {
  const std::set<std::string> free = fixed_keys(c);
  const auto right = selected(rows, c.right);
  point_list points;
  for (const result_row* row : selected(rows, c.left)) {
    row_list partners = partners_of(*row, right, free);
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
                      row->workload.hash, row, partners[0]});
  }
  return points;
}

point_list series(const paper_claim& c, const row_list& rows) {
  std::set<std::string> free = {c.along};
  std::map<std::string, row_list> groups;
  std::vector<std::string> order;
  for (const result_row* row : selected(rows, c.left)) {
    if (!number_of(*row, c.along)) continue;
    const std::string key = circumstance_of(*row, free) + row->label;
    if (groups[key].empty()) order.push_back(key);
    groups[key].push_back(row);
  }
  point_list points;
  for (const std::string& key : order) {
    row_list& group = groups[key];
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
                        *e, group[i]->workload.hash, group[i], group[i - 1]});
    }
  }
  return points;
}

point_list levels(const paper_claim& c, const row_list& rows) {
  point_list points;
  for (const result_row* row : selected(rows, c.left)) {
    if (const auto e = estimate_of(*row, c.left.metric)) {
      points.push_back({place_of(*row), name_of_row(*row), *e, row->workload.hash, row, nullptr});
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

// So many graded scores that differ show the spread of their differences.
constexpr std::size_t enough_for_a_bootstrap = 20;

// All pairs of items together, each item of a workload once: its scores over several points (batch
// sizes, say) are averaged. Nothing unless every point kept its items.
std::optional<estimate> pooled_scores(const point_list& points) {
  struct item {
    double left = 0, right = 0, n = 0;
    bool graded = false;  // a score that is neither right nor wrong
  };
  const auto between = [](double score) { return score > 0 && score < 1; };
  std::map<std::pair<std::string, std::size_t>, item> items;
  for (const checked_point& p : points) {
    if (!p.right) return {};
    const auto [x, y] = paired_scores(*p.left, *p.right);
    if (x.empty()) return {};
    for (std::size_t i = 0; i < x.size(); ++i) {
      item& at = items[{p.items, i}];
      at.left += x[i];
      at.right += y[i];
      ++at.n;
      at.graded |= between(x[i]) || between(y[i]);
    }
  }
  std::vector<double> left, right;
  for (const auto& [key, i] : items) {
    left.push_back(i.left / i.n);
    right.push_back(i.right / i.n);
  }
  estimate e = paired_score_difference(left, right);
  std::size_t won = 0, lost = 0, both = 0;
  double moved = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    won += left[i] > right[i];
    lost += left[i] < right[i];
    both += left[i] == right[i] && left[i] >= 0.5;
    moved += std::abs(left[i] - right[i]);
  }
  const std::size_t differ = won + lost;
  if (differ >= enough_for_a_bootstrap &&
      std::ranges::all_of(items, [](const auto& i) { return i.second.graded; })) {
    e.how = fmt::format("pooled pairs of graded scores, {} differ, {}", differ, e.how);
    return e;
  }
  // A handful of items that differ tell a bootstrap less than it says: where the signs alone, as
  // shares of pairs of which each moves the mean by as much, leave more open, so does the whole.
  const estimate signs = paired_share_difference(both, won, lost, left.size() - both - differ);
  if (e.range && signs.range) {
    const double each = differ == 0 ? 1 : moved / static_cast<double>(differ);
    e.range = interval{std::min(e.range->low, each * signs.range->low),
                       std::max(e.range->high, each * signs.range->high)};
  }
  e.how = fmt::format("pooled pairs, {} up, {} down, McNemar p = {:.2g}", won, lost,
                      mcnemar_p(won, lost));
  return e;
}

std::optional<estimate> pooled_shares(const paper_claim& c, const point_list& points) {
  item_shares all;
  for (const checked_point& p : points) {
    const item_shares items = shares_of(*p.left, c.left.metric);
    if (items.empty() || p.right) return {};
    all.insert(all.end(), items.begin(), items.end());
  }
  return share_over_items(all);
}

// Of times and rates the geometric mean, of what has items all of them pooled, of the rest the mean;
// its interval from theirs. Where one of them has none, there is none.
checked_point averaged(const paper_claim& c, const point_list& points) {
  if (points.size() == 1) return points.front();
  std::vector<double> values;
  std::vector<interval> ranges;
  std::vector<std::string> items;
  std::map<std::string, std::size_t> n_of;  // items of each workload
  const bool plain = absolute(c);
  const auto scale = [&](double v) { return plain ? v : std::log(v); };
  const auto back = [&](double v) { return plain ? v : std::exp(v); };
  checked_point mean = points.front();
  for (const checked_point& p : points) {
    values.push_back(scale(p.measured.value));
    if (p.measured.range) {
      ranges.push_back({scale(p.measured.range->low), scale(p.measured.range->high)});
    }
    items.push_back(p.items);
    n_of[p.items] = std::max(n_of[p.items], p.measured.n);
  }
  const auto [least, most] = std::ranges::minmax(values);
  mean.name = fmt::format("mean of {} points from {} to {}", points.size(),
                          short_number(back(least)), short_number(back(most)));
  estimate& e = mean.measured;
  const auto pooled = of_scores(c) && c.kind != claim_kind::threshold ? pooled_scores(points)
                                                                      : pooled_shares(c, points);
  if (pooled) {
    e = *pooled;
    mean.name += "; " + e.how;
    return mean;
  }
  e = {back(mean_of(values)), {}, 0, points.front().measured.unit_of_n, "mean of points"};
  if (ranges.size() == values.size()) {
    const interval range = interval_of_average(values, ranges, items);
    e.range = interval{back(range.low), back(range.high)};
  }
  if (e.unit_of_n == "items") {
    for (const auto& [key, n] : n_of) e.n += n;
  } else {
    e.n = points.size();
    e.unit_of_n = "points";
  }
  return mean;
}

// The best of several points is not judged as if it were the only one.
checked_point extreme(const paper_claim& c, const point_list& points) {
  const auto by_value = [](const checked_point& a, const checked_point& b) {
    return a.measured.value < b.measured.value;
  };
  checked_point best = c.aggregate == claim_aggregate::max
                           ? *std::ranges::max_element(points, by_value)
                           : *std::ranges::min_element(points, by_value);
  if (points.size() > 1) {
    best.measured.range = corrected_for(points.size(), best.measured, !absolute(c));
    best.name +=
        fmt::format(", the {} of {} points, interval corrected for their number",
                    c.aggregate == claim_aggregate::max ? "largest" : "smallest", points.size());
  }
  return best;
}

point_list aggregated(const paper_claim& c, point_list points) {
  if (points.empty() || c.aggregate == claim_aggregate::each) return points;
  return {c.aggregate == claim_aggregate::mean ? averaged(c, points) : extreme(c, points)};
}

// What of a point's circumstances is not as the claim presumes: "says (metric is 11.3)"; empty: all
// is. Rows that a precondition names and that are not there cannot vouch for it.
std::string unmet(const paper_claim& c, const checked_point& point, const row_list& rows) {
  for (const claim_precondition& p : c.preconditions) {
    std::set<std::string> free;
    for (const auto& [key, values] : p.where.keys) free.insert(key);
    const std::string here = circumstance_of(*point.left, free);
    const region wanted = beyond(p.relation, p.value, 0).where;
    bool found = false;
    for (const result_row* row : selected(rows, p.where)) {
      const auto v = value_in(*row, p.where.metric);
      if (!v || circumstance_of(*row, free) != here) continue;
      found = true;
      if (!wanted.holds(v->value)) {
        return fmt::format("{} ({} of {} is {}, {})", p.says, p.where.metric, name_of_row(*row),
                           short_number(v->value), place_of(*row));
      }
    }
    if (!found) {
      return fmt::format("{} (no row with {} in {} tells)", p.says, p.where.text(),
                         place_of(*point.left));
    }
  }
  return "";
}

std::string none_reason(const paper_claim& c, const frame& rows) {
  for (const result_row& row : rows.rows()) {
    if (!is_reportable(row) && (c.left.matches(row) || c.right.matches(row))) {
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
    return is_speed(c.left.metric) ? "; undecided: timed once, which says nothing of a speed"
                                   : "; undecided: " + (e.how.empty() ? "no interval" : e.how);
  }
  std::string text =
      fmt::format("; underpowered: {} {}, interval [{}, {}] contains the bound", e.n, e.unit_of_n,
                  short_number(e.range->low), short_number(e.range->high));
  if (const std::string noise = noise_of(c, e); !noise.empty()) text += "; " + noise;
  if (!of_scores(c) || c.kind == claim_kind::threshold) return text;
  const interval least = interval_of_equal_answers(e.n);
  if (c.tolerance > 0 && judge(least, test.where) == finding::undecided) {
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
  text += shown.name.starts_with("mean of") ? ", " + shown.name : " (" + shown.name + ")";
  if (shown.measured.range && shown.measured.how == "counted") {
    text += "; counted, exact for these prompts";
  }
  if (shown.result == finding::undecided) text += undecided_reason(c, shown, test);
  if (shown.result == finding::failed &&
      judge(*shown.measured.range, test.where) != finding::failed) {
    text += fmt::format("; no difference of {} or more: the interval excludes it",
                        short_number(c.least));
  }
  if (r.tiny_models) text += "; on tiny models, not the paper's";
  if (r.synthetic) text += "; by synthetic weights or a virtual clock";
  if (r.size != published_size::not_compared) {
    text += fmt::format("; the published size, {}, is {} the interval",
                        short_number(*c.published->comparable), name_of(r.size));
  }
  if (r.out_of_regime > 0) {
    text += fmt::format("; {} more points are out of the claim's regime", r.out_of_regime);
  }
  return text;
}

// Beside the direction: of all points together, or of the one that an "up to" is about.
published_size size_of(const paper_claim& c, const point_list& points) {
  if (!c.published || !c.published->comparable || c.kind == claim_kind::monotone) {
    return published_size::not_compared;
  }
  const estimate all = averaged(c, points).measured;
  const auto& range = all.range;
  if (!range || !noise_of(c, all).empty()) return published_size::not_compared;
  const double rounding = c.published->rounding;
  const region here{range->low - rounding, range->high + rounding};
  return here.holds(*c.published->comparable) ? published_size::inside : published_size::outside;
}

// What a decision needs: the most that any undecided point does.
void price(claim_result& r, const paper_claim& c, const point_list& points,
           const point_test& test) {
  r.by_repetition = rests_on_repetitions(c);
  for (const checked_point& p : points) {
    if (p.result != finding::undecided) continue;
    const double factor = p.measured.range ? test.evidence(p.measured.value, *p.measured.range) : 0;
    r.evidence_factor =
        factor == 0 || r.evidence_factor == 0 ? 0 : std::max(r.evidence_factor, factor);
  }
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

const char* name_of(published_size size) {
  constexpr const char* names[] = {"", "inside", "outside"};
  return names[static_cast<std::size_t>(size)];
}

std::vector<row_selector> points_of(const paper_claim& c) {
  std::vector<row_selector> all = {c.left};
  if (c.kind != claim_kind::monotone && c.kind != claim_kind::threshold) all.push_back(c.right);
  for (const claim_precondition& p : c.preconditions) all.push_back(p.where);
  return all;
}

bool rests_on_repetitions(const paper_claim& c) {
  return std::ranges::any_of(std::array{c.left.metric, c.right.metric}, [](const std::string& m) {
    return reads_the_clock(m) || m.starts_with("slo_");
  });
}

std::set<std::string> names_behind(const paper_claim& c, const frame& rows) {
  std::set<std::string> names;
  for (const row_selector& by : points_of(c)) {
    for (const result_row* row : selected(rows.reportable(), by)) names.insert(point_name(*row));
  }
  return names;
}

claim_result check_claim(const paper_claim& c, const frame& all, const std::string& scale) {
  claim_result result;
  result.scale = scale;
  const row_list rows = all.reportable();
  point_list points = c.kind == claim_kind::monotone    ? series(c, rows)
                      : c.kind == claim_kind::threshold ? levels(c, rows)
                                                        : pairs(c, rows);
  if (points.empty()) {
    result.reason = none_reason(c, all);
    return result;
  }
  std::string lack;
  result.out_of_regime = std::erase_if(points, [&](const checked_point& p) {
    const std::string why = unmet(c, p, rows);
    if (lack.empty()) lack = why;
    return !why.empty();
  });
  if (points.empty()) {
    result.judged = verdict::not_applicable;
    result.reason = "NOT APPLICABLE: presumes that " + lack;
    return result;
  }
  points = aggregated(c, std::move(points));
  for (const checked_point& p : points) {
    result.tiny_models |= p.left->model.parameters < tiny_parameters;
    result.synthetic |= is_model(*p.left) || (p.right && is_model(*p.right));
  }
  const point_test test = test_of(c);
  for (checked_point& p : points) {
    p.result = p.measured.range ? test.of(*p.measured.range) : finding::undecided;
    result.held += p.result == finding::held;
    result.undecided += p.result == finding::undecided;
    result.failed += p.result == finding::failed;
  }
  result.judged = result.held == points.size()
                      ? (result.synthetic ? verdict::reproduced_model : verdict::reproduced)
                  : result.held > 0   ? verdict::partly
                  : result.failed > 0 ? verdict::not_reproduced
                                      : verdict::ambiguous;
  result.size = size_of(c, points);
  price(result, c, points, test);
  const checked_point& shown = decisive(points, c);
  result.measured = shown.measured;
  result.reason = reason_of(c, result, points, shown, test);
  return result;
}

}  // namespace unmask
