// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/base/ranks/group.h"
#include "harness/decode/registry.h"
#include "harness/decode/step_loop.h"
#include "harness/rows/json_of.h"
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "kernels/refused.h"
#include "tests/goldens/replay/pictures.h"
#include "tests/goldens/replay/replay.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using nlohmann::json;

parameter_value value_of(const json& v) {
  if (!v.is_array()) return parameter_of(v);
  return fmt::format("{}", fmt::join(v.get<std::vector<std::int64_t>>(), ","));
}

parameter_map recorded_parameters(const json& params) {
  parameter_map recorded;
  for (const auto& [name, value] : params.items()) {
    if (!value.is_null()) recorded[name] = value_of(value);
  }
  return recorded;
}

// Compares every forward with the golden one; keeps the first difference.
class replay final : public step_observer {
 public:
  // What the recipe's views show lives as long as the loop that gets it.
  replay(const json& golden, const transformer& model, const recipe& method)
      : golden_(golden),
        model_(model),
        views_(method.views),
        late_layers_(model.config().layers - method.rows->traits().first_late_layer()) {}

  void on_step(const step_view& step) override {
    const std::size_t i = forward_++;
    if (!difference_.empty()) return;
    const json& forwards = golden_.at("forwards");
    if (i >= forwards.size()) {
      difference_ = fmt::format("forward {}: the golden run has only {}", i, forwards.size());
      return;
    }
    compare_rows(i, forwards[i], step);
    if (difference_.empty()) compare_logits(i, forwards[i], step);
    if (difference_.empty()) compare_trace(i, forwards[i], step);
    if (difference_.empty()) compare_events(i, forwards[i], step);
    if (step.plan.of[0].what == forward_kind::prefill) return;
    ++steps_;
    // As the row of a result has it: the metric `processed_rows`, which a model of two layers has not.
    if (late_layers_ > 0) {
      processed_ = step.state.at(0).counters.late_layer_rows / late_layers_;
    }
    commits_ += step.plan.of[0].what == forward_kind::commit ? 1 : 0;
  }

  // What the official loops count themselves: rows of the last layer and forwards after the
  // prefill; blocks committed times their length.
  std::string compare_counters() const {
    const json& params = golden_.at("params");
    json counters = golden_.value("official_counters", json());
    if (golden_.contains("one_by_one")) counters = json();  // of its drafts, not of forwards
    json ours = {{"processed", processed_}, {"steps", steps_}, {"forwards", forward_}};
    if (counters.contains("generated")) {
      ours["generated"] = commits_ * params.at("block_length").get<std::int64_t>();
    }
    for (const auto& [name, count] : counters.items()) {
      // What a loop calls its nfe may leave out the first forward of each block.
      if (name == "nfe" || (ours.contains(name) && ours.at(name) == count)) continue;
      return fmt::format("official counters {}, ours {}", counters.dump(), ours.dump());
    }
    return "";
  }

  // A run that the program ended with a sentence: in the golden run's last forward pass.
  std::string refused_at_its_end() const {
    const auto nfe = golden_.at("nfe").get<std::size_t>();
    if (forward_ == nfe) return "";
    return fmt::format("refused after {} forward passes, golden {}", forward_, nfe);
  }

  const std::string& difference() const { return difference_; }
  std::size_t forwards() const { return forward_; }

