// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask report: computes all that the page shows, as JSON; plots/report.py draws it.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "harness/analysis/figure_data.h"
#include "harness/analysis/json_of.h"
#include "harness/analysis/store.h"
#include "harness/analysis/table.h"
#include "harness/analysis/verdict.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/base/process.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/experiment/artifact_files.h"
#include "harness/experiment/campaign.h"
#include "harness/experiment/catalogue.h"
#include "harness/experiment/request.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

constexpr std::size_t largest_file = std::size_t{1} << 30;

// $UNMASK_PYTHON, else the one that `./dev setup` prepares, else the one on the path.
std::string python() {
  if (const char* given = std::getenv("UNMASK_PYTHON"); given && *given) return given;
  const fs::path prepared = program_root() / ".venv/bin/python";
  return is_file(prepared) ? prepared.string() : "python3";
}

ordered_json read_json(const fs::path& file) {
  const ordered_json read = tree_of(read_file(file, largest_file));
  if (read.is_discarded()) throw usage_error(file.string() + ": not JSON");
  return read;
}

bool holds_rows(const fs::path& file) {
  const std::string text = read_file(file, largest_file);
  const ordered_json first = tree_of(text.substr(0, text.find('\n')));
  return first.is_object() && first.contains("point_id") && first.contains("metrics");
}

// What a run was asked for: its run.json, else what its rows say, else (of rows before schema 1.5) its
// place PAPER/ARTIFACT/SCALE.
struct origin_of_rows {
  std::string paper, artifact, scale, file, rows;
  std::vector<std::string> set;
};

origin_of_rows origin_of(const fs::path& rows, const fs::path& experiments) {
  const fs::path manifest = rows.parent_path() / manifest_name;
  origin_of_rows o;
  o.rows = rows.string();
  if (fs::exists(manifest)) {
    const ordered_json plan = read_json(manifest);
    if (!plan.is_object()) throw usage_error(manifest.string() + ": not a run's manifest");
    try {
      o.paper = plan.value("paper", "");
      o.artifact = plan.value("artifact", "");
      o.scale = plan.value("scale", "");
      o.set = plan.value("set", std::vector<std::string>{});
      o.file = plan.value("experiment", ordered_json::object()).value("file", "");
    } catch (const ordered_json::exception& problem) {
      throw usage_error(manifest.string() + ": not a run's manifest: " + problem.what());
    }
    return o;
  }
  if (const experiment_record e = experiment_of_rows(rows); !e.file.empty()) {
    return {e.paper, e.artifact, e.scale, e.file, {}};
  }
  for (const artifact_run& run : runs_below(rows, "", "", experiments)) {
    o.file = run.file.string();
    o.scale = run.scale;
    o.artifact = run.file.stem();
    o.paper = run.file.parent_path().filename();
  }
  return o;
}

// The command that measures such rows again, "unmask run FILE ..."; where no run.json tells it, that of
// the experiment with the same title.
std::string command_of(const origin_of_rows& o, const std::vector<std::string>& titles,
                       const fs::path& experiments) {
  texts command = {"unmask", "run"};
  if (!o.file.empty()) {
    command.push_back(o.file);
    if (!o.scale.empty()) command.insert(command.end(), {"--scale", o.scale});
    for (const std::string& s : o.set) command.insert(command.end(), {"--set", s});
    return shell_line(command);
  }
  if (!fs::is_directory(experiments)) return "";
  for (const fs::path& file :
       files_below(experiments, [](const std::string& name) { return name.ends_with(".toml"); })) {
    try {
      const std::string title = read_any_scale(file).title;
      if (std::ranges::find(titles, title) != titles.end()) {
        command.push_back(fs::relative(file).string());
        return shell_line(command);
      }
    } catch (const error&) {  // models' cards and the like are no experiments
    }
  }
  return "";
}

std::string with_spaces(std::string text) {
  std::ranges::replace(text, '_', ' ');
  return text;
}

// The paper's table beside ours, and the artifact's title; nothing where the file is not here.
void add_layout(ordered_json& section, const origin_of_rows& o, const frame& rows) {
  run_manifest asked;
  asked.file = o.file;
  std::error_code none;
  fs::path file = file_of(asked, fs::path(o.rows).parent_path());
  if (!fs::exists(file, none)) file = o.file;
  if (o.artifact.empty() || !fs::exists(file, none)) return;
  try {
    const paper_layout layout = read_layout(file, o.scale);
    section["title"] = layout.title;
    if (!layout.columns.empty()) section["table"] = json_of(table_of(lay_out(layout, rows)));
  } catch (const error&) {  // the file has changed since: its rows are still worth a page
  }
}

