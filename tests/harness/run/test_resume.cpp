// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Runs that are killed, stopped or meet a full disk: what they had measured is not lost, and what comes
// out is what an undisturbed run gives.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "harness/rows/store.h"
#include "harness/run/kept_passes.h"
#include "harness/run/runner.h"
#include "tests/faults/failing_files.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

// Every pass takes a few milliseconds and leaves one letter in a file; its time is decided by its
// point and its number, whichever process measures it. A point's memory is the number of its passes.
class counting_executor final : public executor {
 public:
  std::filesystem::path log;
  std::chrono::milliseconds pace{0};
  std::string build = "build";
  std::string source = "source", machine = "fake";
  std::string unscorable;  // label whose answers cannot be judged
  std::string prompts;     // the hash of what is asked

  class point final : public prepared_point {
   public:
    point(counting_executor& owner, std::string label, std::string id)
        : owner_(owner), label_(std::move(label)), salt_(std::stoull(id, nullptr, 16)) {}
    model_record model() const override { return {"m", "hash", 10, "checkpoint"}; }
    workload_record workload() const override {
      workload_record w = {"t", "hash", 2};
      w.prompts_hash = owner_.prompts;
      return w;
    }
    token_rules rules() const override { return fixtures::rules; }
    pass_record pass() override {
      ::usleep(static_cast<useconds_t>(1000 * owner_.pace.count()));
      std::ofstream(owner_.log, std::ios::app) << label_.front() << std::flush;
      ++number_;
      pass_record p = good_pass(1.0 + 0.05 * static_cast<double>((salt_ + 7 * number_) % 11));
      p.answers[1].work.rows += static_cast<std::int64_t>(salt_ % 5);
      p.metrics["pass_per_second"] = {static_cast<double>(number_), origin::measured, {}};
      return p;
    }
    std::string memory() const override { return std::to_string(number_); }
    void remember(const std::string& memory) override { number_ = std::stoull(memory); }
    std::vector<scored_answer> score(const pass_record& pass) override {
      if (label_ == owner_.unscorable) throw std::runtime_error("retry limit of a pattern");
      return std::vector<scored_answer>(pass.answers.size(), scored(1));
    }

   private:
    counting_executor& owner_;
    std::string label_;
    unsigned long long salt_, number_ = 0;
  };

  method_catalogue methods() const override { return catalogue(); }
  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    std::vector<preparation> all;
    for (const experiment_point& p : group) {
      all.push_back({std::make_unique<point>(*this, p.label, p.id), row_verdict::failed, ""});
    }
    return all;
  }
  std::string environment() const override {
    return R"({"cpu":")" + machine + R"(","load_average":)" + std::to_string(load_) + "}";
  }
  std::string source_hash() const override { return source; }
  std::string program_hash() const override { return build; }

 private:
  double load_ = static_cast<double>(::getpid() % 97);  // what changes from one run to the next
};

experiment_spec spec_of(bool paired) {
  experiment_spec spec = parse_spec(
      "title=\"t\"\n[run]\nwarmup=1\nrepetitions.min=3\nrepetitions.max=7\nci_half_width=0.12\n"
      "[[model]]\npath=\"m\"\n[[workload]]\nfile=\"t.jsonl\"\n[[method]]\nname=\"vanilla\"\n"
      "[[method]]\nname=\"block_diffusion\"\n[sweep]\nparams.steps=[1,2,3]\nbatch_size=[1,2]\n",
      "x.toml");
  spec.evidence.paired = paired;
  return spec;
}

run_options quiet(const std::filesystem::path& output) {
  run_options options;
  options.output = output;
  options.progress = false;
  return options;
}

// A row without what tells one run from another.
std::map<std::string, std::string> comparable(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (result_row row : read_rows(folder).rows) {
    row.run_id = row.finished_at = row.environment = "";
    row.samples.taken_up = 0;
    row.samples.warmup_seconds.clear();
    EXPECT_TRUE(all.emplace(row.point_id, to_json_line(row)).second) << "a point has two rows";
  }
  return all;
}

