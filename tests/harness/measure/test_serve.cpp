// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Serving as a kind of experiment: its keys, its values, and the search for capacity.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/measure/capacity.h"
#include "harness/plan/format.h"
#include "harness/plan/serve_settings.h"
#include "harness/rows/table.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

const std::string base =
    "[[model]]\npath=\"m\"\n[[workload]]\nfile=\"t.jsonl\"\n[[method]]\nname=\"vanilla\"\n";

experiment_spec serve_spec(const std::string& more, const std::string& top = "kind=\"serve\"\n") {
  return parse_spec(top + base + more, "x.toml");
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(serve, keys_are_read_swept_and_resolved) {
  experiment_spec spec =
      serve_spec("[serve]\nrate=2\npolicy=\"lmd\"\n[sweep]\nserve.rate=[1, 2.5]\n");
  apply_override(spec, "serve.trim=0.2");
  const auto points = make_plan(spec, catalogue());
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].variation, "rate=1");
  const parameters first(points[0].run.serve), second(points[1].run.serve);
  EXPECT_EQ(first.real("rate"), 1);  // the integer became a real
  EXPECT_EQ(second.real("rate"), 2.5);
  EXPECT_EQ(first.text("policy"), "lmd");
  EXPECT_EQ(first.real("trim"), 0.2);
  EXPECT_EQ(first.values().size(), serve_parameters().size());
  EXPECT_NE(points[0].id, points[1].id);
  EXPECT_TRUE(has(canonical_settings(points[0]), "\"serve\""));
  // Closed loops keep the ids they had before there was serving.
  const auto closed = make_plan(serve_spec("", ""), catalogue());
  EXPECT_FALSE(has(canonical_settings(closed[0]), "serve"));
}

TEST(serve, mistakes_are_named) {
  const auto fails = [](const std::string& more, const std::string& part,
                        const std::string& top = "kind=\"serve\"\n") {
    const std::string text = message_of([&] { make_plan(serve_spec(more, top), catalogue()); });
    EXPECT_TRUE(has(text, part)) << text;
    EXPECT_TRUE(has(text, "x.toml")) << text;
  };
  fails("[serve]\nrat=1\n", "'rate'");
  fails("[serve]\npolicy=\"fifo\"\n", "fdfo");
  fails("[serve]\nrate=-1\n", "rate");
  fails("[sweep]\nserve.polcy=[\"iter\"]\n", "'policy'");
  fails("[serve]\ncancel_share=1.5\n", "cancel_share");
  fails("[serve]\ncancel_after_blocks=-1\n", "cancel_after_blocks");
  fails("[serve]\ncancel_share=0.5\n", "either `cancel_after_seconds` or `cancel_after_blocks`");
  fails("[serve]\ncancel_share=0.5\ncancel_after_seconds=1\ncancel_after_blocks=1\n", "either");
  fails("[serve]\ncancel_after_blocks=2\n", "`cancel_after_blocks` means nothing without");
  fails("[serve]\ncancel_share=0.1\ncancel_after_blocks=2\nsearch=true\nslo_tpot_ms=50\n",
        "`search` cannot be combined with `cancel_share`");
  fails("[sweep]\nserve.rate=[1]\n", "kind = \"serve\"", "");
  fails("[serve]\nrate=1\n", "kind = \"serve\"", "");
  fails("[serve]\ncommits=\"sdar-8b/gsm8k\"\n", "`repeat_window` needs answers of the model",
        "kind=\"serve\"\n[run]\nrepeat_window=32\n");
  fails("", "serve", "kind=\"srve\"\n");
  fails("[[workload]]\nlengths=\"sdar-8b/gsm8k\"\n", "kind = \"serve\"", "");
  fails("[[workload]]\ntrace=\"a.csv\"\n", "format");
  fails("[[workload]]\ntrace=\"a.csv\"\nformat=\"azure\"\ntasks=[\"x\"]\n", "one of");
}

