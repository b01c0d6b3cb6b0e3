// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask run: one experiment file, or every artifact of several files and folders in turn.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <set>

#include "harness/analysis/ablation.h"
#include "harness/analysis/table.h"
#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/run_keys.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/cli/paired.h"
#include "harness/experiment/artifact_files.h"
#include "harness/experiment/campaign.h"
#include "harness/experiment/decide.h"
#include "harness/experiment/forecast.h"
#include "harness/experiment/request.h"
#include "harness/experiment/runner.h"
#include "harness/experiment/serve_settings.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

constexpr int paired_repetitions = 4;

po::options_description run_options_described() {
  po::options_description options("options");
  add_output_option(options,
                    "folder that rows are appended in; default runs/EXPERIMENT, of several files "
                    "runs, each below PAPER/ARTIFACT/SCALE");
  add_format_option(options, "of the table: md, csv, latex, json");
  add_settings_option(options);
  add_device_option(options);
  options.add_options()(
      "scale", po::value<std::string>()->default_value(""),
      "of an artifact: tiny (default), shapes, full; see unmask list experiments")(
      "paired",
      "all settings in turn, forwards and backwards (ABBA), at least four times, on the same "
      "prompts; then each beside its base")("shard", po::value<std::string>(),
                                            "i/n: only every n-th point, from the i-th (from 0)")(
      "only", po::value<texts>()->composing(), "PAPER or PAPER/ARTIFACT of a folder (repeatable)")(
      "dry-run", "print the plan with its answers, forwards and expected GPU hours, and stop")(
      "gpu", po::value<std::string>()->default_value("h100"), "whose hours: h100, h200, a100")(
      "fresh", "measure again what already has a row, and let the new row count (default: resume)")(
      "decide", po::value<double>()->value_name("MINUTES"),
      "of a folder: go on with more items and repetitions until every claim is decided that can "
      "be, "
      "or these minutes are spent")(
      "samples,s", "also store every answer with its score as lm-eval does: samples/POINT/")(
      "no-progress", "no progress on standard error");
  add_paired_options(options);
  add_experiments_option(options);
  return options;
}

run_request request_of(const fs::path& file, const po::variables_map& values) {
  run_request request{file, text_of(values, "scale"), {}};
  // The user's own settings come after these and win.
  if (values.count("paired")) {
    request.overrides = {"run.paired=true"};
    if (read_spec(file, request.scale).evidence.min_repetitions < paired_repetitions) {
      request.overrides.push_back(fmt::format("run.repetitions.min={}", paired_repetitions));
    }
  }
  for (const std::string& setting : settings_of(values)) request.overrides.push_back(setting);
  return request;
}

int run_one(const fs::path& file, const po::variables_map& values) {
  const table_format format = parse_table_format(text_of(values, "format"));
  const run_request request = request_of(file, values);
  const experiment_spec spec = requested_spec(request);
  run_options run;
  run.output = values.count("output") ? fs::path(text_of(values, "output"))
                                      : fs::path("runs") / output_name(spec);
  if (values.count("shard")) run.part = parse_shard(text_of(values, "shard"));
  run.dry_run = values.count("dry-run") > 0;
  run.resume = values.count("fresh") == 0;
  run.samples = values.count("samples") > 0;
  run.progress = values.count("no-progress") == 0;
  const std::string obstacle = cannot_run(spec, this_machine());
  if (!obstacle.empty() && (!run.dry_run || spec.models.empty())) {
    fmt::print("{}\n", obstacle);
    return static_cast<int>(run.dry_run ? exit_code::ok : exit_code::environment);
  }
  if (run.dry_run) {
    const auto points = take_shard(plan_points(spec, *make_executor()), run.part);
    fmt::print("{}", forecast_table(spec, points, ceilings_of(text_of(values, "gpu"))));
    if (!obstacle.empty()) fmt::print("{}\n", obstacle);
    return 0;
  }
  run.manifest = requested_manifest(request, spec);
  const run_summary summary = run_experiment(spec, run);
  // Rows measured earlier belong to the same table.
  const frame rows = summary.skipped > 0 ? read_frame({summary.file}) : frame(summary.rows);
  fmt::print("{}", values.count("paired") ? paired_report(rows, values, format)
                                          : render_rows(rows, format));
  std::fflush(stdout);  // the two streams may share a file
  fmt::print(stderr, "{} of {} points measured", summary.measured, summary.planned);
  if (summary.skipped > 0) {
    fmt::print(stderr, ", {} had a row already (--fresh measures again)", summary.skipped);
  }
  if (summary.failed > 0) fmt::print(stderr, ", {} FAILED or INVALID", summary.failed);
  fmt::print(stderr, "\nrows: {}\n", summary.file.string());
  return summary.exit_status();
}

