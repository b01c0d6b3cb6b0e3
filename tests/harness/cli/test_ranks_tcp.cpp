// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks of several machines, which are processes that a launcher says are elsewhere: they move bytes by TCP.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/base/process.h"
#include "harness/base/ranks/tcp.h"
#include "tests/harness/cli/program.h"
#include "tests/harness/cli/ranked_runs.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::comes_true;

class ranks_of_machines : public test::ranked_runs {
 protected:
  // Variables as torchrun sets them on each of several machines, with so many ranks on one.
  std::string variables_of(int rank, int ranks, int of_one = 1) const {
    return "OMP_NUM_THREADS=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(port_) +
           " RANK=" + std::to_string(rank) + " WORLD_SIZE=" + std::to_string(ranks) +
           " LOCAL_RANK=" + std::to_string(rank % of_one) +
           " LOCAL_WORLD_SIZE=" + std::to_string(of_one);
  }
  std::string said_by(int rank) const { return folder() + "/err" + std::to_string(rank); }
  std::unique_ptr<child_process> start(int rank, const std::string& variables,
                                       const std::string& arguments) const {
    const std::string line = "cd " + test::shell_word(folder()) + " && exec env " + variables +
                             " " + test::shell_word(UNMASK_PROGRAM) +
                             " run x.toml --no-progress --device cpu " + arguments;
    return std::make_unique<child_process>(std::vector<std::string>{"sh", "-c", line},
                                           folder() + "/out" + std::to_string(rank), said_by(rank));
  }
  std::vector<std::unique_ptr<child_process>> start_all(int ranks, const std::string& arguments,
                                                        int of_one = 1,
                                                        const std::string& more = "") const {
    std::vector<std::unique_ptr<child_process>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(start(rank, more + " " + variables_of(rank, ranks, of_one),
                          "--ranks " + std::to_string(ranks) + " " + arguments));
    }
    return all;
  }
  static bool ends(child_process& one, double seconds) {
    return comes_true([&] { return one.ended().has_value(); }, seconds);
  }
  int port() const { return port_; }

 private:
  const int port_ = tcp_listener("127.0.0.1", 0).port();
};

// Answers, counts and bytes are those of ranks that share memory.
TEST_F(ranks_of_machines, find_what_ranks_of_one_machine_find) {
  struct setting {
    const char *model, *methods;
    int ranks, of_one;
  };
  for (const setting& s :
       {setting{"tiny-sdar", "block_diffusion focus", 2, 1},
        setting{"tiny-sdar", "block_diffusion", 3, 1}, setting{"tiny-llada", "vanilla", 4, 2}}) {
    SCOPED_TRACE(std::string(s.model) + ", " + std::to_string(s.ranks) + " ranks");
    write(s.methods, 2, "", s.model);
    const std::string number = std::to_string(s.ranks);
    const test::outcome own = test::run_program(
        folder(), "run x.toml --no-progress --device cpu -o own" + number + " --ranks " + number);
    ASSERT_EQ(own.code, 0) << own.text;
    const auto all = start_all(s.ranks, "-o tcp" + number, s.of_one);
    for (int rank = 0; rank < s.ranks; ++rank) {
      child_process& one = *all[static_cast<std::size_t>(rank)];
      ASSERT_TRUE(ends(one, 120)) << rank;
      EXPECT_EQ(test::exit_code_of(*one.ended()), 0) << test::text_of(said_by(rank));
    }
    const std::vector<json> want = rows_in("own" + number), got = rows_in("tcp" + number);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].at("topology").dump(), R"({"hosts":1,"transport":"TCP"})");
      EXPECT_EQ(want[i].at("topology").dump(), R"({"hosts":1,"transport":"shared memory"})");
      // Whether a row is noisy is the machine's affair.
      EXPECT_NE(got[i].at("verdict"), "FAILED") << got[i].at("reason");
      EXPECT_NE(got[i].at("verdict"), "INVALID") << got[i].at("reason");
      for (const char* same : {"point_id", "answers_hash", "ranks"}) {
        EXPECT_EQ(got[i].at(same), want[i].at(same)) << same;
      }
      for (const char* same : {"rows", "nfe", "committed", "flops", "sum_bytes", "sum_calls",
                               "peak_kv_bytes", "weights_bytes_per_rank"}) {
        EXPECT_EQ(got[i].at("metrics").at(same), want[i].at("metrics").at(same)) << same;
      }
    }
  }
}

// The point fails within two seconds and names the rank; the rank that is left ends too.
TEST_F(ranks_of_machines, name_one_that_is_killed) {
  write("block_diffusion delayed_cache", 1000);
  const auto all = start_all(3, "-o out");
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  ASSERT_FALSE(all[0]->ended().has_value()) << test::text_of(said_by(0));
  ::kill(all[1]->pid(), SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_TRUE(comes_true([&] { return !rows_in("out").empty(); }, 10)) << test::text_of(said_by(0));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took.count(), 2);
  ASSERT_TRUE(ends(*all[0], 20));
  EXPECT_EQ(test::exit_code_of(*all[0]->ended()), 1) << test::text_of(said_by(0));
  ASSERT_TRUE(ends(*all[2], 5));
  EXPECT_EQ(test::exit_code_of(*all[2]->ended()), 3) << test::text_of(said_by(2));
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 2U);
  const std::string gone = "rank 1 (process " + std::to_string(all[1]->pid()) + " on " +
                           host_name() + ") has ended: it closed its connection";
  EXPECT_EQ(rows[0].at("verdict"), "FAILED");
  const std::string reason = rows[0].at("reason");
  EXPECT_TRUE(reason.starts_with(gone)) << reason;  // it may have been sending
  EXPECT_EQ(rows[1].at("reason"),
            reason + "; torchrun started the ranks and must start them again");
}