// Points that were measured before clients could leave keep their ids.
TEST(serve, cancelling_is_a_part_of_the_id_only_when_asked_for) {
  const auto plain = make_plan(serve_spec("[serve]\nrate=2\n"), catalogue());
  EXPECT_FALSE(has(canonical_settings(plain[0]), "cancel_"));
  EXPECT_TRUE(has(canonical_settings(plain[0]), "\"search_seeds\""));
  const auto half = make_plan(
      serve_spec("[serve]\nrate=2\ncancel_share=0.5\ncancel_after_seconds=3\n"), catalogue());
  EXPECT_TRUE(has(canonical_settings(half[0]), "\"cancel_after_seconds\":3"));
  EXPECT_NE(plain[0].id, half[0].id);
}

TEST(serve, clients_that_leave_are_drawn_by_seed_and_index) {
  const auto points =
      make_plan(serve_spec("[serve]\ncancel_share=0.25\ncancel_after_seconds=3\n"), catalogue());
  const parameters serve(points[0].run.serve);
  const auto leaving = [&](std::size_t n, std::uint64_t seed) {
    std::vector<request_order> orders(n);
    for (std::size_t i = 0; i < n; ++i) orders[i].arrival = static_cast<double>(i);
    add_cancellations(orders, serve, seed);
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(orders[i].cancel_blocks, 0);
      if (!std::isfinite(orders[i].cancel)) continue;
      EXPECT_EQ(orders[i].cancel, static_cast<double>(i) + 3);
      who.push_back(i);
    }
    return who;
  };
  const auto few = leaving(1000, 5), many = leaving(4000, 5);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NEAR(static_cast<double>(many.size()), 1000, 4 * std::sqrt(4000 * 0.25 * 0.75));
  EXPECT_NE(few, leaving(1000, 6));
}

TEST(serve, the_page_of_keys_has_every_key) {
  const std::string page = format_page();
  for (const parameter_spec& p : serve_parameters()) {
    EXPECT_TRUE(has(page, "\n| `" + p.name + "` | ")) << p.name;
  }
}

// Ten requests, one a second from 0 on; request i waits 0.5 s, is prefilled by 1 s, hands out 32
// tokens at 2 s and 32 more at 2 + 0.1 i s after its arrival.
served_run example(std::size_t n = 10) {
  served_run run;
  for (std::size_t i = 0; i < n; ++i) {
    request_record r;
    r.request = i;
    r.arrival = static_cast<double>(i);
    r.admitted = r.arrival + 0.5;
    r.prefill_done = r.arrival + 1;
    r.finish = r.arrival + 2 + 0.1 * static_cast<double>(i);
    r.emissions = {{r.arrival + 2, 32}, {r.finish, 64}};
    r.answer.output.assign(64, 0);
    run.requests.push_back(std::move(r));
  }
  iteration_record prefill, decode, late;
  prefill.prefill = true;
  prefill.seconds = 1;
  prefill.requests = 2;
  prefill.rows = 100;
  decode.seconds = 2;
  decode.predicted = 1;
  decode.requests = 3;
  decode.rows = 96;
  decode.recomputed = 1;
  decode.recomputed_rows = 32;
  decode.committed = 40;
  decode.at_once = 32;
  late.seconds = 1;
  late.requests = 1;
  late.rows = 20;
  late.committed = 8;
  prefill.committed = 16;
  run.iterations = {prefill, decode, late};
  return run;
}

