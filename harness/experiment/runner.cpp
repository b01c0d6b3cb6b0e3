// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/runner.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/analysis/statistics.h"
#include "harness/analysis/store.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/experiment/progress.h"
#include "harness/experiment/request.h"
#include "harness/profile/nvml.h"
#include "harness/profile/phases.h"

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
  return row;
}

// What a point of the group has gathered so far.
struct in_flight {
  const experiment_point* point = nullptr;
  std::unique_ptr<prepared_point> ready;
  measured_point measured;
  std::vector<double> seconds;
  bool over = false;
};

class experiment_run {
 public:
  experiment_run(const experiment_spec& spec, const run_options& options, executor& with,
                 std::size_t points)
      : spec_(spec),
        options_(options),
        with_(with),
        rows_(rows_file(options.output, options.part.index, options.part.count)),
        progress_(points, options.progress ? stderr : nullptr),
        environment_(with.environment()),
        source_hash_(with.source_hash()) {
    summary_.run_id = new_run_id();
    summary_.file = rows_.path();
  }

  void measure(std::span<const experiment_point> group) {
    std::vector<in_flight> flights = prepare(group);
    for (in_flight& f : flights) {
      guarded(f, [&] { warm_up(f); });
    }
    const std::int64_t most = spec_.evidence.max_repetitions * spec_.evidence.more_repetitions;
    const stopping_rule rule(spec_.evidence.min_repetitions * spec_.evidence.more_repetitions, most,
                             spec_.evidence.ci_half_width);
    // Every second round goes backwards: what drifts with time hits no method more than another.
    for (std::int64_t round = 0; round < most; ++round) {
      for (std::size_t i = 0; i < flights.size(); ++i) {
        in_flight& f = flights[round % 2 == 0 ? i : flights.size() - 1 - i];
        guarded(f, [&] { repeat(f, rule, round); });
      }
      // Forwards and backwards as often: ABBA, so that linear drift cancels.
      if (spec_.evidence.paired && round % 2 == 1 && all_have_enough(flights)) break;
    }
    for (in_flight& f : flights) {
      guarded(f, [&] { finish(f); });
    }
  }

  run_summary& summary() { return summary_; }
  void note(const std::string& line) { progress_.note(line); }

 private:
  template <class Work>
  void guarded(in_flight& f, const Work& work) {
    if (f.over) return;
    try {
      work();
    } catch (const std::exception& problem) {
      give_up(f, verdict_kind::failed, problem.what());
    }
  }

  std::vector<in_flight> prepare(std::span<const experiment_point> group) {
    progress_.now("loading " + group.front().model.name + " for " + group.front().workload.name);
    std::vector<in_flight> flights(group.size());
    std::vector<preparation> prepared;
    std::string problem;
    try {
      prepared = with_.prepare(group);
    } catch (const std::exception& e) {
      problem = e.what();
    }
    prepared.resize(group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      flights[i].point = &group[i];
      flights[i].ready = std::move(prepared[i].point);
      if (flights[i].ready) continue;
      const bool whole = !problem.empty();
      give_up(flights[i], whole ? verdict_kind::failed : prepared[i].verdict,
              whole ? problem : prepared[i].reason);
    }
    return flights;
  }

  void warm_up(in_flight& f) {
    for (std::int64_t i = 0; i < spec_.evidence.warmup; ++i) {
      progress_.now(title(f) + " warm-up");
      f.measured.warmup_seconds.push_back(f.ready->pass().seconds);
    }
  }

  void repeat(in_flight& f, const stopping_rule& rule, std::int64_t round) {
    progress_.now(title(f) + fmt::format(" repetition {}", round + 1));
    const energy_meter meter = meter_of(f.point->run.device);
    const std::optional<double> before = meter.joules();
    const phase_range range(profile_phase::measure, round);  // what a profiler around us looks for
    f.measured.passes.push_back(f.ready->pass());
    if (const std::optional<double> after = meter.joules(); before && after) {
      f.measured.passes.back().metrics["energy_joules"] = {*after - *before, origin::measured};
    }
    f.seconds.push_back(f.measured.passes.back().seconds);
    f.measured.stop = rule.reason(f.seconds);
    // Paired points need as many repetitions as their partners: they end together.
    if (!f.measured.stop.empty() && !spec_.evidence.paired) finish(f);
  }

  static bool any_scored(const std::vector<scored_answer>& scores) {
    return std::ranges::any_of(scores, [](const scored_answer& s) { return s.scored; });
  }

  static bool all_have_enough(const std::vector<in_flight>& flights) {
    return std::ranges::all_of(
        flights, [](const in_flight& f) { return f.over || !f.measured.stop.empty(); });
  }

