// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The program as its users' disks, schedulers and keyboards treat it.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/files.h"
#include "harness/rows/store.h"
#include "tests/harness/cli/program.h"

namespace unmask {
namespace {

const std::string models = UNMASK_SOURCE_DIR "/experiments/models/";

class faults : public testing::Test {
 protected:
  faults() {
    write_file(root_ / "d.toml",
               "title = \"faults\"\n[run]\nrepetitions = 2\nwarmup = 0\n"
               "[[model]]\npath = \"" +
                   models +
                   "tiny-llada\"\n"
                   "[[workload]]\ntasks = [\"word_problem\"]\nlimit = 1\n"
                   "[[method]]\nname = \"vanilla\"\n[[method]]\nname = \"fast_dllm\"\n"
                   "[sweep]\nbatch_size = [1, 2, 3]\n");
  }

  test::outcome program(const std::string& arguments, const std::string& variables = "") {
    return test::run_program(root_.string(), arguments, variables);
  }

  // `run d.toml -o OUTPUT` in the background, its words in OUTPUT.log.
  pid_t start(const std::string& output) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const std::string log = (root_ / (output + ".log")).string();
    const int to = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(to, STDOUT_FILENO);
    ::dup2(to, STDERR_FILENO);
    if (::chdir(root_.c_str()) == 0) {
      ::execl(UNMASK_PROGRAM, "unmask", "run", "d.toml", "-o", output.c_str(), nullptr);
    }
    ::_exit(127);
  }

  // What must not depend on when a run was interrupted: verdict, answers and counts of each point.
  std::map<std::string, std::string> results(const std::string& output) {
    std::map<std::string, std::string> all;
    for (const result_row& row : read_rows(root_ / output).rows) {
      // How noisy a machine is, is not the run's doing.
      const bool noisy = row.verdict == row_verdict::noisy;
      std::string text =
          std::string(noisy ? "PASS" : name_of(row.verdict)) + " " + row.answers_hash;
      for (const auto& [name, m] : row.metrics) {
        if (m.from != origin::measured) text += " " + name + "=" + std::to_string(m.value);
      }
      EXPECT_EQ(row.samples.seconds.size(), 2u);
      EXPECT_TRUE(all.emplace(row.point_id, text).second) << "a point has two rows";
    }
    return all;
  }

  // The library that fails, below a folder without a blank or colon, at which LD_PRELOAD is split.
  std::string failing_files() {
    const std::filesystem::path link = root_ / "failing_files.so";
    std::error_code there_already;
    std::filesystem::create_symlink(UNMASK_FAILING_FILES, link, there_already);
    return test::shell_word(link.string());
  }

  const scratch_folder scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

TEST_F(faults, a_full_moment_of_the_disk_hides_no_row) {
  const std::string disk = "LD_PRELOAD=" + failing_files() + " ";
  for (const char* fault : {"write=3", "fsync=3"}) {
    const std::string output = std::string("out_") + fault;
    const test::outcome run =
        program("run d.toml -o " + output, disk + "UNMASK_TEST_FAULTS=" + fault);
    EXPECT_EQ(run.code, 0) << run.text;
    EXPECT_NE(run.text.find("rows.jsonl: "), std::string::npos) << run.text;  // it was said
    EXPECT_EQ(results(output).size(), 6u);
    const test::outcome table = program("table " + output);
    EXPECT_EQ(table.code, 0) << table.text;
    EXPECT_EQ(table.text.find("passed over"), std::string::npos) << table.text;
  }
  const test::outcome full = program("run d.toml -o full", disk + "UNMASK_TEST_FAULTS=full=2");
  EXPECT_EQ(full.code, 3) << full.text;
  EXPECT_NE(full.text.find("No space left on device"), std::string::npos) << full.text;
  EXPECT_EQ(results("full").size(), 1u);
  const test::outcome more = program("run d.toml -o full");
  EXPECT_EQ(more.code, 0) << more.text;
  EXPECT_EQ(results("full"), results("out_write=3"));
}

TEST_F(faults, a_signal_ends_the_run_with_what_was_kept) {
  for (const auto& [number, code] : {std::pair{SIGTERM, 143}, std::pair{SIGINT, 130}}) {
    const std::string output = "out" + std::to_string(code);
    const pid_t child = start(output);
    for (int i = 0; i < 60000 && entries_of(root_ / output / "unfinished", ".passes").empty();
         ++i) {
      ::usleep(1000);
    }
    ::kill(child, number);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), code);
    const std::string said = read_file(root_ / (output + ".log"), 1 << 20);
    EXPECT_NE(said.find("stopped; "), std::string::npos) << said;
    EXPECT_NE(said.find(" kept in " + output + "; the same command continues"), std::string::npos)
        << said;
    EXPECT_FALSE(std::filesystem::exists(root_ / output / ".claims"));
    const test::outcome more = program("run d.toml -o " + output);
    EXPECT_EQ(more.code, 0) << more.text;
    EXPECT_EQ(results(output).size(), 6u);
    EXPECT_FALSE(std::filesystem::exists(root_ / output / "unfinished"));
  }
}

TEST_F(faults, killed_at_random_moments_it_gives_the_same_answers_and_counts) {
  EXPECT_EQ(program("run d.toml -o whole").code, 0);
  std::mt19937 random(9);
  int kills = 0;
  for (bool done = false; !done;) {
    ASSERT_LT(kills, 100);
    const pid_t child = start("killed");
    // Later and later, so that it ends on a busy machine too.
    for (unsigned wait = 200 + random() % 400 + 100 * kills; wait > 0 && !done; --wait) {
      int status = 0;
      done = ::waitpid(child, &status, WNOHANG) == child;
      ::usleep(1000);
    }
    if (done) break;
    ++kills;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  EXPECT_GT(kills, 0);
  EXPECT_EQ(results("killed"), results("whole"));
}

TEST_F(faults, files_of_a_model_are_opened_once) {
  const test::outcome run =
      program("run d.toml -o opened",
              "UNMASK_NO_HASH_CACHE=1 UNMASK_TEST_OPENS=opens LD_PRELOAD=" + failing_files());
  EXPECT_EQ(run.code, 0) << run.text;
  std::istringstream opened(read_file(root_ / "opens", 1 << 24));
  std::map<std::string, int> times;
  for (std::string path; std::getline(opened, path);) {
    if (path.starts_with(models)) ++times[path];
  }
  EXPECT_GE(times.size(), 3u);
  for (const auto& [path, n] : times) EXPECT_EQ(n, 1) << path;
}

}  // namespace
}  // namespace unmask
