// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <map>

#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/process.h"
#include "harness/rows/store.h"
#include "harness/run/following.h"
#include "harness/run/runner.h"
#include "tests/harness/measure/fixtures.h"
#include "tests/support.h"

namespace unmask {
namespace {

using namespace fixtures;

// Passes of known length; the order in which they ran is kept.
class fake_executor final : public executor {
 public:
  std::vector<std::string> order;
  std::string fail_label;    // throws in its second pass
  std::string steady_label;  // whose passes all take a second
  std::string unsupported_label;
  bool scores = true;           // else nobody can score the answers
  std::string throw_for_model;  // prepare throws
  std::string trace;            // of the probes' pass
  std::string model_hash = "hash";
  std::size_t stall_after = 0;  // this many passes, 0: never; then it waits to be killed

  class point final : public prepared_point {
   public:
    point(fake_executor& owner, std::string label) : owner_(owner), label_(std::move(label)) {}
    model_record model() const override { return {"m", owner_.model_hash, 10, "checkpoint"}; }
    workload_record workload() const override { return {"t", "hash", 2}; }
    token_rules rules() const override { return fixtures::rules; }
    pass_record pass() override {
      owner_.order.push_back(label_);
      if (label_ == owner_.fail_label && ++passes_ == 2) throw std::runtime_error("out of luck");
      while (owner_.stall_after > 0 && owner_.order.size() >= owner_.stall_after) ::pause();
      if (label_ == owner_.steady_label) return good_pass(1.0);
      return good_pass(1.0 + static_cast<double>(++noise_) / 10);
    }
    bool probe(const probe_settings&, std::ostream& out) override {
      owner_.order.push_back(label_ + " probed");
      out << owner_.trace;
      return true;
    }
    std::vector<scored_answer> score(const pass_record& pass) override {
      return std::vector<scored_answer>(pass.answers.size(),
                                        owner_.scores ? scored(1) : scored_answer());
    }
    std::map<std::string, std::string> samples(const std::vector<scored_answer>& scores,
                                               const std::string&, const std::string&,
                                               const std::string& date) const override {
      std::string lines;
      for (std::size_t i = 0; i < scores.size(); ++i) lines += "{}\n";
      return {{"samples_task_" + date + ".jsonl", lines}};
    }

   private:
    fake_executor& owner_;
    std::string label_;
    int passes_ = 0, noise_ = 0;
  };