 private:
  void compare_rows(std::size_t i, const json& want, const step_view& step) {
    const std::int32_t rows = step.entered.rows;
    if (recorded_number(want.at("rows")) != rows) {
      difference_ = fmt::format("forward {}: {} rows, golden {}", i, rows, want.at("rows").dump());
      return;
    }
    std::vector<std::int32_t> position;
    const int branches = want.contains("branches") ? recorded_number(want.at("branches")) : 1;
    for (int branch = 0; branch < std::min(branches, 1 << 10); ++branch) {
      for (const json& range : want.at("pos")) {
        const std::int32_t last = std::min(recorded_number(range.at(1)), 1 << 24);
        for (std::int32_t p = recorded_number(range.at(0)); p < last; ++p) position.push_back(p);
      }
    }
    if (!std::equal(position.begin(), position.end(), step.entered.position,
                    step.entered.position + rows)) {
      difference_ = fmt::format("forward {}: other positions than the golden run", i);
      return;
    }
    std::vector<std::int32_t> ids(step.tokens, step.tokens + rows);
    for (std::int32_t& id : ids) id = id < 0 ? recorded_picture_row(golden_) : id;
    if (want.contains("ids")) {
      const std::vector<std::int32_t> golden = recorded_numbers(want.at("ids"));
      const auto at = std::mismatch(ids.begin(), ids.end(), golden.begin(), golden.end());
      if (golden.size() != ids.size()) {
        difference_ =
            fmt::format("forward {}: {} input ids, golden {}", i, ids.size(), golden.size());
      } else if (at.first != ids.end()) {
        const auto k = static_cast<std::size_t>(at.first - ids.begin());
        difference_ = fmt::format("forward {}: input id at position {} is {}, golden {}", i,
                                  position[k], ids[k], golden[k]);
      }
    } else if (sha1_hex(fmt::format("{}", fmt::join(ids, ","))) !=
               want.at("ids_sha1").get<std::string>()) {
      difference_ = fmt::format("forward {}: input ids differ (SHA-1)", i);
    }
    if (!difference_.empty() || !want.contains("kind")) return;
    // A full forward decides like any other.
    const auto kind = want.at("kind").get<std::string>();
    const char* ours = name_of(step.plan.of[0].what);
    if (kind != ours && !(kind == "full" && step.plan.of[0].what == forward_kind::denoise)) {
      difference_ = fmt::format("forward {}: {}, golden {}", i, ours, kind);
    }
  }

  void compare_logits(std::size_t i, const json& want, const step_view& step) {
    if (!want.contains("logits_abs_sum")) return;
    const std::int64_t n = step.left.rows;
    const tensor logits = model_.backend().allocate(dtype::f32, {n, model_.config().vocabulary},
                                                    memory_use::host_visible);
    shared_vector<std::int32_t> index(static_cast<std::size_t>(n));
    std::iota(index.begin(), index.end(), 0);
    const all_logits of_the_model;  // recorded before tokens are refused
    model_.backend().run(op::logits{step.head_input, model_.head(), index.data(), logits});
    model_.backend().synchronize();
    double sum = 0;
    for (std::int64_t k = 0; k < logits.view().elements(); ++k)
      sum += std::abs(logits.as<float>()[k]);
    const double golden = want.at("logits_abs_sum").get<double>();
    if (!(std::abs(sum - golden) <= 1e-4 * golden)) {
      difference_ =
          fmt::format("forward {}: sum of |logits| {:.3f}, golden {:.3f}", i, sum, golden);
    }
  }

  // The trace has one entry per denoising forward; the engine preset also one per commit and for a
  // prefill that decides tokens. Positions are relative to the block, or absolute.
  void compare_trace(std::size_t i, const json& forward, const step_view& step) {
    if (!golden_.contains("trace")) return;
    const sequence_step& plan = step.plan.of[0];
    const json& trace = golden_.at("trace");
    if (golden_.contains("one_by_one"))
      return;  // by draft rounds; the inputs of branches say the same
    if (!trace.empty() && trace[0].contains("blocks")) return compare_blocks(i, step);
    const bool traces_commits = !trace.empty() && trace[0].contains("kind");
    const bool seeds = plan.candidate_first >= plan.last;  // decides a token behind its rows
    if (plan.what == forward_kind::commit && !traces_commits && !seeds) return;
    if (plan.what == forward_kind::prefill && plan.candidate_first == plan.candidate_last) return;
    if (trace_ == trace.size()) {
      difference_ = fmt::format("forward {}: the golden trace has ended", i);
      return;
    }
    const json& want = trace[trace_++];
    // Absent: absolute positions.
    const std::int32_t begin =
        want.contains("block_start") ? recorded_number(want.at("block_start")) : 0;
    if (begin < 0 || begin > plan.last)
      throw environment_error("`block_start` is outside the canvas");
    json ours = {{"committed", json::array()}, {"P", json::array()}, {"S", json::array()}};
    for (std::int32_t c = 0; c < step.candidates.count; ++c) {
      if (!decides_mask(step.candidates.accept.as<std::uint8_t>()[c])) continue;
      ours["committed"].push_back({step.candidates.position.as<std::int32_t>()[c] - begin,
                                   step.candidates.token.as<std::int32_t>()[c]});
    }
    const auto list = [&](const row_set& rows, const char* name) {
      for (std::int32_t r = 0; r < rows.rows; ++r) {
        if (rows.position[r] >= begin) ours[name].push_back(rows.position[r] - begin);
      }
    };
    list(step.entered, "P");
    list(step.left, "S");
    if (want.contains("masked") && want.at("masked").is_array()) {
      ours["masked"] = json::array();
      for (std::int32_t c = 0; c < step.candidates.count; ++c) {
        ours["masked"].push_back(step.candidates.position.as<std::int32_t>()[c] - begin);
      }
    } else {
      ours["masked"] = step.state.count(0, begin, plan.last, state_masked);
    }
    if (seeds && step.candidates.count == 1) {
      ours["seed"] = {step.candidates.position.as<std::int32_t>()[0],
                      step.candidates.token.as<std::int32_t>()[0]};
    }
    if (plan.what != forward_kind::prefill) ours["rows_out"] = step.left.rows;
    json expected = {{"rows_out", forward.value("rows_out", step.left.rows)}};
    if (want.contains("evict") && plan.what == forward_kind::denoise) add_eviction(want, ours);
    for (const auto& [name, value] : ours.items()) {
      if (want.contains(name)) expected[name] = want.at(name);
      if (expected.contains(name) && value != expected.at(name)) {
        difference_ = fmt::format("forward {}: {} {}, golden {}", i, name, value.dump(),
                                  expected.at(name).dump());
        return;
      }
    }
  }

