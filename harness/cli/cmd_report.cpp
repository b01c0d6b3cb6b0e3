// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The page is drawn by plots/report.py, beside the figures it contains; this hands over to it.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/cli/command.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

// $UNMASK_PYTHON, else the one that `./dev plots` prepares, else the one on the path.
std::string python() {
  if (const char* given = std::getenv("UNMASK_PYTHON"); given && *given) return given;
  const fs::path prepared = ".venv/bin/python";
  return fs::exists(prepared) ? prepared.string() : "python3";
}

}  // namespace

int command_report(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(), "default DIR/report.html")(
      "title", po::value<std::string>(), "of the page")(
      "figures", "also save each result's figures as SVG, PNG and PDF beside its rows")(
      "plots-dir", po::value<std::string>()->default_value("plots"), "where report.py lies")(
      "experiments-dir", po::value<std::string>()->default_value("experiments"),
      "where experiment files lie, to name the one of each result");
  po::variables_map values;
  if (!parse_command("report DIR [options]",
                     "\nOne self-contained HTML page of the rows below DIR. Needs Python 3.11; "
                     "figures need plots/requirements.txt (./dev plots prepares both).\n",
                     options, {"dir"}, arguments, values)) {
    return 0;
  }
  if (!values.count("dir")) throw usage_error("report needs the folder of a run");
  const fs::path script = fs::path(values["plots-dir"].as<std::string>()) / "report.py";
  if (!fs::exists(script)) {
    throw environment_error(script.string() +
                            " is not there: run from the source tree or give --plots-dir");
  }
  std::vector<std::string> line = {
      python(), script.string(), values["dir"].as<std::vector<std::string>>().front(),
      "--experiments-dir", values["experiments-dir"].as<std::string>()};
  for (const char* name : {"output", "title"}) {
    if (!values.count(name)) continue;
    line.push_back(std::string("--") + name);
    line.push_back(values[name].as<std::string>());
  }
  if (values.count("figures")) line.emplace_back("--figures");
  std::vector<char*> words;
  for (std::string& word : line) words.push_back(word.data());
  words.push_back(nullptr);
  std::fflush(nullptr);
  ::execvp(words.front(), words.data());
  throw environment_error(
      fmt::format("NOT RUN: needs Python ({}: {}); install python3 or set UNMASK_PYTHON",
                  line.front(), std::strerror(errno)));
}

}  // namespace unmask
