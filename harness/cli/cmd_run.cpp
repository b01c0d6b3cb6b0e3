// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask run: one experiment file, or every artifact of several files and folders in turn.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/package.h"
#include "harness/base/process.h"
#include "harness/base/run_keys.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/cli/terminal.h"
#include "harness/measure/pictures/shown.h"
#include "harness/measure/request_list.h"
#include "harness/plan/benchmark_prompts.h"
#include "harness/plan/forecast.h"
#include "harness/plan/locate.h"
#include "harness/plan/request.h"
#include "harness/plan/serve_settings.h"
#include "harness/rows/glossary.h"
#include "harness/rows/store.h"
#include "harness/rows/table.h"
#include "harness/run/folder_run.h"
#include "harness/run/past_hours.h"
#include "harness/run/point_claim.h"
#include "harness/run/runner.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

constexpr int paired_repetitions = 4;

option_table what_to_run() {
  return option_table{
             heading("what to run"),
             {"scale", no_default,
              "variant of a paper table or figure: tiny (default), scores, real, shapes or full; "
              "see unmask list experiments"},
             {"only", repeated(), "run only PAPER or PAPER/TABLE (folders only; repeatable)"},
             {"points", repeated(),
              "run only the sweep points that match: '{label = \"FOCUS\", batch_size = [1, 4]}' "
              "(one file only; repeatable: any of them)"},
             {"shard", no_default, "run every N-th sweep point, starting with number I (from 0)"},
             {"varying", flag(),
              "run only sweep points whose results depend on the seed or on measured times; of a "
              "folder also all tables and figures with speed claims"},
             {"rule", repeated(),
              "run this Python file first, with your rights; its functions with @engine.method "
              "become methods (one file only; repeatable)"}} +
         settings_options() +
         option_table{ranks_option(),
                      {"dry-run", flag(),
                       "print the plan with forward passes, GPU hours and memory, and stop"},
                      {"gpu", std::string("h100"),
                       "estimate the hours for this GPU: a100, b200, h100, h200, rtx4090, "
                       "rtx5090"},
                      {"requests", no_default,
                       "with --dry-run: write the requests of [serve] as JSON lines"}};
}

option_table how_to_run() {
  return option_table{heading("how to run it"),
                      {"paired", flag(),
                       "measure all settings in turn, forwards and backwards (ABBA), and compare "
                       "each with its base"}} +
         paired_options() +
         option_table{{"lanes", std::int64_t{1},
                       "run N tables in parallel on separate cores; tables with speed claims "
                       "still run alone (folders only)"},
                      {"fresh", flag(), "measure again what already has a result"},
                      {"no-progress", flag(), "show no progress on standard error"}};
}

option_table run_command_options() {
  return what_to_run() + how_to_run() +
         option_table{heading("what to write"),
                      output_option("append results in this folder (default: runs/NAME)"),
                      format_option("print the table as md, csv, latex or json"),
                      {"samples,s", flag(), "store every answer with its score, as lm-eval does"},
                      heading("files from other people"),
                      {"confine", no_default,
                       "let the experiment read only this folder, models and tasks of this "
                       "program, $UNMASK_MODELS and $UNMASK_DATASETS"},
                      {"allow-outside", flag(),
                       "let it write logs outside the current folder, and over any file"},
                      {"from", no_default, "run what this file of an earlier run asked for"},
                      experiments_option()};
}

run_request request_of(const fs::path& file, const command_line& line) {
  run_request request{file, line.text("scale"), {}, {}, {}};
  if (line.given("from")) request = request_again(line.text("from"));
  request.bounds = {line.text("confine"), line.given("allow-outside")};
  // The user's own settings come after these and win.
  if (line.given("paired")) {
    const evidence_settings evidence = requested_spec(request).evidence;
    if (evidence.min_repetitions < paired_repetitions) {
      request.overrides.push_back(fmt::format("run.repetitions.min={}", paired_repetitions));
    }
    request.overrides.emplace_back("run.paired=true");
  }
  for (const std::string& setting : line.settings()) request.overrides.push_back(setting);
  return request;
}

