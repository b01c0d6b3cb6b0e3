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

// What rows rest on: factors of their file's items and repetitions, the rounds that led there, and the
// seconds of the measurement with these factors.
struct artifact_evidence {
  std::int64_t items = 1, repetitions = 1;
  std::size_t rounds = 0;
  double seconds = 0;
};
// By PAPER/ID/SCALE that of all points of an artifact, by "PAPER/ID/SCALE PAPER/CLAIM" that of the
// points behind one claim.
using evidence_log = std::map<std::string, artifact_evidence>;
evidence_log read_evidence(const std::filesystem::path& campaign_jsonl);
// The log, and for each claim without rounds of its own the share of an artifact's seconds that the
// points behind it took, by their times and, where the clock is virtual, by their number.
evidence_log evidence_of(const std::vector<checked_claim>& claims,
                         const std::vector<campaign_item>& items,
                         const std::filesystem::path& directory);

// The points of one artifact behind some claims, to be measured with more evidence.
struct decide_step {
  campaign_item item;
  double seconds = 0;  // expected
};

// The next round: for every claim with undecided points these points, with twice or four times their
// evidence, as it needs; those of several claims about one artifact together. Those of least cost for
// each claim come first, as long as `seconds_left` lasts: what a claim needs in all is no criterion, as
// few items do not tell how near its bound a value lies. Claims in `given_up` (PAPER/CLAIM), and those
// whose value lies on the bound, are left alone.
std::vector<decide_step> next_round(const std::vector<checked_claim>& claims,
                                    const std::vector<campaign_item>& items,
                                    const evidence_log& evidence, double seconds_left,
                                    const std::map<std::string, std::string>& given_up);

// Adds to the reason of each undecided claim what deciding it would cost, or why it was given up.
void add_costs(std::vector<checked_claim>& claims, const std::vector<campaign_item>& items,
               const evidence_log& evidence, const std::map<std::string, std::string>& given_up);

// Judges the claims of the items; used again after every round.
using claim_judge = std::function<std::vector<checked_claim>()>;

// Measures round after round until no claim is undecided that can be, or `seconds` are spent. A
// claim is judged by its new rows when all of them are there, so that a stop loses none; the next call
// goes on with the round that was cut off. Returns the last verdicts, costs in their reasons.
std::vector<checked_claim> decide(const std::vector<campaign_item>& items,
                                  const std::filesystem::path& directory, double seconds,
                                  const artifact_runner& runner, const claim_judge& judge_claims,
                                  std::ostream& progress, std::size_t lanes = 1);

}  // namespace unmask
