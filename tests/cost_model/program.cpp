// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask_cost: prints what the cost model expects of five published models on a GPU that is not
// here. A tool for whoever writes a kernel; README.md says how to read it.
#include <boost/program_options.hpp>
#include <filesystem>
#include <sstream>
#include <string>

#include "harness/base/error.h"
#include "harness/base/output.h"
#include "harness/base/ranks/group.h"
#include "tests/cost_model/cost_sheet.h"
#include "tests/cost_model/newer_sheet.h"

namespace unmask {
namespace {

namespace po = boost::program_options;

po::options_description option_list() {
  po::options_description all("usage: unmask_cost [options]\n\noptions");
  all.add_options()("help,h", "print this text")("gpu",
                                                 po::value<std::string>()->default_value("h200"),
                                                 "predict for this GPU: h100, h200 or a100")(
      "tflops", po::value<double>()->default_value(0),
      "take this rate for its largest bfloat16 products, TFLOP/s (0: as declared)")(
      "terabytes", po::value<double>()->default_value(0),
      "take this copy rate, TB/s (0: as declared)")("goals", po::bool_switch(),
                                                    "print the goals alone")(
      "sums", po::bool_switch(), "print what sums over ranks take of a step, alone")(
      "ranks", po::value<int>()->default_value(1),
      "predict for models that so many of these GPUs run together")(
      "format", po::value<std::string>()->default_value("md"), "print md, csv, latex or json")(
      "shapes",
      po::value<std::string>()->default_value(std::string(UNMASK_SOURCE_DIR) +
                                              "/experiments/shapes"),
      "read the models' configurations from this folder")(
      "reads", po::value<double>()->default_value(0),
      "take this rate of reads alone, TB/s (0: as the copy)")(
      "newer", po::bool_switch(), "print the kernels that no card has measured alone");
  return all;
}

po::variables_map read_words(int argc, char** argv, const po::options_description& options) {
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  try {
    // No word stands without an option.
    po::store(
        po::command_line_parser(argc, argv).options(options).positional({}).style(style).run(),
        values);
    po::notify(values);
  } catch (const po::error& problem) {
    throw usage_error(std::string(problem.what()) + "; unmask_cost --help lists the options");
  }
  return values;
}

// Returns whether --newer was asked for.
bool print_newer(const po::variables_map& values, const device_ceilings& device) {
  if (!values["newer"].as<bool>()) return false;
  if (values["goals"].as<bool>() || values["ranks"].as<int>() != 1) {
    throw usage_error("--newer prints kernels of one GPU: leave out --goals and --ranks");
  }
  write_output(render(cost_newer(values["shapes"].as<std::string>(), device),
                      parse_table_format(values["format"].as<std::string>())));
  return true;
}

int print_costs(int argc, char** argv) {
  const po::options_description options = option_list();
  const po::variables_map values = read_words(argc, argv, options);
  if (values.contains("help")) {
    std::ostringstream text;
    text << options;
    write_output(text.str());
    return 0;
  }
  const device_ceilings device = measured_ceilings(
      ceilings_of(values["gpu"].as<std::string>()), 1e12 * values["tflops"].as<double>(),
      1e12 * values["terabytes"].as<double>(), 1e12 * values["reads"].as<double>());
  if (print_newer(values, device)) {
    check_output();
    return 0;
  }
  const std::filesystem::path shapes = values["shapes"].as<std::string>();
  const table_format format = parse_table_format(values["format"].as<std::string>());
  const int ranks = values["ranks"].as<int>();
  const bool goals = values["goals"].as<bool>(), sums = values["sums"].as<bool>();
  if (ranks < 1 || ranks > most_ranks) {
    throw usage_error("--ranks is " + std::to_string(ranks) + " but must be from 1 to " +
                      std::to_string(most_ranks));
  }
  if (goals && ranks > 1) throw usage_error("--goals are those of one GPU: leave out --ranks");
  if (sums && (goals || ranks > 1)) {
    throw usage_error("--sums are those of 1 to 8 ranks: leave out --goals and --ranks");
  }
  write_output(goals  ? render(cost_goals(shapes, device), format)
               : sums ? render(cost_sums(shapes, device), format)
                      : render(cost_sheet(shapes, device, ranks), format));
  check_output();
  return 0;
}

}  // namespace
}  // namespace unmask

int main(int argc, char** argv) {
  try {
    return unmask::print_costs(argc, argv);
  } catch (const unmask::error& problem) {
    unmask::write_error(std::string("unmask_cost: ") + problem.what() + "\n");
    return static_cast<int>(problem.code());
  } catch (const std::exception& problem) {
    unmask::write_error(std::string("unmask_cost: internal error: ") + problem.what() + "\n");
    return static_cast<int>(unmask::exit_code::run_failed);
  }
}
