// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks that end at every place of a run, or compute something else: the point is FAILED and names the rank, the
// next one is measured by new ranks, and the same command measures what is missing of the first.
#include "tests/harness/cli/planted_death.h"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <utility>

#include "harness/base/process.h"
#include "harness/base/ranks/group.h"
#include "harness/devices/device.h"
#include "kernels/head.h"
#include "kernels/ranks.h"
#include "tests/harness/cli/program.h"
#include "tests/harness/cli/ranked_runs.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::comes_true;
using test::followers_in;
using test::shell_word;

// ---- in the program ----

struct death {
  int rank = -1;
  std::string how, place;
  int number = 0;
  fs::path file;
};
death planted;
int times_there = 0;

bool has_come() {
  return ++times_there == planted.number && ::unlink(planted.file.c_str()) == 0;
}

bool differs_now = false;

void meet_it() {
  differs_now = planted.how == "differ";
  if (planted.how == "kill") ::raise(SIGKILL);
  if (planted.how == "stop") ::raise(SIGSTOP);
  if (planted.how == "exit") std::exit(1);
  if (planted.how == "no_memory") throw std::bad_alloc();
}

void come_to(const char* place) {
  const rank_group* group = current_ranks();
  if (planted.place != place || group == nullptr || group->rank() != planted.rank) return;
  if (has_come()) meet_it();
}

template <class P>
typename detail::bodies<P>::body right = nullptr;
void mortal_sum(const backend& with, const op::sum_ranks& args) {
  come_to("sum");
  right<op::sum_ranks>(with, args);
  if (!std::exchange(differs_now, false)) return;
  for (std::int64_t r = 0; r < args.y.rows(); ++r) {
    for (std::int64_t d = 0; d < args.y.columns(); ++d) args.y.row<float>(r)[d] *= -1;
  }
}
void mortal_head(const backend& with, const op::confidence& args) {
  come_to("head");
  right<op::confidence>(with, args);
}
template <class P>
void replace(typename detail::bodies<P>::body with) {
  right<P> = std::exchange(detail::bodies<P>::of[static_cast<std::size_t>(target::cpu)], with);
}

const backend& mortal_kernels(const run_keys& run) {
  come_to("loading");
  return find_device("cpu").kernels(run);
}

int own_rank() {
  const char* follows = std::getenv("UNMASK_FOLLOWS");
  return follows == nullptr ? 0 : std::atoi(follows);
}

// Rank 0 asks what a pass costs before it begins one: the others wait for its command.
energy_meter meter_of_a_pass() {
  if (planted.how == "unmetered") {
    return energy_meter(own_rank() == planted.rank ? "" : "0000:17:00.0", UNMASK_FAKE_NVML);
  }
  if (planted.place == "pass" && own_rank() == 0 && has_come()) {
    const std::vector<pid_t> all = followers_in(fs::current_path());
    ::kill(all.at(static_cast<std::size_t>(planted.rank - 1)),
           planted.how == "stop" ? SIGSTOP : SIGKILL);
  }
  return energy_meter("");
}

}  // namespace

bool test::plant_death() {
  const char* asked = std::getenv("UNMASK_PLANTED");
  if (asked == nullptr) return false;
  std::istringstream in(asked);
  std::string file;
  in >> planted.rank >> planted.how >> planted.place >> planted.number >> std::ws;
  std::getline(in, file);
  planted.file = file;
  if (planted.place == "start" && own_rank() == planted.rank && has_come()) meet_it();
  replace<op::sum_ranks>(mortal_sum);
  replace<op::confidence>(mortal_head);
  device mortal = find_device("cpu");
  mortal.name = "mortal";
  mortal.kernels = mortal_kernels;
  mortal.energy = meter_of_a_pass;
  register_device(mortal);
  return true;
}