class resumed : public testing::TestWithParam<bool> {};

TEST_P(resumed, killed_at_any_moment_it_loses_the_pass_in_flight_and_gives_the_same_rows) {
  const scratch_directory dir;
  experiment_spec spec = spec_of(GetParam());
  spec.evidence.warmup = 0;  // each process has its own
  counting_executor undisturbed;
  undisturbed.log = dir / "log";
  run_experiment(spec, quiet(dir / "whole"), undisturbed);
  const auto expected = comparable(dir / "whole");
  ASSERT_EQ(expected.size(), 12u);
  const std::size_t passes = std::filesystem::file_size(dir / "log");

  std::mt19937 random(GetParam() ? 5 : 4);
  std::size_t kills = 0;
  for (bool done = false; !done;) {
    ASSERT_LT(kills, 200u);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, STDERR_FILENO);
      counting_executor with;
      with.log = dir / "killed_log";
      with.pace = std::chrono::milliseconds(4);
      run_experiment(spec, quiet(dir / "killed"), with);
      ::_exit(0);
    }
    // Later and later, so that it ends on a busy machine too.
    ::usleep(static_cast<useconds_t>(random() % (40'000 + 4'000 * kills)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    done = WIFEXITED(status);
    if (!done) ++kills;
  }
  EXPECT_GT(kills, 2u);
  EXPECT_EQ(comparable(dir / "killed"), expected);
  EXPECT_FALSE(std::filesystem::exists(dir / "killed/unfinished"));
  EXPECT_FALSE(std::filesystem::exists(dir / "killed/.claims"));
  // Of each process at most the pass in flight is measured again.
  EXPECT_LE(std::filesystem::file_size(dir / "killed_log") - passes, kills);
  std::int64_t taken_up = 0;
  for (const result_row& row : read_rows(dir / "killed").rows) taken_up += row.samples.taken_up;
  EXPECT_GT(taken_up, 0);
}

INSTANTIATE_TEST_SUITE_P(alone_and_paired, resumed, testing::Bool());

