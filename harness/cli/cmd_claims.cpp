// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <filesystem>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/experiment/artifact_files.h"

namespace unmask {
namespace fs = std::filesystem;

int command_claims(const texts& arguments) {
  const command_line line(
      "claims [RESULTS] [options]",
      {output_option("file; default: standard output"),
       format_option("md, csv, latex or json"),
       {"scale", std::string("tiny"), "tiny, real, shapes or full"},
       {"only", repeated(), "PAPER or PAPER/CLAIM (repeatable)"},
       experiments_option()},
      {"results"}, arguments,
      "\nThe papers' claims against the rows in RESULTS/PAPER/ARTIFACT/SCALE (default runs; unmask "
      "run FOLDER\nmeasures them). What is claimed: unmask list claims.\nverdicts: REPRODUCED; "
      "REPRODUCED (model), by synthetic weights or a virtual clock; PARTLY, some points hold;\n"
      "AMBIGUOUS, the sample is too small to tell; NOT REPRODUCED; NOT APPLICABLE, with the "
      "precondition that is\nnot met; NOT RUN, with what it needs.\nexit code 4 when a claim is "
      "NOT "
      "REPRODUCED or PARTLY\n");
  if (line.helped()) return 0;
  const table_format format = line.format();
  const fs::path results = line.given("results") ? line.list("results").front() : "runs";
  const fs::path folder = fs::path(line.text("experiments-dir")) / "claims";
  if (!fs::is_directory(folder))
    throw environment_error("there are no claims in " + folder.string());
  if (!fs::is_directory(results)) {
    throw environment_error("there are no results in " + results.string());
  }
  std::vector<paper_claim> claims = read_claims(folder);
  keep_claims(claims, line.list("only"));
  const std::vector<checked_claim> checked =
      check_claims(claims, results, line.text("scale"), this_machine());
  line.write(format == table_format::json ? claims_json(checked)
                                          : render(claims_table(checked), format));
  return exit_status_of(checked);
}

}  // namespace unmask
