// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/official_scores.h"

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json_lines.h"
#include "harness/base/package.h"
#include "harness/workload/samples.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

// One line of the package's scores into the answer it is of.
void take_score(scored_answer& to, const json& line) {
  const std::string status = line.at("status");
  to.scored = status == "scored";
  to.undecided = status == "undecided";
  to.value = to.scored ? line.at("value").get<double>() : 0;
  to.exact = to.scored && to.value == 1;
  to.note = line.value("note", "");
  if (status == "not_run") to.note = scores_not_run + to.note;
  to.extracted = line.value("extracted", "");
  line.at("libraries").get_to(to.libraries);
  // Bound to names: items() of a temporary would outlive it.
  const json measures = line.value("measures", json::object());
  for (const auto& [name, of] : measures.items()) to.measures.push_back({name, of.at(0), of.at(1)});
  const json filters = line.value("filters", json::array());
  for (const json& one : filters) {
    filtered_answer& filter = to.filters.emplace_back();
    filter.filter = one.at("filter");
    filter.text = one.at("text");
    for (const auto& [metric, value] : one.at("metrics").items()) {
      filter.metrics.emplace_back(metric, value.dump());
    }
  }
}

// By their items' ids, which are unique within a workload.
std::map<std::string, json> read_scores(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw environment_error("the package wrote no scores");
  std::map<std::string, json> scores;
  for (std::string line; std::getline(in, line);) {
    json object = json::parse(line);
    std::string id = object.at("item");
    scores.emplace(std::move(id), std::move(object));
  }
  return scores;
}

std::map<std::string, json> scores_of(const std::vector<scored_answer>& answers,
                                      const std::vector<task_item>& items) {
  const scratch_folder scratch;
  const fs::path asked = scratch.path() / "answers", written = scratch.path() / "scores.jsonl";
  fs::create_directory(asked);
  for (const auto& [name, lines] : sample_files_of(answers, items, "answers", {})) {
    write_file(asked / name, lines);
  }
  const package_end end =
      run_package_for_reason({"score", asked.string(), "--output", written.string(), "--quiet"});
  if (end.status != 0) throw environment_error("cannot score the answers: " + end.reason);
  return read_scores(written);
}

}  // namespace

std::map<std::string, std::string> sample_files_of(
    const std::vector<scored_answer>& answers, const std::vector<task_item>& items,
    const std::string& date, const std::vector<std::pair<std::string, std::string>>& more) {
  std::map<std::string, std::string> files;
  for (const scored_answer& a : answers) {
    const task_item& item = items[a.item];
    answer_sample sample{a.text,
                         a.loglikelihoods,
                         a.filters,
                         {{"item", json_string(a.id)},
                          {"group", json_string(a.group)},
                          {"output", json_string(a.text)},
                          {"scorer", json_string(item.scorer)},
                          {"check", item.check},
                          {"scored", a.scored ? "true" : "false"},
                          {"value", fmt::format("{}", a.value)},
                          {"undecided", a.undecided ? "true" : "false"},
                          {"note", json_string(a.note)}}};
    sample.more.insert(sample.more.end(), more.begin(), more.end());
    files[sample_file_name(item, date)] += sample_lines(item, sample) + "\n";
  }
  return files;
}

void score_officially(std::vector<scored_answer>& answers, const std::vector<task_item>& items) {
  std::vector<scored_answer> asked;
  for (const scored_answer& a : answers) {
    if (!is_own_scorer(items[a.item].scorer)) asked.push_back(a);
  }
  if (asked.empty()) return;
  std::map<std::string, json> scores;
  std::string lacking;
  try {
    scores = scores_of(asked, items);
  } catch (const std::exception& problem) {
    const std::string reason = problem.what();
    constexpr std::string_view not_run = "NOT RUN: ";
    lacking =
        scores_not_run + (reason.starts_with(not_run) ? reason.substr(not_run.size()) : reason);
  }
  for (scored_answer& a : answers) {
    if (is_own_scorer(items[a.item].scorer)) continue;
    try {
      if (!lacking.empty()) {
        a.note = lacking;
      } else {
        take_score(a, scores.at(a.id));
      }
    } catch (const std::exception& problem) {  // of this item alone
      static_cast<score&>(a) = {};
      a.undecided = true;
      a.note = std::string("undecided: the package gave no score for it: ") + problem.what();
    }
  }
}

}  // namespace unmask
