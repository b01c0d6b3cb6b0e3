// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/digest.h"
#include "harness/rows/store.h"
#include "tests/faults/failing_files.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

TEST(row, survives_the_round_trip) {
  result_row row = sample_row();
  row.environment = R"({"cpu":"x"})";
  row.title = "quote \" and\nnewline";
  const std::string line = to_json_line(row);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const result_row back = parse_row(line, "x");
  EXPECT_EQ(to_json_line(back), line);
  EXPECT_EQ(back.params, row.params);
  EXPECT_EQ(back.run, row.run);
  EXPECT_EQ(back.metrics.size(), row.metrics.size());
}

TEST(row, names_its_experiment_and_older_ones_do_not) {
  result_row row = sample_row();
  EXPECT_EQ(to_json_line(row).find("\"experiment\""), std::string::npos);
  row.experiment = {"experiments/focus/table_2.toml", "focus", "table_2", "tiny"};
  row.samples.taken_up = 2;
  const std::string line = to_json_line(row);
  EXPECT_NE(line.find(R"("experiment":{"file":"experiments/focus/table_2.toml","paper":"focus",)"
                      R"("artifact":"table_2","scale":"tiny"})"),
            std::string::npos)
      << line;
  const result_row back = parse_row(line, "x");
  EXPECT_EQ(to_json_line(back), line);
  EXPECT_EQ(back.experiment.artifact, "table_2");
  EXPECT_EQ(back.samples.taken_up, 2);
}

TEST(row, holes_are_null_and_bad_bytes_do_not_stop_it) {
  result_row row = sample_row();
  row.samples.half_width = std::numeric_limits<double>::infinity();
  row.reason = "bad \xff byte";
  const std::string line = to_json_line(row);
  EXPECT_NE(line.find(R"("half_width":null)"), std::string::npos);
  EXPECT_NO_THROW(parse_row(line, "x"));
}