  // Several blocks in flight: one entry per forward, absolute positions.
  void compare_blocks(std::size_t i, const step_view& step) {
    const json& trace = golden_.at("trace");
    const sequence_step& plan = step.plan.of[0];
    if (plan.candidate_first == plan.candidate_last && trace_ < trace.size() &&
        trace[trace_].at("first") != plan.first) {
      return;  // a forward of the prompt alone
    }
    if (trace_ == trace.size()) {
      difference_ = fmt::format("forward {}: the golden trace has ended", i);
      return;
    }
    const json& want = trace[trace_++];
    json ours = {{"first", plan.first}, {"committed", json::array()}, {"masked", json::array()}};
    for (std::int32_t c = 0; c < step.candidates.count; ++c) {
      const std::int32_t position = step.candidates.position.as<std::int32_t>()[c];
      ours["masked"].push_back(position);
      if (!decides_mask(step.candidates.accept.as<std::uint8_t>()[c])) continue;
      ours["committed"].push_back({position, step.candidates.token.as<std::int32_t>()[c]});
    }
    for (const auto& [name, value] : ours.items()) {
      if (value == want.at(name)) continue;
      difference_ =
          fmt::format("forward {}: {} {}, golden {}", i, name, value.dump(), want.at(name).dump());
      return;
    }
  }

  // Recorded events are differences between inputs: those of forward i at rows of it and of the next.
  json seen_twice(std::size_t i, json events) const {
    const json& forwards = golden_.at("forwards");
    const auto misses = [&](std::size_t forward, const json& event) {
      const json& at = event.is_array() ? event.at(0) : event;
      return std::ranges::none_of(forwards[std::min(forward, forwards.size() - 1)].at("pos"),
                                  [&](const json& r) { return r.at(0) <= at && at < r.at(1); });
    };
    if (forwards.empty()) throw environment_error("`forwards` is empty");
    std::erase_if(events.get_ref<json::array_t&>(),
                  [&](const json& event) { return misses(i, event) || misses(i + 1, event); });
    return events;
  }

  // What the forward decided, as the registry's runs list it: [position, token] of masks, [position,
  // old, new] of replaced tokens, positions of reopened ones. A mask decided as a mask is not listed, nor is
  // its being masked again.
  void compare_events(std::size_t i, const json& want, const step_view& step) {
    json ours = {
        {"decided", json::array()}, {"edited", json::array()}, {"reopened", json::array()}};
    const std::int32_t* canvas = step.state.canvas().row<std::int32_t>(0);
    for (std::int32_t c = 0; c < step.candidates.count; ++c) {
      const auto position = step.candidates.position.as<std::int32_t>()[c];
      const auto token = step.candidates.token.as<std::int32_t>()[c];
      const std::uint8_t what = step.candidates.accept.as<std::uint8_t>()[c];
      if (decides_mask(what) && token != model_.config().mask_id) {
        ours["decided"].push_back({position, token});
      }
      if (what == decision_replace) ours["edited"].push_back({position, canvas[position], token});
      if (what == decision_reopen && canvas[position] != model_.config().mask_id) {
        ours["reopened"].push_back(position);
      }
    }
    for (const auto& [name, events] : ours.items()) {
      if (!want.contains(name) || seen_twice(i, events) == seen_twice(i, want.at(name))) continue;
      difference_ =
          fmt::format("forward {}: {} {}, golden {}", i, name, events.dump(), want.at(name).dump());
      return;
    }
  }

