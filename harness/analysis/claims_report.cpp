// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <map>

#include <fmt/format.h>

#include "harness/analysis/claims.h"
#include "harness/analysis/json_of.h"

namespace unmask {

text_table claims_table(const std::vector<checked_claim>& claims) {
  text_table t{"paper", "claim", "scale", "verdict", "measured here", "published", "reason"};
  std::map<verdict, std::size_t> count;
  for (const auto& [claim, result] : claims) {
    ++count[result.judged];
    std::string published = "–";
    if (claim.published) {
      published = fmt::format("{}{}{} ({})", claim.published->value,
                              claim.published->unit.empty() ? "" : " ", claim.published->unit,
                              claim.published->source);
    }
    t.add({claim.paper, fmt::format("{} ({})", claim.statement, claim.source), result.scale,
           name_of(result.judged), result.measured ? estimate_text(*result.measured) : "–",
           published, result.reason});
  }
  std::string counts;
  for (const verdict v : {verdict::reproduced, verdict::partly, verdict::ambiguous,
                          verdict::not_reproduced, verdict::not_run}) {
    counts += fmt::format("{} {}, ", count[v], name_of(v));
  }
  t.notes.push_back(counts + fmt::format("of {} claims", claims.size()));
  return t;
}

std::string claims_json(const std::vector<checked_claim>& claims) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [c, r] : claims) {
    nlohmann::ordered_json out = {{"id", c.id},
                                  {"paper", c.paper},
                                  {"statement", c.statement},
                                  {"source", c.source},
                                  {"artifact", c.artifact.generic_string()},
                                  {"scale", r.scale},
                                  {"kind", name_of(c.kind)},
                                  {"metric", c.left.metric},
                                  {"verdict", name_of(r.judged)},
                                  {"reason", r.reason},
                                  {"measured", nullptr},
                                  {"interval", nullptr},
                                  {"n", nullptr}};
    if (r.measured) {
      out["measured"] = r.measured->value;
      out["n"] = r.measured->n;
      out["n_unit"] = r.measured->unit_of_n;
      out["interval"] = json_of(r.measured->range);
    }
    out["points"] = {{"held", r.held}, {"undecided", r.undecided}, {"failed", r.failed}};
    out["published"] = nullptr;
    if (c.published) {
      out["published"] = {{"value", c.published->value},
                          {"unit", c.published->unit},
                          {"source", c.published->source}};
    }
    out["tiny_models"] = r.tiny_models;
    out["synthetic"] = r.synthetic;
    out["note"] = c.note;
    all.push_back(out);
  }
  return json_text(all);
}

}  // namespace unmask
