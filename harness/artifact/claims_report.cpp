// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/artifact/claims.h"

namespace unmask {
namespace {

std::string cell(std::string text) {
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) {
    text.insert(i, "\\");
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

std::string claims_markdown(const std::vector<checked_claim>& claims) {
  std::string text =
      "| paper | claim | scale | verdict | measured here | published | reason |\n"
      "|---|---|---|---|---|---|---|\n";
  std::map<claim_verdict, std::size_t> count;
  for (const auto& [claim, result] : claims) {
    ++count[result.verdict];
    std::string published = "–";
    if (claim.published) {
      published = fmt::format("{}{}{} ({})", claim.published->value,
                              claim.published->unit.empty() ? "" : " ", claim.published->unit,
                              claim.published->source);
    }
    text += fmt::format("| {} | {} ({}) | {} | {} | {} | {} | {} |\n", cell(claim.paper),
                        cell(claim.statement), cell(claim.source), cell(result.scale),
                        name_of(result.verdict),
                        result.measured ? cell(estimate_text(*result.measured)) : "–",
                        cell(published), cell(result.reason));
  }
  text += "\n";
  for (const claim_verdict v :
       {claim_verdict::reproduced, claim_verdict::partly, claim_verdict::ambiguous,
        claim_verdict::not_reproduced, claim_verdict::not_run}) {
    text +=
        fmt::format("{}{} {}", v == claim_verdict::reproduced ? "" : ", ", count[v], name_of(v));
  }
  return text + fmt::format(", of {} claims\n", claims.size());
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
                                  {"verdict", name_of(r.verdict)},
                                  {"reason", r.reason},
                                  {"measured", nullptr},
                                  {"interval", nullptr},
                                  {"n", nullptr}};
    if (r.measured) {
      out["measured"] = r.measured->value;
      out["n"] = r.measured->n;
      out["n_unit"] = r.measured->unit_of_n;
      if (r.measured->range) {
        out["interval"] = {r.measured->range->low, r.measured->range->high};
      }
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
  return all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace unmask
