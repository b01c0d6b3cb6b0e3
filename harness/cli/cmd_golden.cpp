// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>

#include "harness/cli/command.h"
#include "harness/cli/golden.h"

namespace unmask {
namespace po = boost::program_options;

int command_golden(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("method", po::value<std::vector<std::string>>()->composing(),
                        "only this method or golden file (repeatable); leaves out the logits")(
      "backend", po::value<std::string>()->default_value("cpu"),
      "cpu, reference, cuda or cuda-emulated")("quiet,q", "print failures and the summary only");
  po::variables_map values;
  if (!parse_command("golden DIR [options]", "", options, {"dir"}, arguments, values)) return 0;
  if (!values.count("dir")) throw usage_error("golden needs the folder of the golden data");
  golden_options o;
  o.directory = values["dir"].as<std::vector<std::string>>().front();
  if (values.count("method")) o.methods = values["method"].as<std::vector<std::string>>();
  o.quiet = values.count("quiet") > 0;
  const std::string backend = values["backend"].as<std::string>();
  o.backend = &backend_named(backend);

  golden_summary sum;
  const auto add = [&](const golden_summary& part) {
    sum.passed += part.passed;
    sum.failed += part.failed;
    sum.skipped += part.skipped;
  };
  if (o.methods.empty()) add(replay_logits(o));
  add(replay_decode(o));
  if (sum.passed + sum.failed + sum.skipped == 0) {
    throw usage_error("no golden case matches; see the file names under " +
                      (o.directory / "decode").string());
  }
  fmt::print("{} passed, {} failed", sum.passed, sum.failed);
  if (sum.skipped > 0) fmt::print(", {} skipped", sum.skipped);
  fmt::print("\n");
  return static_cast<int>(sum.failed == 0 ? exit_code::ok : exit_code::run_failed);
}

}  // namespace unmask