ordered_json section_of(const fs::path& file, const fs::path& root, const fs::path& experiments) {
  const frame rows = read_frame({file});
  const std::vector<std::string> titles =
      distinct(rows.all(), [](const result_row& r) { return r.title; });
  const origin_of_rows o = origin_of(file, experiments);
  ordered_json section = {{"path", file.string()},
                          {"name", fs::relative(file, root).string()},
                          {"paper", o.paper},
                          {"artifact", o.artifact},
                          {"command", command_of(o, titles, experiments)},
                          {"title", joined(titles)},
                          {"table", nullptr}};
  add_layout(section, o, rows);
  const auto title = section["title"].get<std::string>();
  const std::string name = with_spaces(o.paper + (o.artifact.empty() ? "" : " " + o.artifact));
  section["heading"] =
      name.empty() ? title : name + ": " + title + (o.scale.empty() ? "" : " (" + o.scale + ")");
  section["tables"] = ordered_json::array();
  for (const text_table& t : tables_of(rows)) section["tables"].push_back(json_of(t));
  section["figures"] = figure_data(rows);
  return section;
}

ordered_json claims_in(const fs::path& file) {
  ordered_json claims = read_json(file);
  if (!claims.is_array()) throw usage_error(file.string() + ": claims are a list of objects");
  for (std::size_t i = 0; i < claims.size(); ++i) {
    for (const char* key : {"id", "statement", "verdict"}) {
      if (!claims[i].is_object() || !claims[i].contains(key)) {
        throw usage_error(
            fmt::format("{}: claim number {} has no `{}`", file.string(), i + 1, key));
      }
    }
    claims[i]["tone"] = tone_of(claims[i]["verdict"].get<std::string>());
  }
  return claims;
}

ordered_json page_data(const fs::path& path, const fs::path& experiments) {
  if (!fs::exists(path)) throw usage_error(path.string() + ": there is no such file or directory");
  ordered_json data = {{"root", path.string()},
                       {"sections", ordered_json::array()},
                       {"claims", ordered_json::array()},
                       {"campaign", nullptr}};
  if (!fs::is_directory(path)) {
    const fs::path root = path.has_parent_path() ? path.parent_path() : fs::path(".");
    data["sections"].push_back(section_of(path, root, experiments));
  } else {
    const auto may_hold_rows = [](const std::string& name) {
      return name.ends_with(".jsonl") && !name.starts_with("samples_");
    };
    for (const fs::path& file : files_below(path, may_hold_rows)) {
      if (holds_rows(file)) data["sections"].push_back(section_of(file, path, experiments));
    }
    const auto may_hold_claims = [](const std::string& name) {
      return name.starts_with("claims") && name.ends_with(".json");
    };
    for (const fs::path& file : files_below(path, may_hold_claims)) {
      for (ordered_json& claim : claims_in(file)) data["claims"].push_back(std::move(claim));
    }
    if (fs::exists(path / campaign_log)) {
      data["campaign"] = json_of(campaign_table(read_campaign(path / campaign_log)));
    }
  }
  if (data["sections"].empty()) {
    throw environment_error(path.string() +
                            " holds no result rows (*.jsonl); run an experiment with -o " +
                            path.string());
  }
  for (int v = 0; v <= static_cast<int>(verdict_kind::inactive); ++v) {
    const char* name = name_of(static_cast<verdict_kind>(v));
    data["tones"][name] = tone_of(name);
  }
  return data;
}

}  // namespace

int command_report(const texts& arguments) {
  const command_line line(
      "report DIR|ROWS.jsonl [options]",
      {output_option("the page, default DIR/report.html; of --data a file"),
       {"data", flag(), "print what the page shows as JSON, and draw nothing"},
       {"title", no_default, "of the page"},
       {"figures", flag(), "also save each result's figures as SVG, PNG and PDF beside its rows"},
       {"plots-dir", no_default, "where report.py lies; default: with the program"},
       experiments_option()},
      {"dir"}, arguments,
      "\nOne self-contained HTML page of the rows below DIR. Drawn by Python 3.11; figures "
      "need\nmatplotlib (./dev setup prepares both).\n");
  const fs::path place = line.place("dir", "report needs the folder of a run");
  const fs::path plots =
      line.given("plots-dir") ? fs::path(line.text("plots-dir")) : program_root() / "plots";
  const fs::path script = plots / "report.py";
  const bool data_only = line.given("data");
  if (!data_only && !fs::exists(script)) {
    throw environment_error(script.string() +
                            " is not there; --plots-dir says where report.py lies");
  }
  const std::string data = json_text(page_data(place, experiments_folder(line)));
  if (data_only) {
    line.write(data);
    return 0;
  }
  const scratch_folder scratch;
  const fs::path file = scratch.path() / "page.json";
  write_file(file, data);
  const fs::path beside = fs::is_directory(place) ? place : place.parent_path();
  const fs::path page = line.text("output", (beside / "report.html").string());
  texts command = {python(), script.string(), file.string(), "-o", page.string()};
  if (line.given("title")) command.insert(command.end(), {"--title", line.text("title")});
  if (line.given("figures")) command.emplace_back("--figures");
  try {
    return run_process(command);
  } catch (const error&) {
    throw environment_error("NOT RUN: needs Python (" + command.front() +
                            " cannot be started); install python3 or set UNMASK_PYTHON");
  }
}

}  // namespace unmask