// Whether a pass of an unfinished point is on the disk.
bool pass_is_kept(const scratch_directory& dir) {
  for (const auto& file : entries_of(dir / "out/unfinished", ".passes")) {
    if (is_file(file) && read_file(file, 1 << 24).find("\"memory\"") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// A run in dir / "out" that is killed in the midst of a point, between two of its passes.
void killed_run(const scratch_directory& dir, const experiment_spec& spec,
                const std::string& build) {
  const pid_t child = ::fork();
  if (child == 0) {
    counting_executor with;
    with.log = dir / "log";
    with.pace = std::chrono::milliseconds(20);
    with.build = build;
    run_experiment(spec, quiet(dir / "out"), with);
    ::_exit(0);
  }
  for (int i = 0; i < 20000 && !pass_is_kept(dir); ++i) {
    ::usleep(500);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(pass_is_kept(dir));
}

// The run that goes on says `words`, and takes up no pass.
void expect_measured_again(const scratch_directory& dir, const experiment_spec& spec,
                           const std::string& words, const std::string& prompts = "") {
  counting_executor with;
  with.log = dir / "log";
  with.prompts = prompts;
  testing::internal::CaptureStderr();
  run_experiment(spec, quiet(dir / "out"), with);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(words), std::string::npos) << said;
  for (const result_row& row : read_rows(dir / "out").rows) {
    EXPECT_EQ(row.samples.taken_up, 0);
    EXPECT_EQ(row.verdict, row_verdict::pass) << row.reason;
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "out/unfinished"));
}

TEST(resume, takes_up_no_pass_of_another_program) {
  const scratch_directory dir;
  const experiment_spec spec = spec_of(false);
  killed_run(dir, spec, "before");
  expect_measured_again(dir, spec, "passes of another program or machine");
}

// Rows stay where they are, and the run says that their speeds are of something else.
TEST(resume, tells_of_rows_of_another_program_or_machine) {
  const scratch_directory dir;
  const auto run = [&](const std::string& source, const std::string& cpu) {
    counting_executor with;
    with.log = dir / "log";
    with.machine = cpu;
    with.source = source;
    testing::internal::CaptureStderr();
    run_experiment(spec_of(false), quiet(dir / "out"), with);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(run("first", "A").find("of another program or machine"), std::string::npos);
  EXPECT_EQ(run("first", "A").find("of another program or machine"), std::string::npos);
  const std::string said = run("second", "B");
  EXPECT_NE(said.find("12 of these rows are of another program or machine (cpu, source_hash "
                      "differ): their speeds are not compared with new ones; --fresh measures"),
            std::string::npos)
      << said;
}

TEST(resume, takes_up_no_pass_of_other_prompts) {
  const scratch_directory dir;
  const experiment_spec spec = spec_of(false);
  killed_run(dir, spec, "build");
  expect_measured_again(dir, spec, "passes of other prompts", "0f");
}

// A template that asks for the time: the second run puts other tokens in and says so, once.
TEST(resume, says_that_its_rows_were_asked_something_else) {
  const scratch_directory dir;
  const experiment_spec spec = spec_of(false);
  const auto said = [&](const std::string& prompts, bool again) {
    counting_executor with;
    with.log = dir / "log";
    with.prompts = prompts;
    if (again) {  // without its last row
      const std::filesystem::path file = entries_of(dir / "out", ".jsonl").front();
      std::string rows = read_file(file, 1 << 24);
      rows.erase(rows.rfind('\n', rows.size() - 2) + 1);
      write_file(file, rows);
    }
    testing::internal::CaptureStderr();
    run_experiment(spec, quiet(dir / "out"), with);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said("a", false).find("other tokens"), std::string::npos);
  EXPECT_EQ(said("a", true).find("other tokens"), std::string::npos);
  const std::string other = said("b", true);
  const std::size_t at = other.find("the prompts of t for m are other tokens");
  ASSERT_NE(at, std::string::npos) << other;
  EXPECT_EQ(other.find("other tokens", at + 40), std::string::npos);
}

TEST(resume, passes_whose_memory_is_damaged_are_measured_again) {
  const scratch_directory dir;
  const experiment_spec spec = spec_of(false);
  killed_run(dir, spec, "build");
  std::size_t changed = 0;
  for (const auto& file : entries_of(dir / "out/unfinished", ".passes")) {
    std::string text = read_file(file, 1 << 24);
    const std::string key = "\"memory\":\"";
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += key.size()) {
      text.insert(at + key.size(), "x");  // no number, as a memory of this executor is
      ++changed;
    }
    write_file(file, text);
  }
  ASSERT_GT(changed, 0u);
  expect_measured_again(dir, spec, "the passes kept of it are damaged");
}

TEST(resume, a_pass_comes_back_as_it_was) {
  pass_record first = good_pass(0.1 + 0.2, 3);
  first.time = origin::analytic;
  first.served = first.clients_left = first.answers_vary = true;
  first.state_bytes = 17;
  first.metrics["a"] = {1e-300, origin::synthetic, {1, std::nan(""), INFINITY, -INFINITY}};
  first.metrics["b"] = {std::nan(""), origin::counted, {}};
  first.answers[1].tokens = {};
  first.answers[2].request = 41;
  first.answers[0].loglikelihoods = {-1.5, -2.25};
  first.answers[0].work.keys_seen = 1.0 / 3;
  first.planning_seconds = 1e-9;
  first.use = {.seconds = 2, .own_seconds = 1.25, .processors = 3, .threads = 2, .moved = true};
  pass_record second = first;
  second.seconds = 7;
  second.answers[1].seconds = 3.25;
  const std::string line = pass_line(first, nullptr), short_line = pass_line(second, &first);
  EXPECT_EQ(pass_line(pass_of_line(line, nullptr), nullptr), line);
  const pass_record back = pass_of_line(short_line, &first);
  EXPECT_EQ(pass_line(back, nullptr), pass_line(second, nullptr));
  EXPECT_EQ(short_line.find("tokens"), std::string::npos);  // the same as in the first: left out
  EXPECT_EQ(back.answers[2].request, 41u);
  EXPECT_EQ(back.answers[0].work.keys_seen, 1.0 / 3);
  EXPECT_EQ(back.metrics.at("a").samples[2], INFINITY);
  EXPECT_EQ(back.use.own_seconds, 1.25);
  EXPECT_TRUE(std::isnan(back.use.other_seconds) && back.use.moved);
}

// Lines of a program whose numbers of a pass had no list yet: they are read, and written as they were.
TEST(resume, a_line_keeps_the_names_and_the_order_of_its_numbers) {
  const std::string times =
      R"("planning_seconds":0.5,"recording_seconds":0.25,"rule_seconds":0.0625,"seconds":2.0,)"
      R"("selection_seconds":0.125,"served":false,)";
  const std::string head = R"({"answers":0,"clients_left":false,"peak_kv_bytes":4096,)" + times;
  const std::string tail = R"("step_seconds":1.5,"steps":3,"time":0})";
  const std::string silent = head + tail, told = head + R"("state_bytes":0,)" + tail;
  const pass_record pass = pass_of_line(silent, nullptr);
  EXPECT_EQ(pass.seconds, 2);
  EXPECT_EQ(pass.steps, 3);
  EXPECT_EQ(pass.peak_kv_bytes, 4096U);
  EXPECT_FALSE(pass.state_bytes);
  EXPECT_EQ(pass.recording_seconds, 0.25);
  EXPECT_EQ(pass.step_seconds, 1.5);
  EXPECT_EQ(pass.selection_seconds, 0.125);
  EXPECT_EQ(pass.rule_seconds, 0.0625);
  EXPECT_EQ(pass.planning_seconds, 0.5);
  EXPECT_EQ(pass_line(pass, &pass), silent);  // columns as in the first pass are left out
  const pass_record other = pass_of_line(told, nullptr);
  EXPECT_EQ(other.state_bytes, 0U);
  EXPECT_EQ(pass_line(other, &other), told);
  // A number that is missing is damage, and so is one below zero.
  for (const char* name : {"\"steps\":3", "\"rule_seconds\":0.0625"}) {
    std::string damaged = told;
    damaged.replace(damaged.find(name), std::string(name).size(), "\"x\":1");
    EXPECT_THROW(pass_of_line(damaged, nullptr), nlohmann::json::exception) << name;
  }
  std::string negative = told;
  negative.replace(negative.find("bytes\":0"), 8, "bytes\":-1");
  EXPECT_THROW(pass_of_line(negative, nullptr), std::out_of_range);
}

// The disk is full for a moment while a row is written; then there is room.
TEST(resume, a_full_disk_costs_no_row_and_no_point_has_two) {
  for (const char* fault : {"write=3", "fsync=3"}) {
    const scratch_directory dir;
    counting_executor with;
    with.log = dir / "log";
    unmask_test_faults(fault);
    testing::internal::CaptureStderr();
    run_options options = quiet(dir / "out");
    const run_summary s = run_experiment(spec_of(false), options, with);
    unmask_test_faults("");
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("rows.jsonl: "), std::string::npos) << said;
    EXPECT_EQ(s.measured, 12u);
    EXPECT_EQ(s.failed, 0u);
    EXPECT_EQ(comparable(dir / "out").size(), 12u) << fault;
    EXPECT_EQ(read_rows(dir / "out").broken, 0u);
  }
}

TEST(resume, a_disk_that_stays_full_ends_the_run_and_the_next_one_goes_on) {
  const scratch_directory dir;
  counting_executor with;
  with.log = dir / "log";
  unmask_test_faults("full=3");
  const std::string problem =
      message_of([&] { run_experiment(spec_of(false), quiet(dir / "out"), with); });
  unmask_test_faults("");
  EXPECT_NE(problem.find("No space left on device"), std::string::npos) << problem;
  EXPECT_NE(problem.find("give the same command again"), std::string::npos) << problem;
  EXPECT_EQ(read_rows(dir / "out").rows.size(), 2u);
  const auto before = std::filesystem::file_size(dir / "log");
  counting_executor again;
  again.log = dir / "log";
  const run_summary s = run_experiment(spec_of(false), quiet(dir / "out"), again);
  EXPECT_EQ(s.skipped, 2u);
  EXPECT_EQ(comparable(dir / "out").size(), 12u);
  counting_executor undisturbed;
  undisturbed.log = dir / "other";
  run_experiment(spec_of(false), quiet(dir / "whole"), undisturbed);
  EXPECT_EQ(comparable(dir / "out"), comparable(dir / "whole"));
  // The first group's passes had all been kept.
  EXPECT_LT(std::filesystem::file_size(dir / "log") - before,
            std::filesystem::file_size(dir / "other"));
}

TEST(resume, answers_that_cannot_be_judged_are_undecided_and_their_point_counts) {
  const scratch_directory dir;
  counting_executor with;
  with.log = dir / "log";
  with.unscorable = "vanilla";
  const run_summary s = run_experiment(spec_of(false), quiet(dir / "out"), with);
  EXPECT_EQ(s.failed, 0u);
  EXPECT_EQ(s.rows.size(), 12u);
  for (const result_row& row : s.rows) {
    EXPECT_GT(row.value_of("tokens_per_second").value_or(0), 0);
    if (row.label != "vanilla") continue;
    EXPECT_EQ(row.verdict, row_verdict::not_verified);
    EXPECT_FALSE(row.score);
    EXPECT_NE(row.reason.find("2 of 2 items are undecided"), std::string::npos) << row.reason;
    EXPECT_NE(row.reason.find("retry limit of a pattern"), std::string::npos) << row.reason;
  }
}

// An edited experiment in the same folder: what is shown is what it plans.
TEST(resume, rows_of_an_earlier_plan_are_not_shown_as_this_ones) {
  const scratch_directory dir;
  counting_executor with;
  with.log = dir / "log";
  run_experiment(spec_of(false), quiet(dir / "out"), with);
  experiment_spec edited = spec_of(false);
  edited.methods.erase(edited.methods.begin());
  for (sweep_axis& axis : edited.axes) {
    if (axis.key == "params.steps") axis.values = {std::int64_t{3}, std::int64_t{4}};
  }
  const run_summary s = run_experiment(edited, quiet(dir / "out"), with);
  EXPECT_EQ(s.planned, 4u);
  EXPECT_EQ(s.skipped, 2u);
  const row_table shown = s.of_plan();
  ASSERT_EQ(shown.rows().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(shown.rows()[i].label, "block_diffusion");
    EXPECT_EQ(shown.rows()[i].position, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(read_rows(dir / "out").rows.size(), 14u);  // the others stay in the file
}

TEST(resume, shards_and_whole_runs_at_once_measure_no_point_twice) {
  for (const char* locks : {"", "flock"}) {
    const scratch_directory dir;
    const experiment_spec spec = spec_of(false);
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        unmask_test_faults(locks);
        const int nowhere = ::open("/dev/null", O_WRONLY);
        ::dup2(nowhere, STDERR_FILENO);
        counting_executor with;
        with.log = dir / "log";
        with.pace = std::chrono::milliseconds(3);
        run_options options = quiet(dir / "out");
        if (i % 3 == 1) options.part = {0, 2};
        if (i % 3 == 2) options.part = {1, 2};
        const bool refused =
            message_of([&] { run_experiment(spec, options, with); }).starts_with("another run");
        ::_exit(refused ? 3 : 0);
      }
      children.push_back(child);
    }
    int ended_well = 0;
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      EXPECT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3);
      ended_well += WEXITSTATUS(status) == 0;
    }
    EXPECT_GE(ended_well, 1);
    counting_executor with;
    with.log = dir / "log";
    run_experiment(spec, quiet(dir / "out"), with);
    EXPECT_EQ(comparable(dir / "out").size(), 12u);
  }
}

}  // namespace
}  // namespace unmask
