// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/devices/device.h"
#include "harness/devices/first_use.h"
#include "harness/measure/official_scores.h"
#include "harness/measure/probe.h"
#include "harness/plan/needs.h"
#include "harness/plan/request.h"
#include "harness/plan/serve_settings.h"
#include "harness/profile/phases.h"
#include "harness/rows/comparable.h"
#include "harness/rows/glossary.h"
#include "harness/rows/statistics.h"
#include "harness/rows/store.h"
#include "harness/run/following.h"
#include "harness/run/kept_passes.h"
#include "harness/run/pass_use.h"
#include "harness/run/point_claim.h"
#include "harness/run/stop_signal.h"

namespace unmask {
namespace {

// Points measured in turn. More would keep more unfinished when the run is killed.
constexpr std::size_t group_width = 8;

std::string utc_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

std::string new_run_id() {
  std::random_device random;
  return utc_now("%Y%m%dT%H%M%SZ") + fmt::format("-{:08x}", random());
}

// What is known of a point's row before it is measured.
result_row planned_row(const experiment_point& p) {
  result_row row;
  row.point_id = p.id;
  row.position = static_cast<std::int64_t>(p.position);
  row.model.name = p.model.name;
  row.model.weights = p.model.weights == "checkpoint" ? "checkpoint" : "synthetic";
  row.workload.family = p.workload.name;
  row.method = p.method;
  row.preset = p.preset;
  row.label = p.label;
  row.variation = p.variation;
  row.params = p.params;
  row.run = p.run;
  describe_device(row);
  return row;
}

// Items of a point before it is loaded, as far as its plan says.
std::int64_t items_of(const experiment_point& p) {
  return std::max<std::int64_t>(p.workload.count > 0 ? p.workload.count : p.workload.items.limit,
                                1);
}

// What a point of the group has gathered so far.
struct in_flight {
  const experiment_point* point = nullptr;
  std::unique_ptr<prepared_point> ready;
  measured_point measured;
  std::vector<double> seconds;
  std::int64_t expected = 0;  // items that progress still waits for
  bool warm = false, over = false;
};

// A row on its way to the disk.
struct waiting_row {
  std::string line, point;
  bool settled = false;  // its passes are not needed any more
};

class experiment_run {
 public:
  experiment_run(const experiment_spec& spec, const run_options& options, executor& with,
                 const std::vector<experiment_point>& points, std::set<std::string> with_row,
                 std::size_t rows_there, point_claim& claim)
      : spec_(spec),
        options_(options),
        with_(with),
        claim_(claim),
        with_row_(std::move(with_row)),
        rows_(rows_file(options.output, options.part.index, options.part.count)),
        progress_(points.size(), options.progress ? stderr : nullptr),
        environment_(with.environment()),
        source_hash_(with.source_hash()),
        passes_(options.output, sha256_hex(with.program_hash() + "\n" + machine_of(environment_)),
                [this](const std::string& line) { say(line); }),
        rows_kept_(rows_there),
        rule_{spec.evidence.min_repetitions * spec.evidence.more_repetitions,
              spec.evidence.max_repetitions * spec.evidence.more_repetitions,
              spec.evidence.ci_half_width},
        stop_([this] { say_last_words(); }) {
    summary_.run_id = new_run_id();
    summary_.file = rows_.path();
    for (const experiment_point& p : points) {
      progress_.expect(items_of(p) * (spec.evidence.warmup + rule_.minimum));
    }
  }

  void measure(std::span<const experiment_point> group) {
    made_a_pass_ = false;
    std::vector<in_flight> flights = prepare(group);
    for (in_flight& f : flights) {
      guarded(f, [&] { take_up(f); });
    }
    for (in_flight& f : flights) {
      if (f.measured.passes.empty()) guarded(f, [&] { warm_up(f); });
    }
    const bool paired = spec_.evidence.paired;
    std::int64_t round = 0;
    // Every second round goes backwards: what drifts with time hits no method more than another.
    for (; round < rule_.maximum; ++round) {
      for (std::size_t i = 0; i < flights.size(); ++i) {
        in_flight& f = flights[round % 2 == 0 ? i : flights.size() - 1 - i];
        guarded(f, [&] { repeat(f, round); });
      }
      // All that are compared end at the same round. Paired ones go forwards and backwards as often,
      // ABBA, so that linear drift cancels.
      if ((!paired || round % 2 == 1) && all_have_enough(flights)) break;
    }
    for (in_flight& f : flights) {
      if (f.over) continue;
      keep_rounds(f, static_cast<std::size_t>(round) + 1);
      // The whole group was measured before; only some of its rows are missing.
      if (!made_a_pass_ && with_row_.contains(f.point->id)) {
        f.over = true;
        progress_.expect(-f.expected);
        ++summary_.skipped;
        continue;
      }
      guarded(f, [&] { finish(f); });
    }
    end_group(group);
  }