// Each setting beside its base, with verdicts, as the package tells.
void print_paired(const fs::path& rows, const command_line& line) {
  texts words = {"table", rows, "--view", "paired", "--format", line.text("format")};
  for (const char* name : {"margin", "score-margin"}) {
    words.insert(words.end(), {std::string("--") + name, fmt::format("{}", line.real(name))});
  }
  if (line.given("base")) words.insert(words.end(), {"--base", line.text("base")});
  if (run_package(words) != 0) {
    tell("unmask table {} --view paired compares the settings later\n", rows.string());
  }
}

// The whole plan as one JSON object, without looking at weights or datasets.
void print_plan(const run_request& request, const experiment_spec& spec,
                const std::string& obstacle, const command_line& line) {
  for (const char* name : {"points", "shard", "varying"}) {
    if (line.given(name)) {
      throw usage_error(std::string("--dry-run --format json is of the whole plan, without --") +
                        name);
    }
  }
  nlohmann::ordered_json out = {{"file", fs::absolute(request.file).string()},
                                {"name", output_name(spec).generic_string()},
                                {"scale", spec.scale},
                                {"obstacle", obstacle}};
  std::vector<experiment_point> points;
  if (!spec.models.empty()) points = make_plan(spec, make_executor()->methods());
  const device_ceilings device = ceilings_of(line.text("gpu"));
  plan_forecast all(device);
  auto listed = nlohmann::ordered_json::array();
  for (const experiment_point& p : points) {
    const point_forecast f = forecast(spec, p, device);
    all.add(f);
    listed.push_back({{"model", p.model.name},
                      {"workload", p.workload.name},
                      {"method", p.method},
                      {"label", p.label},
                      {"variation", p.variation},
                      {"ranks", runs_dry(p.run) ? 1 : p.run.ranks},
                      {"items", nullptr}});
    if (std::isfinite(f.items)) listed.back()["items"] = std::llround(f.items);
  }
  // Sums of what is known, and of how many points each is not.
  out["answers"] = std::llround(all.answers.known);
  out["forwards"] = all.forwards.known;
  out["gpu_hours"] = all.gpu_hours.known;
  out["points_without_answers"] = all.answers.unknown;
  out["points_without_forwards"] = all.forwards.unknown;
  out["points_without_hours"] = all.gpu_hours.unknown;
  out["gpu_points"] = all.gpu_hours.points;
  out["gpu_hours_at_least"] = all.at_least;
  out["gpu_memory"] = all.memory_text();
  out["notes"] = all.reasons();
  if (const std::string note = note_of_any_seed(points); !note.empty())
    out["notes"].push_back(note);
  out["points"] = std::move(listed);
  using handling = nlohmann::ordered_json::error_handler_t;
  print("{}\n", out.dump(-1, ' ', false, handling::replace));
}

// A name that is misspelt is found before anything is measured, not when its first point begins.
void check_models(const experiment_spec& spec) {
  const fs::path beside = fs::path(spec.file).parent_path();
  for (const model_entry& m : spec.models) {
    if (m.path.empty() || fs::exists(m.path / "config.json")) continue;
    throw environment_error(spec.file + ": no model in " + m.path.string() +
                            " (no config.json there)" + nearest_model(m.path, beside) + "; " +
                            looked_in(beside));
  }
}

row_selector points_of(const std::string& toml) {
  const std::size_t begin = toml.find_first_not_of(" \t"), end = toml.find_last_not_of(" \t");
  if (begin == std::string::npos || toml[begin] != '{' || toml[end] != '}') {
    throw usage_error("--points takes settings in braces, --points '{label = \"FOCUS\"}', not '" +
                      toml + "'");
  }
  return selector_of(toml, "--points");
}