namespace {

// ---- in the test ----

// NUMBER: of the sums
constexpr int last_of_two_passes = -1, first_of_the_second = -2;

struct ranked_death {
  const char *name, *how, *place;
  int number;
  const char* reason;
  int kept;  // passes of the first point that were made before
};
void PrintTo(const ranked_death& d, std::ostream* out) {
  *out << d.name;
}

constexpr const char* killed = "was ended by signal 9";
constexpr const char* ended = "ended with exit code 1";
constexpr const char* no_memory = "rank 1: no memory is left for its share of the model";
constexpr const char* different = "ranks 0 and 1 computed other values in step ";
constexpr const char* silent = "rank 1 did not answer within 1 s while rank 0 waited";
constexpr const char* silent_in_loading =
    "rank 1 did not answer within 4 s while rank 0 waited (UNMASK_RANKS_LOADING_PATIENCE sets the "
    "seconds)";

using test::ranked_runs;

class ranked_deaths : public test::ranked_runs, public ::testing::WithParamInterface<ranked_death> {
 protected:
  static std::string own_program() { return fs::read_symlink("/proc/self/exe"); }
  bool stops() const { return std::string(GetParam().how) == "stop"; }
  bool is_waited_for_longer() const {
    return std::string(GetParam().place) == "start" || std::string(GetParam().place) == "loading";
  }
  // The run, as a line for the shell.
  std::string line(int number) const {
    const ranked_death& d = GetParam();
    const std::string what = "UNMASK_PLANTED=1 " + std::string(d.how) + " " + d.place + " " +
                             std::to_string(number) + " " + once();
    const char* patience = " UNMASK_RANKS_PATIENCE=1 UNMASK_RANKS_LOADING_PATIENCE=4 ";
    return "env " + shell_word(what) + (stops() ? patience : " ") + shell_word(own_program()) +
           " run x.toml -o out --no-progress --ranks 2 --device mortal";
  }
  std::string once() const { return folder() + "/once"; }
  // Sums of a pass of the first point: two in each of five layers; what the head sends is none.
  int sums_of_a_pass() const {
    const test::outcome o = test::run_program(
        folder(), "run x.toml -o whole --no-progress --ranks 2 --device cpu --points " +
                      shell_word("{gen_length = 8}"));
    EXPECT_EQ(o.code, 0) << o.text;
    return 2 * 5 * rows_in("whole").at(0).at("metrics").at("batched_forwards").get<int>();
  }
  // Runs until it has come and the run has ended, and looks at both.
  void run_with(int number) const {
    std::ofstream(once()) << "\n";
    child_process run({"sh", "-c", "cd " + shell_word(folder()) + " && exec " + line(number)},
                      folder() + "/out.txt", folder() + "/err.txt");
    ASSERT_TRUE(comes_true([&] { return !fs::exists(once()); }, 60))
        << test::text_of(folder() + "/err.txt");
    const auto came = std::chrono::steady_clock::now();
    ASSERT_TRUE(comes_true([&] { return !rows_in("out").empty(); }, 20));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - came;
    EXPECT_LT(took.count(), !stops() ? 2 : is_waited_for_longer() ? 6 : 3);
    ASSERT_TRUE(comes_true([&] { return run.ended().has_value(); }, 60));
    EXPECT_EQ(test::exit_code_of(*run.ended()), 1) << test::text_of(folder() + "/err.txt");
  }
};

TEST_P(ranked_deaths, cost_their_point_the_pass_in_flight) {
  const ranked_death& d = GetParam();
  write("block_diffusion", 1, "[sweep]\ngen_length = [8, 16]\n", "tiny-sdar", 2);
  const int sums = d.number < 0 ? sums_of_a_pass() : 0;
  const int number = d.number == last_of_two_passes    ? 2 * sums
                     : d.number == first_of_the_second ? sums + 1
                                                       : d.number;
  run_with(number);
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("verdict"), "FAILED");
  const std::string reason = rows[0].at("reason");
  EXPECT_NE(reason.find(d.reason), std::string::npos) << reason;
  EXPECT_TRUE(reason.find("rank 1") != std::string::npos ||
              reason.find("ranks 0 and 1") != std::string::npos)
      << reason;
  EXPECT_NE(rows[1].at("verdict"), "FAILED") << rows[1].at("reason");
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
  const test::outcome again = test::run_shell(folder(), line(number));
  EXPECT_EQ(again.code, 0) << again.text;
  const std::vector<json> all = rows_in("out");
  ASSERT_EQ(all.size(), 3U) << again.text;
  EXPECT_EQ(all[2].at("point_id"), rows[0].at("point_id"));
  EXPECT_NE(all[2].at("verdict"), "FAILED") << all[2].at("reason");
  EXPECT_EQ(all[2].at("samples").value("taken_up", 0), d.kept);
}