TEST(row, what_would_end_the_program_or_hide_the_next_row_is_refused) {
  const std::string deep(100'000, '['), line = to_json_line(sample_row());
  for (const std::string& text : {deep, R"({"schema_version":")" + deep, line + '\0' + line})
    EXPECT_THROW(parse_row(text, "x"), error);
  result_row row = sample_row();
  row.environment = R"({"cpu":"\\[[\"["})";  // brackets of a text are none
  EXPECT_EQ(parse_row(to_json_line(row), "x").environment, row.environment);
  row.environment = "{}";
  std::string odd = to_json_line(row);
  odd.replace(odd.find(R"("environment":{})"), 16, R"("environment":0)");
  EXPECT_NE(message_of([&] { parse_row(odd, "x"); }).find("environment"), std::string::npos);
}

TEST(row, probes_come_back_and_are_absent_without) {
  result_row row = sample_row();
  EXPECT_EQ(to_json_line(row).find("probes"), std::string::npos);
  row.probes["decoding"] = R"({"histogram":[1,2],"mean":null})";
  const result_row again = parse_row(to_json_line(row), "x");
  EXPECT_EQ(again.probes, row.probes);
}

TEST(row, a_calibration_has_its_own_key_and_is_found_in_older_rows) {
  result_row row = sample_row();
  EXPECT_EQ(to_json_line(row).find("calibration"), std::string::npos);
  row.probes["decoding"] = R"({"mean":2})";
  row.calibration = R"({"mape":0.25,"origin":"measured"})";
  std::string line = to_json_line(row);
  const result_row again = parse_row(line, "x");
  EXPECT_EQ(again.calibration, row.calibration);
  EXPECT_EQ(again.probes, row.probes);
  // As schema 1.2 had it, without a checksum.
  line = line.substr(0, line.find(R"(,"sha256")")) + "}";
  const std::string key = R"("calibration":)" + row.calibration;
  ASSERT_NE(line.find(key + ","), std::string::npos) << line;
  line.erase(line.find(key), key.size() + 1);
  const std::string probes = R"("probes":{)";
  line.insert(line.find(probes) + probes.size(), key + ",");
  line.replace(line.find(R"("1.5")"), 5, R"("1.2")");
  const result_row old = parse_row(line, "x");
  EXPECT_EQ(old.calibration, row.calibration);
  EXPECT_EQ(old.probes, row.probes);
  EXPECT_EQ(to_json_line(old), to_json_line(row));
}

TEST(row, items_come_back_and_are_absent_without) {
  result_row row = sample_row();
  EXPECT_EQ(to_json_line(row).find("\"items\":{"), std::string::npos);
  row.answers_hash = "abc";
  row.items.id = {"a", "b"};
  row.items.score = {0.5, std::nan("")};
  row.items.exact = {false, true};
  row.items.output_tokens = {3, 4};
  row.items.seconds = {{0.5, 0.25}, {1, 2}};
  row.items.answer_hash = {"x", "y"};
  EXPECT_EQ(to_json_line(row).find("nfe\":["), std::string::npos);  // rows from before lack them
  row.items.forwards = {5, 70};
  const std::string line = to_json_line(row);
  const result_row again = parse_row(line, "x");
  EXPECT_EQ(to_json_line(again), line);
  EXPECT_EQ(again.items.seconds, row.items.seconds);
  EXPECT_EQ(again.items.forwards, row.items.forwards);
  EXPECT_TRUE(again.items.rows.empty());
  EXPECT_TRUE(std::isnan(again.items.score[1]));
  std::string broken = line;
  broken.replace(broken.find("[\"x\",\"y\"]"), 9, "[\"x\"]");
  EXPECT_THROW(parse_row(broken, "x"), error);
  broken = line;
  broken.replace(broken.find("[5,70]"), 6, "[5]");
  EXPECT_THROW(parse_row(broken, "x"), error);
}

TEST(row, unknown_major_versions_are_refused_and_minor_ones_read) {
  std::string line = to_json_line(sample_row());
  const std::string now = R"("schema_version":"1.5")";
  ASSERT_NE(line.find(now), std::string::npos);
  line.replace(line.find(now), now.size(), R"("schema_version":"1.7","new":3)");
  EXPECT_EQ(parse_row(line, "x").schema_version, "1.7");
  line.replace(line.find("1.7"), 3, "2.0");
  EXPECT_NE(message_of([&] { parse_row(line, "f.jsonl:3"); }).find("f.jsonl:3: schema version 2.0"),
            std::string::npos);
  EXPECT_THROW(parse_row("{}", "x"), error);
  EXPECT_THROW(parse_row(R"({"schema_version":"1.0"})", "x"), error);
}

TEST(row, says_that_it_was_changed_after_it_was_written) {
  const std::string line = to_json_line(sample_row());
  const std::size_t member = line.find(R"(,"sha256":")");
  ASSERT_EQ(member + 11 + 64 + 2, line.size()) << line;
  EXPECT_EQ(line.substr(member + 11, 64), sha256_hex(line.substr(0, member) + "}"));
  EXPECT_FALSE(parse_row(line, "x").changed);
  EXPECT_FALSE(parse_row(" " + line + "\r", "x").changed);
  EXPECT_FALSE(parse_row(line.substr(0, member) + "}", "x").changed);  // an older row
  std::string changed = line;
  changed.replace(changed.find("\"position\":0"), 12, "\"position\":1");
  const result_row row = parse_row(changed, "x");
  EXPECT_TRUE(row.changed);
  EXPECT_EQ(row.verdict, row_verdict::not_verified);
  EXPECT_TRUE(row.reason.starts_with("changed after it was written; ")) << row.reason;
  EXPECT_TRUE(completed_points({row}).empty());  // its point is measured again
}

TEST(store, appends_whole_lines) {
  scratch_directory dir;
  {
    line_file file(dir / "deep/rows.jsonl");
    file.append(to_json_line(sample_row("a")));
    file.append(to_json_line(sample_row("b")));
  }
  line_file(dir / "deep/rows.jsonl").append(to_json_line(sample_row("c")));
  const stored_rows stored = read_rows(dir / "deep");
  ASSERT_EQ(stored.rows.size(), 3u);
  EXPECT_EQ(stored.rows[2].point_id, "c");
  EXPECT_EQ(stored.broken, 0u);
}

TEST(store, one_writer_at_a_time) {
  scratch_directory dir;
  line_file first(dir / "rows.jsonl");
  EXPECT_NE(message_of([&] { line_file(dir / "rows.jsonl"); }).find("another run is writing"),
            std::string::npos);
}

// Cut the last row at every byte: the rows before it stay, and a new row never sticks to the stump.
TEST(store, a_torn_last_line_costs_only_itself) {
  scratch_directory dir;
  const std::string a = to_json_line(sample_row("a")) + "\n";
  const std::string b = to_json_line(sample_row("b"));
  for (std::size_t cut = 0; cut <= b.size(); cut += cut + 40 < b.size() ? 37 : 1) {
    write_file(dir / "rows.jsonl", a + b.substr(0, cut));
    const bool whole = cut == b.size();
    const stored_rows torn = read_rows(dir / "rows.jsonl");
    EXPECT_EQ(torn.rows.size(), whole ? 2u : 1u);
    EXPECT_EQ(torn.broken, whole || cut == 0 ? 0u : 1u);
    line_file(dir / "rows.jsonl").append(to_json_line(sample_row("c")));
    const stored_rows mended = read_rows(dir / "rows.jsonl");
    ASSERT_EQ(mended.rows.size(), whole ? 3u : 2u) << cut;
    EXPECT_EQ(mended.rows.back().point_id, "c");
    EXPECT_EQ(test::text_of(dir / "rows.jsonl").substr(0, a.size()), a);
    if (!whole && cut > 0) {
      EXPECT_EQ(test::text_of(dir / "rows.jsonl.torn"), b.substr(0, cut));
    }
  }
}

TEST(store, a_whole_last_line_that_is_no_row_of_this_program_is_kept) {
  scratch_directory dir;
  std::string later = to_json_line(sample_row());
  later.replace(later.find(R"("1.5")"), 5, R"("2.0")");
  write_file(dir / "rows.jsonl", later);
  EXPECT_NE(message_of([&] { line_file(dir / "rows.jsonl"); }).find("schema version 2.0"),
            std::string::npos);
  EXPECT_THROW(read_rows(dir / "rows.jsonl"), error);
  EXPECT_EQ(test::text_of(dir / "rows.jsonl"), later);
}

// Every way in which a line came to be broken: it hides no row, and the note names file, line and key.
TEST(store, a_broken_line_hides_no_row_and_is_named) {
  const std::string good = to_json_line(sample_row("g"));
  const auto without = [&](const std::string& key) {
    std::string line = good;
    const std::size_t at = line.find("\"" + key + "\":");
    return line.replace(at, key.size() + 3, "\"old_" + key + "\":");
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> broken = {
      {good.substr(0, 100), "no JSON"},
      {std::string(3, '\0'), "zero byte"},
      {R"({"point_id":"x"})", "`schema_version` is expected"},
      {"[1, 2]", "`schema_version` is expected"},
      {with("\"mean\":0.5", "\"mean\":NaN"), "no JSON: parse error"},
      {without("score"), "`score` is missing"},
      {without("environment"), "`environment` is missing"},
      {with("\"run_id\":\"run\"", "\"run_id\":3"), "`run_id` should be a text and is number"},
      {with("\"position\":0", "\"position\":1e300"), "`position` should be a whole number"},
      {with("\"position\":0", "\"position\":18446744073709551615"), "`position` is beyond"},
      {with("\"NOISY\"", "\"GOOD\""), "'GOOD', which is no known value"}};
  for (const auto& [line, reason] : broken) {
    scratch_directory dir;  // a name of its own: a note is said once
    const std::string file = (dir / "rows.jsonl").string();
    write_file(file, to_json_line(sample_row("a")) + "\n" + line + "\n\n" + good + "\r\n" +
                         to_json_line(sample_row("z")));
    testing::internal::CaptureStderr();
    const stored_rows read = read_rows(file);
    const stored_rows again = read_rows(dir.path());
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_EQ(read.rows.size(), 3u) << reason;  // the last one has no line end
    EXPECT_EQ(read.rows[2].point_id, "z");
    EXPECT_EQ(read.broken, 1u);
    EXPECT_EQ(again.rows.size(), 3u);
    EXPECT_NE(said.find(file + ":2: "), std::string::npos) << said;
    EXPECT_NE(said.find(reason), std::string::npos) << said << "\nlacks: " << reason;
    EXPECT_NE(said.find("sed -i.damaged 2d " + file), std::string::npos) << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
    // And the next run appends behind it all.
    line_file(file).append(to_json_line(sample_row("n")));
    EXPECT_EQ(read_rows(file).rows.back().point_id, "n");
    EXPECT_EQ(read_rows(file).rows.size(), 4u);
  }
  EXPECT_THROW(read_rows("absent"), error);
}

class failing_disk : public testing::Test {
 protected:
  ~failing_disk() override { unmask_test_faults(""); }
  std::string append(line_file& to, const std::string& id) {
    return message_of([&] { to.append(to_json_line(sample_row(id))); });
  }
  std::string ids(const std::filesystem::path& file) {
    std::string all;
    for (const result_row& row : read_rows(file).rows) all += row.point_id;
    return all;
  }
  scratch_directory dir_;
  const std::filesystem::path file_ = dir_ / "rows.jsonl";
};

TEST_F(failing_disk, a_row_that_the_disk_does_not_take_is_taken_back) {
  for (const auto& [fault, reason] : {std::pair{"write=2", "No space left on device"},
                                      std::pair{"full=2", "No space left on device"},
                                      std::pair{"fsync=2", "Input/output error"}}) {
    std::filesystem::remove(file_);
    line_file file(file_);
    unmask_test_faults(fault);
    EXPECT_EQ(append(file, "a"), "");
    const std::string before = test::text_of(file_);
    const std::string problem = append(file, "b");
    EXPECT_NE(problem.find(file_.string() + ": " + reason), std::string::npos) << problem;
    EXPECT_EQ(test::text_of(file_), before) << fault;  // as if it had never been tried
    unmask_test_faults("");
    EXPECT_EQ(append(file, "c"), "");
    EXPECT_EQ(ids(file_), "ac") << fault;
  }
}

TEST_F(failing_disk, half_a_row_that_cannot_be_taken_back_swallows_no_other) {
  line_file file(file_);
  unmask_test_faults("write=2,truncate");
  EXPECT_EQ(append(file, "a"), "");
  EXPECT_NE(append(file, "b").find("half a line may be left"), std::string::npos);
  EXPECT_EQ(append(file, "c"), "");
  EXPECT_EQ(append(file, "d"), "");
  EXPECT_EQ(ids(file_), "acd");
  EXPECT_EQ(read_rows(file_).broken, 1u);
}

TEST(store, failed_points_are_not_complete_and_samples_are_not_rows) {
  scratch_directory dir;
  result_row failed = sample_row("f");
  failed.verdict = row_verdict::failed;
  result_row invalid = sample_row("i");
  invalid.verdict = row_verdict::invalid;
  write_file(dir / "part-00000-of-00002.jsonl", to_json_line(failed) + "\n");
  write_file(dir / "part-00001-of-00002.jsonl", to_json_line(invalid) + "\n");
  write_file(dir / "samples_x.jsonl", "{\"item\":1}\n");
  EXPECT_EQ(completed_points(read_rows(dir.path()).rows), std::set<std::string>{"i"});
  EXPECT_EQ(rows_file("d", 1, 2), "d/part-00001-of-00002.jsonl");
  EXPECT_EQ(rows_file("d", 0, 1), "d/rows.jsonl");
}

TEST(store, a_row_keeps_how_a_harness_ran_its_benchmark) {
  result_row row = sample_row();
  row.workload.benchmark = {
      "OC-S", "v", "gsm8k_gen_17d0dc", "raw", "gsm8k_opencompass", "accuracy", 4, 1319, 3};
  row.score = score_record{0.5,
                           1,
                           2,
                           0.1,
                           0.9,
                           3,
                           0.625,
                           {0.5, 0.75},
                           {{"strict-match", 0.5}},
                           0.25,
                           {{"lm-eval", "0.4.8"}}};
  const result_row back = parse_row(to_json_line(row), "x");
  EXPECT_EQ(back.score.value().undecided, 3);
  EXPECT_EQ(back.score.value().libraries.at("lm-eval"), "0.4.8");
  EXPECT_EQ(back.score->trial_deviation, 0.25);
  EXPECT_EQ(back.score->mean_of_groups, 0.625);
  EXPECT_EQ(back.score->group_range, (std::vector<double>{0.5, 0.75}));
  EXPECT_EQ(back.score->beside.at("strict-match"), 0.5);
  EXPECT_EQ(back.workload.benchmark.harness, "OC-S");
  EXPECT_EQ(back.workload.benchmark.config, "gsm8k_gen_17d0dc");
  EXPECT_EQ(back.workload.benchmark.scorer, "gsm8k_opencompass");
  EXPECT_EQ(back.workload.benchmark.shots, 4);
  EXPECT_EQ(back.workload.benchmark.items, 1319);
  EXPECT_EQ(back.workload.benchmark.trials, 3);
}

}  // namespace
}  // namespace unmask