// The artifacts of files and folders, those that --only names; usage error for a name without one.
std::vector<campaign_item> items_of(const texts& paths, const po::variables_map& values) {
  const machine_view machine = this_machine();
  std::vector<artifact_entry> entries;
  for (const std::string& path : paths) {
    std::ranges::move(find_artifacts(path, machine), std::back_inserter(entries));
  }
  const texts only = texts_of(values, "only");
  std::set<std::string> known;
  for (const artifact_entry& a : entries) {
    known.insert(a.header.paper);
    known.insert(a.header.paper + "/" + a.header.id);
  }
  for (const std::string& name : only) {
    if (!known.contains(name)) {
      throw usage_error(unknown_name("artifact", name, {known.begin(), known.end()}));
    }
  }
  std::erase_if(entries, [&](const artifact_entry& a) {
    return !only.empty() && std::ranges::find(only, a.header.paper) == only.end() &&
           std::ranges::find(only, a.header.paper + "/" + a.header.id) == only.end();
  });
  if (entries.empty()) throw usage_error("there is no artifact in " + paths.front());
  const std::string scale = text_of(values, "scale");
  return items_at(entries, scale.empty() ? "tiny" : scale);
}

// One line per artifact: what it would take, and what is missing here.
int print_forecasts(const std::vector<campaign_item>& items, const po::variables_map& values) {
  const std::unique_ptr<executor> with = make_executor();
  const device_ceilings& device = ceilings_of(text_of(values, "gpu"));
  text_table t{"artifact",           ">points",    ">answers",
               ">forwards, at most", ">GPU hours", "on this machine"};
  plan_forecast all;
  for (const campaign_item& item : items) {
    const std::string name = item.artifact.header.paper + " " + item.artifact.header.id;
    const std::string obstacle = obstacle_of(item);
    plan_forecast sum;
    if (item.artifact.problem.empty() && item.artifact.header.not_reproducible.empty() &&
        std::ranges::any_of(item.artifact.scales,
                            [&](const auto& s) { return s.entry.name == item.scale; })) {
      run_request request{item.artifact.file, item.scale, settings_of(values)};
      const experiment_spec spec = requested_spec(request);
      if (!spec.models.empty()) {
        sum = forecast_of(spec, make_plan(spec, with->methods()), device);
      }
    }
    t.add({name, fmt::format("{}", sum.points), fmt::format("{}", sum.answers),
           fmt::format("{:.0f}", sum.forwards),
           fmt::format("{:.1f}{}", sum.gpu_hours, sum.without_hours > 0 ? " and more" : ""),
           obstacle.empty() ? "runs here" : obstacle});
    all.points += sum.points;
    all.answers += sum.answers;
    all.gpu_hours += sum.gpu_hours;
  }
  t.notes.push_back(
      fmt::format("{} points, {} answers, {:.0f} hours of one {} by the cost model, which "
                  "is a prediction; forwards count a token each, so methods that decide "
                  "several at once take less",
                  all.points, all.answers, all.gpu_hours, device.name));
  fmt::print("{}", render(t, table_format::md));
  return 0;
}