  std::function<void(experiment_point&)> look;  // what identify() does
  void identify(experiment_point& p) override {
    if (look) look(p);
  }
  method_catalogue methods() const override { return catalogue(); }
  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    if (group.front().model.name == throw_for_model) throw environment_error("no such model");
    std::vector<preparation> all;
    for (const experiment_point& p : group) {
      const std::string label = p.label + p.variation;
      if (label == unsupported_label) {
        all.push_back({nullptr, row_verdict::not_supported, "no mask token"});
      } else {
        all.push_back({std::make_unique<point>(*this, label), row_verdict::failed, ""});
      }
    }
    return all;
  }
  std::string environment() const override { return R"({"cpu":"fake"})"; }
  std::string source_hash() const override { return "source"; }
};

experiment_spec spec_of(const std::string& more) {
  return parse_spec(
      "title=\"t\"\n[run]\nrepetitions=3\n[[model]]\npath=\"m\"\n"
      "[[workload]]\nfile=\"t.jsonl\"\n" +
          more,
      "x.toml");
}

const std::string two_methods =
    "[[method]]\nname=\"vanilla\"\n[[method]]\nname=\"block_diffusion\"\n";

run_options quiet(const std::filesystem::path& output) {
  run_options options;
  options.output = output;
  options.progress = false;
  return options;
}

TEST(runner, methods_are_measured_in_turn_and_in_alternating_order) {
  scratch_directory dir;
  fake_executor with;
  const run_summary s = run_experiment(spec_of(two_methods), quiet(dir / "out"), with);
  const std::string v = "vanilla", b = "block_diffusion";
  EXPECT_EQ(with.order, (std::vector<std::string>{v, b,  // warm-up
                                                  v, b, b, v, v, b}));
  EXPECT_EQ(s.exit_status(), 0);
  ASSERT_EQ(s.rows.size(), 2u);
  // Warm-up 1.1 s, then 1.2, 1.3, 1.4: the warm-up is in no sample.
  EXPECT_EQ(s.rows[0].samples.warmup_seconds, std::vector<double>{1.1});
  EXPECT_EQ(s.rows[0].samples.seconds, (std::vector<double>{1.2, 1.3, 1.4}));
  EXPECT_EQ(s.rows[0].samples.stop, "max_repetitions");
  EXPECT_EQ(s.rows[0].verdict, row_verdict::pass);
  EXPECT_EQ(s.rows[0].source_hash, "source");
  EXPECT_EQ(read_rows(s.file).rows.size(), 2u);
}

TEST(runner, points_of_one_model_and_run_setting_are_a_group) {
  const experiment_spec spec =
      spec_of("[[model]]\npath=\"n\"\n" + two_methods + "[sweep]\nbatch_size=[1, 4]\n");
  const auto groups = interleaved_groups(make_plan(spec, catalogue()));
  EXPECT_EQ(groups.size(), 4u);  // 2 models x 2 batch sizes
  for (const auto& group : groups) EXPECT_EQ(group.size(), 2u);
}

TEST(runner, probes_have_a_pass_of_their_own_after_the_measured_ones) {
  scratch_directory dir;
  fake_executor with;
  // One request, one step that decides two tokens.
  with.trace = R"({"kind":"probes","version":1,"names":["decoding"]}
{"kind":"request","prompt":1,"canvas":2,"stops":[],"rows":2,"steps":[{"position":[1,2],"token":[5,6],"confidence":[0.5,1],"accepted":[true,true]}]}
)";
  const run_summary s = run_experiment(spec_of(two_methods + "[probe]\nnames=[\"decoding\"]\n"),
                                       quiet(dir / "out"), with);
  const std::string v = "vanilla", b = "block_diffusion";
  EXPECT_EQ(with.order,
            (std::vector<std::string>{v, b, v, b, b, v, v, b, v + " probed", b + " probed"}));
  const auto rows = read_rows(s.file).rows;
  ASSERT_EQ(rows.size(), 2u);
  for (const result_row& row : rows) {
    ASSERT_EQ(row.probes.size(), 1u);
    EXPECT_NE(row.probes.at("decoding").find("\"mean\":2"), std::string::npos);
    EXPECT_EQ(row.samples.seconds.size(), 3u);
    EXPECT_EQ(row.verdict, row_verdict::pass);
  }
}

// The pass is not lost where nothing can compute on it.
TEST(runner, a_trace_waits_where_the_package_cannot_be_run) {
  scratch_directory dir;
  fake_executor with;
  with.trace = "one line\n";
  ::setenv("UNMASK_PYTHON", "/no/such/python", 1);
  const run_summary s = run_experiment(spec_of(two_methods + "[probe]\nnames=[\"decoding\"]\n"),
                                       quiet(dir / "out"), with);
  ::unsetenv("UNMASK_PYTHON");
  for (const result_row& row : read_rows(s.file).rows) {
    EXPECT_TRUE(row.probes.empty());
    EXPECT_EQ(row.verdict, row_verdict::pass);
    EXPECT_NE(row.reason.find("probes: NOT RUN: needs Python 3.11"), std::string::npos)
        << row.reason;
    EXPECT_NE(row.reason.find("unmask probes"), std::string::npos) << row.reason;
    EXPECT_EQ(read_file(dir / "out" / "traces" / (row.point_id + ".jsonl"), 1 << 20), with.trace);
  }
}

TEST(runner, paired_points_end_together_and_keep_their_items) {
  scratch_directory dir;
  fake_executor with;
  experiment_spec spec = spec_of(two_methods + "[sweep]\nparams.steps=[0,1,2,3,4,5]\n");
  spec.evidence = {2, 10, 0, 1};  // 1: as soon as the width is looked at, from the fifth pass on
  spec.evidence.paired = true;
  const run_summary s = run_experiment(spec, quiet(dir / "out"), with);
  ASSERT_EQ(s.rows.size(), 12u);
  ASSERT_EQ(with.order.size(), 72u);  // twelve points in one group, three times there and back
  for (std::size_t i = 0; i < 36; ++i) EXPECT_EQ(with.order[i], with.order[71 - i]);
  for (const result_row& row : read_rows(s.file).rows) {
    EXPECT_EQ(row.samples.seconds.size(), 6u);
    EXPECT_EQ(row.answers_hash.size(), 64u);
    ASSERT_EQ(row.items.size(), 2u);
    EXPECT_EQ(row.items.seconds[0].size(), 6u);
    EXPECT_EQ(row.items.output_tokens[0], 3);
    EXPECT_EQ(row.items.answer_hash[0], row.items.answer_hash[1]);
  }
  // A group that lacks one row is measured again as a whole: halves of two runs are no pairs.
  const std::filesystem::path file = s.file;
  std::vector<std::string> lines;
  {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
  }
  lines.pop_back();
  {
    std::ofstream out(file);
    for (const std::string& line : lines) out << line << '\n';
  }
  const run_summary again = run_experiment(spec, quiet(dir / "out"), with);
  EXPECT_EQ(again.rows.size(), 12u);
  EXPECT_EQ(again.skipped, 0u);
  EXPECT_EQ(run_experiment(spec, quiet(dir / "out"), with).skipped, 12u);
}