TEST(serve, values_by_hand) {
  serving_objective objective;
  objective.trim = 0.1;  // requests 1 to 8 count
  objective.tpot_seconds = 1.5 / 64;
  const auto values = serving_values(example(), objective, origin::analytic, origin::synthetic);
  const auto value = [&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nan("") : found->second.value;
  };
  EXPECT_EQ(value("requests"), 10);
  EXPECT_EQ(value("requests_counted"), 8);
  EXPECT_DOUBLE_EQ(value("request_rate"), 1);
  EXPECT_DOUBLE_EQ(value("queue_mean_seconds"), 0.5);
  EXPECT_DOUBLE_EQ(value("ttfb_p50_seconds"), 2);
  // Decode: (1 + 0.1 i) / 64; the 4th of 1..8 at the median.
  EXPECT_NEAR(value("tpot_decode_p50_seconds"), 1.4 / 64, 1e-12);
  EXPECT_NEAR(value("tpot_e2e_p50_seconds"), 2.4 / 64, 1e-12);
  EXPECT_NEAR(value("tpot_stream_p50_seconds"), 0.4 / 63, 1e-12);
  EXPECT_NEAR(value("inter_block_p50_seconds"), 0.4, 1e-9);
  EXPECT_TRUE(std::isnan(value("tpot_decode_p90_seconds")));  // eight requests earn no P90
  EXPECT_NEAR(value("slo_attainment"), 5.0 / 8, 1e-12);       // i = 1 to 5
  EXPECT_NEAR(value("goodput_requests_per_second"), 5.0 / 8, 1e-12);
  EXPECT_DOUBLE_EQ(value("batch_mean"), 2);
  EXPECT_EQ(value("batch_max"), 3);
  EXPECT_DOUBLE_EQ(value("chunk_mean"), 26);
  EXPECT_EQ(value("chunk_min"), 20);
  EXPECT_DOUBLE_EQ(value("batch_time_mean"), (1 * 2 + 2 * 3 + 1 * 1) / 4.0);
  EXPECT_DOUBLE_EQ(value("prefill_time_share"), 0.25);
  EXPECT_NEAR(value("recomputed_row_share"), 32.0 / 216, 1e-12);
  EXPECT_DOUBLE_EQ(value("predicted_time_error"), 0.5);
  EXPECT_DOUBLE_EQ(value("full_block_token_share"), 32.0 / 64);
  EXPECT_DOUBLE_EQ(value("decode_tokens_per_second"), 48 / 3.0);
  // Only the second pass has three requests.
  EXPECT_DOUBLE_EQ(value("steady_tokens_per_second"), 40 / 2.0);
  EXPECT_DOUBLE_EQ(value("steady_time_share"), 2 / 4.0);
  EXPECT_EQ(values.at("tpot_decode_p50_seconds").from, origin::analytic);
  EXPECT_EQ(values.at("batch_mean").from, origin::synthetic);

  // 29 requests earn a P90 (1 - 0.9^29 - 0.1^29 >= 0.95), 28 do not; 299 earn a P99.
  objective.trim = 0;
  const auto earned = [&](std::size_t n, const char* name) {
    return serving_values(example(n), objective, origin::measured, origin::counted).contains(name);
  };
  EXPECT_TRUE(earned(29, "tpot_decode_p90_seconds"));
  EXPECT_FALSE(earned(28, "tpot_decode_p90_seconds"));
  EXPECT_TRUE(earned(299, "e2e_p99_seconds"));
  EXPECT_FALSE(earned(298, "e2e_p99_seconds"));
}

// Prompts enter between passes of a full batch, and with them under the policy "mixed": all of it counts.
TEST(serve, the_steady_rate_spans_the_full_batch) {
  served_run run = example();
  iteration_record part;  // two requests, then four, a prompt alone, five, five with a prompt, one
  part.seconds = 1;
  run.iterations.clear();
  const std::vector<std::array<int, 3>> passes = {{2, 10, 0}, {5, 20, 0}, {1, 0, 1},
                                                  {5, 30, 0}, {5, 5, 1},  {1, 100, 0}};
  for (const auto& [requests, committed, prefill] : passes) {
    part.requests = requests;
    part.committed = committed;
    part.prefill = prefill != 0;
    run.iterations.push_back(part);
  }
  const auto values = serving_values(run, {}, origin::measured, origin::counted);
  EXPECT_DOUBLE_EQ(values.at("steady_tokens_per_second").value, (20 + 0 + 30 + 5) / 4.0);
  EXPECT_DOUBLE_EQ(values.at("steady_time_share").value, 4 / 6.0);
  run.iterations.clear();
  EXPECT_FALSE(serving_values(run, {}, origin::measured, origin::counted)
                   .contains("steady_tokens_per_second"));
}