  run_summary& summary() { return summary_; }
  void note(const std::string& line) { progress_.note(line); }
  // What the rows that are there were asked.
  void remember_prompts(const std::vector<result_row>& rows) {
    for (const result_row& row : rows) {
      if (!row.workload.prompts_hash.empty()) {
        prompts_.emplace(asked_of(row), row.workload.prompts_hash);
      }
    }
  }
  // Passes of points with a row: their run was killed before it could remove them.
  void forget(const std::set<std::string>& points) {
    for (const std::string& id : points) passes_.drop(id);
  }
  // Rows of other programs and machines stay where they are: no speed of theirs stands next to a new one
  // without a word.
  void say_of_others(const std::vector<result_row>& rows, const std::set<std::string>& done) {
    std::map<std::string, std::string> apart;  // by point: its last row counts
    result_row here;
    here.environment = environment_;
    here.source_hash = source_hash_;
    for (const result_row& row : rows) {
      if (done.contains(row.point_id)) apart[row.point_id] = difference_of(row, here);
    }
    std::erase_if(apart, [](const auto& of) { return of.second.empty(); });
    if (apart.empty()) return;
    say(
        fmt::format("note: {} of these rows {} of another program or machine ({} differ{}): their "
                    "speeds are not compared with new ones; --fresh measures them again",
                    apart.size(), apart.size() == 1 ? "is" : "are", apart.begin()->second,
                    apart.begin()->second.find(',') == std::string::npos ? "s" : ""));
  }
  // What must be heard with and without progress.
  void say(const std::string& line) {
    if (options_.progress) {
      progress_.note(line);
    } else {
      tell("{}\n", line);
    }
  }

 private:
  template <class Work>
  void guarded(in_flight& f, const Work& work) {
    if (f.over) return;
    try {
      work();
    } catch (const std::exception& problem) {
      progress_.end_pass(false);
      give_up(f, row_verdict::failed, problem.what());
    }
  }

  std::vector<in_flight> prepare(std::span<const experiment_point> group) {
    progress_.now("loading " + group.front().model.name + " for " + group.front().workload.name);
    std::vector<in_flight> flights(group.size());
    std::vector<preparation> prepared;
    std::string problem;
    try {
      prepared = with_.prepare(group);
    } catch (const wrong_kernels&) {
      throw;
    } catch (const std::exception& e) {
      problem = e.what();
    }
    prepared.resize(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      in_flight& f = flights[i];
      f.point = &group[i];
      f.expected = items_of(group[i]) * (spec_.evidence.warmup + rule_.minimum);
      f.ready = std::move(prepared[i].point);
      if (f.ready) continue;
      const bool whole = !problem.empty();
      give_up(f, whole ? row_verdict::failed : prepared[i].verdict,
              whole ? problem : prepared[i].reason);
    }
    return flights;
  }

  // Whether the point could take up what it knew after its last pass; if not, its passes are dropped.
  bool remembers(in_flight& f, const std::string& memory) {
    try {
      f.ready->remember(memory);
      return true;
    } catch (const std::exception&) {
      say(title(f) + ": the passes kept of it are damaged; they are measured again");
      passes_.drop(f.point->id);
      return false;
    }
  }

  // What an earlier run measured of this point before it was stopped.
  void take_up(in_flight& f) {
    f.ready->count_in(progress_.meter());
    if (!options_.resume) passes_.drop(f.point->id);
    unfinished_point before = passes_.take_up(f.point->id, f.ready->workload().prompts_hash);
    if (!before.passes.empty() && remembers(f, before.memory)) {
      f.measured.passes = std::move(before.passes);
      f.measured.warmup_seconds = std::move(before.warmup_seconds);
      f.measured.taken_up = f.measured.passes.size();
      for (const pass_record& pass : f.measured.passes) f.seconds.push_back(pass.seconds);
    }
    const auto there = static_cast<std::int64_t>(f.measured.passes.size());
    const std::int64_t left = std::max<std::int64_t>(rule_.minimum - there, 0);
    const std::int64_t items =
        f.ready->size().items * (left + (there > 0 && left == 0 ? 0 : spec_.evidence.warmup));
    progress_.expect(items - f.expected);
    f.expected = items;
  }

