// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

TEST(record, tokens_are_counted_up_to_the_first_stop) {
  answer_record a = good_answer();
  EXPECT_EQ(output_tokens_of(a, rules), 3);
  EXPECT_EQ(answer_tokens_of(a, rules), 2);
  a.tokens = {7, 8};
  EXPECT_EQ(output_tokens_of(a, rules), 2);
  EXPECT_EQ(answer_tokens_of(a, rules), 2);
  a.tokens = {};
  EXPECT_EQ(output_tokens_of(a, rules), 0);
  EXPECT_EQ(answer_tokens_of(a, rules), 0);
}

// Two answers, each 3 tokens up to EOS, 1 after it, 2 beyond the answer = 6 decided; mean pass 1 s.
TEST(record, metrics_of_a_good_point) {
  const result_row row = sample_row();
  // Passes of 1.0, 1.2 and 0.8 s: a mean known to half of itself.
  EXPECT_EQ(row.verdict, row_verdict::noisy) << row.reason;
  EXPECT_EQ(row.reason, "the speed is known to ±50 % only, from 3 repetitions");
  EXPECT_TRUE(is_reportable(row));
  const auto value = [&](const char* name) { return row.value_of(name).value_or(-1); };
  EXPECT_EQ(value("output_tokens"), 6);
  EXPECT_EQ(value("answer_tokens"), 4);
  EXPECT_EQ(value("tokens_after_eos"), 2);
  EXPECT_EQ(value("tokens_beyond_answer"), 4);
  EXPECT_EQ(value("committed"), 12);
  EXPECT_EQ(value("committed"),
            value("output_tokens") + value("tokens_after_eos") + value("tokens_beyond_answer"));
  EXPECT_DOUBLE_EQ(value("tokens_per_second"), 6);
  EXPECT_DOUBLE_EQ(value("canvas_tokens_per_second"), 12);
  EXPECT_DOUBLE_EQ(value("tpf"), 1);
  EXPECT_DOUBLE_EQ(value("committed_per_step"), 2);
  EXPECT_DOUBLE_EQ(value("redundancy"), 4);
  EXPECT_DOUBLE_EQ(value("token_utilisation"), 0.25);
  // Five layers, 0 to 4: two answers with 18 rows in layers 2, 3 and 4 are 12 rows a layer.
  EXPECT_DOUBLE_EQ(value("processed_rows"), 12);
  EXPECT_DOUBLE_EQ(value("processed_rows_per_committed"), 1);
  EXPECT_DOUBLE_EQ(value("processed_rows_per_output"), 2);
  EXPECT_EQ(row.metrics.at("tokens_per_second").from, origin::measured);
  EXPECT_EQ(row.metrics.at("flops").from, origin::analytic);
  EXPECT_EQ(row.metrics.at("nfe").from, origin::counted);
  ASSERT_TRUE(row.score);
  EXPECT_EQ(row.score->mean, 0.5);
  EXPECT_EQ(row.score->exact, 1);
  EXPECT_EQ(row.samples.seconds, (std::vector<double>{1.0, 1.2, 0.8}));
  EXPECT_FALSE(row.value_of("e2e_p50_seconds"));  // two requests earn no median
}

// What the items count adds up to what the row counts: the parts of its ratios.
TEST(record, items_keep_the_counts_that_ratios_are_made_of) {
  measured_point point = good_point();
  point.keep_items = true;
  for (pass_record& pass : point.passes) pass.answers.at(1).work.forwards = 5;
  result_row row;
  row.model.layers = 5;
  measure_row(row, point);
  using counts = std::vector<std::int64_t>;
  EXPECT_EQ(row.items.forwards, (counts{3, 5}));
  EXPECT_EQ(row.value_of("nfe"), 8);
  EXPECT_EQ(row.items.denoise_steps, (counts{3, 3}));
  EXPECT_EQ(row.items.committed, (counts{6, 6}));
  EXPECT_EQ(row.items.decode_rows, (counts{24, 24}));
  EXPECT_EQ(row.items.late_layer_rows, (counts{18, 18}));
  EXPECT_EQ(row.items.rows.size(), 2u);
  point.keep_items = false;
  result_row without;
  measure_row(without, point);
  EXPECT_TRUE(without.items.forwards.empty());
}

