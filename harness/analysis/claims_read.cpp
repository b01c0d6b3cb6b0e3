// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <cmath>

#include "harness/analysis/claims.h"
#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

template <class Enum>
Enum choice(toml_reader& r, const std::string& key, const std::vector<std::string>& names,
            Enum otherwise) {
  std::string text;
  r.text(key, text);
  return text.empty() ? otherwise : static_cast<Enum>(r.choice(key + " of a claim", text, names));
}

const std::vector<std::string>& relations_of(claim_kind kind) {
  static const std::vector<std::string> of_ratio = {"about", ">=", "<="},
                                        of_order = {">", "<", ">=", "<="},
                                        of_series = {"increasing", "decreasing", "nondecreasing",
                                                     "nonincreasing"},
                                        none = {};
  switch (kind) {
    case claim_kind::ratio:
      return of_ratio;
    case claim_kind::monotone:
      return of_series;
    case claim_kind::equal:
      return none;
    default:
      return of_order;
  }
}

void optional_real(toml_reader& r, const std::string& key, std::optional<double>& into) {
  if (!r.find(key)) return;
  double value = 0;
  r.real(key, value, -1e300, 1e300);
  into = value;
}

[[noreturn]] void fail(const paper_claim& c, const std::string& sentence) {
  throw usage_error(c.where + ": claim '" + c.id + "' " + sentence);
}

void check_relation(paper_claim& c) {
  const std::vector<std::string>& known = relations_of(c.kind);
  if (known.empty()) {
    if (!c.relation.empty()) fail(c, "is of kind \"equal\", which takes no `relation`");
    return;
  }
  if (c.relation.empty() && c.kind == claim_kind::ratio) c.relation = "about";
  find_known("relation of this kind", c.relation, known, c.where + ": claim '" + c.id + "'");
}

// Keys that the kind needs are there, and no others.
void check_kind(paper_claim& c, bool has_right) {
  check_relation(c);
  const bool one_sided = c.kind == claim_kind::monotone || c.kind == claim_kind::threshold;
  if (one_sided == has_right) {
    fail(c, one_sided ? "compares no two selectors: `right` does not belong to its kind"
                      : "needs `right`, a selector");
  }
  if ((c.kind == claim_kind::monotone) == c.along.empty()) {
    fail(c, c.along.empty() ? "needs `along`, the setting that grows"
                            : "has `along`, which only kind \"monotone\" takes");
  }
  if ((c.kind == claim_kind::threshold) != c.value.has_value()) {
    fail(c, c.value ? "has `value`, which only kind \"threshold\" takes" : "needs `value`");
  }
  if (c.kind == claim_kind::ratio) {
    if (!c.expected && c.published) c.expected = c.published->value;
    if (!c.expected) fail(c, "needs `expected` or `published`");
    if (*c.expected <= 0) fail(c, "expects a ratio that is not above 0");
  } else if (c.expected) {
    fail(c, "has `expected`, which only kind \"ratio\" takes");
  }
  if (c.kind == claim_kind::ratio && (c.left.metric == "score" || c.right.metric == "score")) {
    fail(c, "takes a ratio of scores, which has no interval; use kind \"ordering\" or \"equal\"");
  }
  if (has_right && (c.left.metric == "score") != (c.right.metric == "score")) {
    fail(c, "compares a score with something else");
  }
}

// A published number in the units of the quantity that is judged, where its unit says how.
std::optional<double> comparable(const paper_claim& c, double value, const std::string& unit,
                                 const std::string& as) {
  const bool scores = c.left.metric == "score";
  if (as == "change") return 1 + value / 100;
  if (as == "ratio" || as == "value") return value;
  if (as == "points") return value / 100;
  if (c.kind == claim_kind::monotone) return {};
  if (unit == "points" || unit == "%") return scores ? std::optional(value / 100) : std::nullopt;
  if (c.kind == claim_kind::threshold) return value;
  return unit == "x" && !scores ? std::optional(value) : std::nullopt;
}

void read_size(toml_reader& r, paper_claim& c) {
  claim_published p;
  if (!r.find("value")) throw usage_error(r.where() + ": `published` needs `value`");
  r.real("value", p.value, -1e300, 1e300);
  r.text("unit", p.unit);
  required_text(r, "source", p.source);
  std::string as;
  r.text("as", as);
  if (!as.empty()) {
    r.choice("`as` of a published size", as, {"ratio", "change", "points", "value"});
  }
  p.comparable = comparable(c, p.value, p.unit, as);
  r.real("rounding", p.rounding, 0, 1e300);
  if (const auto above = comparable(c, p.value + p.rounding, p.unit, as)) {
    p.rounding = std::abs(*above - *p.comparable);
  }
  c.published = p;
}

// What counts as the same elsewhere, two points or two per cent; half of the published effect where
// that is smaller still.
double least_difference(const paper_claim& c) {
  constexpr double same = 0.02;
  if (!c.published || !c.published->comparable) return same;
  const double neutral = c.left.metric == "score" ? 0 : 1;
  return std::min(same, std::abs(*c.published->comparable - neutral) / 2);
}