  pass_record timed_pass(in_flight& f, const std::string& what) {
    const pass_size size = f.ready->size();
    if (f.expected < size.items) {
      progress_.expect(size.items - f.expected);
      f.expected = size.items;
    }
    progress_.begin_pass(title(f) + what, size.items, size.positions);
    pass_record pass = f.ready->pass();
    progress_.end_pass();
    f.expected -= size.items;
    return pass;
  }

  void warm_up(in_flight& f) {
    f.warm = true;
    for (std::int64_t i = 0; i < spec_.evidence.warmup; ++i) {
      f.measured.warmup_seconds.push_back(timed_pass(f, " warm-up").seconds);
    }
  }

  void repeat(in_flight& f, std::int64_t round) {
    const auto wanted = static_cast<std::size_t>(round) + 1;
    if (f.measured.passes.size() < wanted) {
      if (!f.warm) warm_up(f);  // caches are cold in this process
      add_pass(f, round);
    }
    // Passes that were taken up are looked at one by one, as they were when they were made.
    f.measured.stop =
        rule_.reason({f.seconds.begin(), f.seconds.begin() + static_cast<std::ptrdiff_t>(wanted)});
  }

  void add_pass(in_flight& f, std::int64_t round) {
    // Of several ranks each has a device, and following.h asks all of them.
    std::optional<use_meter> meter;
    if (f.point->run.ranks == 1) meter.emplace(meter_of(f.point->run.device));
    {
      const phase_range range(profile_phase::measure,
                              round);  // what a profiler around us looks for
      f.measured.passes.push_back(timed_pass(f, fmt::format(" repetition {}", round + 1)));
    }
    pass_record& pass = f.measured.passes.back();
    if (meter) put_use(pass, meter->finish());
    f.seconds.push_back(pass.seconds);
    made_a_pass_ = true;
    const std::lock_guard hold(keeping_);
    passes_.keep(f.point->id, pass,
                 f.measured.passes.size() > 1 ? &f.measured.passes.front() : nullptr,
                 f.measured.warmup_seconds, f.ready->memory(), f.ready->workload().prompts_hash);
  }

  static void keep_rounds(in_flight& f, std::size_t rounds) {
    if (f.measured.passes.size() <= rounds) return;
    f.measured.passes.resize(rounds);
    f.seconds.resize(rounds);
  }

  static bool all_have_enough(const std::vector<in_flight>& flights) {
    return std::ranges::all_of(
        flights, [](const in_flight& f) { return f.over || !f.measured.stop.empty(); });
  }

  // What cannot be judged leaves its items undecided: what was measured counts all the same.
  static std::vector<scored_answer> scores_of(in_flight& f, const pass_record& pass) {
    try {
      return f.ready->score(pass);
    } catch (const std::exception& problem) {
      scored_answer none;
      none.undecided = true;
      none.note = problem.what();
      return std::vector<scored_answer>(pass.answers.size(), none);
    }
  }

  void finish(in_flight& f) {
    progress_.now(title(f) + " scoring");
    result_row row = new_row(*f.point);
    row.model = f.ready->model();
    row.workload = f.ready->workload();
    f.measured.rules = f.ready->rules();
    f.measured.knobs = f.ready->knobs();
    f.measured.first_late_layer = f.ready->first_late_layer();
    const std::vector<pass_record>& passes = f.measured.passes;
    f.measured.scores = scores_of(f, passes.front());
    for (std::size_t p = 1; passes.front().answers_vary && p < passes.size(); ++p) {
      f.measured.later_scores.push_back(scores_of(f, passes[p]));
    }
    // Rows of an artifact are compared by claims, item by item: scores, and counts also without any.
    f.measured.keep_items = spec_.evidence.paired || !spec_.artifact.paper.empty();
    measure_row(row, f.measured);
    if (!spec_.probe.names.empty()) measure_probes(f, row);
    for (const auto& [name, value] : f.ready->measured_settings()) row.params[name] = value;
    row.calibration = f.ready->calibration_report();
    for (const auto& [name, report] : f.ready->measured_reports()) row.probes[name] = report;
    if (options_.watch) {
      progress_.now(title(f) + " watched pass");
      for (const auto& [name, report] : options_.watch(*f.ready, *f.point, f.measured)) {
        row.probes[name] = report;
      }
    }
    write_samples(f, row);
    compare_prompts(row);
    write(f, std::move(row));
  }

