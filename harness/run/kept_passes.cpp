// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/kept_passes.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/rows/json_of.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int passes_version = 1;
constexpr std::size_t most_open = 64;  // files at a time: paired points are many
constexpr std::size_t largest_passes = std::size_t{4} << 30;

// Fields of a pass and of an answer that are plain numbers, each in one place.
template <class Visit>
void each_number(pass_record& p, const Visit& visit) {
  visit("seconds", p.seconds);
  for (const total_spec& t : total_list()) {
    std::visit([&](const auto field) { visit(t.name, p.*field); }, t.field);
  }
}

template <class Visit>
void each_number(machine_use& u, const Visit& visit) {
  visit("seconds", u.seconds);
  visit("own_seconds", u.own_seconds);
  visit("other_seconds", u.other_seconds);
  visit("processors", u.processors);
  visit("threads", u.threads);
  visit("throttled_seconds", u.throttled_seconds);
  visit("moved", u.moved);
}

template <class Visit>
void each_column(const Visit& visit) {
  visit(
      "prompt_tokens", [](auto& a) -> auto& { return a.prompt_tokens; });
  visit(
      "canvas_tokens", [](auto& a) -> auto& { return a.canvas_tokens; });
  visit(
      "tokens", [](auto& a) -> auto& { return a.tokens; });
  visit(
      "seconds", [](auto& a) -> auto& { return a.seconds; });
  visit(
      "first_block_seconds", [](auto& a) -> auto& { return a.first_block_seconds; });
  visit(
      "request", [](auto& a) -> auto& { return a.request; });
  visit(
      "loglikelihoods", [](auto& a) -> auto& { return a.loglikelihoods; });
  visit(
      "standard_error", [](auto& a) -> auto& { return a.standard_error; });
  for (const counter_spec& c : counter_list()) {
    std::visit(
        [&](const auto field) {
          visit(
              c.metric, [field](auto& a) -> auto& { return a.work.*field; });
        },
        c.field);
  }
}

json number(double value) {
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}
double real(const json& value) {
  if (value.is_null()) return std::nan("");
  if (value.is_string()) return value == "inf" ? INFINITY : -INFINITY;
  return value.get<double>();
}

template <class T>
json json_value_of(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return number(value);
  } else {
    return value;
  }
}
template <class T>
void from_json_value(const json& in, T& into) {
  if constexpr (std::is_same_v<T, double>) {
    into = real(in);
  } else {
    if (std::is_unsigned_v<T> && !std::is_same_v<T, bool> && !in.is_number_unsigned()) {
      throw std::out_of_range("a number below zero");
    }
    into = in.get<T>();
    if (json(into) != in) throw std::out_of_range("a number outside its type");
  }
}

// A number of a pass under its name; an optional one that is absent has no name there.
template <class T>
void put(json& out, const char* name, const T& value) {
  out[name] = json_value_of(value);
}
template <class T>
void put(json& out, const char* name, const std::optional<T>& value) {
  if (value) put(out, name, *value);
}
template <class T>
void take(const json& in, const char* name, T& into) {
  from_json_value(in.at(name), into);
}
template <class T>
void take(const json& in, const char* name, std::optional<T>& into) {
  if (in.contains(name)) take(in, name, into.emplace());
}

origin origin_of(const json& in) {
  const int from = in.get<int>();
  for (const origin known :
       {origin::measured, origin::counted, origin::analytic, origin::synthetic}) {
    if (from == static_cast<int>(known)) return known;
  }
  throw std::out_of_range("no origin of a number");
}

json json_of_metric(const metric& m) {
  json samples = json::array();
  for (const double v : m.samples) samples.push_back(number(v));
  return {number(m.value), static_cast<int>(m.from), samples};
}
metric metric_of(const json& in) {
  metric m{real(in.at(0)), origin_of(in.at(1)), {}};
  for (const json& v : in.at(2)) m.samples.push_back(real(v));
  return m;
}

}  // namespace

std::string pass_line(const pass_record& pass, const pass_record* first) {
  json out = {{"time", static_cast<int>(pass.time)},
              {"served", pass.served},
              {"clients_left", pass.clients_left},
              {"answers", pass.answers.size()}};
  if (pass.answers_vary) out["answers_vary"] = true;
  if (!pass.unmetered.empty()) out["unmetered"] = pass.unmetered;
  if (pass.topology.hosts > 0) {
    out["hosts"] = pass.topology.hosts;
    out["transport"] = pass.topology.transport;
  }
  each_number(const_cast<pass_record&>(pass),
              [&](const char* name, const auto& value) { put(out, name, value); });
  if (pass.use.seconds > 0) {  // else nobody watched
    each_number(const_cast<machine_use&>(pass.use),
                [&](const char* name, const auto& value) { put(out["use"], name, value); });
  }
  for (const auto& [name, m] : pass.metrics) out["metrics"][name] = json_of_metric(m);
  each_column([&](const char* name, const auto& of) {
    json column = json::array(), before = json::array();
    for (const answer_record& a : pass.answers) column.push_back(json_value_of(of(a)));
    if (first) {
      for (const answer_record& a : first->answers) before.push_back(json_value_of(of(a)));
    }
    if (!first || column != before) out["columns"][name] = std::move(column);
  });
  return out.dump();
}