// The first text repeats 2 of its 8 sequences of four words; the second is too short to have any.
TEST(record, items_keep_how_often_judged_texts_repeat_themselves) {
  measured_point point = good_point();
  point.keep_items = true;
  result_row of_answers;
  measure_row(of_answers, point);
  EXPECT_TRUE(of_answers.items.sequences.empty());
  EXPECT_TRUE(of_answers.items.repeated_sequences.empty());
  point.scores.at(0).measures = {{"reference_likelihood", 0.4, 1}, {"repeated_sequences", 2, 8}};
  point.scores.at(1).measures = {{"repeated_sequences", 0, 0}};
  result_row row;
  measure_row(row, point);
  using counts = std::vector<std::int64_t>;
  EXPECT_EQ(row.items.sequences, (counts{8, 0}));
  EXPECT_EQ(row.items.repeated_sequences, (counts{2, 0}));
  ASSERT_TRUE(row.score);
  EXPECT_DOUBLE_EQ(row.score->beside.at("repeated_sequences"), 2.0 / 8);
  const auto written = nlohmann::json::parse(to_json_line(row)).at("items");
  EXPECT_EQ(written.at("sequences").get<counts>(), row.items.sequences);
  EXPECT_EQ(written.at("repeated_sequences").get<counts>(), row.items.repeated_sequences);
}

TEST(record, percentiles_appear_when_the_count_earns_them) {
  measured_point point = good_point();
  point.passes = {good_pass(10, 6)};
  result_row row;
  measure_row(row, point);
  EXPECT_DOUBLE_EQ(row.value_of("e2e_p50_seconds").value_or(0), 0.5);
  EXPECT_FALSE(row.value_of("e2e_p95_seconds"));
}

// Nothing that the loop counts is lost on the way to a row.
TEST(record, every_counter_is_a_metric) {
  measured_point point = good_point();
  double count = 1;
  for (const counter_spec& c : counter_list()) {
    std::visit(
        [&](const auto member) {
          using number = std::remove_reference_t<decltype(sequence_counters{}.*member)>;
          point.passes[0].answers[0].work.*member = static_cast<number>(count);
          point.passes[0].answers[1].work.*member = static_cast<number>(2 * count);
        },
        c.field);
    ++count;
  }
  result_row row;
  measure_row(row, point);
  count = 1;
  for (const counter_spec& c : counter_list()) {
    EXPECT_EQ(row.value_of(c.metric), 3 * count++) << c.metric;
    EXPECT_EQ(row.metrics.at(c.metric).from, c.counted() ? origin::counted : origin::analytic);
  }
  for (const ratio_spec& r : ratio_list()) {
    if (std::string(r.over).starts_with("processed")) continue;
    EXPECT_TRUE(row.value_of(r.name)) << r.name;
  }
}

// Nor what a pass adds up: the number of the first pass, or a time's share of 10 s in each.
TEST(record, every_total_is_a_metric_as_its_list_says) {
  measured_point point = good_point();
  point.passes.pop_back();
  for (pass_record& pass : point.passes) {
    pass.steps = 7;
    pass.peak_kv_bytes = 2048;
    pass.state_bytes = 17;
    pass.recording_seconds = 0.25;
    pass.step_seconds = 8;
    pass.planning_seconds = 2;
    pass.selection_seconds = 4;
    pass.rule_seconds = 1;
  }
  pass_record& second = point.passes[1];
  second.steps = 8;
  second.peak_kv_bytes = 1024;
  second.state_bytes = 18;
  second.recording_seconds = 0.5;
  second.selection_seconds = 2;
  result_row row, bare;
  measure_row(row, point);
  const std::map<std::string, metric> want = {
      {"batched_forwards", {7, origin::counted}},
      {"peak_kv_bytes", {2048, origin::counted}},
      {"state_bytes", {17, origin::counted}},
      {"recording_seconds", {0.25, origin::measured}},
      {"selection_share", {0.3, origin::measured, {0.4, 0.2}}},
      {"rule_share", {0.1, origin::measured, {0.1, 0.1}}},
      {"planning_share", {0.2, origin::measured, {0.2, 0.2}}}};
  for (const auto& [name, m] : want) {
    EXPECT_NEAR(row.value_of(name).value_or(-1), m.value, 1e-12) << name;
    EXPECT_EQ(row.metrics[name].from, m.from) << name;
    EXPECT_EQ(row.metrics[name].samples, m.samples) << name;
  }
  std::size_t told = 0;
  for (const total_spec& t : total_list()) {
    if (t.told == told_as::nothing) continue;
    EXPECT_TRUE(want.contains(t.metric)) << t.metric;
    ++told;
  }
  EXPECT_EQ(told, want.size());
  // Of a pass without times and without a report of state, the counts alone are told.
  for (pass_record& pass : point.passes) {
    static_cast<pass_totals&>(pass) = {};
    pass.steps = 7;
  }
  measure_row(bare, point);
  for (const auto& [name, m] : want) {
    EXPECT_EQ(bare.value_of(name).has_value(),
              name == "batched_forwards" || name == "peak_kv_bytes")
        << name;
  }
}