int run_one(const fs::path& file, const command_line& line) {
  if (line.given("only")) {
    throw usage_error(
        "--only chooses among the artifacts of a folder; --points chooses of one file");
  }
  const table_format format = line.format();
  const run_request request = request_of(file, line);
  const experiment_spec spec = requested_spec(request);
  run_options run;
  run.output = line.text("output", ("runs" / output_name(spec)).string());
  if (line.given("shard")) run.part = parse_shard(line.text("shard"));
  for (const std::string& one : line.list("points")) {
    run.only.push_back(points_of(one));
  }
  run.varying = line.given("varying");
  run.resume = !line.given("fresh");
  run.samples = line.given("samples");
  run.progress = !line.given("no-progress");
  const std::string obstacle = cannot_run(spec, this_machine());
  if (line.given("dry-run") && format == table_format::json) {
    print_plan(request, spec, obstacle, line);
    return 0;
  }
  const bool only_plan = line.given("dry-run");
  if (line.given("requests")) {
    if (!only_plan) throw usage_error("--requests writes a file of the plan: it needs --dry-run");
    check_models(spec);
    prepare_prompts(spec);
    prepare_pictures(spec);
    replace_file(line.text("requests"), request_list(plan_points(spec, *make_executor(), run)));
    tell("requests: {}\n", line.text("requests"));
    return 0;
  }
  if (!obstacle.empty() && (!only_plan || spec.models.empty())) {
    print("{}\n", obstacle_list(spec, this_machine()));
    return static_cast<int>(only_plan ? exit_code::ok : exit_code::environment);
  }
  const std::unique_ptr<executor> with = make_executor();
  if (only_plan) {
    const auto points = plan_points(spec, *with, run);
    std::vector<result_row> before;
    if (fs::is_directory(run.output)) before = read_rows(run.output).rows;
    print_tables(forecast_table(spec, points, ceilings_of(line.text("gpu"))) +
                 past_hours(spec, points, before, with->environment()));
    if (!obstacle.empty()) print("{}\n", obstacle_list(spec, this_machine()));
    return 0;
  }
  check_models(spec);
  prepare_prompts(spec);
  const std::vector<std::string> pictures = prepare_pictures(spec);
  run.manifest = [&](const std::vector<experiment_point>& plan) {
    return requested_manifest(request, spec, with->source_hash(), plan, pictures);
  };
  const run_summary summary = run_experiment(spec, run, *with);
  tell_unfit(summary.of_plan());
  if (line.given("paired")) {
    print_paired(summary.file, line);
  } else {
    print_tables(render_rows(summary.of_plan(), format));
  }
  tell("{} of {} points measured", summary.measured, summary.planned);
  if (summary.skipped > 0) {
    tell(", {} had a row already (--fresh measures again)", summary.skipped);
  }
  if (summary.failed > 0) tell(", {} FAILED or INVALID", summary.failed);
  tell("\nrows: {}\n", summary.file.string());
  return summary.exit_status();
}

// The artifacts of files and folders, those that --only names; usage error for a path or a name
// without one.
std::vector<folder_item> items_of(const texts& paths, const command_line& line) {
  const machine_view machine = this_machine();
  std::vector<artifact_entry> entries;
  for (const std::string& path : paths) {
    std::vector<artifact_entry> found = find_artifacts(path, machine);
    if (found.empty())
      throw usage_error(path + " holds no paper tables or figures; give a folder of experiments");
    std::ranges::move(found, std::back_inserter(entries));
  }
  keep_named("paper or artifact", line.list("only"), entries, [](const artifact_entry& a) {
    return std::array{a.header.paper, a.header.paper + "/" + a.header.id};
  });
  const std::string scale = line.text("scale");
  return items_at(entries, scale.empty() ? "tiny" : scale);
}

// The points of an item, at its scale and with these settings: none where the file plans none, or
// nobody asks for it.
std::vector<experiment_point> plan_of(const folder_item& item, const command_line& line,
                                      const method_catalogue& methods, experiment_spec& spec) {
  const bool planned = item.omitted.empty() && item.artifact.problem.empty() &&
                       item.artifact.header.not_reproducible.empty() &&
                       std::ranges::any_of(item.artifact.scales, [&](const auto& s) {
                         return s.entry.name == item.scale;
                       });
  if (!planned) return {};
  spec = requested_spec({item.artifact.file, item.scale, line.settings(), {}, {}});
  if (spec.models.empty()) return {};
  std::vector<experiment_point> points = make_plan(spec, methods);
  if (item.varying) {
    std::erase_if(points, [&](const auto& p) { return !varies(p, methods(p.method)); });
  }
  return points;
}