int run_several(const texts& paths, const po::variables_map& values) {
  std::vector<campaign_item> items = items_of(paths, values);
  if (values.count("dry-run")) {
    return print_forecasts(items, values);
  }
  texts more;
  for (const std::string& setting : settings_of(values)) {
    more.insert(more.end(), {"--set", setting});
  }
  for (const char* flag : {"fresh", "paired", "samples"}) {
    if (values.count(flag)) more.push_back(std::string("--") + flag);
  }
  const fs::path directory = values.count("output") ? text_of(values, "output") : "runs";
  const artifact_runner runner = [&](const campaign_item& item, const fs::path& output) {
    return run_artifact(item, output, more);
  };
  const fs::path claims_folder = fs::path(text_of(values, "experiments-dir")) / "claims";
  std::vector<paper_claim> claims;
  if (fs::is_directory(claims_folder)) claims = read_claims(claims_folder);
  std::erase_if(claims, [&](const paper_claim& c) {
    return std::ranges::none_of(
        items, [&](const campaign_item& i) { return i.artifact.header.paper == c.paper; });
  });
  // What an earlier --decide got more evidence for goes on from there.
  const evidence_log earlier = read_evidence(directory / campaign_log);
  for (campaign_item& item : items) {
    if (const auto at = earlier.find(item.key()); at != earlier.end()) {
      item.more_items = at->second.items;
      item.more_repetitions = at->second.repetitions;
    }
  }
  std::vector<campaign_outcome> outcomes = run_campaign(items, directory, runner, std::cerr);
  const claim_judge judge = [&] {
    return check_claims(claims, directory, items.front().scale, this_machine());
  };
  const double budget = values.count("decide") ? 60 * values["decide"].as<double>() : 0;
  const std::vector<checked_claim> checked =
      decide(items, directory, budget, runner, judge, std::cerr);
  const std::vector<campaign_outcome> last = read_campaign(directory / campaign_log);
  for (campaign_outcome& o : outcomes) {
    const std::string title = o.title;
    o = *std::ranges::find(last, o.key(), &campaign_outcome::key);
    o.title = title;
  }
  const std::string summary = render(campaign_table(outcomes), table_format::md);
  write_text(directory / "campaign.md", summary);
  fmt::print("{}\n", summary);
  const std::string table = render(claims_table(checked), table_format::md);
  write_text(directory / "claims.md", table);
  write_text(directory / "claims.json", claims_json(checked));
  fmt::print("{}", table);
  const bool failed = std::ranges::any_of(
      outcomes, [](const auto& o) { return o.status == campaign_status::failed; });
  return failed ? static_cast<int>(exit_code::run_failed) : exit_status_of(checked);
}

}  // namespace

int command_run(const std::vector<std::string>& arguments) {
  po::variables_map values;
  const std::string epilogue =
      "\nOne file: measures it and prints its table. Several files, or a folder: every artifact in "
      "turn, each as a\nprocess of its own, then the claims about them (claims.md, claims.json); "
      "one that fails does not stop the\nothers. Called again it continues where it stopped.\n"
      "What this machine lacks is said before anything starts: NOT RUN: needs ..., exit code 3.\n"
      "exit code 1 when a run failed, 4 when a claim is NOT REPRODUCED or PARTLY\n\n";
  if (!parse_command("run EXPERIMENT.toml|FOLDER... [options]",
                     epilogue + run_help() + "\n" + serve_help(), run_options_described(),
                     {"experiments..."}, arguments, values)) {
    return 0;
  }
  const texts paths = texts_of(values, "experiments");
  if (paths.empty()) {
    throw usage_error("run needs an experiment file or a folder; see unmask list experiments");
  }
  const bool one = paths.size() == 1 && !fs::is_directory(paths.front());
  return one ? run_one(paths.front(), values) : run_several(paths, values);
}

}  // namespace unmask
