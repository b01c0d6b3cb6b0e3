// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <map>

#include <fmt/format.h>

#include "harness/analysis/claims.h"
#include "harness/analysis/json_of.h"

namespace unmask {

text_table claims_table(const std::vector<checked_claim>& claims) {
  text_table t{"paper",         "claim",     "scale", "verdict",
               "measured here", "published", "size",  "reason"};
  std::map<verdict, std::size_t> count;
  for (const auto& [claim, result] : claims) {
    ++count[result.judged];
    std::string published = "–";
    if (claim.published) {
      published = fmt::format("{}{}{} ({})", claim.published->value,
                              claim.published->unit.empty() ? "" : " ", claim.published->unit,
                              claim.published->source);
    }
    const std::string variant = claim.variant.empty() ? "" : "; of " + claim.variant;
    const std::string size = name_of(result.size);
    t.add({claim.paper, fmt::format("{} ({}{})", claim.statement, claim.source, variant),
           result.scale, name_of(result.judged),
           result.measured ? estimate_text(*result.measured) : "–", published,
           size.empty() ? "–" : size, result.reason});
  }
  std::string counts;
  for (const verdict v :
       {verdict::reproduced, verdict::reproduced_model, verdict::partly, verdict::ambiguous,
        verdict::not_reproduced, verdict::not_applicable, verdict::not_run}) {
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
                                  {"variant", c.variant},
                                  {"artifacts", nlohmann::ordered_json::array()},
                                  {"scale", r.scale},
                                  {"kind", name_of(c.kind)},
                                  {"metric", c.left.metric},
                                  {"verdict", name_of(r.judged)},
                                  {"tone", tone_of(name_of(r.judged))},
                                  {"reason", r.reason},
                                  {"measured", nullptr},
                                  {"interval", nullptr},
                                  {"n", nullptr}};
    for (const auto& file : c.artifacts) out["artifacts"].push_back(file.generic_string());
    if (r.measured) {
      out["measured"] = r.measured->value;
      out["n"] = r.measured->n;
      out["n_unit"] = r.measured->unit_of_n;
      out["interval"] = json_of(r.measured->range);
    }
    // Infinity, no amount of evidence, is written as null.
    if (r.judged == verdict::ambiguous) out["evidence_to_decide"] = r.evidence_factor;
    out["points"] = {{"held", r.held},
                     {"undecided", r.undecided},
                     {"failed", r.failed},
                     {"out_of_regime", r.out_of_regime}};
    out["published"] = nullptr;
    if (c.published) {
      out["published"] = {{"value", c.published->value},
                          {"unit", c.published->unit},
                          {"source", c.published->source},
                          {"size", r.size == published_size::not_compared
                                       ? nlohmann::ordered_json()
                                       : nlohmann::ordered_json(name_of(r.size))}};
    }
    out["tiny_models"] = r.tiny_models;
    out["synthetic"] = r.synthetic;
    out["note"] = c.note;
    all.push_back(out);
  }
  return json_text(all);
}

}  // namespace unmask