claim_precondition read_condition(toml_reader& r) {
  claim_precondition p;
  required_text(r, "says", p.says);
  read_selector(r, "where", p.where);
  r.text("metric", p.where.metric);
  required_text(r, "relation", p.relation);
  r.choice("relation of a precondition", p.relation, relations_of(claim_kind::threshold));
  if (p.where.metric.empty() || !r.find("value")) {
    throw usage_error(r.where() + ": a precondition needs `metric` and `value`");
  }
  r.real("value", p.value, -1e300, 1e300);
  return p;
}

paper_claim read_claim(toml_reader& r, const fs::path& file) {
  paper_claim c;
  c.where = r.where();
  required_text(r, "id", c.id);
  required_text(r, "statement", c.statement);
  required_text(r, "source", c.source);
  r.text("note", c.note);
  std::vector<std::string> artifacts(1);
  r.text("artifact", artifacts[0]);
  if (artifacts[0].empty()) artifacts.clear();
  if (r.find("artifacts")) {
    if (!artifacts.empty()) fail(c, "has `artifact` and `artifacts`; one of them will do");
    r.texts("artifacts", artifacts);
  }
  if (artifacts.empty()) fail(c, "needs `artifact`, an experiment file, or `artifacts`");
  for (const std::string& name : artifacts) c.artifacts.push_back(existing_file(r, name, file));
  r.text("variant", c.variant);
  r.texts("scales", c.scales);
  if (!r.find("kind")) fail(c, "needs `kind`");
  c.kind = choice(r, "kind", {"ratio", "ordering", "monotone", "threshold", "equal"}, c.kind);
  c.aggregate = choice(r, "aggregate", {"each", "mean", "max", "min"}, c.aggregate);
  std::string metric;
  r.text("metric", metric);
  r.text("relation", c.relation);
  r.text("along", c.along);
  if (!c.along.empty()) check_row_key(c.along, c.where + ": `along`");
  c.left.metric = c.right.metric = metric;
  if (!r.find("left")) fail(c, "needs `left`, a selector");
  read_selector(r, "left", c.left);
  const bool has_right = r.find("right") != nullptr;
  read_selector(r, "right", c.right);
  if (c.left.metric.empty() || (has_right && c.right.metric.empty())) {
    fail(c, "needs `metric`, for all of it or in each selector");
  }
  c.tolerance = c.kind == claim_kind::ratio ? 0.1 : 0;
  r.real("tolerance", c.tolerance, 0, 1e6);
  optional_real(r, "expected", c.expected);
  optional_real(r, "value", c.value);
  r.table("published", [&](toml_reader& t) { read_size(t, c); });
  if (c.kind == claim_kind::ordering && (c.relation == ">" || c.relation == "<")) {
    c.least = least_difference(c);
    r.real("least", c.least, 0, 1e6);
  }
  r.tables("precondition", [&](toml_reader& t) { c.preconditions.push_back(read_condition(t)); });
  r.texts("controls", c.control_ids);
  check_kind(c, has_right);
  return c;
}

void check_scales(const paper_claim& c, const scales_of_artifact& scales_of) {
  if (c.scales.empty()) fail(c, "needs `scales`, where it can be checked");
  for (const fs::path& artifact : c.artifacts) {
    const std::vector<std::string> known = scales_of(artifact);
    for (const std::string& name : c.scales) {
      find_known("scale of " + artifact.string(), name, known, c.where + ": claim '" + c.id + "'");
    }
  }
}

// Copies to each claim the controls that it names; usage error for a name without one, and for a
// control that no claim names.
void attach_controls(std::vector<paper_claim>& claims, const std::vector<paper_claim>& controls) {
  std::vector<paper_claim> all = claims;
  all.insert(all.end(), controls.begin(), controls.end());
  const std::vector<std::string> known = names_in(all, &paper_claim::id);
  std::set<std::string> named;
  for (paper_claim& c : claims) {
    for (const std::string& id : c.control_ids) {
      const std::string where = c.where + ": claim '" + c.id + "'";
      c.controls.push_back(all[find_known("control", id, known, where)]);
      named.insert(id);
    }
  }
  for (const paper_claim& c : controls) {
    if (!named.contains(c.id)) fail(c, "is a control that no claim names");
  }
}

}  // namespace

std::vector<paper_claim> parse_claims(const std::string& text, const fs::path& file,
                                      const scales_of_artifact& scales_of) {
  const toml::table root = parsed_toml(text, file);
  toml_reader r(root, file.string(), "");
  std::string paper;
  required_text(r, "paper", paper);
  std::vector<paper_claim> claims, controls;
  std::set<std::string> ids;
  const auto read_into = [&](std::vector<paper_claim>& list) {
    return [&](toml_reader& t) {
      list.push_back(read_claim(t, file));
      paper_claim& c = list.back();
      c.paper = paper;
      if (!ids.insert(c.id).second) fail(c, "stands in the file twice");
      check_scales(c, scales_of);
    };
  };
  r.tables("claim", read_into(claims));
  r.tables("control", read_into(controls));
  r.finish();
  attach_controls(claims, controls);
  return claims;
}

}  // namespace unmask
