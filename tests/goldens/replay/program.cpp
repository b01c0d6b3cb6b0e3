// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask_golden DIR: replays outputs of the official implementations and compares. A tool for whoever
// ports a method or a backend.
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/process.h"
#include "harness/base/ranks/launch.h"
#include "harness/base/ranks/memory.h"
#include "harness/base/run_keys.h"
#include "harness/devices/device.h"
#include "harness/measure/execute_parts.h"
#include "tests/goldens/replay/likelihood.h"
#include "tests/goldens/replay/pictures.h"
#include "tests/goldens/replay/replay.h"

namespace unmask {
namespace {

namespace po = boost::program_options;
using texts = std::vector<std::string>;

constexpr const char* usage =
    "usage: unmask_golden DIR [options]\n\n"
    "Replays the golden data of a folder: logits, decoding runs, likelihoods.\n\noptions:\n";

po::options_description option_list() {
  po::options_description all;
  all.add_options()("help,h", "print this text")(
      "method", po::value<texts>()->default_value({}, ""),
      "replay only this method or golden file (repeatable), without the logits")(
      "device", po::value<std::string>()->default_value("auto"),
      "auto, cpu, cuda, cuda-emulated or reference")("limit", po::value<int>()->default_value(0),
                                                     "replay at most N runs of each file (0: all)")(
      "max-rows", po::value<std::int64_t>()->default_value(0),
      "replay only runs that compute at most N rows in all (0: all): for slow backends")(
      "ranks", po::value<int>()->default_value(1),
      "run the models on this many processes together; likelihoods stay whole on each. Models that "
      "cannot be dealt to them are left out")(
      "pieces", po::value<int>()->default_value(0),
      "add as many parts of every sum, as the run key does (0: one for each rank)")(
      "experts", po::value<std::string>()->default_value("hidden"),
      "what ranks or pieces share of experts, as the run key does: hidden or experts")(
      "data", po::value<texts>()->default_value({}, ""),
      "look for models/ and tokenizers/ of likelihoods here before DIR/data, DIR/../data and "
      "DIR/../goldens (repeatable)")("quiet,q", po::bool_switch(),
                                     "print failures and the summary only")(
      "allow-skips", po::bool_switch(), "end with 0 although cases were skipped");
  return all;
}

// Nothing where only help was asked for.
std::optional<po::variables_map> read_words(int argc, char** argv) {
  po::options_description shown = option_list(), all;
  all.add(shown).add_options()("dir", po::value<std::string>());
  po::variables_map values;
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(argc, argv)
                  .options(all)
                  .positional(po::positional_options_description().add("dir", 1))
                  .style(style)
                  .run(),
              values);
    po::notify(values);
  } catch (const po::error& problem) {
    throw usage_error(std::string(problem.what()) + "; unmask_golden --help lists the options");
  }
  if (values.contains("help")) {
    std::ostringstream text;
    text << usage << shown;
    write_output(text.str());
    return {};
  }
  if (!values.contains("dir"))
    throw usage_error("unmask_golden needs the folder of the golden data");
  return values;
}

golden_options options_of(const po::variables_map& values) {
  golden_options o;
  o.directory = values["dir"].as<std::string>();
  o.methods = values["method"].as<texts>();
  o.quiet = values["quiet"].as<bool>();
  o.limit = values["limit"].as<int>();
  o.max_rows = values["max-rows"].as<std::int64_t>();
  if (o.limit < 0 || o.max_rows < 0)
    throw usage_error("--limit and --max-rows must not be negative");
  const std::string wanted = values["device"].as<std::string>();
  find_known("device", wanted, find_run_key("device")->choices());
  const chosen_device device = choose_device(wanted);
  run_keys run;
  run.device = device.name;
  o.backend = &backend_of(run);
  tell("{}\n", device_line({device}));
  return o;
}

// How the models are cut.
run_keys cut_by(const po::variables_map& values) {
  run_keys run;
  run.ranks = values["ranks"].as<int>();
  run.pieces = values["pieces"].as<int>();
  run.experts = values["experts"].as<std::string>();
  if (run.ranks < 1 || run.ranks > most_ranks) {
    throw usage_error("--ranks must be from 1 to " + std::to_string(most_ranks));
  }
  if (run.pieces < 0) throw usage_error("--pieces must not be negative");
  find_known("experts", run.experts, find_run_key("experts")->choices());
  return run;
}

// The processes that replay together: each runs the same list of cases, on its share of the models.
class golden_ranks {
 public:
  // `place`: RANK FILE of one that was started by rank 0; null: this is rank 0.
  golden_ranks(const run_keys& cut, const char* place) : share(share_of(0, cut)) {
    const auto ranks = static_cast<int>(cut.ranks);
    if (ranks == 1) return;
    int rank = 0;
    std::shared_ptr<rank_memory> memory;
    if (place == nullptr) {
      memory = rank_memory::create(ranks);
      start_others(ranks, memory->file());
    } else {
      const std::string text = place;
      rank = std::stoi(text);
      memory = rank_memory::open(text.substr(text.find(' ') + 1));
    }
    group_ = std::make_unique<rank_group>(memory, rank);
    group_->watch([this](int r) {
      const bool gone =
          r > 0 && !others_.empty() && others_[static_cast<std::size_t>(r - 1)]->ended();
      return gone ? "rank " + std::to_string(r) + " has ended" : std::string();
    });
    force_.emplace(group_.get());
    share = share_of(rank, cut);
  }
  static constexpr const char* variable = "UNMASK_GOLDEN_RANK";
  // The others have come to the same place.
  void end() {
    if (group_) group_->gather(std::string());
    for (const auto& other : others_) other->let_end(10);
  }
  model_share share;

