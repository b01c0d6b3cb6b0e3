// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// `unmask run --ranks N`: processes that run one model together, one of which is killed, stopped or
// refused.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/base/process.h"
#include "tests/harness/cli/program.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::run_program;

class ranked_runs : public ::testing::Test {
 protected:
  // An experiment of `limit` problems with these methods.
  void write(const std::string& methods, int limit = 2, const std::string& more = "",
             const std::string& model = "tiny-sdar") {
    std::ofstream out(folder() + "/x.toml");
    out << "title = \"t\"\n[run]\nwarmup = 0\nrepetitions = 1\nbatch_size = 2\ngen_length = 32\n"
        << more << "[[model]]\npath = \"" UNMASK_SOURCE_DIR "/experiments/models/" << model
        << "\"\n[[workload]]\nfile = \"" UNMASK_SOURCE_DIR
           "/experiments/data/word_problem.jsonl\"\nlimit = "
        << limit << "\n";
    std::istringstream names(methods);
    for (std::string name; names >> name;) out << "[[method]]\nname = \"" << name << "\"\n";
  }
  std::vector<json> rows_in(const std::string& output) const {
    std::ifstream in(fs::path(folder()) / output / "rows.jsonl");
    std::vector<json> rows;
    for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
    return rows;
  }
  std::string folder() const { return scratch_.path().string(); }

 private:
  const scratch_folder scratch_;
};

