// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/compare.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <boost/math/distributions/binomial.hpp>
#include <nlohmann/json.hpp>

#include "harness/analysis/estimates.h"
#include "harness/analysis/store.h"
#include "harness/analysis/text_table.h"
#include "harness/analysis/verdict.h"
#include "harness/base/error.h"

namespace unmask {
namespace {

std::string title_of(const result_row& row) {
  return fmt::format("{} {} {} batch {}", row.model.name, row.workload.family, name_of_row(row),
                     row.run.batch_size);
}

std::string environment_value(const result_row& row, const char* key) {
  const auto json = nlohmann::json::parse(row.environment, nullptr, false);
  if (!json.is_object() || !json.contains(key)) return "unknown";
  return json[key].is_string() ? json[key].get<std::string>() : json[key].dump();
}

// Served on a real clock with clients that leave: who is answered depends on the machine's speed.
bool leaves_by_the_clock(const result_row& row) {
  return setting_of(row, "serve.clock") == "real" &&
         number_of(row, "serve.cancel_share").value_or(0) != 0;
}

// Whether two intervals of ratios overlap, each made so many times as wide on the log scale.
bool overlap(const interval& a, const interval& b, double wider) {
  const double gap = std::abs(std::log(a.low * a.high) - std::log(b.low * b.high)) / 2;
  return gap <= wider * (std::log(a.high / a.low) + std::log(b.high / b.low)) / 2;
}
constexpr double far = 4;

class comparer {
 public:
  comparer(run_comparison& result, const std::string& in) : result_(result), in_(in) {}

  void compare(const result_row& before, const result_row& after) {
    title_ = in_ + title_of(before);
    ++result_.points;
    // NOISY is PASS on a machine with other work.
    const auto settled = [](const result_row& row) {
      return name_of(row.verdict == verdict_kind::noisy ? verdict_kind::pass : row.verdict);
    };
    text("verdict", settled(before), settled(after));
    text("weights", before.model.hash, after.model.hash);
    text("workload", before.workload.hash, after.workload.hash);
    if (!before.calibration.empty() || !after.calibration.empty()) {
      ++result_.calibrated;
      note(before.label + " calibrates itself on measured times: its tokens and counts may differ");
      const auto d = score_difference_of(after, before);
      if (d && d->range && (d->range->low > 0 || d->range->high < 0)) score(before, after);
      return;
    }
    if (before.score || after.score) score(before, after);
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
    if (overlap(*a->range, *b->range, 1)) return;
    result_.far_apart += !overlap(*a->range, *b->range, far);
    result_.speeds_apart.push_back({in_ + title_of(before), "speed over " + before_base.label,
                                    estimate_text(*a), estimate_text(*b)});
  }

  void note(const std::string& text) {
    if (std::ranges::find(result_.notes, text) == result_.notes.end())
      result_.notes.push_back(text);
  }
  void add(const std::string& what, const std::string& before, const std::string& after) {
    result_.differences.push_back({title_, what, before, after});
  }
  void missing(const result_row& row, bool in_new) {
    title_ = in_ + title_of(row);
    add("row", in_new ? "absent" : "there", in_new ? "there" : "absent");
  }

 private:
  void score(const result_row& before, const result_row& after) {
    number("score", before.score ? before.score->mean : -1, after.score ? after.score->mean : -1);
  }
  void text(const std::string& what, const std::string& before, const std::string& after) {
    if (before != after) add(what, before.substr(0, 16), after.substr(0, 16));
  }
  void number(const std::string& what, double before, double after) {
    if (before != after) add(what, fmt::format("{}", before), fmt::format("{}", after));
  }
  run_comparison& result_;
  const std::string in_;
  std::string title_;
};

// The rows files below a directory by their place in it; of a file, itself.
std::map<std::string, std::vector<result_row>> rows_below(const std::filesystem::path& path) {
  std::map<std::string, std::vector<result_row>> all;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().filename() == "rows.jsonl") {
        all[entry.path().lexically_relative(path).string()] = read_rows(entry.path()).rows;
      }
    }
  }
  if (all.empty()) all[""] = read_rows(path).rows;
  return all;
}

std::string table_of(const std::vector<run_difference>& lines) {
  text_table t{"point", "what", "before", "now"};
  for (const run_difference& d : lines) t.add({d.point, d.what, d.before, d.after});
  return "\n" + render(t, table_format::md);
}