TEST(record, results_are_documented_as_the_program_knows_them) {
  std::ifstream file(std::string(UNMASK_SOURCE_DIR) + "/results/FORMAT.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> lines;
  for (const counter_spec& c : counter_list()) {
    lines.push_back("| `" + std::string(c.metric) + "` | " + c.unit + " | " +
                    (c.counted() ? "counted" : "analytic") + " | " + c.meaning + " |");
  }
  for (const total_spec& t : total_list()) {
    if (t.told == told_as::nothing) continue;
    lines.push_back("| `" + std::string(t.metric) + "` | " +
                    (t.told == told_as::share ? "–" : t.unit) + " | " +
                    (t.counted() ? "counted" : "measured") + " | " + t.meaning + " |");
  }
  for (const ratio_spec& r : ratio_list()) {
    lines.push_back("| `" + std::string(r.name) + "` | " + r.unit + " | counted | `" + r.over +
                    "` / `" + r.under + "`: " + r.meaning + " |");
  }
  for (const std::string& line : lines) {
    EXPECT_NE(text.find(line + "\n"), std::string::npos)
        << "results/FORMAT.md does not hold this line:\n"
        << line;
  }
}

// Names in back quotes anywhere in the table of fields: a field that is written and not explained is
// missing there.
TEST(record, every_field_of_a_row_and_every_key_of_run_is_documented) {
  std::ifstream file(std::string(UNMASK_SOURCE_DIR) + "/results/FORMAT.md");
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = whole.find("\n| field | meaning |");
  const std::size_t end = whole.find("\n## ", begin);
  ASSERT_NE(begin, std::string::npos);
  const std::string table = whole.substr(begin, end - begin);
  // A row in which nothing is absent.
  result_row row = sample_row();
  row.experiment = {"a.toml", "focus", "table_2", "tiny"};
  row.model.caution = row.model.checked = row.model.chat_template = row.workload.rater =
      row.workload.prompts_hash = row.answers_hash = "x";
  row.workload.benchmark = {"h", "v", "c", "p", "s", "m", 1, 2, 3};
  row.score =
      score_record{0.5, 1, 2, 0.1, 0.9, 3, 0.6, {0.5, 0.7}, {{"b", 0.5}}, 0.25, {{"l", "1"}}};
  row.samples.taken_up = 1;
  row.device.emplace();
  row.items.id = row.items.answer_hash = {"a"};
  row.items.score = {1};
  row.items.exact = {true};
  row.items.output_tokens = {1};
  row.items.seconds = {{1}};
  row.items.forwards = row.items.denoise_steps = row.items.committed = row.items.rows =
      row.items.decode_rows = row.items.late_layer_rows = row.items.sequences =
          row.items.repeated_sequences = {1};
  row.probes["decoding"] = row.calibration = "{}";
  row.metrics["tpf"].samples = {1, 2};
  row.run.kind = "serve";
  const auto written = nlohmann::json::parse(to_json_line(row));
  std::set<std::string> fields;
  for (const auto& [name, value] : written.items()) fields.insert(name);
  for (const char* inside : {"experiment", "model", "workload", "score", "samples", "items"}) {
    for (const auto& [name, value] : written.at(inside).items()) fields.insert(name);
  }
  for (const auto& [name, value] : written.at("workload").at("benchmark").items()) {
    fields.insert(name);
  }
  for (const run_key& key : run_key_list()) fields.insert(key.name);
  EXPECT_GT(fields.size(), 60u);
  for (const std::string& name : fields) {
    EXPECT_TRUE(table.find("`" + name + "`") != std::string::npos ||
                table.find("." + name + "`") != std::string::npos)
        << "results/FORMAT.md does not explain `" << name << "`";
  }
  EXPECT_NE(whole.find("This page describes " + std::to_string(row_schema_major) + "." +
                       std::to_string(row_schema_minor) + ":"),
            std::string::npos);
  for (int v = 0; v <= static_cast<int>(row_verdict::inactive); ++v) {
    const std::string name = name_of(static_cast<row_verdict>(v));
    EXPECT_NE(whole.find("\n| " + name + " | "), std::string::npos) << name;
  }
}

measured_point point_of(const std::vector<machine_use>& uses) {
  measured_point point = good_point();
  point.passes.clear();
  for (const machine_use& use : uses) {
    point.passes.push_back(good_pass(use.seconds));
    point.passes.back().use = use;
  }
  return point;
}

machine_use use_of(double seconds, double own_share, double other_share) {
  return {.seconds = seconds,
          .own_seconds = seconds * 2 * own_share,
          .other_seconds = seconds * 2 * other_share,
          .processors = 2,
          .threads = 2};
}

// Of threads that spin while they wait, whatever the environment of the tests asks for.
result_row judged(const measured_point& point) {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) unsetenv(name);
  result_row row;
  measure_row(row, point);
  return row;
}