// Passes of 1.2, 1.3, ... seconds are known to 13 % at best, those of one second exactly: what is
// compared ends at the same round, so that ratios are paired.
TEST(runner, both_sides_stop_at_the_same_round) {
  scratch_directory dir;
  fake_executor with;
  with.steady_label = "vanilla";
  experiment_spec spec = spec_of(two_methods);
  spec.evidence = {3, 7, 1, 0.1};
  for (const result_row& row : run_experiment(spec, quiet(dir / "out"), with).rows) {
    EXPECT_EQ(row.samples.seconds.size(), 7u) << row.label;
    EXPECT_EQ(row.samples.stop, row.label == "vanilla" ? "half_width" : "max_repetitions");
  }
  fake_executor both;
  both.steady_label = "vanilla";
  spec.evidence = {3, 7, 1, 0.2};  // 14 % after five
  for (const result_row& row : run_experiment(spec, quiet(dir / "five"), both).rows) {
    EXPECT_EQ(row.samples.seconds.size(), 5u) << row.label;
  }
}

// Also without a score: counts of each item give the ratio of two rows its interval.
TEST(runner, rows_of_an_artifact_keep_their_items) {
  scratch_directory dir;
  fake_executor with;
  experiment_spec spec = spec_of(two_methods);
  for (const result_row& row : run_experiment(spec, quiet(dir / "plain"), with).rows) {
    EXPECT_TRUE(row.items.empty());
  }
  spec.artifact.paper = "focus";
  for (const result_row& row : run_experiment(spec, quiet(dir / "artifact"), with).rows) {
    EXPECT_EQ(row.items.size(), 2u);
    EXPECT_TRUE(row.score);
  }
  with.scores = false;
  for (const result_row& row : run_experiment(spec, quiet(dir / "unscored"), with).rows) {
    EXPECT_FALSE(row.score);
    ASSERT_EQ(row.items.size(), 2u);
    EXPECT_EQ(row.items.committed.size(), 2u);
    EXPECT_TRUE(std::isnan(row.items.score[0]));
  }
}

TEST(runner, a_failing_point_is_recorded_and_the_run_goes_on) {
  scratch_directory dir;
  fake_executor with;
  with.fail_label = "vanilla";
  const run_summary s = run_experiment(spec_of(two_methods), quiet(dir / "out"), with);
  EXPECT_EQ(s.exit_status(), 1);
  EXPECT_EQ(s.failed, 1u);
  EXPECT_EQ(s.measured, 1u);
  const auto rows = read_rows(s.file).rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].verdict, row_verdict::failed);
  EXPECT_EQ(rows[0].reason, "out of luck");
  EXPECT_EQ(rows[1].verdict, row_verdict::pass);
  // The next run repeats what failed and nothing else.
  fake_executor again;
  const run_summary second = run_experiment(spec_of(two_methods), quiet(dir / "out"), again);
  EXPECT_EQ(second.skipped, 1u);
  ASSERT_EQ(second.rows.size(), 1u);
  EXPECT_EQ(second.rows[0].label, "vanilla");
}

TEST(runner, unsupported_and_unloadable_points_carry_their_reason) {
  scratch_directory dir;
  fake_executor with;
  with.unsupported_label = "vanilla";
  const run_summary s = run_experiment(spec_of(two_methods), quiet(dir / "a"), with);
  EXPECT_EQ(s.exit_status(), 0);
  EXPECT_EQ(s.not_supported, 1u);
  EXPECT_EQ(s.rows[0].verdict, row_verdict::not_supported);
  fake_executor broken;
  broken.throw_for_model = "m";
  const run_summary t = run_experiment(spec_of(two_methods), quiet(dir / "b"), broken);
  EXPECT_EQ(t.failed, 2u);
  EXPECT_EQ(t.rows[1].reason, "no such model");
}