// Requests 2 and 3 of ten leave after their first block.
TEST(serve, clients_that_leave_are_in_no_latency_and_no_goodput) {
  served_run run = example();
  for (request_record& r : run.requests) r.answer.counters.rows = 100;
  for (const std::size_t i : {2, 3}) {
    request_record& r = run.requests[i];
    r.end = outcome::cancelled;
    r.finish = r.arrival + 2;
    r.emissions.pop_back();
    r.answer.output.resize(32);
    r.answer.counters.committed = 40;
    r.answer.counters.rows = 50;
  }
  serving_objective objective;
  objective.trim = 0.1;  // requests 1 to 8 count
  objective.tpot_seconds = 1.5 / 64;
  const auto values = serving_values(run, objective, origin::measured, origin::counted);
  const auto value = [&](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::nan("") : found->second.value;
  };
  EXPECT_EQ(value("requests_cancelled"), 2);
  EXPECT_EQ(value("requests_finished"), 8);
  EXPECT_EQ(value("discarded_tokens"), 80);
  EXPECT_EQ(value("discarded_tokens_handed_out"), 64);
  EXPECT_DOUBLE_EQ(value("discarded_row_share"), 100.0 / 900);
  // 1, 4, 5, 6, 7, 8 are left: (1 + 0.1 i) / 64, the third of six at the median.
  EXPECT_NEAR(value("tpot_decode_p50_seconds"), 1.5 / 64, 1e-12);
  EXPECT_NEAR(value("e2e_mean_seconds"), 2 + 0.1 * 31 / 6, 1e-12);
  // 1, 4 and 5 keep the objective: of the six that stayed, and of eight arrivals in seven seconds.
  EXPECT_NEAR(value("slo_attainment"), 3.0 / 6, 1e-9);
  EXPECT_NEAR(value("goodput_requests_per_second"), 3.0 / 8, 1e-9);
  EXPECT_FALSE(serving_values(example(), objective, origin::measured, origin::counted)
                   .contains("discarded_tokens"));
}

TEST(serve, capacity_is_found_between_two_rates) {
  // P90 = rate / 10: the objective 0.5 is met exactly at 5, whatever the grid.
  for (const double start : {0.1, 1.0, 4.9, 50.0}) {
    const capacity c =
        find_capacity([](double rate) { return rate_result{rate / 10}; }, 0.5, start, 1.25);
    EXPECT_NEAR(c.rate, 5, 1e-9) << start;
    EXPECT_LE(c.tested_ok, 5);
    EXPECT_GT(c.tested_ok, 5 / 1.26);
    EXPECT_LT(c.runs, 20);
  }
  // Requests that were refused end it earlier, without interpolation.
  const auto refusing = [](double rate) { return rate_result{0.1, rate < 3}; };
  const capacity c = find_capacity(refusing, 0.5, 1, 2);
  EXPECT_EQ(c.rate, 2);
  EXPECT_EQ(c.tested_ok, 2);
  EXPECT_EQ(find_capacity([](double) { return rate_result{1}; }, 0.5, 1, 2).rate, 0);
}

// The paper asks for the largest rate whose P90 keeps the objective, and for nothing else.
TEST(serve, a_backlog_is_told_and_ends_no_search) {
  const auto waiting = [](double rate) { return rate_result{rate / 10, true, rate > 2}; };
  const capacity c = find_capacity(waiting, 0.5, 1, 1.25);
  EXPECT_NEAR(c.rate, 5, 1e-9);
  EXPECT_TRUE(c.backlog);
  EXPECT_TRUE(c.bounded);
  EXPECT_FALSE(find_capacity(waiting, 0.15, 1, 1.25).backlog);
  // Where waiting outside the batch spares those in it, the objective holds at any rate.
  const auto sheltered = [](double rate) { return rate_result{0.1, true, rate > 2, rate > 8}; };
  const capacity any = find_capacity(sheltered, 0.5, 1, 1.25);
  EXPECT_FALSE(any.bounded);
  EXPECT_GT(any.rate, 8);
  EXPECT_LT(any.runs, 12);
}

