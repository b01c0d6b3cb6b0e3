// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include "harness/run/point_claim.h"
#include "tests/faults/failing_files.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;
using ids = std::vector<std::string>;

// With locks and on file systems that have none.
class claims : public testing::TestWithParam<const char*> {
 protected:
  claims() { unmask_test_faults(GetParam()); }
  ~claims() override { unmask_test_faults(""); }

  // Whether another process can claim these points: its error, "" when it can.
  std::string claimed_elsewhere(const std::string& rows, const ids& points) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string problem =
          message_of([&] { point_claim(dir_.path(), rows, [&] { return points; }); });
      const bool told = ::write(ends[1], problem.data(), problem.size()) >= 0;
      ::_exit(told ? 0 : 1);
    }
    ::close(ends[1]);
    std::string text;
    char byte = 0;
    while (::read(ends[0], &byte, 1) == 1) text += byte;
    ::close(ends[0]);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return text;
  }

  // A run that claims these points and is killed while it measures.
  void claim_and_die(const ids& points) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const point_claim mine(dir_.path(), "rows.jsonl", [&] { return points; });
      const bool told = ::write(ends[1], "x", 1) == 1;
      while (told) ::pause();
      ::_exit(1);
    }
    char byte = 0;
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    ::close(ends[0]);
    ::close(ends[1]);
  }

  std::filesystem::path claim_file() const {
    for (const auto& file : entries_of(dir_.path() / ".claims")) {
      if (file.filename().string().starts_with("run-")) return file;
    }
    return {};
  }

  scratch_directory dir_;
};

TEST_P(claims, a_point_is_measured_by_one_run_at_a_time) {
  {
    const point_claim mine(dir_.path(), "rows.jsonl", [] { return ids{"a", "b"}; });
    const std::string refused = claimed_elsewhere("part-00000-of-00002.jsonl", {"b", "c"});
    EXPECT_NE(refused.find("another run is writing to " + dir_.path().string()), std::string::npos)
        << refused;
    EXPECT_NE(refused.find("process " + std::to_string(::getpid())), std::string::npos) << refused;
    EXPECT_NE(refused.find("1 of these 2 points"), std::string::npos) << refused;
    EXPECT_NE(refused.find("delete " + claim_file().string()), std::string::npos) << refused;
    // Shards whose points differ stand beside each other, in files of their own.
    EXPECT_EQ(claimed_elsewhere("part-00001-of-00002.jsonl", {"c", "d"}), "");
    EXPECT_NE(claimed_elsewhere("rows.jsonl", {"c"}).find("it writes rows.jsonl"),
              std::string::npos);
  }
  EXPECT_EQ(claimed_elsewhere("rows.jsonl", {"a", "b"}), "");
  EXPECT_FALSE(std::filesystem::exists(dir_ / ".claims"));  // nothing is left behind
}

TEST_P(claims, the_claim_of_a_killed_run_is_found_and_said) {
  claim_and_die({"a"});
  const std::filesystem::path left = claim_file();
  ASSERT_FALSE(left.empty());
  testing::internal::CaptureStderr();
  {
    const point_claim mine(dir_.path(), "rows.jsonl", [] { return ids{"a"}; });
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(left.string() + ": left by a run that is over"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_P(claims, what_is_chosen_is_chosen_while_nobody_else_can) {
  const point_claim mine(dir_.path(), "rows.jsonl", [&] {
    EXPECT_TRUE(std::filesystem::exists(dir_ / ".claims/turn"));
    return ids{};
  });
  EXPECT_EQ(claim_file(), "");  // nothing to measure: nothing to claim
}

INSTANTIATE_TEST_SUITE_P(with_and_without_locks, claims, testing::Values("", "flock"));

// A run on a host whose processes this one cannot see, where there are no locks: nobody can tell.
TEST(claim, of_another_host_without_locks_stands_and_is_named) {
  const scratch_directory dir;
  unmask_test_faults("flock");
  const std::filesystem::path other = dir / ".claims/run-elsewhere-7-0";
  write_file(other, R"({"host":"elsewhere","boot":"b","processes":"p","pid":7,"start":"1",)"
                    R"("flock":false,"since":"2026-01-01T00:00:00Z","rows":"rows.jsonl",)"
                    R"("points":["a"]})");
  const std::string refused = message_of(
      [&] { point_claim(dir.path(), "part-00000-of-00002.jsonl", [] { return ids{"a"}; }); });
  unmask_test_faults("");
  EXPECT_NE(refused.find("process 7 on elsewhere, since 2026-01-01T00:00:00Z"), std::string::npos)
      << refused;
  EXPECT_NE(refused.find("delete " + other.string()), std::string::npos) << refused;
}

TEST(claim, what_is_no_claim_stops_nobody_and_what_may_be_one_does) {
  const scratch_directory dir;
  for (const char* text : {"", "{", "[]", R"({"points":7})", R"({"pid":"x","points":["a"]})"}) {
    const std::filesystem::path odd = dir / ".claims/run-odd-1-0";
    write_file(odd, text);
    // Its writer had its time.
    std::filesystem::last_write_time(
        odd, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    const std::string problem =
        message_of([&] { point_claim(dir.path(), "rows.jsonl", [] { return ids{"a"}; }); });
    EXPECT_EQ(problem.empty(), std::string(text).find("\"a\"") == std::string::npos) << problem;
    std::filesystem::remove(odd);
  }
}

}  // namespace
}  // namespace unmask