TEST_F(ranks_of_machines, name_one_that_does_not_answer) {
  write("block_diffusion", 1000);
  const auto all = start_all(2, "-o out", 1, "UNMASK_RANKS_PATIENCE=2");
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  ASSERT_FALSE(all[0]->ended().has_value()) << test::text_of(said_by(0));
  ::kill(all[1]->pid(), SIGSTOP);
  ASSERT_TRUE(ends(*all[0], 20));
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 1U);
  const std::string reason = rows[0].at("reason");
  EXPECT_TRUE(reason.starts_with("rank 1 did not answer within 2 s while rank 0 waited")) << reason;
}

// The end of rank 0 is the end of all, whether it can say so or not.
TEST_F(ranks_of_machines, end_with_rank_0) {
  write("block_diffusion", 1000);
  for (const int number : {SIGKILL, SIGTERM}) {
    SCOPED_TRACE(number);
    const auto all = start_all(3, "-o out" + std::to_string(number));
    std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    ASSERT_FALSE(all[0]->ended().has_value()) << test::text_of(said_by(0));
    ::kill(all[0]->pid(), number);
    for (const std::size_t rank : {1, 2}) {
      ASSERT_TRUE(ends(*all[rank], 5)) << rank;
      EXPECT_EQ(test::exit_code_of(*all[rank]->ended()), 3)
          << test::text_of(said_by(static_cast<int>(rank)));
    }
    ASSERT_TRUE(ends(*all[0], 5));
  }
}

TEST_F(ranks_of_machines, say_why_they_do_not_meet) {
  write("block_diffusion");
  const auto said = [&](const std::string& variables) {
    return test::run_program(folder(), "run x.toml --no-progress --device cpu --ranks 2 -o no",
                             variables);
  };
  const auto expect = [](const test::outcome& o, int code, const std::string& words) {
    EXPECT_EQ(o.code, code) << o.text;
    EXPECT_NE(o.text.find(words), std::string::npos) << o.text;
  };
  const std::string place = "127.0.0.1, port " + std::to_string(port());
  const std::string briefly = "UNMASK_RANKS_PATIENCE=0.5 ";
  expect(said(briefly + variables_of(1, 2)), 3,
         "ranks: rank 0 cannot be reached at " + place + " within 0.5 s");
  expect(said(briefly + variables_of(0, 2)), 3,
         "ranks: rank 1 did not come to rank 0 at " + place + " within 0.5 s");
  {
    const tcp_listener other("127.0.0.1", port());
    expect(said(variables_of(0, 2)), 3,
           "ranks: " + place + " is in use by another program: MASTER_PORT names a free one");
  }
  expect(said("RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_PORT=29500"), 2,
         "ranks: torchrun started 2 ranks on several machines (LOCAL_WORLD_SIZE), and MASTER_ADDR "
         "is not set: MASTER_ADDR and MASTER_PORT say where rank 0 is to listen");
  // Two jobs at one address: neither computes with the other.
  const auto first = start(0, "UNMASK_RANKS_PATIENCE=4 UNMASK_RANKS_KEY=a " + variables_of(0, 2),
                           "--ranks 2 -o first");
  expect(said("UNMASK_RANKS_KEY=b " + variables_of(1, 2)), 3,
         "ranks: rank 0 at " + place +
             " refuses rank 1: it has another key (UNMASK_RANKS_KEY, or the launcher's job)");
  ASSERT_TRUE(ends(*first, 30));
  EXPECT_EQ(test::exit_code_of(*first->ended()), 3);
  EXPECT_NE(test::text_of(said_by(0)).find("; 1 that came had another key"), std::string::npos)
      << test::text_of(said_by(0));
}

// A copy is the same program: another machine has no other. One with other words has another plan.
TEST_F(ranks_of_machines, that_are_not_alike_are_named) {
  write("block_diffusion");
  fs::copy_file(UNMASK_PROGRAM, folder() + "/copy");
  const auto both = [&](const std::string& program, const std::string& more) {
    const std::string words = " run x.toml --no-progress --device cpu --ranks 2 -o ";
    fs::remove_all(folder() + "/out");
    return test::run_shell(folder(), variables_of(1, 2) + " " + program + words + "other " + more +
                                         " & " + variables_of(0, 2) + " \"$UNMASK\"" + words +
                                         "out; code=$?; wait $!; exit $code");
  };
  const std::string root = "UNMASK_ROOT=" + test::shell_word(UNMASK_SOURCE_DIR);
  const test::outcome same = both("env " + root + " ./copy", "");
  EXPECT_EQ(same.code, 0) << same.text;
  { std::ofstream(folder() + "/copy", std::ios::app) << "x"; }
  const test::outcome edited = both("env " + root + " ./copy", "");
  EXPECT_EQ(edited.code, 3) << edited.text;
  EXPECT_NE(edited.text.find("rank 1 runs another program than rank 0"), std::string::npos)
      << edited.text;
  const test::outcome seed = both("\"$UNMASK\"", "--set run.seed=7");
  EXPECT_NE(seed.code, 0) << seed.text;
  const std::vector<json> rows = rows_in("out");
  const std::string reason = rows.empty() ? seed.text : rows[0].at("reason").get<std::string>();
  EXPECT_NE(reason.find("rank 1: its plan has no point "), std::string::npos) << reason;
}

}  // namespace
}  // namespace unmask
