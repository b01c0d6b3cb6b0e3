// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/analysis/row.h"
#include "harness/base/error.h"
#include "harness/experiment/merge.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

class merging : public testing::Test {
 protected:
  static std::string line(const std::string& id, std::int64_t position,
                          verdict_kind verdict = verdict_kind::pass,
                          const std::string& environment = R"({"cpu_model":"a"})") {
    result_row row;
    row.point_id = id;
    row.title = "t";
    row.position = position;
    row.verdict = verdict;
    row.environment = environment;
    return to_json_line(row) + "\n";
  }
  void write(const std::string& name, const std::string& text) const {
    write_file(folder_ / name, text);
  }
  std::string merged() const { return test::text_of(folder_ / "out" / "rows.jsonl"); }
  merge_summary merge(bool mixed = false) const {
    return merge_rows({folder_}, folder_ / "out" / "rows.jsonl", mixed);
  }

  const scratch_folder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(merging, parts_become_one_file_in_the_order_of_the_plan) {
  write("part-00000-of-00002.jsonl", line("c", 2) + line("a", 0));
  write("part-00001-of-00002.jsonl", line("b", 1) + "{\"torn");
  write("samples_x.jsonl", "no row\n");
  EXPECT_EQ(merge().points, 3u);
  EXPECT_EQ(merged(), line("a", 0) + line("b", 1) + line("c", 2));
  EXPECT_EQ(merge().points, 3u) << "the merged file is none of the parts";
}

TEST_F(merging, a_point_that_failed_keeps_its_last_row_and_a_point_measured_twice_is_refused) {
  write("a.jsonl", line("a", 0, verdict_kind::failed) + line("a", 0) + line("b", 1));
  const merge_summary sum = merge();
  EXPECT_EQ(sum.superseded, 1u);
  EXPECT_EQ(merged(), line("a", 0) + line("b", 1));
  write("b.jsonl", line("b", 1));
  EXPECT_THROW(merge(), error);
  EXPECT_EQ(merged(), line("a", 0) + line("b", 1)) << "what was merged before is still there";
}

TEST_F(merging, environments_are_not_mixed_unless_asked_for) {
  const std::string busy = R"({"cpu_model":"a","load_average":[9,9,9]})";
  write("a.jsonl", line("a", 0) + line("b", 1, verdict_kind::pass, busy));
  EXPECT_EQ(merge().points, 2u) << "load is no other environment";
  write("b.jsonl", line("c", 2, verdict_kind::pass, R"({"cpu_model":"z"})"));
  const std::string refused = test::message_of([&] { merge(); });
  EXPECT_NE(refused.find(R"(cpu_model: "a" and "z")"), std::string::npos) << refused;
  EXPECT_EQ(merge(true).points, 3u);
}

TEST_F(merging, planned_points_without_a_row_are_named) {
  write("run.json", R"({"plan":[{"id":"a"},{"id":"gone"}]})");
  write("a.jsonl", line("a", 0));
  EXPECT_EQ(merge().missing, std::vector<std::string>{"gone"});
}

TEST(job_array, every_part_is_a_task_and_every_word_survives_the_shell) {
  array_request request;
  request.directory = "/data/it's here";
  request.directives = {"--gres=gpu:1"};
  request.parts = {{"/bin/unmask", "run", "a b.toml", "--shard", "0/2"},
                   {"/bin/unmask", "run", "it's.toml"}};
  const std::string script = slurm_script(request);
  EXPECT_NE(script.find("#SBATCH --array=0-1\n"), std::string::npos);
  EXPECT_NE(script.find("#SBATCH --requeue\n"), std::string::npos);
  EXPECT_NE(script.find("#SBATCH --gres=gpu:1\n"), std::string::npos);
  EXPECT_NE(script.find("0) exec /bin/unmask run 'a b.toml' --shard 0/2 ;;\n"), std::string::npos);
  EXPECT_NE(script.find("'it'\\''s.toml'"), std::string::npos);
  request.parts.clear();
  EXPECT_THROW(slurm_script(request), error);
}

}  // namespace
}  // namespace unmask
