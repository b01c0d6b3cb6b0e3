// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ranks as processes of a test: what holds a device, of which a process has one, cannot be a thread
// (rank_threads.h). The others are this test program, started again for the test that runs now.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "harness/base/process.h"
#include "harness/base/ranks/launch.h"
#include "harness/base/ranks/memory.h"
#include "tests/support.h"

namespace unmask::test {

// Made first of all in a test, which every rank runs from there on. Failures of the others are those
// of rank 0.
class rank_processes {
 public:
  static constexpr const char* variable = "UNMASK_TEST_RANK";  // RANK FILE

  explicit rank_processes(int ranks, double patience = 60) {
    const char* place = std::getenv(variable);
    if (place != nullptr) {
      const std::string text = place;
      group_ = std::make_unique<rank_group>(rank_memory::open(text.substr(text.find(' ') + 1)),
                                            std::stoi(text));
    } else {
      memory_ = rank_memory::create(ranks);
      for (int r = 1; r < ranks; ++r) start(r);
      group_ = std::make_unique<rank_group>(memory_, 0);
      group_->watch([this](int r) {
        const bool gone = others_[static_cast<std::size_t>(r - 1)]->ended().has_value();
        return gone ? "rank " + std::to_string(r) + " has ended" : std::string();
      });
    }
    group_->wait_for(patience);
    force_ = std::make_unique<ranks_in_force>(group_.get());
  }
  ~rank_processes() {
    leave_together();
    for (std::size_t i = 0; i < others_.size(); ++i) {
      others_[i]->let_end(60);
      EXPECT_EQ(others_[i]->ended().value_or(-1), 0) << "rank " << i + 1 << " said:\n"
                                                     << text_of(said_[i]);
    }
  }
  rank_processes(const rank_processes&) = delete;
  rank_processes& operator=(const rank_processes&) = delete;
  rank_group& group() { return *group_; }

 private:
  // Nobody ends while another one still waits for a move of their devices.
  void leave_together() {
    if (::testing::Test::HasFailure()) group_->fail("a rank of the test has failed");
    if (!group_->failure().empty()) return;
    try {
      group_->gather(std::string());
    } catch (const rank_failure&) {  // of another one, whose exit code says so
    }
  }
  void start(int rank) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::vector<std::string> command = {
        "env", std::string(variable) + "=" + std::to_string(rank) + " " + memory_->file(),
        "CUDA_VISIBLE_DEVICES=" + gpus_of_rank(rank), "OMP_NUM_THREADS=1",
        // The one test of this rank would be of another part than the one that runs here.
        "GTEST_TOTAL_SHARDS=1", "GTEST_SHARD_INDEX=0",
        "/proc/" + std::to_string(::getpid()) + "/exe"};
    const std::vector<std::string> words = own_words();
    if (words.size() > 1 && words[1][0] != '-') command.push_back(words[1]);  // of several programs
    command.push_back(std::string("--gtest_filter=") + test->test_suite_name() + "." +
                      test->name());
    said_.push_back(scratch_.path() / ("rank-" + std::to_string(rank) + ".txt"));
    others_.push_back(std::make_unique<child_process>(command, said_.back(), said_.back()));
  }

  const scratch_folder scratch_;
  std::shared_ptr<rank_memory> memory_;
  std::unique_ptr<rank_group> group_;
  std::vector<std::filesystem::path> said_;
  std::vector<std::unique_ptr<child_process>> others_;
  std::unique_ptr<ranks_in_force> force_;
};

}  // namespace unmask::test
