// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sequential evidence: what a claim that is AMBIGUOUS would cost to decide, and the rounds of
// `unmask run FOLDER --decide MINUTES` that spend it. Looking again after every round makes a wrong
// verdict likelier than the 5 % of one interval; rounds are few (evidence at least doubles), and the
// number of rounds stands beside the verdict.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/analysis/claims.h"
#include "harness/experiment/campaign.h"

namespace unmask {

// Whether one of these claims is about the artifact and reads the clock: then it runs alone.
bool is_timed(const campaign_item& item, const std::vector<paper_claim>& claims);

// What the rows of an artifact rest on: factors of its file's items and repetitions, the rounds that
// led there, and the seconds of the measurement with these factors.
struct artifact_evidence {
  std::int64_t items = 1, repetitions = 1;
  std::size_t rounds = 0;
  double seconds = 0;
};
using evidence_log = std::map<std::string, artifact_evidence>;  // by PAPER/ID/SCALE
evidence_log read_evidence(const std::filesystem::path& campaign_jsonl);

// One artifact, to be measured with more evidence for the sake of some claims.
struct decide_step {
  campaign_item item;
  artifact_evidence next;  // seconds: expected
  std::vector<std::string> claims;
};

// More than this many times the evidence there is is not asked for: the value lies on the bound.
inline constexpr double hopeless_factor = 50;

// The next round: for every claim with undecided points the artifacts behind it, each with the most
// evidence that one of its claims needs, doubled at least and raised fourfold at most; those of least
// cost for each claim first, as long as `seconds_left` lasts. Claims in `given_up` (PAPER/CLAIM) are
// left alone.
std::vector<decide_step> next_round(const std::vector<checked_claim>& claims,
                                    const std::vector<campaign_item>& items,
                                    const evidence_log& evidence, double seconds_left,
                                    const std::map<std::string, std::string>& given_up);

// Adds to the reason of each undecided claim what deciding it would cost, or why it was given up.
void add_costs(std::vector<checked_claim>& claims, const std::vector<campaign_item>& items,
               const evidence_log& evidence, const std::map<std::string, std::string>& given_up);

// Judges the claims of the items; used again after every round.
using claim_judge = std::function<std::vector<checked_claim>()>;

// Measures round after round until no claim is undecided that can be, or `seconds` are spent. An
// artifact's rows are replaced when its round is complete, so that a stop loses none; the next call
// goes on with the round that was cut off. Returns the last verdicts, costs in their reasons.
std::vector<checked_claim> decide(const std::vector<campaign_item>& items,
                                  const std::filesystem::path& directory, double seconds,
                                  const artifact_runner& runner, const claim_judge& judge_claims,
                                  std::ostream& progress, std::size_t lanes = 1);

}  // namespace unmask
