// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <latch>
#include <mutex>
#include <set>
#include <sstream>

#include <sched.h>

#include "harness/base/package.h"
#include "harness/base/process.h"
#include "harness/run/folder_run.h"
#include "tests/harness/rows/rows.h"

namespace unmask {
namespace {

using namespace fixtures;

folder_item item(const std::string& id, const std::string& obstacle = "") {
  artifact_entry a;
  a.file = id + ".toml";
  a.header.paper = "focus";
  a.header.id = id;
  a.header.kind = "table";
  a.header.title = "Title of " + id;
  artifact_scale tiny;
  tiny.entry.name = "tiny";
  tiny.obstacle = obstacle;
  a.scales = {tiny};
  return {a, "tiny"};
}

TEST(folder_run, one_failure_does_not_stop_the_rest) {
  const scratch_directory scratch;
  std::vector<std::string> ran;
  const artifact_runner runner = [&](const folder_item& i, const std::filesystem::path& output) {
    ran.push_back(i.artifact.header.id);
    if (i.artifact.header.id == "throws") throw std::runtime_error("no memory");
    if (i.artifact.header.id == "crashes") return 139;
    write(output / "rows.jsonl", to_json_line(row_of("a", {1.0})) + "\n");
    return 0;
  };
  folder_item human = item("human");
  human.artifact.header.not_reproducible = "a human study";
  folder_item broken = item("broken");
  broken.artifact.problem = "broken.toml:3: nonsense";
  folder_item other = item("other_scale");
  other.scale = "full";
  std::ostringstream progress;
  const std::vector<folder_item> items = {
      item("throws"), item("crashes"), item("needs", "NOT RUN: needs cuda (no GPU)"), human, broken,
      other,          item("good")};
  const auto all = run_folder(items, scratch / "out", runner, progress);
  EXPECT_EQ(ran, (std::vector<std::string>{"throws", "crashes", "good"}));
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(all[0].status, folder_status::failed);
  EXPECT_EQ(all[0].detail, "no memory");
  EXPECT_EQ(all[1].status, folder_status::failed);
  EXPECT_TRUE(has(all[1].detail, "exit status 139"));
  EXPECT_EQ(all[2].status, folder_status::not_run);
  EXPECT_EQ(all[2].detail, "needs cuda (no GPU)");
  EXPECT_EQ(all[3].detail, "a human study");
  EXPECT_EQ(all[4].status, folder_status::failed);
  EXPECT_TRUE(has(all[5].detail, "has no scale full, only tiny"));
  EXPECT_EQ(all[6].status, folder_status::measured);
  EXPECT_EQ(all[6].rows, 1u);
  EXPECT_TRUE(has(progress.str(), "[7/7] focus good tiny: measured, 1 rows"));
  const std::string table = render(folder_table(all), table_format::md);
  EXPECT_TRUE(has(table, "1 of 7 tables and figures measured;")) << table;
  EXPECT_TRUE(has(table, "in all runs")) << table;
}

TEST(folder_run, adds_up_the_time_of_all_runs) {
  const scratch_directory scratch;
  // The last line was torn by a crash.
  write(
      scratch / "out/campaign.jsonl",
      "{\"paper\":\"focus\",\"id\":\"good\",\"scale\":\"tiny\",\"seconds\":100}\n{\"paper\":\"fo");
  const artifact_runner runner = [](const folder_item&, const std::filesystem::path&) { return 0; };
  std::ostringstream progress;
  auto all = run_folder({item("good")}, scratch / "out", runner, progress);
  EXPECT_GE(all[0].total_seconds, 100);
  EXPECT_LT(all[0].seconds, 50);
  all = run_folder({item("good")}, scratch / "out", runner, progress);
  EXPECT_GT(all[0].total_seconds, 100);  // the line after the torn one was kept
}

TEST(folder_run, in_two_lanes_only_what_is_timed_runs_alone) {
  const scratch_directory scratch;
  std::vector<folder_item> items = {item("timed"), item("left"), item("right"), item("timed_too")};
  items[1].timed = items[2].timed = false;
  std::latch both(2);
  std::atomic<int> running = 0;
  std::array<cpu_set_t, 2> cores{};
  const artifact_runner runner = [&](const folder_item& i, const std::filesystem::path&) {
    const int others = running++;
    if (i.timed) {
      EXPECT_EQ(others, 0) << i.artifact.header.id;
      EXPECT_TRUE(both.try_wait()) << "a timed artifact began before the others were over";
    } else {
      both.arrive_and_wait();  // for ever, if they did not run at the same time
      sched_getaffinity(0, sizeof(cpu_set_t), &cores[i.artifact.header.id == "left" ? 0 : 1]);
    }
    --running;
    return 0;
  };
  std::ostringstream progress;
  const auto all = run_folder(items, scratch / "out", runner, progress, 2);
  EXPECT_EQ(all[2].id, "right");
  cpu_set_t mine, common;
  sched_getaffinity(0, sizeof mine, &mine);
  const int each = std::max(1, CPU_COUNT(&mine) / 2);
  EXPECT_EQ(CPU_COUNT(&cores[0]), each);
  EXPECT_EQ(CPU_COUNT(&cores[1]), each);
  CPU_AND(&common, &cores[0], &cores[1]);
  EXPECT_EQ(CPU_COUNT(&common), CPU_COUNT(&mine) > 1 ? 0 : 1);
}

TEST(folder_run, the_largest_begin_first_and_what_nobody_asks_for_is_left_out) {
  const scratch_directory scratch;
  std::vector<folder_item> items = {item("small"), item("omitted"), item("large"), item("middle")};
  for (folder_item& i : items) i.timed = false;
  items[0].expected = 1;
  items[2].expected = 9;
  items[3].expected = 2;
  items[1].omitted = "nothing varies";
  std::mutex one;
  std::vector<std::string> began;
  std::latch two(2);  // both lanes take their first item before either takes another
  const artifact_runner runner = [&](const folder_item& i, const std::filesystem::path&) {
    {
      const std::lock_guard lock(one);
      began.push_back(i.artifact.header.id);
    }
    if (i.expected > 1) two.arrive_and_wait();
    return 0;
  };
  std::ostringstream progress;
  const auto all = run_folder(items, scratch / "out", runner, progress, 2);
  ASSERT_EQ(began.size(), 3u);
  EXPECT_EQ((std::set<std::string>{began[0], began[1]}),
            (std::set<std::string>{"large", "middle"}));
  EXPECT_EQ(all[0].id, "small");
  EXPECT_EQ(all[1].status, folder_status::not_run);
  EXPECT_EQ(all[1].detail, "nothing varies");
}

TEST(process, runs_without_a_shell_and_tells_the_status) {
  const scratch_directory scratch;
  EXPECT_EQ(run_process({"printf", "%s", "a b;c"}, scratch / "out.txt"), 0);
  std::ifstream in(scratch / "out.txt");
  std::string text;
  std::getline(in, text);
  EXPECT_EQ(text, "a b;c");
  EXPECT_EQ(run_process({"false"}), 1);
  EXPECT_EQ(run_process({"sh", "-c", "kill -9 $$"}), 128 + 9);
  EXPECT_THROW(run_process({"no-such-program-anywhere"}), error);
  EXPECT_TRUE(std::filesystem::exists(this_program()));
}

// Another process holds the engine, as Python does: the program is that of the wheel, which is started
// where this one would start itself.
TEST(process, the_program_is_the_one_that_was_named) {
  namespace fs = std::filesystem;
  const scratch_directory scratch;
  const fs::path site = scratch / "site", program = site / "unmask/bin/unmask";
  fs::create_directories(program.parent_path());
  write(program, "#!/bin/sh\necho \"$@\"\n");
  fs::permissions(program, fs::perms::owner_all);
  const fs::path mine = this_program();
  EXPECT_EQ(program_to_start(), "/proc/self/exe");
  name_program(program);
  EXPECT_EQ(this_program(), program);
  EXPECT_EQ(program_to_start(), program);
  EXPECT_EQ(file_of_code(), "/proc/self/exe");  // what measures is this process
  EXPECT_EQ(program_root(), fs::path()) << "a folder by this name is no wheel";
  fs::create_directories(site / "unmask/tree/experiments");
  write(site / "unmask/__main__.py", "");
  EXPECT_EQ(program_root(), site / "unmask/tree");
  EXPECT_EQ(package_folder(), site);
  const std::vector<std::string> words = package_command({"claims"});
  for (const std::string& variable :
       {"PYTHONPATH=" + site.string(), "UNMASK_PROGRAM=" + program.string()}) {
    EXPECT_NE(std::ranges::find(words, variable), words.end()) << variable;
  }
  fs::create_directories(scratch / "out");
  EXPECT_EQ(run_artifact(item("table_1"), scratch / "out"), 0);
  EXPECT_EQ(test::text_of(scratch / "out/table.md"),
            "run table_1.toml --scale tiny --output " + (scratch / "out").string() + "\n");
  name_program({});
  EXPECT_EQ(this_program(), mine);
}

}  // namespace
}  // namespace unmask
