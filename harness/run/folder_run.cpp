// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/folder_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <mutex>
#include <ostream>
#include <sstream>

#include <fmt/format.h>
#include <sched.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/process.h"
#include "harness/rows/glossary.h"
#include "harness/rows/json_of.h"
#include "harness/rows/row_table.h"
#include "harness/run/progress.h"

namespace unmask {
namespace {

constexpr std::size_t largest_log = std::size_t{64} << 20;

namespace fs = std::filesystem;

constexpr const char* log_name = "log.txt";

}  // namespace

std::string obstacle_of(const folder_item& item) {
  const artifact_entry& a = item.artifact;
  if (!item.omitted.empty()) return "NOT RUN: " + item.omitted;
  if (!a.problem.empty()) return a.problem;
  if (!a.header.not_reproducible.empty()) return "NOT RUN: " + a.header.not_reproducible;
  std::string names;
  for (const artifact_scale& s : a.scales) {
    if (s.entry.name == item.scale) return s.obstacle;
    names += (names.empty() ? "" : ", ") + s.entry.name;
  }
  return "NOT RUN: has no scale " + item.scale + ", only " + names;
}

namespace {

void append_line(const fs::path& log, const folder_outcome& o) {
  nlohmann::ordered_json line = {{"paper", o.paper},    {"id", o.id},
                                 {"scale", o.scale},    {"status", name_of(o.status)},
                                 {"rows", o.rows},      {"detail", o.detail},
                                 {"seconds", o.seconds}};
  // A line that a crash tore off must not swallow this one.
  bool torn = false;
  if (std::error_code none; fs::exists(log, none)) {
    const std::string before = read_file(log, largest_log);
    torn = !before.empty() && before.back() != '\n';
  }
  std::ofstream out(log, std::ios::app | std::ios::binary);
  out << (torn ? "\n" : "")
      << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  out.flush();
  if (!out) throw environment_error("cannot write " + log.string());
}

std::size_t reportable_in(const fs::path& output) {
  std::error_code failed;
  if (!fs::is_directory(output, failed)) return 0;
  return read_row_table({output}).reportable().size();
}

void measure_artifact(const folder_item& item, const fs::path& output,
                      const artifact_runner& runner, folder_outcome& o) {
  try {
    fs::create_directories(output);
    const int status = runner(item, output);
    o.rows = reportable_in(output);
    o.status = status == 0 ? folder_status::measured : folder_status::failed;
    if (status != 0) {
      o.detail = fmt::format("exit status {}; see {}", status, (output / log_name).string());
    }
  } catch (const std::exception& problem) {
    o.status = folder_status::failed;
    o.detail = problem.what();
  }
}

folder_outcome outcome_of(const folder_item& item, const fs::path& directory,
                          const artifact_runner& runner) {
  folder_outcome o;
  o.paper = item.artifact.header.paper;
  o.id = item.artifact.header.id;
  o.title = item.artifact.header.title;
  o.scale = item.scale;
  const auto start = std::chrono::steady_clock::now();
  const std::string obstacle = obstacle_of(item);
  if (obstacle.empty()) {
    measure_artifact(item, directory / item.key(), runner, o);
  } else {
    o.status = item.artifact.problem.empty() ? folder_status::not_run : folder_status::failed;
    o.detail = obstacle.starts_with("NOT RUN: ") ? obstacle.substr(9) : obstacle;
  }
  o.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return o;
}

// The calling thread, and what it starts, may use the lane-th of `lanes` equal parts of its cores.
void stay_in_lane(std::size_t lane, std::size_t lanes) {
  cpu_set_t all, own;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  CPU_ZERO(&own);
  const auto cores = static_cast<std::size_t>(CPU_COUNT(&all));
  const std::size_t each = std::max<std::size_t>(1, cores / lanes);
  std::size_t rank = 0;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (rank++ / each == lane % std::max<std::size_t>(1, cores / each)) CPU_SET(core, &own);
  }
  sched_setaffinity(0, sizeof own, &own);
}

// Calls `run` with each item, in as many threads, each in one of `lanes` lanes.
void in_lanes(const std::vector<std::size_t>& items, std::size_t threads, std::size_t lanes,
              const std::function<void(std::size_t)>& run) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::future<void>> workers;
  for (std::size_t lane = 0; lane < threads; ++lane) {
    workers.push_back(std::async(std::launch::async, [&, lane] {
      if (lanes > 1) stay_in_lane(lane, lanes);
      for (std::size_t i = next++; i < items.size(); i = next++) run(items[i]);
    }));
  }
  for (std::future<void>& w : workers) w.wait();
  for (std::future<void>& w : workers) w.get();
}

}  // namespace