  // FOCUS: budget, mean and ranking. The mean is null in the official trace before a first step,
  // where the engine's own arithmetic assumes one token.
  void add_eviction(const json& want, json& ours) {
    const method_report told = views_.reports.at("eviction")(0);
    const auto number = [&](const char* name) {
      const auto at = told.numbers.find(name);
      return at == told.numbers.end() ? 0.0 : at->second;
    };
    const auto score = told.arrays.find("score");
    const bool engine = golden_.at("params").at("preset") == "engine";
    const auto masked = recorded_number(want.at("masked"));
    const auto budget = static_cast<std::int32_t>(number("budget"));
    ours["evict"] = score != told.arrays.end();
    ours["target"] = engine ? std::min(budget, masked) : budget;
    const auto near = [](double a, double b) { return std::abs(a - b) <= 1e-5; };
    const double mean = number("average");
    const double average = mean > 0 ? mean : engine ? 1.0 : -1.0;
    const double golden = want.at("avg").is_null() ? -1.0 : want.at("avg").get<double>();
    ours["avg"] = near(average, golden) ? want.at("avg") : json(average);
    if (want.contains("rightmost_after")) {
      ours["rightmost_after"] = static_cast<std::int32_t>(number("processed_end")) - 1 -
                                recorded_number(want.at("block_start"));
    }
    if (!want.contains("delta")) return;
    // Sums over heads and queries in float32 on both sides.
    const auto delta = want.at("delta").get<std::vector<double>>();
    const std::vector<float> got =
        score == told.arrays.end() ? std::vector<float>() : score->second;
    bool same = got.size() == delta.size();
    for (std::size_t j = 0; same && j < delta.size(); ++j) {
      same = std::abs(got[j] - delta[j]) <= 1e-3;
    }
    ours["delta"] = same ? want.at("delta") : json(got);
  }

  const json& golden_;
  const transformer& model_;
  recipe_views views_;
  std::int64_t late_layers_;
  std::size_t forward_ = 0, trace_ = 0;
  std::int64_t steps_ = 0, processed_ = 0, commits_ = 0;
  std::string difference_;
};

std::int64_t total_rows(const json& golden) {
  std::int64_t rows = 0;
  for (const json& f : golden.at("forwards")) rows += f.at("rows").get<std::int64_t>();
  return rows;
}

// 0 of suffix positions that stay, 1 of the others, per block.
std::vector<std::vector<float>> draws_that_keep(const json& golden, std::size_t length) {
  std::vector<std::vector<float>> draws;
  auto first = golden.at("prompt_ids").size();
  for (const json& ranges : golden.at("suffix_kept")) {
    first += golden.at("params").at("block_length").get<std::size_t>();
    if (first > length) throw environment_error("`suffix_kept` goes beyond the canvas");
    draws.emplace_back(length - first, 1.0F);
    for (const json& range : ranges) {
      const std::int32_t last = std::min(recorded_number(range.at(1)), 1 << 24);
      for (std::int32_t p = recorded_number(range.at(0)); p < last; ++p) {
        draws.back().at(static_cast<std::size_t>(p) - first) = 0;
      }
    }
  }
  return draws;
}

// What the run was decoded with, in this program's own words; or in those of the official code.
recipe method_of(const json& golden, const method_info& how, const std::string& runs,
                 const model_config& model) {
  const json& params = golden.at("params");
  if (!golden.contains("settings")) {
    return test::recipe_of(how.name, model, how.official.at(runs)(recorded_parameters(params)));
  }
  return test::recipe_of(how.name, model, recorded_parameters(golden.at("settings")),
                         golden.value("preset", ""));
}

// False of a run that the program ended with a sentence, where that is what the golden run says.
bool runs_to_its_end(step_loop& loop, bool may_be_refused) {
  try {
    while (loop.step()) {
    }
  } catch (const error& said) {
    if (!may_be_refused || said.code() != exit_code::run_failed) throw;
    return false;
  }
  return true;
}

// Two logits that are nearer than this may change places where sums are added in another order.
constexpr double near_tie = 3e-5;