  // Rows of one workload and model were asked the same, in this run and before.
  void compare_prompts(const result_row& row) {
    if (row.workload.prompts_hash.empty()) return;
    const std::string& there =
        prompts_.emplace(asked_of(row), row.workload.prompts_hash).first->second;
    if (there == row.workload.prompts_hash || !other_prompts_.insert(asked_of(row)).second) return;
    say(fmt::format(
        "note: the prompts of {} for {} are other tokens than those of rows that are in {} "
        "already: answers and scores do not compare",
        row.workload.family, row.model.name, options_.output.string()));
  }

  // The trace of the probes' pass is kept where the package cannot compute on it.
  void measure_probes(in_flight& f, result_row& row) {
    progress_.now(title(f) + " probes");
    const std::filesystem::path trace = options_.output / "traces" / (f.point->id + ".jsonl");
    std::filesystem::create_directories(trace.parent_path());
    std::ofstream out(trace, std::ios::binary);
    const bool probed = f.ready->probe(spec_.probe, out);
    out.close();
    if (!out) throw environment_error("cannot write " + trace.string());
    try {
      if (probed) row.probes = probe_results(trace);
      std::filesystem::remove(trace);
      std::error_code not_empty;
      std::filesystem::remove(trace.parent_path(), not_empty);
    } catch (const error& problem) {
      const std::string reason = problem.what();
      row.reason += fmt::format(
          "{}probes: {}{}; `unmask probes {}` computes them later", row.reason.empty() ? "" : "; ",
          reason.starts_with("NOT RUN") ? "" : "NOT RUN: ", reason, options_.output.string());
    }
  }

  void give_up(in_flight& f, row_verdict verdict, const std::string& reason) {
    result_row row = new_row(*f.point);
    if (f.ready) {
      row.model = f.ready->model();
      row.workload = f.ready->workload();
    }
    row.verdict = verdict;
    row.reason = reason;
    row.samples.warmup_seconds = f.measured.warmup_seconds;
    row.samples.seconds = f.seconds;
    row.samples.stop = "gave_up";
    write(f, std::move(row));
  }

  result_row new_row(const experiment_point& p) const {
    result_row row = planned_row(p);
    row.run_id = summary_.run_id;
    row.title = spec_.title;
    row.experiment = experiment_;
    row.environment = environment_;
    row.source_hash = source_hash_;
    return row;
  }

  void write(in_flight& f, result_row row) {
    f.over = true;
    f.ready.reset();
    f.measured = {};
    progress_.expect(-f.expected);
    row.finished_at = utc_now("%Y-%m-%dT%H:%M:%SZ");
    // Passes of a point that FAILED are worth another try: what they measured is not lost with it.
    waiting_.push_back({to_json_line(row), row.point_id, row.verdict != row_verdict::failed});
    write_waiting();
    std::string line = title(f) + " " + shown_verdict(row);
    if (is_reportable(row)) {
      line += fmt::format(" {:.1f} tokens/s", row.value_of("tokens_per_second").value_or(0));
      if (const auto found = row.value_of("slo_capacity_requests_per_second")) {
        line += fmt::format(", capacity {:.2f} requests/s", *found);
      }
      ++summary_.measured;
    } else if (row.verdict == row_verdict::not_supported) {
      ++summary_.not_supported;
    } else {
      ++summary_.failed;
    }
    if (!row.reason.empty() && row.reason != nothing_to_score) line += ": " + row.reason;
    progress_.finished(line);
    summary_.rows.push_back(std::move(row));
  }

  // A row that the disk does not take waits for the next one: the disk may have room again by then.
  void write_waiting() {
    const std::lock_guard hold(keeping_);
    while (!waiting_.empty()) {
      const waiting_row& row = waiting_.front();
      try {
        rows_.append(row.line);
      } catch (const error& problem) {
        problem_ = problem.what();
        say(problem_);
        return;
      }
      ++rows_kept_;
      // Paired points keep theirs until all rows of the group are there.
      if (row.settled && !spec_.evidence.paired) passes_.drop(row.point);
      waiting_.pop_front();
    }
  }

  void end_group(std::span<const experiment_point> group) {
    if (!waiting_.empty()) write_waiting();
    if (!waiting_.empty()) {
      throw environment_error(
          fmt::format("{}. {} of the rows just measured could not be written; their passes are "
                      "kept where there "
                      "was room for them. Make room and give the same command again: it continues",
                      problem_, waiting_.size()));
    }
    if (!spec_.evidence.paired) return;
    const std::lock_guard hold(keeping_);
    for (const experiment_point& p : group) {
      const bool failed = std::ranges::any_of(summary_.rows, [&](const result_row& row) {
        return row.point_id == p.id && row.verdict == row_verdict::failed;
      });
      if (!failed) passes_.drop(p.id);
    }
  }

