// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every artifact in turn, then the claims: what one command of an artifact evaluation does.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "harness/artifact/catalogue.h"
#include "harness/artifact/claims.h"

namespace unmask {

enum class campaign_status : std::uint8_t { measured, not_run, failed };
const char* name_of(campaign_status status);  // "measured", "NOT RUN", "FAILED"

struct campaign_item {
  artifact_entry artifact;
  std::string scale;
};

struct campaign_outcome {
  std::string paper, id, scale, title;
  campaign_status status = campaign_status::failed;
  std::string detail;        // why not, or the exit status and where the log is
  std::size_t rows = 0;      // believable ones, all runs together
  double seconds = 0;        // of this run
  double total_seconds = 0;  // of all runs into this directory
};

// Measures one artifact into a directory; the exit status of `unmask run`. May throw.
using artifact_runner =
    std::function<int(const campaign_item& item, const std::filesystem::path& output)>;

// Rows of an artifact go to DIRECTORY/PAPER/ID/SCALE; what is there already is not measured again
// (the runner resumes). A failure is recorded and the next artifact begins. campaign.jsonl gets one
// line per artifact as soon as it is over; `progress` one line for the eye.
std::vector<campaign_outcome> run_campaign(const std::vector<campaign_item>& items,
                                           const std::filesystem::path& directory,
                                           const artifact_runner& runner, std::ostream& progress);

// The program itself as a child with `run FILE --scale S -O OUTPUT`: a crash is that artifact's.
// Its table goes to OUTPUT/table.md, what it says to OUTPUT/log.txt.
int run_artifact(const campaign_item& item, const std::filesystem::path& output);

// Artifacts at the scale, in order; one that has no such scale is an item whose obstacle says so.
std::vector<campaign_item> items_at(const std::vector<artifact_entry>& artifacts,
                                    const std::string& scale);

std::string campaign_markdown(const std::vector<campaign_outcome>& outcomes);

// Each claim against the rows in RESULTS/PAPER/ID/SCALE. NOT RUN, with what is needed, where the
// claim is not for this scale, the machine lacks something or there are no rows.
std::vector<checked_claim> check_claims(const std::vector<paper_claim>& claims,
                                        const std::filesystem::path& results,
                                        const std::string& scale, const machine_view& machine);

// 4 when a claim is NOT REPRODUCED or only PARTLY; else 0.
int exit_status_of(const std::vector<checked_claim>& claims);

}  // namespace unmask
