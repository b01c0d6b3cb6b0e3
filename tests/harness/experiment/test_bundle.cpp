// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/base/process.h"
#include "harness/experiment/bundle.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

class bundles : public testing::Test {
 protected:
  bundles() {
    const run_manifest m{"focus/table_5.toml", artifact_text, "tiny", {"run.seed=3"}, "abc"};
    write(scratch / "run/run.json",
          manifest_json(m, parse_spec(artifact_text, "/x/table_5.toml"), {}));
    result_row row = row_of("fast", {1.0, 1.1});
    row.environment = "{\"cpu_model\":\"x\"}";
    write(scratch / "run/rows.jsonl", to_json_line(row) + "\n");
    write(scratch / "run/table.md", "| a |\n");
    write(scratch / "run/figures/a.svg", "<svg/>");
    write(scratch / "run/log.txt", "/home/somebody\n");
    write(scratch / "run/rows.jsonl.part", "half");
  }
  scratch_directory scratch;
};

TEST_F(bundles, hold_what_a_repetition_needs_and_nothing_else) {
  const auto names = write_bundle(scratch / "run", scratch / "a.tar");
  EXPECT_EQ(names, (std::vector<std::string>{"README.md", "environment.json", "figures/a.svg",
                                             "rows.jsonl", "run.json", "table.md", "SHA256SUMS"}));
  const unpacked_bundle b = read_bundle(scratch / "a.tar", scratch / "out");
  EXPECT_EQ(b.directory.filename(), "focus_table_5_tiny");
  EXPECT_EQ(b.manifest.scale, "tiny");
  EXPECT_EQ(b.manifest.text, artifact_text);
  EXPECT_EQ(b.manifest.overrides, std::vector<std::string>{"run.seed=3"});
  ASSERT_EQ(b.rows.size(), 1u);
  EXPECT_EQ(b.rows[0].label, "fast");
}

TEST_F(bundles, the_same_run_gives_the_same_bytes) {
  write_bundle(scratch / "run", scratch / "a.tar");
  // Another time, another order of creation, another mode.
  write(scratch / "run/figures/b.svg", "");
  std::filesystem::remove(scratch / "run/figures/b.svg");
  std::filesystem::permissions(scratch / "run/table.md", std::filesystem::perms::owner_all);
  std::filesystem::last_write_time(scratch / "run/rows.jsonl",
                                   std::filesystem::file_time_type::clock::now());
  write_bundle(scratch / "run", scratch / "b.tar");
  const std::string a = read_file(scratch / "a.tar", 1 << 24),
                    b = read_file(scratch / "b.tar", 1 << 24);
  EXPECT_GT(a.size(), 1000u);
  EXPECT_TRUE(a == b);
}

TEST_F(bundles, what_was_changed_or_is_missing_is_named) {
  EXPECT_TRUE(
      has(message_of([&] { write_bundle(scratch / "none", scratch / "a.tar"); }), "no directory"));
  std::filesystem::create_symlink("/etc/passwd", scratch / "run/link.txt");
  EXPECT_TRUE(has(message_of([&] { write_bundle(scratch / "run", scratch / "a.tar"); }), "link"));
  std::filesystem::remove(scratch / "run/link.txt");
  write_bundle(scratch / "run", scratch / "a.tar");

  const auto changed = [&](const std::string& script) {
    std::filesystem::remove_all(scratch / "x");
    std::filesystem::remove_all(scratch / "y");
    std::filesystem::create_directories(scratch / "x");
    EXPECT_EQ(
        run_process({"tar", "-C", (scratch / "x").string(), "-xf", (scratch / "a.tar").string()}),
        0);
    EXPECT_EQ(run_process({"sh", "-c", "cd '" + (scratch / "x").string() + "/'* && " + script}), 0);
    EXPECT_EQ(run_process({"tar", "-C", (scratch / "x").string(), "-cf",
                           (scratch / "b.tar").string(), "focus_table_5_tiny"}),
              0);
    return message_of([&] { read_bundle(scratch / "b.tar", scratch / "y"); });
  };
  EXPECT_EQ(changed("true"), "");
  EXPECT_TRUE(has(changed("echo x >> rows.jsonl"), "rows.jsonl does not have the hash"));
  EXPECT_TRUE(has(changed("rm table.md"), "table.md is listed but not there"));
  EXPECT_TRUE(has(changed("echo x > more.jsonl"), "more.jsonl is not listed"));
  EXPECT_TRUE(has(changed("rm SHA256SUMS"), "is no bundle"));
  write(scratch / "c.tar", "no archive");
  EXPECT_TRUE(
      has(message_of([&] { read_bundle(scratch / "c.tar", scratch / "z"); }), "cannot unpack"));
  std::filesystem::remove(scratch / "run/run.json");
  EXPECT_TRUE(has(message_of([&] { write_bundle(scratch / "run", scratch / "a.tar"); }),
                  "run.json is missing"));
}

}  // namespace
}  // namespace unmask