// By hand: each device takes 2.5 J between two readings of its counter, and 412 W, held down by its power cap.
TEST_F(ranked_runs, add_the_energy_of_their_devices) {
  write("block_diffusion", 1);
  const auto row_of = [&](const std::string& output, int unmetered, int ranks) {
    const test::outcome o = test::run_shell(
        folder(), "UNMASK_PLANTED=" + shell_word(std::to_string(unmetered) + " unmetered - 0 -") +
                      " " + shell_word(fs::read_symlink("/proc/self/exe")) + " run x.toml -o " +
                      output + " --no-progress --device mortal --ranks " + std::to_string(ranks));
    EXPECT_EQ(o.code, 0) << o.text;
    return rows_in(output).at(0);
  };
  const json one = row_of("one", -1, 1).at("metrics"), none = row_of("none", 0, 1).at("metrics");
  EXPECT_EQ(one.at("energy_joules"), 2.5);
  EXPECT_EQ(one.at("watts_mean"), 412);
  EXPECT_EQ(one.at("clock_mhz_mean"), 1755);
  EXPECT_EQ(one.at("throttled_share"), 1);
  for (const char* absent : {"energy_joules", "watts_mean", "clock_mhz_mean", "throttled_share"}) {
    EXPECT_FALSE(none.contains(absent)) << absent;
  }
  const json all = row_of("all", -1, 2), part = row_of("part", 1, 2);
  EXPECT_EQ(all.at("metrics").at("energy_joules"), 5);
  EXPECT_EQ(all.at("metrics").at("watts_mean"), 824);
  EXPECT_EQ(all.at("metrics").at("clock_mhz_mean"), 1755);
  EXPECT_EQ(all.at("metrics").at("throttled_share"), 1);
  EXPECT_EQ(all.at("metrics").at("joules_per_token").get<double>(),
            5 / all.at("metrics").at("output_tokens").get<double>());
  EXPECT_EQ(all.at("reason").get<std::string>().find("no energy"), std::string::npos);
  for (const char* absent : {"energy_joules", "watts_mean", "joules_per_token"}) {
    EXPECT_FALSE(part.at("metrics").contains(absent)) << absent;
  }
  EXPECT_NE(part.at("reason").get<std::string>().find(
                "no energy: the driver of rank 1 does not say what its device takes"),
            std::string::npos)
      << part.at("reason");
}

INSTANTIATE_TEST_SUITE_P(
    of, ranked_deaths,
    ::testing::Values(
        ranked_death{"killed_at_its_start", "kill", "start", 1, killed, 0},
        ranked_death{"ended_at_its_start", "exit", "start", 1, ended, 0},
        ranked_death{"killed_while_loading", "kill", "loading", 2, killed, 0},
        ranked_death{"ended_before_loading", "exit", "loading", 1, ended, 0},
        ranked_death{"no_memory_to_load", "no_memory", "loading", 2, no_memory, 0},
        ranked_death{"ended_at_the_first_sum", "exit", "sum", 1, ended, 0},
        ranked_death{"no_memory_at_a_sum", "no_memory", "sum", 1, no_memory, 0},
        ranked_death{"stopped_at_the_first_sum", "stop", "sum", 1, silent, 0},
        ranked_death{"killed_at_the_head", "kill", "head", 1, killed, 0},
        ranked_death{"killed_in_the_last_step", "kill", "sum", last_of_two_passes, killed, 1},
        ranked_death{"stopped_at_its_start", "stop", "start", 1, silent_in_loading, 0},
        ranked_death{"stopped_while_loading", "stop", "loading", 2, silent_in_loading, 0},
        ranked_death{"killed_at_the_first_sum", "kill", "sum", 1, killed, 0},
        ranked_death{"ended_at_the_head", "exit", "head", 1, ended, 0},
        ranked_death{"no_memory_at_the_head", "no_memory", "head", 1, no_memory, 0},
        ranked_death{"stopped_at_the_head", "stop", "head", 1, silent, 0},
        ranked_death{"ended_in_the_last_step", "exit", "sum", last_of_two_passes, ended, 1},
        ranked_death{"no_memory_in_the_last_step", "no_memory", "sum", last_of_two_passes,
                     no_memory, 1},
        ranked_death{"stopped_in_the_last_step", "stop", "sum", last_of_two_passes, silent, 1},
        ranked_death{"ended_as_the_second_pass_began", "exit", "sum", first_of_the_second, ended,
                     1},
        ranked_death{"no_memory_as_the_second_pass_began", "no_memory", "sum", first_of_the_second,
                     no_memory, 1},
        ranked_death{"different_from_the_first_sum_on", "differ", "sum", 1, different, 0},
        ranked_death{"different_in_the_second_pass", "differ", "sum", first_of_the_second,
                     different, 1},
        ranked_death{"killed_between_passes", "kill", "pass", 2, killed, 1},
        ranked_death{"stopped_between_passes", "stop", "pass", 2, silent, 1}),
    [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace unmask