// Of an artifact without a claim on speed, the points that another run may find otherwise; of an
// artifact without one, nothing.
void keep_varying(std::vector<folder_item>& items, const command_line& line) {
  const std::unique_ptr<executor> with = make_executor();
  for (folder_item& item : items) {
    experiment_spec spec;
    if (item.timed || plan_of(item, line, with->methods(), spec).empty()) continue;
    item.varying = true;
    if (plan_of(item, line, with->methods(), spec).empty()) item.omitted = nothing_varies;
  }
}

// Its share of a run of a folder, so that the longest of those that run side by side does not begin last.
void expect_work(std::vector<folder_item>& items, const command_line& line) {
  const std::unique_ptr<executor> with = make_executor();
  const device_ceilings& device = ceilings_of(line.text("gpu"));
  for (folder_item& item : items) {
    experiment_spec spec;
    const auto points = plan_of(item, line, with->methods(), spec);
    // Several ranks take all cores: they run as what is timed does, with no lane beside them.
    const auto cut = [](const experiment_point& p) { return p.run.ranks > 1 && !runs_dry(p.run); };
    item.timed = item.timed || std::ranges::any_of(points, cut);
    if (!points.empty()) item.expected = forecast_of(spec, points, device).work;
  }
}

// One line per artifact: what it would take, and what is missing here.
int print_forecasts(const std::vector<folder_item>& items, const command_line& line) {
  const std::unique_ptr<executor> with = make_executor();
  const device_ceilings& device = ceilings_of(line.text("gpu"));
  text_table t =
      table_with({"table or figure | >sweep points | >answers | >forward passes, at most",
                  ">GPU hours | >GPU memory | on this machine"});
  plan_forecast all(device);
  for (const folder_item& item : items) {
    const std::string name = item.artifact.header.paper + " " + item.artifact.header.id;
    const std::string obstacle = obstacle_of(item);
    experiment_spec spec;
    const auto points = plan_of(item, line, with->methods(), spec);
    const plan_forecast sum =
        points.empty() ? plan_forecast(device) : forecast_of(spec, points, device);
    t.add({name, fmt::format("{}", sum.points), sum.answers.text(), sum.forwards.text(),
           sum.hours_text(), sum.memory_text(), obstacle.empty() ? "runs here" : obstacle});
    all.add(sum);
  }
  t.notes.push_back(fmt::format(
      "{} sweep points; answers: {}; hours of one {} by a roofline, which is a prediction: {}; "
      "one token per forward pass is assumed, so methods that unmask several at once take less",
      all.points, all.answers.text(), device.name, all.hours_text()));
  for (const std::string& reason : all.reasons()) t.notes.push_back(reason);
  print_tables(render(t, table_format::md));
  return 0;
}

// The artifacts that a claim on times is about, as the package tells: they need the machine for
// themselves. Where it cannot tell, all of them do.
void find_timed(std::vector<folder_item>& items, const fs::path& experiments) {
  const scratch_folder scratch;
  const fs::path list = scratch.path() / "timed.txt";
  try {
    const texts words = {"claims",   "--timed", "--scale", items.front().scale, "--experiments-dir",
                         experiments};
    if (run_process(package_command(words), list, scratch.path() / "log.txt") != 0) {
      return;
    }
  } catch (const error&) {
    return;  // no Python: slower, and right
  }
  std::set<fs::path> timed;
  std::ifstream in(list);
  for (std::string line; std::getline(in, line);) timed.insert(fs::weakly_canonical(line));
  for (folder_item& item : items) {
    item.timed = timed.contains(fs::weakly_canonical(item.artifact.file));
  }
}

// The claims about what was measured, to DIRECTORY/claims.md and claims.json; 4 when one does not hold.
int judge_claims(const std::vector<folder_item>& items, const fs::path& directory,
                 const fs::path& experiments) {
  if (!fs::is_directory(experiments / "claims")) return 0;
  texts words = {"claims",   directory,           "--save",
                 "--scale",  items.front().scale, "--experiments-dir",
                 experiments};
  for (const folder_item& item : items) {
    words.insert(words.end(), {"--paper", item.artifact.header.paper});
  }
  try {
    const int status = run_package(words);
    if (status != static_cast<int>(exit_code::environment)) return status;
  } catch (const error& problem) {
    tell("{}\n", problem.what());
  }
  tell("the claims were not judged; unmask claims {} does it later\n", directory.string());
  return 0;
}

