// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/artifact/bundle.h"

namespace unmask {
namespace {

// Of rows with the same point the last counts.
std::map<std::string, const result_row*> last_rows(const std::vector<result_row>& rows) {
  std::map<std::string, const result_row*> last;
  for (const result_row& row : rows) last[row.point_id] = &row;
  return last;
}

std::string title_of(const result_row& row) {
  return fmt::format("{} {} {}{} batch {}", row.model.name, row.workload.family, row.label,
                     row.variation.empty() ? "" : " " + row.variation, row.run.batch_size);
}

std::string environment_value(const result_row& row, const char* key) {
  const auto json = nlohmann::json::parse(row.environment, nullptr, false);
  if (!json.is_object() || !json.contains(key)) return "unknown";
  return json[key].is_string() ? json[key].get<std::string>() : json[key].dump();
}

// Served on a real clock with clients that leave: who is answered depends on the machine's speed.
bool leaves_by_the_clock(const result_row& row) {
  const auto share = row.run.serve.find("cancel_share");
  const auto clock = row.run.serve.find("clock");
  return share != row.run.serve.end() && clock != row.run.serve.end() &&
         to_string(clock->second) == "real" && share->second != parameter_value(0.0);
}

class comparer {
 public:
  explicit comparer(run_comparison& result) : result_(result) {}

  void compare(const result_row& before, const result_row& after) {
    title_ = title_of(before);
    ++result_.points;
    text("verdict", name_of(before.verdict), name_of(after.verdict));
    text("weights", before.model.hash, after.model.hash);
    text("workload", before.workload.hash, after.workload.hash);
    if (before.score || after.score) {
      number("score", before.score ? before.score->mean : -1, after.score ? after.score->mean : -1);
    }
    if (!before.calibration.empty() || !after.calibration.empty()) {
      note(before.label + " calibrates itself on measured times: its tokens and counts may differ");
      return;
    }
    if (leaves_by_the_clock(before) || leaves_by_the_clock(after)) {
      note(before.label + ": clients leave on a real clock, so which answers there are may differ");
      return;
    }
    if (before.answers_hash.empty() || after.answers_hash.empty()) {
      note("rows before schema 1.2 have no hash of the answers; only counts were compared");
    } else {
      result_.same_tokens += before.answers_hash == after.answers_hash;
      text("answers", before.answers_hash, after.answers_hash);
    }
    std::set<std::string> names;
    for (const result_row* row : {&before, &after}) {
      for (const auto& [name, m] : row->metrics) {
        if (m.from == origin::counted) names.insert(name);
      }
    }
    for (const std::string& name : names) {
      const auto a = before.value_of(name), b = after.value_of(name);
      if (!a || !b) {
        add(name, a ? short_number(*a) : "absent", b ? short_number(*b) : "absent");
      } else {
        number(name, *a, *b);
      }
    }
  }

  void ratio(const result_row& before, const result_row& before_base, const result_row& after,
             const result_row& after_base) {
    const auto a = ratio_of(before, before_base, "tokens_per_second", "tokens_per_second");
    const auto b = ratio_of(after, after_base, "tokens_per_second", "tokens_per_second");
    if (!a || !b || !a->range || !b->range) return;
    ++result_.ratios;
    if (a->range->low <= b->range->high && b->range->low <= a->range->high) {
      ++result_.ratios_within;
      return;
    }
    title_ = title_of(before);
    add("speed over " + before_base.label, estimate_text(*a), estimate_text(*b));
  }

  void note(const std::string& text) {
    if (std::ranges::find(result_.notes, text) == result_.notes.end())
      result_.notes.push_back(text);
  }
  void add(const std::string& what, const std::string& before, const std::string& after) {
    result_.differences.push_back({title_, what, before, after});
  }
  void missing(const result_row& row, bool in_new) {
    title_ = title_of(row);
    add("row", in_new ? "absent" : "there", in_new ? "there" : "absent");
  }

 private:
  void text(const std::string& what, const std::string& before, const std::string& after) {
    if (before != after) add(what, before.substr(0, 16), after.substr(0, 16));
  }
  void number(const std::string& what, double before, double after) {
    if (before != after) add(what, fmt::format("{}", before), fmt::format("{}", after));
  }
  run_comparison& result_;
  std::string title_;
};

}  // namespace

run_comparison compare_runs(const std::vector<result_row>& before,
                            const std::vector<result_row>& after) {
  run_comparison result;
  comparer with(result);
  const auto old_rows = last_rows(before), new_rows = last_rows(after);
  // The first row of the plan in each circumstance is what the others are divided by.
  std::map<std::string, const result_row*> bases;
  for (const auto& [id, row] : old_rows) {
    const bool good =
        row->verdict == verdict_kind::pass || row->verdict == verdict_kind::not_verified;
    if (!good || !new_rows.contains(id)) continue;
    const result_row*& base = bases[circumstance_of(*row, {})];
    if (!base || row->position < base->position) base = row;
  }
  for (const auto& [id, row] : old_rows) {
    const auto found = new_rows.find(id);
    if (found == new_rows.end()) {
      with.missing(*row, false);
      continue;
    }
    with.compare(*row, *found->second);
    const result_row* base = bases[circumstance_of(*row, {})];
    if (base && base != row && row->run.kind != "serve") {
      with.ratio(*row, *base, *found->second, *new_rows.at(base->point_id));
    }
  }
  for (const auto& [id, row] : new_rows) {
    if (!old_rows.contains(id)) with.missing(*row, true);
  }
  if (!before.empty() && !after.empty()) {
    for (const char* key : {"cpu_model", "cpu_backend", "omp_threads", "gpus"}) {
      const std::string a = environment_value(before.back(), key);
      const std::string b = environment_value(after.back(), key);
      if (a != b) with.note(fmt::format("{}: {} before, {} now", key, a, b));
    }
    if (before.back().source_hash != after.back().source_hash) {
      with.note(fmt::format("program: {} before, {} now", before.back().source_hash,
                            after.back().source_hash));
    }
  }
  return result;
}

std::string comparison_text(const run_comparison& c) {
  std::string text = fmt::format(
      "{} points compared: tokens identical in {}; {} of {} speed ratios within their "
      "intervals\n",
      c.points, c.same_tokens, c.ratios_within, c.ratios);
  if (!c.differences.empty()) {
    text += "\n| point | what | before | now |\n|---|---|---|---|\n";
    for (const run_difference& d : c.differences) {
      text += fmt::format("| {} | {} | {} | {} |\n", d.point, d.what, d.before, d.after);
    }
  }
  for (const std::string& note : c.notes) text += "\nnote: " + note + "\n";
  return text + (c.same() ? "\nREPEATED\n" : "\nDIFFERS\n");
}

}  // namespace unmask