  // Where the benchmark's libraries were not there to score the answers, these are kept for them.
  void write_samples(const in_flight& f, result_row& row) {
    const bool later = std::ranges::any_of(f.measured.scores, [](const scored_answer& s) {
      return s.note.starts_with(scores_not_run);
    });
    if (!options_.samples && !later) return;
    const std::filesystem::path folder = options_.output / "samples" / f.point->id;
    if (later && !row.score) row.reason += "; `unmask score " + folder.string() + "` scores later";
    std::filesystem::create_directories(folder);
    for (const auto& [name, lines] :
         f.ready->samples(f.measured.scores, summary_.run_id, f.point->id, sample_date_)) {
      std::ofstream out(folder / name, std::ios::app | std::ios::binary);
      if (!(out << lines << std::flush)) {
        throw environment_error("cannot write " + (folder / name).string());
      }
    }
  }

  // In the thread of a signal, after which the process ends. A write under way comes to its end first,
  // unless the disk hangs.
  void say_last_words() {
    const bool held = keeping_.try_lock_for(std::chrono::seconds(2));
    const std::size_t rows = rows_kept_, passes = held ? passes_.count() : 0;
    progress_.last_words(
        fmt::format("stopped; {} row{} and {} kept in {}{}", rows, rows == 1 ? "" : "s",
                    held ? fmt::format("{} pass{}", passes, passes == 1 ? "" : "es") : "the passes",
                    options_.output.string(),
                    options_.resume && options_.continues ? "; the same command continues" : ""));
    claim_.release();
  }

  static std::string asked_of(const result_row& row) {
    const benchmark_record& b = row.workload.benchmark;
    return fmt::format("{}\n{}\n{}\n{}\n{} {}\n{}", row.model.name, row.model.hash,
                       row.workload.family, row.workload.hash, b.config, b.prompt, row.run.seed);
  }

  static std::string title(const in_flight& f) { return title_of(*f.point); }