int run_several(const texts& paths, const command_line& line) {
  if (line.given("requests")) throw usage_error("--requests is of one experiment file");
  std::vector<folder_item> items = items_of(paths, line);
  const fs::path experiments = experiments_folder(line);
  const auto lanes = static_cast<std::size_t>(line.at_least("lanes", 1));
  if (lanes > 1 || line.given("varying")) find_timed(items, experiments);
  if (line.given("varying")) keep_varying(items, line);
  if (line.given("dry-run")) {
    return print_forecasts(items, line);
  }
  if (lanes > 1) expect_work(items, line);
  texts more;
  for (const std::string& setting : line.settings()) {
    more.insert(more.end(), {"--set", setting});
  }
  for (const char* name : {"fresh", "paired", "samples", "allow-outside"}) {
    if (line.given(name)) more.push_back(std::string("--") + name);
  }
  if (line.given("confine")) more.insert(more.end(), {"--confine", line.text("confine")});
  const fs::path directory = line.text("output", "runs");
  const artifact_runner runner = [&](const folder_item& item, const fs::path& output) {
    texts words = more;
    if (item.varying) words.emplace_back("--varying");
    return run_artifact(item, output, words);
  };
  // One owner: two at once would spoil each other's times, and write over each other's log.txt.
  const point_claim owned(directory, folder_log,
                          [] { return texts{"every artifact of this folder"}; });
  const std::vector<folder_outcome> outcomes =
      run_folder(items, directory, runner, error_stream(), lanes);
  const std::string summary = render(folder_table(outcomes), table_format::md);
  replace_file(directory / "campaign.md", summary);
  print_tables(summary + "\n");
  const int judged = judge_claims(items, directory, experiments);
  const bool failed = std::ranges::any_of(
      outcomes, [](const auto& o) { return o.status == folder_status::failed; });
  return failed ? static_cast<int>(exit_code::run_failed) : judged;
}

// Rules in Python are methods of a Python process alone: it runs this command in itself.
[[noreturn]] void run_in_python(const texts& arguments, const command_line& line) {
  for (const char* other : {"confine", "from"}) {
    if (!line.given(other)) continue;
    throw usage_error(std::string("--rule runs code and --") + other +
                      " is for files of somebody else: they do not go together");
  }
  texts words = {"engine", "run"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  become_package(words);
}

}  // namespace

int command_run(const texts& arguments) {
  const command_line line(
      "run FILE.toml|FOLDER... [options]", run_command_options(), {"experiments..."}, arguments,
      "Prints the table of the experiment. A run that was stopped continues where it stopped. With "
      "a folder or several files, runs every paper table and figure in turn, one process each, and "
      "then judges the claims; one that fails does not stop the others.",
      "exit codes: 1 a run failed; 3 something is missing, listed after NOT RUN; 4 a claim is not "
      "fully supported\nkeys of an experiment file: unmask show format");
  if (line.given("from")) {
    if (line.given("rule")) run_in_python(arguments, line);
    if (line.given("experiments") || line.given("scale")) {
      throw usage_error("--from says which experiment at which scale; name no other");
    }
    return run_one({}, line);
  }
  line.place("experiments",
             "run needs an experiment file or a folder; see unmask list experiments");
  const texts paths = line.list("experiments");
  const bool one = paths.size() == 1 && !fs::is_directory(paths.front());
  if (line.given("rule")) {
    if (!one) throw usage_error("--rule is for one experiment file");
    run_in_python(arguments, line);
  }
  if (!one) return run_several(paths, line);
  fs::path file = paths.front();
  if (line.given("experiments-dir") && !is_there(file) && file.is_relative()) {
    file = experiments_folder(line) / file;
  }
  return run_one(file, line);
}

}  // namespace unmask