pass_record pass_of_line(const std::string& line, const pass_record* first) {
  const json in = tree_of<json>(line);
  pass_record pass;
  pass.time = origin_of(in.at("time"));
  pass.served = in.at("served");
  pass.clients_left = in.at("clients_left");
  pass.answers_vary = in.value("answers_vary", false);
  pass.unmetered = in.value("unmetered", "");
  pass.topology.hosts = in.value("hosts", std::int64_t{0});
  pass.topology.transport = in.value("transport", "");
  each_number(pass, [&](const char* name, auto& value) { take(in, name, value); });
  if (in.contains("use")) {
    each_number(pass.use, [&](const char* name, auto& value) { take(in.at("use"), name, value); });
  }
  if (in.contains("metrics")) {
    for (const auto& [name, value] : in.at("metrics").items()) {
      pass.metrics[name] = metric_of(value);
    }
  }
  std::size_t answers = 0;
  from_json_value(in.at("answers"), answers);
  if (answers > line.size() && !(first && first->answers.size() == answers)) {
    throw std::out_of_range("more answers than the line can hold");
  }
  pass.answers.resize(answers);
  const json columns = in.value("columns", json::object());
  each_column([&](const char* name, const auto& of) {
    const auto column = columns.find(name);
    if (column != columns.end() && column->size() != answers) {
      throw std::out_of_range("a column of another length");
    }
    for (std::size_t i = 0; i < pass.answers.size(); ++i) {
      if (column != columns.end()) {
        from_json_value(column->at(i), of(pass.answers[i]));
      } else if (first) {
        of(pass.answers[i]) = of(first->answers.at(i));
      }
    }
  });
  return pass;
}

kept_passes::kept_passes(fs::path rows_folder, std::string circumstances,
                         std::function<void(const std::string&)> say)
    : folder_(std::move(rows_folder) / "unfinished"),
      circumstances_(std::move(circumstances)),
      say_(std::move(say)) {}

fs::path kept_passes::file_of(const std::string& point) const {
  return folder_ / (point + ".passes");
}

unfinished_point kept_passes::take_up(const std::string& point, const std::string& prompts) {
  unfinished_point found;
  const fs::path file = file_of(point);
  if (!is_file(file)) return found;
  const std::string text = read_file(file, largest_passes);
  bool head = true, ours = false, other_prompts = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut off as it was written
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const json in = tree_of<json>(line);
    if (head) {
      head = false;
      ours = in.is_object() && in.value("passes", json()) == passes_version &&
             in.value("point", json()) == point &&
             in.value("circumstances", json()) == circumstances_;
      other_prompts = ours && in.value("prompts", json("")) != prompts;
      ours = ours && !other_prompts;
      if (!ours) break;
      continue;
    }
    try {
      found.passes.push_back(
          pass_of_line(line, found.passes.empty() ? nullptr : &found.passes.front()));
      found.warmup_seconds = in.at("warmup_seconds").get<std::vector<double>>();
      found.memory = in.at("memory").get<std::string>();
    } catch (const json::exception&) {  // a damaged line: what stands behind it is measured again
      break;
    } catch (const std::out_of_range&) {
      break;
    }
  }
  if (!ours) {
    say_(file.string() + ": passes of " +
         (other_prompts ? "other prompts (a chat template that asks for the time?)"
                        : "another program or machine") +
         "; they are measured again");
    drop(point);
    return {};
  }
  counts_[point] = found.passes.size();
  return found;
}

void kept_passes::keep(const std::string& point, const pass_record& pass, const pass_record* first,
                       const std::vector<double>& warmup_seconds, const std::string& memory,
                       const std::string& prompts) {
  try {
    if (open_.size() > most_open && !open_.contains(point)) open_.clear();
    std::unique_ptr<line_file>& file = open_[point];
    if (!file) {
      const bool fresh = !is_file(file_of(point));
      file = std::make_unique<line_file>(file_of(point));
      if (fresh) {
        const json head = {{"passes", passes_version},
                           {"point", point},
                           {"circumstances", circumstances_},
                           {"prompts", prompts}};
        file->append(head.dump());
      }
    }
    std::string line = pass_line(pass, first);
    line.back() = ',';
    const std::string more = json{{"memory", memory}, {"warmup_seconds", warmup_seconds}}.dump();
    file->append(line + more.substr(1));
    ++counts_[point];
  } catch (const error& problem) {
    if (!said_) {
      say_(std::string("passes cannot be kept; a run that is killed now loses those of its points "
                       "without a row: ") +
           problem.what());
    }
    said_ = true;
  }
}

void kept_passes::drop(const std::string& point) {
  open_.erase(point);
  counts_.erase(point);
  std::error_code ignored;
  fs::remove(file_of(point), ignored);
  fs::remove(file_of(point).string() + ".torn", ignored);
  fs::remove(folder_, ignored);  // when it is empty
}

std::size_t kept_passes::count() const {
  std::size_t all = 0;
  for (const auto& [point, n] : counts_) all += n;
  return all;
}

}  // namespace unmask
