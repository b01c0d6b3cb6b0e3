// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A run of a folder: every artifact in it in turn, each as a child process.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "harness/plan/catalogue.h"
#include "harness/rows/row_table.h"
#include "harness/rows/text_table.h"

namespace unmask {

enum class folder_status : std::uint8_t { measured, not_run, failed };
const char* name_of(folder_status status);  // "measured", "NOT RUN", "FAILED"

struct folder_item {
  artifact_entry artifact;
  std::string scale;
  // A claim about it reads the clock, so that it needs the machine for itself.
  bool timed = true;
  bool varying = false;      // only its points that another run may find otherwise (plan.h)
  double expected = 0;       // its work by a forecast, in the unit of the other items
  std::string omitted = {};  // why nobody asks for it; empty: somebody does

  std::string key() const { return artifact.header.paper + "/" + artifact.header.id + "/" + scale; }
};

// Why an item cannot be measured here: "NOT RUN: ...", or what is broken; empty: it can.
std::string obstacle_of(const folder_item& item);

struct folder_outcome {
  std::string paper, id, scale, title;
  folder_status status = folder_status::failed;
  std::string detail;        // why not, or the exit status and where the log is
  std::size_t rows = 0;      // reportable ones, all runs together
  double seconds = 0;        // of this run
  double total_seconds = 0;  // of all runs into this directory

  std::string key() const { return paper + "/" + id + "/" + scale; }
};

// Measures one artifact into a directory; the exit status of `unmask run`. May throw.
using artifact_runner =
    std::function<int(const folder_item& item, const std::filesystem::path& output)>;

// Rows of an artifact go to DIRECTORY/PAPER/ID/SCALE; what is there already is not measured again
// (the runner resumes). A failure is recorded and the next artifact begins. campaign.jsonl gets one
// line per artifact as soon as it is over; `progress` one line for people to read.
// With several lanes each has its share of the cores; first all artifacts that are not timed run,
// one in every lane, those with the most work first, then the timed ones, one after the other, in a lane of the same size. Outcomes
// are in the order of the items. `runner` is called from several threads.
std::vector<folder_outcome> run_folder(const std::vector<folder_item>& items,
                                       const std::filesystem::path& directory,
                                       const artifact_runner& runner, std::ostream& progress,
                                       std::size_t lanes = 1);

// The program itself as a child with `run FILE --scale S -o OUTPUT` and more arguments: a crash is
// that artifact's, and it is this program even where its file has been replaced. Its table goes to OUTPUT/table.md, what it says to OUTPUT/log.txt.
int run_artifact(const folder_item& item, const std::filesystem::path& output,
                 const std::vector<std::string>& more = {});

// Artifacts at the scale, in order; one that has no such scale is an item whose obstacle says so.
std::vector<folder_item> items_at(const std::vector<artifact_entry>& artifacts,
                                  const std::string& scale);

// What DIRECTORY/campaign.jsonl says: the last line of each artifact and scale, the time of all.
inline constexpr const char* folder_log = "campaign.jsonl";
std::vector<folder_outcome> read_folder_log(const std::filesystem::path& log);

text_table folder_table(const std::vector<folder_outcome>& outcomes);

}  // namespace unmask