// Processes whose environment says that they follow a run of this folder.
std::vector<pid_t> followers_in(const std::string& folder) {
  std::vector<pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "environ", std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    std::error_code none;
    if (all.find("UNMASK_FOLLOWS=") != std::string::npos &&
        fs::read_symlink(entry.path() / "cwd", none) == fs::path(folder)) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

template <class Condition>
bool comes_true(const Condition& condition, double seconds = 20) {
  for (double waited = 0; waited < seconds; waited += 0.02) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// Counts, answers and their hash; times and the machine differ.
TEST_F(ranked_runs, find_what_one_process_finds_with_as_many_pieces) {
  write("block_diffusion focus sparse_blocks delayed_cache");
  const test::outcome one =
      run_program(folder(), "run x.toml -o one --no-progress --set run.pieces=2 --device cpu");
  ASSERT_EQ(one.code, 0) << one.text;
  const test::outcome two =
      run_program(folder(), "run x.toml -o two --no-progress --ranks 2 --device cpu");
  ASSERT_EQ(two.code, 0) << two.text;
  const std::vector<json> a = rows_in("one"), b = rows_in("two");
  ASSERT_EQ(a.size(), 4U);
  ASSERT_EQ(b.size(), 4U);
  for (std::size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(a[i].at("method").dump());
    EXPECT_EQ(b[i].at("ranks"), 2);
    EXPECT_EQ(b[i].at("answers_hash"), a[i].at("answers_hash"));
    EXPECT_EQ(b[i].at("verdict"), a[i].at("verdict"));
    EXPECT_NE(b[i].at("point_id"), a[i].at("point_id"));
    for (const char* count : {"rows", "nfe", "layer_rows", "head_rows", "committed", "keys_seen",
                              "flops", "selection_flops"}) {
      EXPECT_EQ(b[i].at("metrics").at(count), a[i].at("metrics").at(count)) << count;
    }
  }
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// Step times are measured once, by rank 0: ranks that fitted others would choose other chunks, and be
// found at once.
TEST_F(ranked_runs, decide_by_the_clock_of_rank_0) {
  write("optimus");
  const test::outcome o =
      run_program(folder(), "run x.toml -o out --no-progress --ranks 2 --device cpu");
  ASSERT_EQ(o.code, 0) << o.text;
  ASSERT_EQ(rows_in("out").size(), 1U);
  EXPECT_EQ(rows_in("out")[0].at("calibration").at("origin"), "measured");
}

// The point fails within two seconds and names the rank; the next one is measured by new ranks.
TEST_F(ranked_runs, name_a_rank_that_is_killed_and_go_on) {
  write("block_diffusion delayed_cache", 200);
  const auto start = [&] {
    return std::make_unique<child_process>(
        std::vector<std::string>{"sh", "-c",
                                 "cd " + test::shell_word(folder()) + " && exec " +
                                     test::shell_word(UNMASK_PROGRAM) +
                                     " run x.toml -o out --no-progress --ranks 3 --device cpu"},
        folder() + "/out.txt", folder() + "/err.txt");
  };
  const auto run = start();
  std::vector<pid_t> followers;
  ASSERT_TRUE(comes_true([&] { return (followers = followers_in(folder())).size() == 2; }));
  // They compute: the last one has used its core for a while.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(followers.back(), SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_TRUE(comes_true([&] { return !rows_in("out").empty(); }, 10))
      << test::text_of(folder() + "/err.txt");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took.count(), 2);
  ASSERT_TRUE(comes_true([&] { return run->ended().has_value(); }, 60));
  EXPECT_EQ(test::exit_code_of(*run->ended()), 1);
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("verdict"), "FAILED");
  const std::string reason = rows[0].at("reason");
  EXPECT_NE(reason.find("(process " + std::to_string(followers.back()) + ") was ended by signal 9"),
            std::string::npos)
      << reason;
  EXPECT_NE(rows[1].at("verdict"), "FAILED") << rows[1].dump();
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// One that is stopped is named when patience ends, and killed.
TEST_F(ranked_runs, name_a_rank_that_does_not_answer) {
  write("block_diffusion", 200);
  const auto run = std::make_unique<child_process>(
      std::vector<std::string>{"sh", "-c",
                               "cd " + test::shell_word(folder()) +
                                   " && UNMASK_RANKS_PATIENCE=1 exec " +
                                   test::shell_word(UNMASK_PROGRAM) +
                                   " run x.toml -o out --no-progress --ranks 2 --device cpu"},
      folder() + "/out.txt", folder() + "/err.txt");
  std::vector<pid_t> followers;
  ASSERT_TRUE(comes_true([&] { return (followers = followers_in(folder())).size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(followers.front(), SIGSTOP);
  ASSERT_TRUE(comes_true([&] { return run->ended().has_value(); }, 20));
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 1U);
  const std::string reason = rows[0].at("reason");
  EXPECT_TRUE(reason.starts_with("rank 1 did not answer within 1 s while rank 0 waited")) << reason;
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// The end of rank 0 is the end of all, also of one that it cannot say goodbye from.
TEST_F(ranked_runs, end_with_rank_0) {
  write("block_diffusion", 200);
  const auto run = std::make_unique<child_process>(
      std::vector<std::string>{"sh", "-c",
                               "cd " + test::shell_word(folder()) + " && exec " +
                                   test::shell_word(UNMASK_PROGRAM) +
                                   " run x.toml -o out --no-progress --ranks 2 --device cpu"},
      folder() + "/out.txt", folder() + "/err.txt");
  ASSERT_TRUE(comes_true([&] { return followers_in(folder()).size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::kill(run->pid(), SIGKILL);
  EXPECT_TRUE(comes_true([&] { return followers_in(folder()).empty(); }, 2));
}

TEST_F(ranked_runs, refuse_what_ranks_cannot_do_in_a_sentence) {
  const auto refused = [&](const std::string& arguments, int code, const std::string& sentence) {
    const test::outcome o = run_program(folder(), "run x.toml --no-progress " + arguments);
    EXPECT_EQ(o.code, code) << o.text;
    EXPECT_NE(o.text.find(sentence), std::string::npos) << o.text;
  };
  write("block_diffusion");
  refused("--ranks 2 --set run.pieces=3 --device cpu", 2,
          "`pieces` is 3 but must be `ranks`, 2, times 1, 2, 4, ...");
  refused("--ranks 2 --set run.format=int8 --device cpu", 2, "`format` int8 needs ranks = 1");
  refused("--ranks 65 --device cpu", 2, "`ranks` is 65 but must be from 1 to 64");
  refused("--ranks 2 --device cuda-emulated", 3,
          "NOT RUN: `ranks` or `pieces` above 1 on device cuda-emulated need kernels that add over "
          "GPUs, which this program does not have; use device cpu");
  write("block_diffusion", 2, "[probe]\nnames = [\"decoding\"]\n");
  refused("--ranks 2 --device cpu", 2, "`probe` needs ranks = 1");
  for (const auto& [arguments, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"run " + test::shell_word(UNMASK_SOURCE_DIR "/experiments/optimus") +
                " --lanes 2 --ranks 2 --device cpu -o lanes",
            "--lanes gives each lane cores of its own, which `ranks` would share"},
           {"profile " + test::shell_word(UNMASK_SOURCE_DIR "/experiments/models/tiny-llada") +
                " --set run.ranks=2 --device cpu -o profile",
            "a profile needs ranks = 1"}}) {
    const test::outcome o = run_program(folder(), arguments);
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_NE(o.text.find(sentence), std::string::npos) << o.text;
  }
  // A model that cannot be dealt is a row.
  write("block_diffusion");
  const test::outcome o =
      run_program(folder(), "run x.toml -o four --no-progress --ranks 4 --device cpu");
  EXPECT_EQ(o.code, 0) << o.text;
  ASSERT_EQ(rows_in("four").size(), 1U);
  EXPECT_EQ(rows_in("four")[0].at("verdict"), "NOT_SUPPORTED");
  EXPECT_EQ(
      rows_in("four")[0].at("reason"),
      "tiny-sdar: 6 heads in 3 groups cannot be dealt to 4 ranks: at most 3, or a multiple of "
      "it that divides the heads");
}

}  // namespace
}  // namespace unmask