// Three passes that are equally slow have no spread: who used the processors says it.
TEST(record, a_steady_disturbance_makes_a_row_noisy) {
  const machine_use quiet = use_of(1, 0.89, 0.01), busy = use_of(1, 0.5, 0.48);
  EXPECT_EQ(judged(point_of({quiet, quiet, quiet})).verdict, row_verdict::pass);
  const result_row row = judged(point_of({busy, busy, busy}));
  EXPECT_EQ(row.verdict, row_verdict::noisy);
  EXPECT_EQ(row.reason, "other work on the machine took about 50 % of the processors");
  EXPECT_EQ(row.samples.disturbance, row.reason);
  EXPECT_EQ(row.samples.own_share, (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(row.samples.other_share, (std::vector<double>{0.48, 0.48, 0.48}));
  const result_row read = parse_row(to_json_line(row), "x");
  EXPECT_EQ(read.samples.own_share, row.samples.own_share);
  EXPECT_EQ(read.samples.disturbance, row.samples.disturbance);
}

TEST(record, a_process_that_was_stopped_in_its_only_pass_is_seen) {
  const result_row row = judged(point_of({use_of(8, 0.22, 0.01)}));
  EXPECT_EQ(row.verdict, row_verdict::noisy);
  EXPECT_NE(row.reason.find("about 20 % of its threads' time"), std::string::npos) << row.reason;
}

TEST(record, a_row_without_a_score_keeps_its_verdict_and_tells_of_the_disturbance) {
  measured_point point = point_of({use_of(1, 0.5, 0.48)});
  for (scored_answer& s : point.scores) s.scored = false;
  const result_row row = judged(point);
  EXPECT_EQ(row.verdict, row_verdict::not_verified);
  EXPECT_NE(row.reason.find("; other work on the machine took about 50 %"), std::string::npos);
}

// Requests that arrive are waited for, and a virtual clock does not see the machine.
TEST(record, waiting_for_requests_is_no_disturbance) {
  measured_point served = point_of({use_of(1, 0.1, 0.01)});
  served.passes[0].served = true;
  EXPECT_EQ(judged(served).samples.disturbance, "");
  measured_point modelled = point_of({use_of(1, 0.1, 0.9)});
  modelled.passes[0].time = origin::analytic;
  EXPECT_EQ(judged(modelled).samples.disturbance, "");
  EXPECT_TRUE(judged(modelled).samples.own_share.empty());
}

// Ten passes, one of which was stopped for 25 s. By hand: 6 tokens in the median pass of 1 s; the mean of
// 3.51 s would say 1.7 tokens a second.
TEST(record, one_outlier_does_not_decide_the_speed) {
  std::vector<machine_use> uses(9, use_of(1, 0.89, 0.01));
  uses.push_back(use_of(26.1, 0.034, 0.01));
  const result_row row = judged(point_of(uses));
  EXPECT_EQ(row.verdict, row_verdict::noisy);
  EXPECT_TRUE(row.samples.median);
  EXPECT_DOUBLE_EQ(row.value_of("wall_seconds").value(), 1);
  EXPECT_DOUBLE_EQ(row.value_of("tokens_per_second").value(), 6);
  EXPECT_FALSE(judged(point_of({use_of(1, 0.89, 0), use_of(1.4, 0.89, 0), use_of(1, 0.89, 0)}))
                   .samples.median);
}

TEST(record, a_batch_that_was_never_full_is_told) {
  result_row row;
  row.run.batch_size = 64;
  measure_row(row, point_of({use_of(1, 0.89, 0)}));
  EXPECT_EQ(row.verdict, row_verdict::pass);
  EXPECT_EQ(row.reason, "batch_size is 64, but no batch held more than the 2 items there are");
}

TEST(record, requests_that_never_fit_are_told) {
  pass_record pass = good_pass(0, 0);
  pass.served = true;
  pass.metrics["requests_rejected"] = {3, origin::counted};
  EXPECT_EQ(
      broken_law(pass, rules),
      "no request was answered to its end: 3 were rejected, because they need more pages than "
      "there are");
}

// Where no answer ends, either all were cut or nothing stops them: what is behind an answer counts then.
TEST(record, a_pass_without_an_end_says_so) {
  const auto reason_of = [](std::vector<std::int32_t> tokens) {
    measured_point point = good_point();
    for (pass_record& pass : point.passes) {
      pass.seconds = 1;
      for (answer_record& a : pass.answers) {
        a.tokens = tokens;
        a.work.committed = static_cast<std::int64_t>(tokens.size());
      }
    }
    result_row row;
    measure_row(row, point);
    EXPECT_EQ(row.verdict, row_verdict::pass) << row.reason;
    return row.reason;
  };
  EXPECT_EQ(reason_of({3, 2, 4}), "");  // 2 is the stop token
  EXPECT_EQ(reason_of({3, 5, 4}),
            "no answer ended at a stop token: their length cut them, or the stop token is wrong");
}

// A setting that never acted makes a row of something else, and the row says so.
TEST(record, a_knob_that_changed_nothing_is_inactive) {
  const auto judged = [](std::int64_t dropped, bool scored) {
    measured_point point = good_point();
    point.knobs = {{"alpha = 0.5", "rows_dropped"}, {"steps = 8", "nfe"}};
    for (pass_record& pass : point.passes) {
      pass.answers[0].work.rows_dropped = dropped;
      pass.seconds = 1;
    }
    for (scored_answer& s : point.scores) s.scored = scored;
    result_row row;
    measure_row(row, point);
    return row;
  };
  EXPECT_EQ(judged(1, true).verdict, row_verdict::pass);
  const result_row idle = judged(0, true);
  EXPECT_EQ(idle.verdict, row_verdict::inactive);
  EXPECT_EQ(idle.reason, "alpha = 0.5 changed nothing (rows_dropped is 0)");
  EXPECT_TRUE(idle.score);
  EXPECT_TRUE(is_reportable(idle));
  EXPECT_EQ(parse_row(to_json_line(idle), "x").verdict, row_verdict::inactive);
  EXPECT_NE(judged(0, false).reason.find("no item of this workload"), std::string::npos);
}

TEST(record, rows_of_later_layers_need_layers) {
  const auto processed = [](std::int64_t layers, double keys, std::int32_t first = 2) {
    measured_point point = good_point();
    point.first_late_layer = first;
    for (answer_record& a : point.passes[0].answers) a.work.keys_seen = keys;
    result_row row;
    row.model.layers = layers;
    measure_row(row, point);
    return row.value_of("processed_rows");
  };
  EXPECT_EQ(processed(3, 100), 36);
  EXPECT_FALSE(processed(2, 100));
  EXPECT_FALSE(processed(0, 100));      // a row of before
  EXPECT_EQ(processed(9, 100, 6), 12);  // a method that drops rows in layer 5
  EXPECT_FALSE(processed(6, 100, 6));
  EXPECT_FALSE(processed(3, 0));  // decisions from elsewhere: no layer was computed
}

// One planted fault for every law.
TEST(record, each_broken_law_is_found) {
  using fault = void (*)(pass_record&);
  const std::vector<std::pair<const char*, fault>> faults = {
      {"only 3 were unmasked", [](pass_record& p) { p.answers[1].work.committed = 3; }},
      {"response of 5", [](pass_record& p) { p.answers[0].canvas_tokens = 5; }},
      {"committed is 6, more than the 5 of head_rows",
       [](pass_record& p) { p.answers[0].work.head_rows = 5; }},
      {"still holds masks", [](pass_record& p) { p.answers[0].tokens[0] = 99; }},
      {"outside the vocabulary", [](pass_record& p) { p.answers[0].tokens[0] = 100; }},
      {"outside the vocabulary", [](pass_record& p) { p.answers[0].tokens[0] = -1; }},
      {"times do not fit", [](pass_record& p) { p.answers[0].seconds = std::nan(""); }},
      {"times do not fit", [](pass_record& p) { p.answers[0].first_block_seconds = 0.6; }},
      {"longer than the whole pass", [](pass_record& p) { p.answers[0].seconds = 2; }},
      {"layer_rows is negative", [](pass_record& p) { p.answers[0].work.layer_rows = -1; }},
      {"not finite",
       [](pass_record& p) { p.answers[0].work.flops = std::numeric_limits<double>::infinity(); }},
      {"not finite", [](pass_record& p) { p.answers[0].work.keys_seen = std::nan(""); }},
      {"decode_rows is 25, more than the 24 of rows",
       [](pass_record& p) { p.answers[0].work.decode_rows = 25; }},
      {"the pass took", [](pass_record& p) { p.seconds = 0; }},
      {"the pass took", [](pass_record& p) { p.seconds = std::nan(""); }},
      {"no requests", [](pass_record& p) { p.answers.clear(); }}};
  EXPECT_EQ(broken_law(good_pass(), rules), "");
  for (const auto& [sentence, plant] : faults) {
    pass_record pass = good_pass();
    plant(pass);
    EXPECT_NE(broken_law(pass, rules).find(sentence), std::string::npos)
        << sentence << " / " << broken_law(pass, rules);
    measured_point point = good_point();
    point.passes = {pass};
    result_row row;
    measure_row(row, point);
    EXPECT_EQ(row.verdict, row_verdict::invalid) << sentence;
    EXPECT_FALSE(row.score) << sentence;
  }
}

TEST(record, kernels_that_were_not_checked_or_not_used_mark_the_row) {
  const auto row_with = [](const char* checked) {
    result_row row;
    row.model.checked = checked;
    measure_row(row, good_point());
    return row;
  };
  EXPECT_EQ(row_with("95 cases right").verdict, row_with("").verdict);
  EXPECT_EQ(row_with("95 cases right").reason, row_with("").reason);
  const result_row other = row_with("95 cases right; not used: attention by wgmma (w)");
  EXPECT_EQ(other.verdict, row_with("").verdict);
  EXPECT_TRUE(other.reason.starts_with("device check: not used: attention by wgmma (w)"));
  const result_row off = row_with("NOT VERIFIED");
  EXPECT_EQ(off.verdict, row_verdict::not_verified);
  EXPECT_TRUE(off.reason.starts_with("device_check is off"));
}

// CUDA graphs are recorded while the clock stands still; shares are of steps that the host divided.
TEST(record, recording_and_shares_are_told_where_they_are_known) {
  const auto row_of = [](double recording, double steps) {
    measured_point point = good_point();
    for (pass_record& pass : point.passes) {
      pass.recording_seconds = recording;
      pass.step_seconds = steps;
      pass.selection_seconds = steps / 4 * pass.seconds;  // of 1.0, 1.2 and 0.8 s
    }
    result_row row;
    measure_row(row, point);
    return row;
  };
  EXPECT_FALSE(row_of(0, 1).value_of("recording_seconds"));
  EXPECT_EQ(row_of(0.5, 1).value_of("recording_seconds"), 0.5);
  EXPECT_EQ(row_of(0.5, 1).value_of("tokens_per_second"), 6);
  EXPECT_NEAR(row_of(0, 1).value_of("selection_share").value_or(0), 0.25, 1e-12);
  EXPECT_EQ(row_of(0, 1).metrics.at("selection_share").samples,
            (std::vector<double>{0.25, 0.25 * 1.2, 0.25 * 0.8}));
  EXPECT_FALSE(row_of(0, 0).value_of("selection_share"));
}

TEST(record, state_is_told_where_the_method_says) {
  measured_point point = good_point();
  result_row silent, row;
  measure_row(silent, point);
  EXPECT_FALSE(silent.value_of("state_bytes"));
  for (pass_record& pass : point.passes) pass.state_bytes = 0;
  measure_row(row, point);
  EXPECT_EQ(row.value_of("state_bytes"), 0);
  EXPECT_EQ(row.metrics.at("state_bytes").from, origin::counted);
}

// Modelled times are the clock's and not the kernels'; counts are right on both.
TEST(record, emulated_kernels_are_refused_for_their_times_alone) {
  const auto reason_with = [](origin time) {
    measured_point point = good_point();
    for (pass_record& pass : point.passes) pass.time = time;
    result_row row;
    row.run.device = "cuda-emulated";
    measure_row(row, point);
    EXPECT_TRUE(row.value_of("peak_kv_bytes"));
    return row.reason;
  };
  const std::string refusal = "emulated kernels: the times mean nothing";
  EXPECT_EQ(reason_with(origin::measured), refusal);
  EXPECT_EQ(reason_with(origin::analytic), refusal);
  EXPECT_NE(reason_with(origin::synthetic), refusal);
}

TEST(record, repetitions_that_disagree_are_invalid) {
  measured_point point = good_point();
  point.passes[2].answers[1].tokens[0] = 9;
  result_row row;
  measure_row(row, point);
  EXPECT_EQ(row.verdict, row_verdict::invalid);
  EXPECT_EQ(row.reason, "repetition 3 gave other tokens than the first for request 2");
}

// Passes that an earlier run kept, with ranks that a launcher had started elsewhere: their times are others.
TEST(record, ranks_of_all_repetitions_are_connected_alike) {
  measured_point point = good_point();
  for (pass_record& pass : point.passes) pass.topology = {1, "shared memory", ""};
  result_row alike, row;
  measure_row(alike, point);
  EXPECT_NE(alike.verdict, row_verdict::invalid) << alike.reason;
  point.passes[1].topology = {2, "TCP", ""};
  measure_row(row, point);
  EXPECT_EQ(row.verdict, row_verdict::invalid);
  EXPECT_EQ(
      row.reason,
      "ranks of repetition 2 were connected by TCP on 2 machines, those of the first by shared "
      "memory on 1: unmask run --fresh measures the point anew");
}

// The mean pass takes 1 s. Request 2 unmasks 3 tokens up to EOS in two passes, 2 in the third: of 18
// tokens 17 come out, 17 / 3 in a pass. Its item is right in the first pass and in no later one.
TEST(record, answers_that_the_clock_decides_may_differ) {
  measured_point point = good_point();
  for (pass_record& pass : point.passes) pass.served = pass.answers_vary = true;
  point.passes[2].answers[1].tokens = {7, 2, 2, 2};
  point.scores = {scored(0), scored(1)};
  point.scores[1].item = 1;
  const std::vector<scored_answer> wrong = {scored(0), scored(0)};
  point.later_scores = {wrong, wrong};
  for (auto& scores : point.later_scores) scores[1].item = 1;
  result_row row;
  measure_row(row, point);
  ASSERT_TRUE(is_reportable(row)) << row.reason;
  EXPECT_TRUE(row.reason.starts_with("1 of 2 requests got other tokens in another repetition"))
      << row.reason;
  EXPECT_TRUE(row.answers_hash.empty());
  EXPECT_DOUBLE_EQ(*row.value_of("tokens_per_second"), 17.0 / 3);
  EXPECT_EQ(*row.value_of("output_tokens"), 6);
  ASSERT_TRUE(row.score);
  EXPECT_EQ(row.score->n, 2);
  EXPECT_EQ(row.score->exact, 0);
  EXPECT_DOUBLE_EQ(row.score->mean, 1.0 / 6);  // a third of one item of two

  // The same answers every time: nothing to say.
  point.passes[2].answers[1].tokens = point.passes[0].answers[1].tokens;
  result_row same;
  measure_row(same, point);
  EXPECT_EQ(same.reason.find("other tokens"), std::string::npos) << same.reason;

  // A pass that answered fewer requests stays a contradiction, and so do other tokens of a method
  // that does not decode by what runs beside it.
  point.passes[2].answers.pop_back();
  result_row fewer;
  measure_row(fewer, point);
  EXPECT_EQ(fewer.verdict, row_verdict::invalid);
}

TEST(record, missing_evidence_is_never_a_pass) {
  measured_point point = good_point();
  for (scored_answer& s : point.scores) s.scored = false;
  result_row row;
  measure_row(row, point);
  EXPECT_EQ(row.verdict, row_verdict::not_verified);
  EXPECT_FALSE(row.score);
  for (scored_answer& s : point.scores) s.note = "NOT RUN: /usr/bin/bwrap is not installed";
  result_row unsafe;
  measure_row(unsafe, point);
  EXPECT_EQ(unsafe.reason,
            "NOT RUN: /usr/bin/bwrap is not installed; the speed is known to ±50 % "
            "only, from 3 repetitions");
  result_row nothing;
  measure_row(nothing, {});
  EXPECT_EQ(nothing.verdict, row_verdict::invalid);
}

TEST(record, trials_have_a_deviation_and_what_is_undecided_is_counted) {
  measured_point point = good_point();
  point.scores = {scored(1), scored(0)};
  result_row row;
  row.workload.benchmark.trials = 2;
  measure_row(row, point);
  ASSERT_TRUE(row.score);
  EXPECT_DOUBLE_EQ(row.score->trial_deviation, std::sqrt(0.5));
  EXPECT_TRUE(std::isnan(row.score->mean_of_groups));
  EXPECT_TRUE(row.score->group_range.empty());
  EXPECT_EQ(row.score->high,
            1);  // one item, half of its trials right: of one item nothing is known
  EXPECT_EQ(row.score->low, 0);
  point.scores[1].scored = false;
  point.scores[1].undecided = true;
  row.score.reset();
  measure_row(row, point);
  ASSERT_TRUE(row.score);
  EXPECT_EQ(row.score->n, 1);
  EXPECT_EQ(row.score->undecided, 1);
}

TEST(record, groups_of_different_size_count_alike) {
  measured_point point = good_point();
  point.scores = {scored(1), scored(1), scored(0)};
  for (std::size_t i = 0; i < 3; ++i) {
    point.scores[i].group = i < 2 ? "anatomy" : "virology";
    point.scores[i].measures = {{"instructions", static_cast<double>(i), 4}};
  }
  result_row row;
  measure_row(row, point);
  ASSERT_TRUE(row.score);
  EXPECT_DOUBLE_EQ(row.score->mean, 2.0 / 3);
  EXPECT_DOUBLE_EQ(row.score->mean_of_groups, 0.5);
  // Wilson's of 2 of 2 starts at 0.342380, of 0 of 1 it ends at 0.793451.
  ASSERT_EQ(row.score->group_range.size(), 2);
  EXPECT_NEAR(row.score->group_range[0], 0.5 - 0.657620 / 2, 1e-5);
  EXPECT_NEAR(row.score->group_range[1], 0.5 + 0.793451 / 2, 1e-5);
  EXPECT_DOUBLE_EQ(row.score->beside.at("instructions"), 3.0 / 12);
}

TEST(record, synthetic_weights_never_have_a_score) {
  result_row row;
  row.model.weights = "synthetic";
  measure_row(row, good_point());
  EXPECT_EQ(row.verdict, row_verdict::not_verified);
  EXPECT_FALSE(row.score);
  EXPECT_EQ(row.metrics.at("tokens_per_second").from, origin::synthetic);
  EXPECT_EQ(row.metrics.at("wall_seconds").from, origin::measured);
}

}  // namespace
}  // namespace unmask