  void finish(in_flight& f) {
    result_row row = new_row(*f.point);
    row.model = f.ready->model();
    row.workload = f.ready->workload();
    f.measured.rules = f.ready->rules();
    f.measured.knobs = f.ready->knobs();
    f.measured.scores = f.ready->score(f.measured.passes.front());
    // Rows of an artifact are compared by claims: scores of the same items, item by item.
    f.measured.keep_items =
        spec_.evidence.paired || (!spec_.artifact.paper.empty() && any_scored(f.measured.scores));
    measure_row(row, f.measured);
    if (!spec_.probe.names.empty()) {
      progress_.now(title(f) + " probes");
      row.probes = f.ready->probe(spec_.probe);
    }
    for (const auto& [name, value] : f.ready->measured_settings()) row.params[name] = value;
    row.calibration = f.ready->calibration_report();
    for (const auto& [name, report] : f.ready->measured_reports()) row.probes[name] = report;
    if (options_.watch) {
      for (const auto& [name, report] : options_.watch(*f.ready, *f.point, f.measured)) {
        row.probes[name] = report;
      }
    }
    write_samples(f);
    write(f, std::move(row));
  }

  void give_up(in_flight& f, verdict_kind verdict, const std::string& reason) {
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
    row.environment = environment_;
    row.source_hash = source_hash_;
    return row;
  }

  void write(in_flight& f, result_row row) {
    f.over = true;
    f.ready.reset();
    f.measured = {};
    row.finished_at = utc_now("%Y-%m-%dT%H:%M:%SZ");
    rows_.append(to_json_line(row));
    std::string line = title(f) + " " + name_of(row.verdict);
    if (is_reportable(row)) {
      line += fmt::format(" {:.1f} tok/s", row.value_of("tokens_per_second").value_or(0));
      if (const auto found = row.value_of("slo_capacity_requests_per_second")) {
        line += fmt::format(", capacity {:.2f} requests/s", *found);
      }
      ++summary_.measured;
    } else if (row.verdict == verdict_kind::not_supported) {
      ++summary_.not_supported;
    } else {
      ++summary_.failed;
    }
    if (!row.reason.empty()) line += ": " + row.reason;
    progress_.finished(line);
    summary_.rows.push_back(std::move(row));
  }

  void write_samples(const in_flight& f) {
    if (!options_.samples) return;
    const std::filesystem::path folder = options_.output / "samples" / f.point->id;
    std::filesystem::create_directories(folder);
    for (const auto& [name, lines] :
         f.ready->samples(f.measured.scores, summary_.run_id, f.point->id, sample_date_)) {
      std::ofstream out(folder / name, std::ios::app | std::ios::binary);
      if (!(out << lines << std::flush)) {
        throw environment_error("cannot write " + (folder / name).string());
      }
    }
  }

  static std::string title(const in_flight& f) { return title_of(*f.point); }

  const experiment_spec& spec_;
  const run_options& options_;
  executor& with_;
  line_file rows_;
  const std::string sample_date_ = utc_now("%Y-%m-%dT%H-%M-%S.000000");
  progress progress_;
  std::string environment_, source_hash_;
  run_summary summary_;
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
                              const std::vector<result_row>& rows, bool paired) {
  std::set<std::string> done = completed_points(rows);
  if (!paired) return done;
  for (const auto& group : interleaved_groups(points, true)) {
    const bool whole =
        std::ranges::all_of(group, [&](const experiment_point& p) { return done.contains(p.id); });
    if (whole) continue;
    for (const experiment_point& p : group) done.erase(p.id);
  }
  return done;
}

}  // namespace

std::vector<experiment_point> plan_points(const experiment_spec& spec, executor& with,
                                          const run_options& options) {
  std::vector<experiment_point> points = make_plan(spec, with.methods());
  for (experiment_point& p : points) with.identify(p);
  renumber(points);
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

run_summary run_experiment(const experiment_spec& spec, const run_options& options,
                           executor& with) {
  std::vector<experiment_point> points = plan_points(spec, with, options);
  run_summary summary;
  summary.planned = points.size();
  if (options.resume && std::filesystem::is_directory(options.output)) {
    const stored_rows before = read_rows(options.output);
    const std::set<std::string> done = to_skip(points, before.rows, spec.evidence.paired);
    summary.skipped =
        std::erase_if(points, [&](const experiment_point& p) { return done.contains(p.id); });
  }
  if (!options.manifest.empty()) {
    replace_file(options.output / manifest_name, options.manifest);  // shards write the same one
  }
  experiment_run run(spec, options, with, points.size());
  if (summary.skipped > 0) {
    run.note(fmt::format("{} of {} points already have a row in {}", summary.skipped,
                         summary.planned, options.output.string()));
  }
  const bool paired = spec.evidence.paired;
  for (const auto& group : interleaved_groups(points, paired)) run.measure(group);
  run.summary().planned = summary.planned;
  run.summary().skipped = summary.skipped;
  return run.summary();
}

}  // namespace unmask