  const experiment_spec& spec_;
  const run_options& options_;
  executor& with_;
  point_claim& claim_;
  const std::set<std::string> with_row_;  // points that are measured again for their partners' sake
  line_file rows_;
  const std::string sample_date_ = utc_now("%Y-%m-%dT%H-%M-%S.000000");
  progress progress_;
  std::string environment_, source_hash_;
  const experiment_record experiment_ = experiment_of(spec_);
  std::timed_mutex keeping_;  // what is written and counted below
  kept_passes passes_;
  std::atomic<std::size_t> rows_kept_;
  std::map<std::string, std::string> prompts_;  // asked_of() a row and its prompts_hash
  std::set<std::string> other_prompts_;         // of these it was said
  std::deque<waiting_row> waiting_;
  std::string problem_;  // why the first of them waits
  bool made_a_pass_ = false;
  const stopping_rule rule_;
  run_summary summary_;
  stop_signal stop_;  // last: it uses all the others
};

}  // namespace

std::vector<std::vector<experiment_point>> interleaved_groups(
    const std::vector<experiment_point>& points, bool paired) {
  std::vector<std::vector<experiment_point>> groups;
  for (const experiment_point& p : points) {
    const experiment_point* last = groups.empty() ? nullptr : &groups.back().back();
    const bool same =
        last && measured_in_turn(*last, p) && (paired || groups.back().size() < group_width);
    if (!same) groups.emplace_back();
    groups.back().push_back(p);
  }
  return groups;
}

namespace {

// Points that need not be measured again. Paired ones only where the whole group is there: half of
// it measured today and half of it yesterday would be no pair.
std::set<std::string> to_skip(const std::vector<experiment_point>& points,
                              std::set<std::string> done, bool paired) {
  if (!paired) return done;
  for (const auto& group : interleaved_groups(points, true)) {
    const bool whole =
        std::ranges::all_of(group, [&](const experiment_point& p) { return done.contains(p.id); });
    if (whole) continue;
    for (const experiment_point& p : group) done.erase(p.id);
  }
  return done;
}

std::vector<experiment_point> whole_plan(const experiment_spec& spec, executor& with) {
  std::vector<experiment_point> points = make_plan(spec, with.methods());
  for (experiment_point& p : points) with.identify(p);
  renumber(points);
  return points;
}

std::vector<experiment_point> chosen_points(std::vector<experiment_point> points,
                                            const experiment_spec& spec, executor& with,
                                            const run_options& options) {
  if (options.varying) {
    std::erase_if(points, [&](const auto& p) { return !varies(p, with.methods()(p.method)); });
    if (points.empty()) throw usage_error(spec.file + ": " + nothing_varies);
  }
  if (!options.only.empty()) {
    std::erase_if(points, [&](const experiment_point& p) {
      const result_row row = planned_row(p);
      return std::ranges::none_of(options.only, [&](const auto& by) { return by.matches(row); });
    });
    if (points.empty()) {
      throw usage_error(fmt::format("{}: no point has {}", spec.file, options.only.front().text()));
    }
  }
  return take_shard(points, options.part);
}

auto of_other_ranks(const rank_place& place) {
  return [&place](const experiment_point& p) { return p.run.ranks != place.ranks; };
}

std::vector<std::string> ids_of(const std::vector<experiment_point>& points) {
  return names_in(points, &experiment_point::id);
}

}  // namespace

std::vector<experiment_point> plan_points(const experiment_spec& spec, executor& with,
                                          const run_options& options) {
  return chosen_points(whole_plan(spec, with), spec, with, options);
}

row_table run_summary::of_plan() const {
  std::vector<result_row> all = earlier;
  all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

run_summary run_experiment(const experiment_spec& spec, const run_options& options,
                           executor& alone) {
  const std::vector<experiment_point> plan = whole_plan(spec, alone);
  std::vector<experiment_point> points = chosen_points(plan, spec, alone, options);
  if (follows()) follow(points, alone);
  const std::optional<rank_place> launch = place_for(points);
  if (launch) take_own_gpu(*launch, points);
  const std::size_t left = launch ? std::erase_if(points, of_other_ranks(*launch)) : 0;
  if (launch && launch->rank > 0) follow(points, alone, *launch);
  const std::unique_ptr<executor> ranked = with_ranks(alone, launch);
  executor& with = *ranked;
  const std::vector<std::string> planned = ids_of(points);
  std::vector<std::size_t> positions;  // those of this plan: it may be an edited one
  for (const experiment_point& p : points) positions.push_back(p.position);
  const std::filesystem::path file =
      rows_file(options.output, options.part.index, options.part.count);
  std::vector<result_row> before;
  std::set<std::string> done, there;
  std::size_t skipped = 0;
  // Rows are read while nobody else can claim points: what another run has measured meanwhile counts.
  point_claim claim(options.output, file.filename().string(), [&] {
    if (options.resume) {
      before = read_rows(options.output).rows;
      there = completed_points(before);
      done = to_skip(points, there, spec.evidence.paired);
      skipped = std::erase_if(points, [&](const auto& p) { return done.contains(p.id); });
    }
    return ids_of(points);
  });
  if (options.manifest) {
    replace_file(options.output / manifest_name, options.manifest(plan));  // the same of all shards
  }
  experiment_run run(spec, options, with, points, there, skipped, claim);
  run.forget(done);
  run.remember_prompts(before);
  if (left > 0) {
    tell("{} started {} ranks: {} {} of other numbers left out\n", launch->launcher, launch->ranks,
         left, left == 1 ? "point" : "points");
  }
  if (skipped > 0) {
    run.note(fmt::format("{} of {} points already have a row in {}", skipped, planned.size(),
                         options.output.string()));
    run.say_of_others(before, done);
  }
  const bool paired = spec.evidence.paired;
  for (const auto& group : interleaved_groups(points, paired)) run.measure(group);
  run_summary& summary = run.summary();
  summary.planned = planned.size();
  summary.skipped += skipped;
  std::set<std::string> fresh;
  for (const result_row& row : summary.rows) fresh.insert(row.point_id);
  for (result_row& row : before) {
    const auto place = std::ranges::find(planned, row.point_id);
    if (place == planned.end() || fresh.contains(row.point_id)) continue;
    row.position = static_cast<std::int64_t>(positions[place - planned.begin()]);
    summary.earlier.push_back(std::move(row));
  }
  return summary;
}

run_summary run_experiment(const experiment_spec& spec, const run_options& options) {
  tell("{}\n", device_line(choose_devices(spec)));
  const std::unique_ptr<executor> with = make_executor();
  return run_experiment(spec, options, *with);
}

}  // namespace unmask
