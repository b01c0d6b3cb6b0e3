// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>

#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/experiment/artifact_files.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;

int command_claims(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_output_option(options, "file; default: standard output");
  add_format_option(options, "md, csv, latex or json");
  options.add_options()("scale", po::value<std::string>()->default_value("tiny"),
                        "tiny, real, shapes or full")("only", po::value<texts>()->composing(),
                                                      "PAPER or PAPER/CLAIM (repeatable)");
  add_experiments_option(options);
  po::variables_map values;
  const char* epilogue =
      "\nThe papers' claims against the rows in RESULTS/PAPER/ARTIFACT/SCALE (default runs; unmask "
      "run FOLDER\nmeasures them). What is claimed: unmask list claims.\nverdicts: REPRODUCED; "
      "REPRODUCED (model), by synthetic weights or a virtual clock; PARTLY, some points hold;\n"
      "AMBIGUOUS, the sample is too small to tell; NOT REPRODUCED; NOT APPLICABLE, with the "
      "precondition that is\nnot met; NOT RUN, with what it needs.\nexit code 4 when a claim is "
      "NOT "
      "REPRODUCED or PARTLY\n";
  if (!parse_command("claims [RESULTS] [options]", epilogue, options, {"results"}, arguments,
                     values)) {
    return 0;
  }
  const table_format format = parse_table_format(text_of(values, "format"));
  const fs::path results = values.count("results") ? texts_of(values, "results").front() : "runs";
  const fs::path folder = fs::path(text_of(values, "experiments-dir")) / "claims";
  if (!fs::is_directory(folder))
    throw environment_error("there are no claims in " + folder.string());
  if (!fs::is_directory(results)) {
    throw environment_error("there are no results in " + results.string());
  }
  std::vector<paper_claim> claims = read_claims(folder);
  keep_claims(claims, texts_of(values, "only"));
  const std::vector<checked_claim> checked =
      check_claims(claims, results, text_of(values, "scale"), this_machine());
  write_output(values, format == table_format::json ? claims_json(checked)
                                                    : render(claims_table(checked), format));
  return exit_status_of(checked);
}

}  // namespace unmask