const char* name_of(folder_status status) {
  constexpr const char* names[] = {"measured", "NOT RUN", "FAILED"};
  return names[static_cast<std::size_t>(status)];
}

std::vector<folder_item> items_at(const std::vector<artifact_entry>& artifacts,
                                  const std::string& scale) {
  std::vector<folder_item> items;
  for (const artifact_entry& a : artifacts) items.push_back({a, scale});
  return items;
}

std::vector<folder_outcome> run_folder(const std::vector<folder_item>& items,
                                       const fs::path& directory, const artifact_runner& runner,
                                       std::ostream& progress, std::size_t lanes) {
  fs::create_directories(directory);
  const fs::path log = directory / folder_log;
  const std::vector<folder_outcome> before = read_folder_log(log);
  std::vector<folder_outcome> all(items.size());
  std::mutex telling;
  std::size_t over = 0;
  const auto run = [&](std::size_t i) {
    folder_outcome& o = all[i] = outcome_of(items[i], directory, runner);
    const auto last = std::ranges::find(before, o.key(), &folder_outcome::key);
    o.total_seconds = o.seconds + (last != before.end() ? last->total_seconds : 0);
    const std::lock_guard alone(telling);
    append_line(log, o);
    progress << fmt::format("[{}/{}] {} {} {}: {}, {} rows, {}{}\n", ++over, items.size(), o.paper,
                            o.id, o.scale, name_of(o.status), o.rows, duration_text(o.seconds),
                            o.detail.empty() ? "" : ": " + o.detail)
             << std::flush;
  };
  std::vector<std::size_t> together, alone;
  for (std::size_t i = 0; i < items.size(); ++i) {
    (lanes > 1 && !items[i].timed ? together : alone).push_back(i);
  }
  std::ranges::stable_sort(together, std::ranges::greater{},
                           [&](std::size_t i) { return items[i].expected; });
  setenv(shares_machine, "1", 1);
  in_lanes(together, lanes, lanes, run);
  unsetenv(shares_machine);
  in_lanes(alone, 1, lanes, run);
  return all;
}

int run_artifact(const folder_item& item, const fs::path& output,
                 const std::vector<std::string>& more) {
  std::vector<std::string> words = {program_to_start().string(),
                                    "run",
                                    item.artifact.file.string(),
                                    "--scale",
                                    item.scale,
                                    "--output",
                                    output.string()};
  words.insert(words.end(), more.begin(), more.end());
  return run_process(words, output / "table.md", output / log_name);
}

std::vector<folder_outcome> read_folder_log(const fs::path& log) {
  std::map<std::string, std::size_t> place;
  std::vector<folder_outcome> all;
  std::error_code none;
  if (!fs::exists(log, none)) return all;
  std::istringstream in(read_file(log, largest_log));
  for (std::string line; std::getline(in, line);) {
    const auto json = tree_of<nlohmann::json>(line);
    if (!json.is_object()) continue;  // a torn last line
    const auto text = [&](const char* key) {
      const auto at = json.find(key);
      return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
    };
    const auto number = [&](const char* key) {
      const auto at = json.find(key);
      const double value = at != json.end() && at->is_number() ? at->get<double>() : 0;
      return value >= 0 && value < 1e15 ? value : 0;
    };
    folder_outcome o;
    o.paper = text("paper");
    o.id = text("id");
    o.scale = text("scale");
    o.detail = text("detail");
    o.rows = static_cast<std::size_t>(number("rows"));
    o.seconds = number("seconds");
    const std::string status = text("status");
    for (const auto known : {folder_status::measured, folder_status::not_run}) {
      if (status == name_of(known)) o.status = known;
    }
    const auto [at, fresh] = place.emplace(o.key(), all.size());
    if (fresh) all.emplace_back();
    folder_outcome& last = all[at->second];
    o.total_seconds = last.total_seconds + o.seconds;
    last = std::move(o);
  }
  return all;
}

text_table folder_table(const std::vector<folder_outcome>& outcomes) {
  text_table t = table_with(
      {"paper | table or figure | title | scale | status | >result rows | >time | detail"});
  double total = 0;
  std::size_t measured = 0;
  for (const folder_outcome& o : outcomes) {
    t.add({o.paper, o.id, o.title, o.scale, name_of(o.status),
           count_cell(static_cast<std::int64_t>(o.rows)), duration_text(o.total_seconds),
           o.detail});
    total += o.total_seconds;
    measured += o.status == folder_status::measured;
  }
  t.notes.push_back(fmt::format("{} of {} tables and figures measured; {} in all runs", measured,
                                outcomes.size(), duration_text(total)));
  return t;
}

}  // namespace unmask