 private:
  void start_others(int ranks, const std::string& file) {
    const texts words = own_words();
    for (int r = 1; r < ranks; ++r) {
      texts command = {"env", std::string(variable) + "=" + std::to_string(r) + " " + file,
                       "CUDA_VISIBLE_DEVICES=" + gpus_of_rank(r),
                       "/proc/" + std::to_string(::getpid()) + "/exe"};
      command.insert(command.end(), words.begin() + 1, words.end());
      others_.push_back(std::make_unique<child_process>(command, "/dev/null", ""));
    }
  }
  std::vector<std::unique_ptr<child_process>> others_;
  std::unique_ptr<rank_group> group_;
  std::optional<ranks_in_force> force_;
};

void print_result(const golden_result& file, bool quiet) {
  if (quiet && file.failed == 0) return;
  print("{:<44} {} passed, {} failed\n", file.file, file.passed, file.failed);
  for (const std::string& reason : file.first_failures) print("  {}\n", reason);
}

golden_summary replay_all(const golden_options& o, const texts& data) {
  golden_summary sum;
  const auto add = [&](const golden_summary& part) {
    sum.passed += part.passed;
    sum.failed += part.failed;
    sum.skipped += part.skipped;
    sum.left_out += part.left_out;
  };
  golden_results likelihoods;
  if (o.methods.empty()) {
    likelihoods = replay_likelihood(o.directory, {data.begin(), data.end()}, *o.backend);
  }
  for (const std::string& reason : likelihoods.not_run) print("NOT RUN: {}\n", reason);
  sum.skipped += static_cast<int>(likelihoods.not_run.size());
  for (const golden_result& file : likelihoods.files) {
    print_result(file, o.quiet);
    add({file.passed, file.failed});
  }
  if (likelihoods.files.empty() || std::filesystem::exists(o.directory / "decode")) {
    if (o.methods.empty()) add(replay_vision(o));
    if (o.methods.empty()) add(replay_logits(o));
    add(replay_decode(o));
  }
  return sum;
}

}  // namespace

std::int32_t recorded_number(const nlohmann::json& value) {
  const bool large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT32_MAX;
  const std::int64_t number = value.is_number_integer() && !large ? value.get<std::int64_t>() : -1;
  if (!value.is_number_integer() || large || number < INT32_MIN) {
    throw environment_error("not a whole number of 32 bits: " + value.dump().substr(0, 40));
  }
  return static_cast<std::int32_t>(number);
}

std::vector<std::int32_t> recorded_numbers(const nlohmann::json& values) {
  if (!values.is_array()) throw environment_error("not a list of whole numbers");
  std::vector<std::int32_t> numbers;
  for (const nlohmann::json& value : values) numbers.push_back(recorded_number(value));
  return numbers;
}

std::string recording_problem(const std::exception& problem) {
  const std::string text = problem.what();
  return text.starts_with("[json.exception") ? text.substr(text.find("] ") + 2) : text;
}

namespace {

int replay_golden_data(int argc, char** argv) {
  const auto values = read_words(argc, argv);
  if (!values) return 0;
  golden_options o = options_of(*values);
  golden_ranks ranks(cut_by(*values), std::getenv(golden_ranks::variable));
  o.share = ranks.share;
  const golden_summary sum = replay_all(o, (*values)["data"].as<texts>());
  ranks.end();
  if (sum.passed + sum.failed + sum.skipped == 0 && sum.left_out > 0) {
    throw usage_error("--max-rows " + std::to_string(o.max_rows) + " leaves out every golden case");
  }
  if (sum.passed + sum.failed + sum.skipped == 0) {
    throw usage_error("no golden case matches; see the file names under " +
                      (o.directory / "decode").string());
  }
  print("{} passed, {} failed", sum.passed, sum.failed);
  if (sum.skipped > 0) print(", {} skipped", sum.skipped);
  if (sum.left_out > 0) {
    print(", {} left out by --limit, --max-rows or models that cannot be dealt", sum.left_out);
  }
  print("\n");
  check_output();
  const bool skips = sum.skipped > 0 && !(*values)["allow-skips"].as<bool>();
  if (skips) {
    check_output();
    throw error(exit_code::run_failed, std::to_string(sum.skipped) +
                                           " skipped: what is not replayed shows nothing; " +
                                           "--allow-skips takes it so");
  }
  return static_cast<int>(sum.failed == 0 ? exit_code::ok : exit_code::run_failed);
}

}  // namespace
}  // namespace unmask

int unmask_golden_main(int argc, char** argv) {
  try {
    return unmask::replay_golden_data(argc, argv);
  } catch (const unmask::error& problem) {
    unmask::write_error(std::string("unmask_golden: ") + problem.what() + "\n");
    return static_cast<int>(problem.code());
  } catch (const std::exception& problem) {
    unmask::write_error(std::string("unmask_golden: internal error: ") + problem.what() + "\n");
    return static_cast<int>(unmask::exit_code::run_failed);
  }
}

// Weak: the GPU check's one program (tests/gpu/multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_golden_main(argc, argv);
}