// By what a point is called, so that runs before and after a change of ids meet.
std::map<std::string, const result_row*> by_point(const frame& rows) {
  std::map<std::string, const result_row*> points;
  for (const result_row* row : rows.all()) points[point_name(*row)] = row;
  return points;
}

// Rows of one place in two runs; `in` stands before the name of a point.
void compare_place(run_comparison& result, const std::string& in,
                   const std::vector<result_row>& before, const std::vector<result_row>& after) {
  comparer with(result, in);
  const frame old_frame(before), new_frame(after);
  const auto old_rows = by_point(old_frame), new_rows = by_point(new_frame);
  // The first row of the plan in each circumstance is what the others are divided by.
  std::map<std::string, const result_row*> bases;
  for (const auto& [id, row] : old_rows) {
    if (!is_reportable(*row) || !new_rows.contains(id)) continue;
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
    if (result.speeds_compared && base && base != row && row->run.kind != "serve") {
      with.ratio(*row, *base, *found->second, *new_rows.at(point_name(*base)));
    }
  }
  for (const auto& [id, row] : new_rows) {
    if (!old_rows.contains(id)) with.missing(*row, true);
  }
  if (before.empty() || after.empty()) return;
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

}  // namespace

double chance_of_apart(std::size_t ratios, std::size_t apart) {
  if (apart == 0) return 1;
  const boost::math::binomial chance(static_cast<double>(ratios), 0.0056);
  return boost::math::cdf(boost::math::complement(chance, static_cast<double>(apart - 1)));
}

bool run_comparison::speeds_differ() const {
  return far_apart > 0 || chance_of_apart(ratios, speeds_apart.size()) < 0.05;
}

run_comparison compare_runs(const std::vector<result_row>& before,
                            const std::vector<result_row>& after, compared_speeds speeds) {
  run_comparison result;
  result.speeds_compared = speeds == compared_speeds::ratios;
  compare_place(result, "", before, after);
  return result;
}

run_comparison compare_paths(const std::filesystem::path& before,
                             const std::filesystem::path& after, compared_speeds speeds) {
  const auto old_files = rows_below(before), new_files = rows_below(after);
  run_comparison all;
  all.speeds_compared = speeds == compared_speeds::ratios;
  bool common = false;
  for (const auto& [place, rows] : old_files) {
    const auto found = new_files.find(place);
    if (found == new_files.end()) {
      all.differences.push_back({place, "rows", "there", "absent"});
      continue;
    }
    common = true;
    const std::string folder = std::filesystem::path(place).parent_path().string();
    compare_place(all, folder.empty() ? "" : folder + ": ", rows, found->second);
  }
  for (const auto& [place, rows] : new_files) {
    if (!old_files.contains(place)) {
      all.differences.push_back({place, "rows", "absent", "there"});
    }
  }
  if (!common) {
    throw usage_error(
        fmt::format("{} and {} have no rows at the same place", before.string(), after.string()));
  }
  return all;
}

std::string comparison_text(const run_comparison& c) {
  std::string text =
      fmt::format("{} points compared: tokens identical in {}", c.points, c.same_tokens);
  if (c.calibrated > 0) {
    text += fmt::format("; {} calibrate themselves on measured times", c.calibrated);
  }
  if (c.speeds_compared) {
    text += fmt::format("; {} of {} speed ratios within their intervals\n",
                        c.ratios - c.speeds_apart.size(), c.ratios);
  } else {
    text += "; speeds were not compared\n";
  }
  if (!c.differences.empty()) text += table_of(c.differences);
  if (!c.speeds_apart.empty()) {
    text += table_of(c.speeds_apart);
    text += fmt::format(
        "\n{} of {} speed ratios apart: {} chance, which gives as many with a probability of "
        "{:.2g}{}\n",
        c.speeds_apart.size(), c.ratios, c.speeds_differ() ? "more than" : "explained by",
        chance_of_apart(c.ratios, c.speeds_apart.size()),
        c.far_apart > 0 ? fmt::format("; {} of them by far more than their intervals", c.far_apart)
                        : "");
  }
  for (const std::string& note : c.notes) text += "\nnote: " + note + "\n";
  return text + "\n" + name_of(c.same() ? verdict::repeated : verdict::differs) + "\n";
}

}  // namespace unmask