// A P90 that misses the objective when every request has the machine to itself misses it at any rate.
TEST(serve, no_search_goes_below_requests_that_are_alone) {
  int runs = 0;
  const auto slow = [&](double rate) {
    ++runs;
    return rate_result{1 + rate, true, false, false, rate < 0.3};
  };
  const capacity c = find_capacity(slow, 0.5, 1, 2);
  EXPECT_EQ(c.rate, 0);
  EXPECT_EQ(runs, 3);  // at 1, 0.5 and 0.25
  std::vector<request_record> there(2);
  there[0].arrival = 0, there[0].finish = 3;
  there[1].arrival = 3, there[1].finish = 4;
  EXPECT_TRUE(each_is_alone(there));
  there[0].finish = 3.5;
  EXPECT_FALSE(each_is_alone(there));
}

// Chunks of 32 that end with a block hold fewer rows: what was chosen is not what was computed.
TEST(serve, chosen_chunks_are_not_rows) {
  served_run run = example();
  EXPECT_FALSE(
      serving_values(run, {}, origin::analytic, origin::synthetic).contains("chosen_chunk_mean"));
  for (iteration_record& it : run.iterations) it.chosen = it.prefill ? 0 : 32;
  run.iterations.push_back(run.iterations.back());
  run.iterations.back().chosen = 16;
  const auto values = serving_values(run, {}, origin::analytic, origin::synthetic);
  EXPECT_DOUBLE_EQ(values.at("chosen_chunk_mean").value, (32 + 32 + 16) / 3.0);
  EXPECT_EQ(values.at("chosen_chunk_p50").value, 32);
  EXPECT_EQ(values.at("chosen_chunk_min").value, 16);
  EXPECT_EQ(values.at("chosen_chunk_max").value, 32);
  EXPECT_DOUBLE_EQ(values.at("chosen_chunk_full_share").value, 2.0 / 3);
  EXPECT_LT(values.at("chunk_mean").value, values.at("chosen_chunk_mean").value);
}

TEST(serve, rows_keep_their_settings_and_have_a_table) {
  const auto points = make_plan(serve_spec("[serve]\nrate=3\n"), catalogue());
  result_row row = sample_row();
  row.run = points[0].run;
  row.metrics["tpot_decode_p90_seconds"] = {0.0123, origin::measured};
  row.metrics["request_rate"] = {2.96, origin::measured};
  row.metrics["slo_capacity_requests_per_second"] = {4, origin::analytic, {3, 5}};
  const result_row back = parse_row(to_json_line(row), "here");
  EXPECT_EQ(back.run, row.run);
  EXPECT_EQ(to_json_line(back), to_json_line(row));
  EXPECT_EQ(back.metrics.at("slo_capacity_requests_per_second").samples,
            (std::vector<double>{3, 5}));
  const std::string md = render_rows(std::vector{row, sample_row("closed")}, table_format::md);
  EXPECT_TRUE(
      has(md, "| vanilla policy=iter | word_problem | – of – | poisson 2.96/s | real | 6.0 |"))
      << md;
  EXPECT_TRUE(has(md, "| 12.30 |")) << md;
  EXPECT_TRUE(has(md, "unmasked/step")) << md;
  // Closed rows are as they were.
  EXPECT_FALSE(has(to_json_line(sample_row()), "\"serve\""));
}

TEST(serve, iterations_are_written_one_per_line) {
  const std::string csv = iteration_csv(example().iterations);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 4);
  EXPECT_TRUE(has(csv, "\n0.000000,2.000000,1.000000,decode,3,1,96,32,0,40,0,0,0,0\n")) << csv;
}

}  // namespace
}  // namespace unmask