// The smallest recorded gap between the two largest logits; nothing: it was not recorded.
std::optional<double> smallest_gap(const json& golden) {
  const json margins = golden.value("margins", json::object());
  const auto at = margins.find("min_top2_logit_gap");
  if (at == margins.end() || !at->is_number()) return {};
  return at->get<double>();
}

// How a run differs from the recorded one; empty: not at all. `canvas` becomes what it left.
std::string run_case(const json& golden, const method_info& how, const std::string& runs,
                     const transformer& model, const recorded_pictures& shown,
                     std::vector<std::int32_t>& canvas) {
  const json& params = golden.at("params");
  sequence_request request{
      with_picture_rows(recorded_numbers(golden.at("prompt_ids")), recorded_picture_row(golden)),
      recorded_number(params.at("gen_length")),
      0,
      {}};
  request.grids = shown.grids;
  std::optional<refusal> refused;
  if (params.contains("suppressed_ids")) {
    refused.emplace(model.head(), recorded_numbers(params.at("suppressed_ids")));
  }
  for (const char* draws : {"random_uniforms", "suffix_uniforms"}) {
    if (golden.contains(draws)) golden.at(draws).get_to(request.recorded_uniforms);
  }
  recipe r = method_of(golden, how, runs, model.config());
  const std::int32_t length = r.pace->canvas_length(model.config(), request);
  if (golden.contains("suffix_kept") && request.recorded_uniforms.empty()) {
    request.recorded_uniforms = draws_that_keep(golden, static_cast<std::size_t>(length));
  }
  replay watcher(golden, model, r);
  step_loop loop(model, std::move(r), {1, length, 0, false, shown.count()});
  loop.observe(&watcher);
  loop.admit(request, 0, shown.view());
  const bool ended = runs_to_its_end(loop, golden.value("refused", false));
  canvas = loop.canvas(0);
  if (!watcher.difference().empty()) return watcher.difference();
  if (!ended) return watcher.refused_at_its_end();
  if (golden.value("refused", false)) return "nothing was unmasked, and the program did not say so";
  const auto want = recorded_numbers(golden.at("output_ids"));
  // What these loops return holds more than was decided: the end token, or masks, behind the answer.
  const bool fills = params.contains("early_stop") || params.contains("early_termination") ||
                     params.contains("confidence_alpha") || params.contains("eot_token");
  const std::vector<std::int32_t> got = fills ? loop.canvas(0) : loop.output(0);
  if (got != want) {
    const auto at = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
    return fmt::format("output differs at token {} (lengths {} and {})", at.first - got.begin(),
                       got.size(), want.size());
  }
  if (golden.contains("canvas_ids")) {
    const auto recorded = recorded_numbers(golden.at("canvas_ids"));
    std::vector<std::int32_t> ours = loop.canvas(0);
    ours.resize(
        std::min(ours.size(), recorded.size()));  // a stopped run leaves later blocks closed
    if (ours != recorded) return "canvas differs";
  }
  const auto nfe = golden.at("nfe").get<std::size_t>();
  if (watcher.forwards() != nfe) {
    return fmt::format("{} forwards, golden {}", watcher.forwards(), nfe);
  }
  const auto& counters = loop.state().at(0).counters;
  const std::int64_t rows = total_rows(golden);
  if (counters.rows != rows || counters.forwards != static_cast<std::int64_t>(nfe)) {
    return fmt::format("counted {} rows in {} forwards, golden {} in {}", counters.rows,
                       counters.forwards, rows, nfe);
  }
  return watcher.compare_counters();
}

bool wanted(const golden_options& options, const std::string& golden, const std::string& method) {
  if (options.methods.empty()) return true;
  const auto has = [&](const std::string& name) {
    return std::find(options.methods.begin(), options.methods.end(), name) != options.methods.end();
  };
  return has(golden) || has(method);
}

// The recorded runs of one file after another.
class recordings {
 public:
  explicit recordings(const golden_options& options) : options_(options) {}