TEST(runner, only_the_chosen_points_are_measured_and_keep_their_ids) {
  const scratch_directory dir;
  fake_executor with;
  run_options options = quiet(dir / "out");
  const std::string all = two_methods + "[sweep]\nbatch_size=[1,2,4]\n";
  const std::string whole = run_experiment(spec_of(all), options, with).rows.at(5).point_id;
  options.output = dir / "some";
  const std::string some = R"({"label" = ["block_diffusion"], "batch_size" = [2, 4]})";
  options.only = {selector_of(some, "--points")};
  const run_summary picked = run_experiment(spec_of(all), options, with);
  ASSERT_EQ(picked.rows.size(), 2u);
  EXPECT_EQ(picked.rows.at(1).point_id, whole);
  options.only = {selector_of("{label = \"vanila\"}", "--points")};
  EXPECT_THROW(run_experiment(spec_of(all), options, with), error);
  EXPECT_THROW(selector_of("{lable = 1}", "--points"), error);
  EXPECT_THROW(selector_of("label", "--points"), error);
  EXPECT_THROW(selector_of("{label = \"vanilla\", metric = \"nfe\"}", "--points"), error);
}

TEST(runner, every_answer_is_logged_when_asked_for) {
  scratch_directory dir;
  fake_executor with;
  run_options options = quiet(dir / "out");
  options.samples = true;
  const run_summary s = run_experiment(spec_of(two_methods), options, with);
  for (const result_row& row : s.rows) {
    int lines = 0;
    for (const auto& file :
         std::filesystem::directory_iterator(dir / ("out/samples/" + row.point_id))) {
      EXPECT_TRUE(file.path().filename().string().starts_with("samples_task_2")) << file.path();
      std::ifstream samples(file.path());
      for (std::string line; std::getline(samples, line);) ++lines;
    }
    EXPECT_EQ(lines, 2);
  }
}

TEST(runner, a_fresh_run_measures_again_and_its_rows_count) {
  scratch_directory dir;
  fake_executor with;
  const run_summary first = run_experiment(spec_of(two_methods), quiet(dir / "out"), with);
  EXPECT_EQ(run_experiment(spec_of(two_methods), quiet(dir / "out"), with).skipped, 2u);
  run_options options = quiet(dir / "out");
  options.resume = false;
  const run_summary again = run_experiment(spec_of(two_methods), options, with);
  EXPECT_EQ(again.measured, 2u);
  EXPECT_EQ(again.skipped, 0u);
  const std::vector<result_row> rows = read_rows(dir / "out").rows;
  ASSERT_EQ(rows.size(), 4u);  // nothing measured is lost
  EXPECT_EQ(rows[2].point_id, rows[0].point_id);
  EXPECT_EQ(rows[2].run_id, again.run_id);  // the last row of a point counts
  EXPECT_EQ(rows[0].run_id, first.run_id);
}

// A model that was trained again, or a GPU that came, makes other points.
TEST(runner, ids_know_the_model_the_workload_and_the_device) {
  scratch_directory dir;
  fake_executor with;
  EXPECT_EQ(run_experiment(spec_of(two_methods), quiet(dir / "out"), with).measured, 2u);
  for (const bool model : {true, false}) {
    with.look = [model](experiment_point& p) { (model ? p.model.hash : p.workload.hash) = "new"; };
    EXPECT_EQ(run_experiment(spec_of(two_methods), quiet(dir / "out"), with).skipped, 0u);
    EXPECT_EQ(run_experiment(spec_of(two_methods), quiet(dir / "out"), with).skipped, 2u);
  }
  // One point for each method remains of two devices, where one stands in for the other.
  with.look = [](experiment_point& p) { p.run.device = "cpu"; };
  const experiment_spec devices = spec_of(two_methods + "[sweep]\ndevice = [\"cpu\", \"cuda\"]\n");
  EXPECT_EQ(plan_points(devices, with).size(), 2u);
  const run_summary s = run_experiment(devices, quiet(dir / "devices"), with);
  EXPECT_EQ(s.rows.at(0).run.device, "cpu");
  EXPECT_EQ(s.rows.at(0).point_id, plan_points(spec_of(two_methods), with).at(0).id);
}