  // A line that is no recorded run fails, and the others are replayed.
  void replay_file(const std::filesystem::path& file) {
    const std::string name = file.stem().string();
    const method_registry& all = method_registry::instance();
    const method_info* how = all.replaying(name);
    if (how == nullptr && std::ranges::count(all.names(), name) > 0) how = &all.find(name);
    if (!wanted(options_, name, how == nullptr ? name : how->name)) return;
    std::istringstream in(read_file(file, std::size_t{1} << 30));
    int number = 0, taken = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.empty()) continue;
      try {
        replay_line(json::parse(line), name, how, taken);
      } catch (const std::exception& problem) {
        say(file, number, problem);
      }
    }
  }

  golden_summary sum;

 private:
  void say(const std::filesystem::path& file, int number, const std::exception& problem) {
    ++sum.failed;
    print("FAIL {}:{}  not a run that can be replayed: {}\n", file.string(), number,
          recording_problem(problem));
  }

  void replay_line(const json& golden, const std::string& name, const method_info* how,
                   int& taken) {
    const std::string id = golden.at("id").get<std::string>();
    if ((options_.limit > 0 && taken == options_.limit) ||
        (options_.max_rows > 0 && total_rows(golden) > options_.max_rows) ||
        !is_dealt(golden.at("model"))) {
      ++sum.left_out;
      return;
    }
    ++taken;
    if (how == nullptr) {
      ++sum.skipped;
      if (!options_.quiet)
        print("SKIP {}  no method translates the recordings of '{}'\n", id, name);
      return;
    }
    const std::filesystem::path directory =
        options_.directory / "models" / golden.at("model").get<std::string>();
    const recorded_pictures shown = pictures_of(golden, options_, directory);
    const std::optional<double> gap = smallest_gap(golden);
    std::vector<std::int32_t> canvas;
    std::string difference =
        run_case(golden, *how, name, model_of(golden.at("model"), options_.share), shown, canvas);
    std::string note;
    if (!difference.empty() && options_.share.ranks > 1 && gap.value_or(1) < near_tie &&
        is_of_one_process(golden, *how, name, shown, canvas)) {
      note = fmt::format("  a near tie: {}; {} pieces of one process say the same", difference,
                         options_.share.pieces);
      difference.clear();
    }
    (difference.empty() ? sum.passed : sum.failed)++;
    if (options_.quiet && difference.empty() && note.empty()) return;
    print("{} {}  smallest gap {}{}{}\n", difference.empty() ? "PASS" : "FAIL", id,
          gap ? fmt::format("{:.3g}", *gap) : "not recorded", note,
          difference.empty() ? "" : "  " + difference);
  }

  // Whether one process that adds as many pieces leaves the same canvas.
  bool is_of_one_process(const json& golden, const method_info& how, const std::string& name,
                         const recorded_pictures& shown, const std::vector<std::int32_t>& canvas) {
    const ranks_in_force alone(nullptr);
    std::vector<std::int32_t> other;
    model_share whole = options_.share;
    whole.rank = 0;
    whole.ranks = 1;
    run_case(golden, how, name, model_of(golden.at("model"), whole), shown, other);
    return other == canvas;
  }

  std::filesystem::path folder_of(const json& model) const {
    const auto name = model.get<std::string>();
    if (std::filesystem::path(name).filename() != name) {
      throw environment_error("`model` names no folder of models/");
    }
    return options_.directory / "models" / name;
  }

  bool is_dealt(const json& model) {
    if (!options_.share.is_cut()) return true;
    const std::filesystem::path directory = folder_of(model);
    const auto [at, is_new] = dealt_.try_emplace(directory, false);
    if (is_new) at->second = can_be_dealt(read_model_config(directory), options_.share);
    return at->second;
  }

  const transformer& model_of(const json& model, const model_share& share) {
    const std::filesystem::path directory = folder_of(model);
    std::unique_ptr<transformer>& there = models_[{directory, share.ranks}];
    if (!there) {
      const model_config config = read_model_config(directory);
      there = std::make_unique<transformer>(
          config, load_weights(config, directory, true, text_alone), *options_.backend,
          weight_format::f32, 256, dtype::f32, share);
    }
    return *there;
  }

  const golden_options& options_;
  std::map<std::pair<std::filesystem::path, std::int32_t>, std::unique_ptr<transformer>> models_;
  std::map<std::filesystem::path, bool> dealt_;
};

}  // namespace

bool can_be_dealt(const model_config& whole, const model_share& share) {
  try {
    check_share(whole, share, weight_format::f32);
  } catch (const error&) {
    return false;
  }
  return true;
}

golden_summary replay_decode(const golden_options& options) {
  const std::filesystem::path folder = options.directory / "decode";
  if (!std::filesystem::is_directory(folder)) {
    throw environment_error("no golden runs: " + folder.string() + " is not a directory");
  }
  recordings all(options);
  for (const std::filesystem::path& file : entries_of(folder)) all.replay_file(file);
  return all.sum;
}

}  // namespace unmask