TEST(runner, a_killed_run_resumes_without_loss_or_repetition) {
  scratch_directory dir;
  const experiment_spec spec = spec_of(
      "[[method]]\nname=\"vanilla\"\n[sweep]\nparams.steps=[1,2,3,4,5,6,7,8,9,10,11,12]\n"
      "batch_size=[1,2,3]\n");
  const std::filesystem::path file = dir / "out/rows.jsonl";
  const auto lines = [&] {
    std::ifstream in(file);
    std::string line;
    std::size_t n = 0;
    while (std::getline(in, line)) n += !in.eof();
    return n;
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    fake_executor stalls;
    stalls.stall_after = 60;
    run_experiment(spec, quiet(dir / "out"), stalls);
    ::_exit(0);
  }
  for (int i = 0; i < 60000 && lines() < 5; ++i) ::usleep(1000);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "the child was done before it could be killed";

  const std::size_t before = read_rows(file).rows.size();
  EXPECT_GE(before, 5u);
  ASSERT_LT(before, 36u);
  std::ofstream(file, std::ios::app) << "{\"schema_version\":\"1.0\",\"run_id";  // a torn row too
  fake_executor with;
  const run_summary s = run_experiment(spec, quiet(dir / "out"), with);
  EXPECT_EQ(s.skipped, before);
  EXPECT_EQ(s.rows.size(), 36 - before);
  std::map<std::string, int> times;
  for (const result_row& row : read_rows(file).rows) ++times[row.point_id];
  EXPECT_EQ(times.size(), 36u);
  for (const auto& [id, n] : times) EXPECT_EQ(n, 1) << id;
}

TEST(runner, shards_write_their_own_files_and_cover_the_plan) {
  scratch_directory dir;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    fake_executor with;
    run_options options = quiet(dir / "out");
    options.part = {i, 3};
    rows += run_experiment(spec_of(two_methods + "[sweep]\nparams.steps=[1,2]"), options, with)
                .rows.size();
  }
  EXPECT_EQ(rows, 4u);
  EXPECT_EQ(completed_points(read_rows(dir / "out").rows).size(), 4u);
}

// ---- points of two ranks ----

std::vector<experiment_point> one_point_of_two_ranks() {
  const std::string one = "[[method]]\nname=\"vanilla\"\n[sweep]\nranks=[2]\ndevice=[\"cpu\"]\n";
  return make_plan(spec_of(one), catalogue());
}

// As a launcher starts them: rank 1 is a copy of this process.
TEST(runner, ranks_that_read_another_checkpoint_are_named) {
  const std::vector<experiment_point> points = one_point_of_two_ranks();
  fake_executor with;
  rank_place place{.launcher = "torchrun",
                   .ranks_variable = "WORLD_SIZE",
                   .key = "runner-test-" + std::to_string(::getpid()),
                   .rank = 1,
                   .ranks = 2,
                   .local_rank = 1,
                   .local_ranks = 2};
  const pid_t other = ::fork();
  if (other == 0) {
    with.model_hash = "another";
    follow(points, with, place);
  }
  place.rank = place.local_rank = 0;
  {
    const std::unique_ptr<executor> ranked = with_ranks(with, place);
    const std::vector<preparation> ready = ranked->prepare(points);
    ASSERT_EQ(ready.size(), 1U);
    EXPECT_EQ(ready[0].point, nullptr);
    EXPECT_EQ(ready[0].reason, "rank 1 read another checkpoint than rank 0");
  }
  int status = 0;
  EXPECT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

TEST(runner, ranks_with_another_program_or_processor_are_named) {
  const std::string one = rank_facts("a", "EPYC"), other = rank_facts("a", "Xeon");
  EXPECT_EQ(unlike_rank({one, one, one}), "");
  EXPECT_EQ(unlike_rank({one, one, other}),
            "rank 2 has another processor than rank 0 (Xeon, not EPYC): what ranks repeat has "
            "equal bits on equal ones only");
  EXPECT_EQ(unlike_rank({one, other, rank_facts("b", "EPYC")}),
            "rank 2 runs another program than rank 0");
  EXPECT_EQ(unlike_rank({rank_facts("a", ""), ""}), "rank 1 runs another program than rank 0");
}

TEST(runner, ranks_need_the_program_which_can_be_started_again) {
  fake_executor with;
  const std::unique_ptr<executor> ranked = with_ranks(with);
  name_program("/bin/true");
  test::expect_error(exit_code::environment, "NOT RUN: several ranks need the program unmask",
                     [&] { ranked->prepare(one_point_of_two_ranks()); });
  name_program({});
}

}  // namespace
}  // namespace unmask
