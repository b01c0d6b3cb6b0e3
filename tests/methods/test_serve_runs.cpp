// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Serving experiments from their file to their rows: clients that leave, and models without text.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/decode/counters.h"
#include "harness/run/runner.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

class serve_runs : public testing::Test {
 protected:
  serve_runs() : model_(std::string(UNMASK_SOURCE_DIR) + "/experiments/models/tiny-sdar") {}

  result_row run(const std::string& serve, const std::string& model, const std::string& weights,
                 const std::string& workload, const std::string& batch = "4",
                 const std::string& kind = "serve",
                 const std::string& method = "\"block_diffusion\"\n") {
    const std::string arrivals = "[serve]\narrivals = \"closed\"\n" + serve;
    const experiment_spec spec = parse_spec(
        "title = \"t\"\nkind = \"" + kind +
            "\"\n[run]\nwarmup = 0\nrepetitions = 2\nbatch_size = " + batch +
            "\n[[model]]\npath = \"" + model + "\"\nweights = \"" + weights + "\"\n[[workload]]\n" +
            workload + "\n[[method]]\nname = " + method + (kind == "serve" ? arrivals : ""),
        "x.toml");
    run_options options;
    options.output = out_ / std::to_string(runs_++);
    options.progress = false;
    const run_summary summary = run_experiment(spec, options);
    return summary.rows.at(0);
  }
  result_row run(const std::string& serve, const std::string& batch = "4") {
    return run(serve, model_, "checkpoint", problems_, batch);
  }
  result_row run_closed(const std::string& batch) {
    return run("", model_, "checkpoint", problems_, batch, "decode");
  }

  const scratch_folder scratch_;
  const fs::path out_ = scratch_.path();
  std::string model_;
  std::string problems_ = "file = \"" + std::string(UNMASK_SOURCE_DIR) +
                          "/experiments/data/word_problem.jsonl\"\nlimit = 4";
  int runs_ = 0;
};

double value(const result_row& row, const char* name) {
  return row.value_of(name).value_or(-1);
}

// Four problems for sixteen places: lists are made for sixteen requests, not for four.
TEST_F(serve_runs, more_places_than_requests_ask_them_again_all_at_once) {
  const std::string closed = "clock = \"virtual\"\ncost = \"1:10 512:100\"\nrequests = ";
  const result_row many = run(closed + "32\n", "16"), few = run(closed + "4\n", "4");
  ASSERT_TRUE(is_reportable(many)) << many.reason;
  EXPECT_EQ(value(many, "batch_max"), 16);
  EXPECT_EQ(value(many, "requests_finished"), 32);
  EXPECT_EQ(value(many, "output_tokens"), 8 * value(few, "output_tokens"));
}

// Without `cost` the clock's times are measured first, with all places full of whole canvases that
// are longer than those of the workload. Each method alone, so that no other one's room serves it.
TEST_F(serve_runs, methods_without_a_cache_are_served_on_a_measured_clock) {
  for (const char* method : {"vanilla", "ada_dlm"}) {
    const experiment_spec spec = parse_spec(
        "title = \"t\"\nkind = \"serve\"\n[run]\nwarmup = 0\nrepetitions = 1\nbatch_size = 2\n"
        "[serve]\narrivals = \"closed\"\nrequests = 2\nclock = \"virtual\"\n[[model]]\npath = \"" +
            std::string(UNMASK_SOURCE_DIR) + "/experiments/models/tiny-llada\"\n[[workload]]\n" +
            problems_ + "\ngen_length = 32\n[[method]]\nname = \"" + method + "\"\n",
        "x.toml");
    run_options options;
    options.output = out_ / std::to_string(runs_++);
    options.progress = false;
    const result_row row = run_experiment(spec, options).rows.at(0);
    EXPECT_EQ(value(row, "requests_finished"), 2) << method << ": " << row.reason;
  }
}

TEST_F(serve_runs, clients_that_leave_are_counted_and_their_tokens_are_discarded) {
  const std::string virtual_clock = "clock = \"virtual\"\ncost = \"1:10 512:100\"\nrequests = 12\n";
  const result_row all = run(virtual_clock);
  ASSERT_TRUE(is_reportable(all)) << all.reason;
  EXPECT_EQ(value(all, "requests_cancelled"), 0);
  EXPECT_FALSE(all.value_of("discarded_tokens"));

  // Two clients in three leave with their first block: what the others were answered stays.
  const result_row some = run(virtual_clock + "cancel_share = 0.66\ncancel_after_blocks = 1\n");
  ASSERT_TRUE(is_reportable(some)) << some.reason;
  const double left = value(some, "requests_cancelled");
  EXPECT_GT(left, 0);  // the others were answered by their first block
  EXPECT_EQ(value(some, "requests_finished"), 12 - left);
  EXPECT_GT(value(some, "requests_finished"), 0);
  EXPECT_GE(value(some, "discarded_tokens"), value(some, "discarded_tokens_handed_out"));
  EXPECT_GT(value(some, "discarded_tokens_handed_out"), left);  // a block each
  EXPECT_GT(value(some, "discarded_row_share"), 0);
  EXPECT_LT(value(some, "discarded_row_share"), 1);
  EXPECT_LT(value(some, "output_tokens"), value(all, "output_tokens"));
  EXPECT_LT(value(some, "wall_seconds"), value(all, "wall_seconds"));
  EXPECT_NE(some.point_id, all.point_id);

  // Everybody leaves before the first forward is over: nothing can be said about the answers.
  const result_row none = run(virtual_clock + "cancel_share = 1\ncancel_after_seconds = 1e-9\n");
  EXPECT_EQ(none.verdict, row_verdict::invalid);
  EXPECT_NE(none.reason.find("no request was answered"), std::string::npos) << none.reason;
}

// A closed batch and the engine do the same work for the same requests, whoever schedules them.
TEST_F(serve_runs, the_engine_does_the_work_of_a_closed_batch) {
  for (const char* batch : {"1", "4"}) {
    const result_row closed = run_closed(batch);
    const result_row served = run("requests = 4\n", batch);
    const result_row mixed = run("requests = 4\npolicy = \"mixed\"\n", batch);
    ASSERT_TRUE(is_reportable(closed)) << closed.reason;
    ASSERT_TRUE(is_reportable(served)) << served.reason;
    EXPECT_EQ(closed.answers_hash, served.answers_hash);
    for (const counter_spec& c : counter_list()) {
      EXPECT_EQ(closed.value_of(c.metric), served.value_of(c.metric)) << c.metric;
    }
    EXPECT_EQ(value(closed, "batched_forwards"), value(mixed, "batched_forwards"));
    EXPECT_EQ(closed.answers_hash, mixed.answers_hash);
    EXPECT_GT(value(closed, "peak_kv_bytes"), 0);
    EXPECT_EQ(value(closed, "peak_kv_bytes"), value(served, "peak_kv_bytes"));
    // Not compared: in a closed batch prompts enter while others decode, and those forwards count
    // for neither.
    EXPECT_GT(value(closed, "decode_tokens_per_second"), 0);
    EXPECT_GT(value(served, "decode_tokens_per_second"), 0);
  }
}

// On a real clock other requests may be answered in the second repetition; those that both answered
// agree, and no hash pretends that the whole could be repeated.
TEST_F(serve_runs, clients_that_leave_on_a_real_clock_do_not_contradict) {
  const result_row row = run("requests = 16\ncancel_share = 0.5\ncancel_after_seconds = 0.02\n");
  ASSERT_TRUE(is_reportable(row)) << row.reason;
  EXPECT_TRUE(row.answers_hash.empty());
  EXPECT_EQ(run("requests = 16\n").answers_hash.size(), 64U);
}

// Elastic chunks follow the requests that run, which the real clock decides: other tokens are no
// contradiction there. On the virtual clock, and with chunks of one size, answers repeat.
TEST_F(serve_runs, a_method_that_decodes_by_load_may_answer_otherwise_on_the_real_clock) {
  const auto serve = [&](const std::string& params, const std::string& clock) {
    return run("requests = 12\n" + clock, model_, "checkpoint", problems_, "4", "serve",
               "\"optimus\"\n" + params);
  };
  const std::string elastic = "params.latency = \"roofline\"\nparams.cold_steps = 0\n";
  const std::string virtual_clock = "clock = \"virtual\"\ncost = \"1:10 512:100\"\n";
  const result_row real = serve(elastic, ""), repeated = serve(elastic, virtual_clock),
                   fixed = serve("params.chunk = 8\n", "");
  for (const result_row* row : {&real, &repeated, &fixed}) {
    ASSERT_TRUE(is_reportable(*row)) << row->reason;
  }
  EXPECT_TRUE(real.answers_hash.empty());
  EXPECT_EQ(repeated.answers_hash.size(), 64U);
  EXPECT_EQ(fixed.answers_hash.size(), 64U);
}

TEST_F(serve_runs, random_weights_need_no_tokenizer_for_lengths) {
  const fs::path bare = out_ / "bare";
  fs::create_directories(bare);
  fs::copy_file(model_ + "/config.json", bare / "config.json");
  std::ofstream(out_ / "two.csv") << "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                     "2023-11-16 18:15:46.5,20,16\n"
                                     "2023-11-16 18:15:47.5,30,16\n";
  const std::string trace = "trace = \"" + (out_ / "two.csv").string() + "\"\nformat = \"azure\"";
  const result_row row = run("requests = 2\n", bare.string(), "random:3", trace);
  EXPECT_EQ(row.verdict, row_verdict::not_verified) << row.reason;
  EXPECT_EQ(value(row, "requests_finished"), 2);
  const result_row tasks = run("requests = 2\n", bare.string(), "random:3",
                               "file = \"" + std::string(UNMASK_SOURCE_DIR) +
                                   "/experiments/data/word_problem.jsonl\"\nlimit = 2");
  EXPECT_EQ(tasks.verdict, row_verdict::failed);
  EXPECT_NE(tasks.reason.find("tokenizer.json"), std::string::npos) << tasks.reason;
  const result_row trained = run("requests = 2\n", bare.string(), "checkpoint", trace);
  EXPECT_EQ(trained.verdict, row_verdict::failed);
}

// Virtual serving of drawn lengths and commits: nothing of the model but its block length.
class virtual_serving : public serve_runs {
 protected:
  result_row serve(const std::string& method, const std::string& params, const std::string& more,
                   int longest_answer = 1024) {
    const bool tokens = method == "autoregressive";
    const experiment_spec spec = parse_spec(
        "title = \"t\"\nkind = \"serve\"\n[run]\nwarmup = 0\nrepetitions = 1\nbatch_size = 128\n"
        "[[model]]\npath = \"" +
            std::string(UNMASK_SOURCE_DIR) + "/experiments/models/" +
            (tokens ? "tiny-ar" : "tiny-sdar") +
            "\"\n[[workload]]\nlengths = \"sdar-8b/sharegpt\"\n[[method]]\nname = \"" + method +
            "\"\n" + params +
            "[serve]\narrivals = \"poisson\"\nrequests = 0\nmax_prompt_tokens = 2048\n"
            "max_output_tokens = " +
            std::to_string(longest_answer) +
            "\nprefill_tokens = 4096\nslo_tpot_ms = 50\n"
            "clock = \"virtual\"\ncost = \"1:44 140:44 4096:324.8\"\n"
            "commits = \"sdar-8b/sharegpt\"\n" +
            more,
        "x.toml");
    run_options options;
    options.output = out_ / std::to_string(runs_++);
    options.progress = false;
    return run_experiment(spec, options).rows.at(0);
  }
};

// Capacities by P90 alone over two minutes of arrivals, seeds 0 and 1. In virtual time they are the
// same on every machine but for the last bits of its logarithms, so `ours` is what this program
// finds and any other number is another scheduler. `theirs` is an independent simulation of the same
// processes (same random numbers, written in another language from their description); over ten
// minutes and four seeds the two agree within 0.3 %.
TEST_F(virtual_serving, capacities_are_those_of_an_independent_simulation) {
  struct expected {
    const char *method, *params;
    double ours[2], theirs[2], within;
  };
  const std::string search = "duration = 120\nrate = 2.0\nsearch = true\nsearch_seeds = 2\n";
  for (const expected& e :
       {expected{
            "autoregressive", "params.stop = false\n", {2.08588, 1.78026}, {2.0904, 1.7775}, 0.003},
        expected{"block_diffusion",
                 "params.stop = \"none\"\n",
                 {4.30594, 3.67451},
                 {4.3242, 3.7529},
                 0.022},
        expected{"optimus",
                 "params.stop = \"none\"\nparams.chunk = 8\n",
                 {7.35801, 7.07108},
                 {7.3411, 7.0715},
                 0.003},
        expected{
            "optimus", "params.stop = \"none\"\n", {6.98753, 6.55132}, {6.9153, 6.6535}, 0.016}}) {
    const result_row row = serve(e.method, e.params, search);
    ASSERT_EQ(row.verdict, row_verdict::not_verified) << row.reason;
    const metric& found = row.metrics.at("slo_capacity_requests_per_second");
    ASSERT_EQ(found.samples.size(), 2u) << e.method;
    for (std::size_t seed = 0; seed < 2; ++seed) {
      const double capacity = found.samples[seed], theirs = e.theirs[seed];
      EXPECT_NEAR(capacity, e.ours[seed], 1e-4 * capacity) << e.method << e.params;
      EXPECT_NEAR(capacity, theirs, e.within * theirs) << e.method << e.params;
    }
    EXPECT_NEAR(found.value, (found.samples[0] + found.samples[1]) / 2, 1e-9);
    EXPECT_TRUE(row.value_of("slo_capacity_backlog_share")) << e.method;
    EXPECT_FALSE(row.value_of("slo_capacity_unbounded_share")) << e.method;
  }
}

// Five seconds bring ten requests, too few for a P90: they go on arriving until there are enough.
TEST_F(virtual_serving, a_search_waits_for_enough_requests) {
  const std::string search =
      "rate = 2.0\nsearch = true\nsearch_seeds = 3\npolicy = \"block_sync\"\n";
  const auto capacity = [&](const std::string& duration) {
    const result_row row = serve("block_diffusion", "params.stop = \"none\"\n", duration + search);
    EXPECT_EQ(row.verdict, row_verdict::not_verified) << row.reason;
    return value(row, "slo_capacity_requests_per_second");
  };
  const double longer = capacity("duration = 120\n");
  EXPECT_NEAR(capacity("duration = 5\n"), longer, 0.5 * longer);
}

// The memory of passes that are kept: what a point learnt and the profile of its clock. One that is
// damaged in part leaves the point as it was, whose passes are then measured again.
TEST_F(virtual_serving, a_damaged_memory_is_not_taken_up_in_part) {
  const experiment_spec spec = parse_spec(
      "title = \"t\"\nkind = \"serve\"\n[run]\ndevice = \"cpu\"\n[[model]]\npath = \"" + model_ +
          "\"\n[[workload]]\n" + problems_ +
          "\n[[method]]\nname = \"block_diffusion\"\n[serve]\nrequests = 2\nclock = \"virtual\"\n",
      "x.toml");
  const std::unique_ptr<executor> with = make_executor();
  const std::vector<experiment_point> points = make_plan(spec, with->methods());
  const std::vector<preparation> prepared = with->prepare(points);
  ASSERT_EQ(prepared.size(), 1u);
  ASSERT_TRUE(prepared[0].point) << prepared[0].reason;
  prepared_point& point = *prepared[0].point;
  const std::string learnt = R"({"calibration":"{\"learnt\":\"{}\"}","cost":)";
  for (const char* cost : {"\"8:0.5\"}", "[[8]]}", "[[8,0.5],[16,-1.0]]}"}) {
    EXPECT_ANY_THROW(point.remember(learnt + cost)) << cost;
    EXPECT_EQ(point.memory(), "") << cost;
  }
  const std::string whole = learnt + "[[8.0,0.5],[16.0,1.0]]}";
  point.remember(whole);
  EXPECT_EQ(point.memory(), whole);
  EXPECT_ANY_THROW(point.remember(R"({"calibration":"no JSON","cost":[[8.0,2.0]]})"));
  EXPECT_EQ(point.memory(), whole);
}

// A token alone has no time between tokens, however many requests arrive: the search says so and ends.
TEST_F(virtual_serving, a_search_of_answers_in_one_piece_ends) {
  const result_row row =
      serve("block_diffusion", "params.stop = \"none\"\n",
            "duration = 5\nrate = 20.0\ntpot = \"stream\"\nsearch = true\nsearch_seeds = 1\n", 1);
  EXPECT_EQ(row.verdict, row_verdict::failed);
  EXPECT_NE(row.reason.find("0 requests are too few for a P90"), std::string::npos) << row.reason;
}

// Under a light load the scheduler chooses 32 in every step, although a request then has fewer rows
// towards the end of each block.
TEST_F(virtual_serving, the_chunk_chosen_is_logged) {
  const result_row light =
      serve("optimus", "params.stop = \"none\"\n", "duration = 200\nrate = 0.5\n");
  EXPECT_EQ(value(light, "chosen_chunk_mean"), 32);
  EXPECT_EQ(value(light, "chosen_chunk_min"), 32);
  EXPECT_NEAR(value(light, "chunk_mean"), 20.6975, 0.01);
  const result_row fixed = serve("optimus", "params.stop = \"none\"\nparams.chunk = 8\n",
                                 "duration = 100\nrate = 0.5\n");
  EXPECT_EQ(value(fixed, "chosen_chunk_max"), 8);
  EXPECT_FALSE(serve("block_diffusion", "params.stop = \"none\"\n", "duration = 50\nrate = 0.5\n")
                   .value_of("chosen_chunk_mean"));
  // What the scheduler believed of its chunks, and what they decided.
  const auto learnt = nlohmann::json::parse(light.calibration).at("learnt");
  EXPECT_LT(learnt.at("error").get<double>(), 0.02);
  EXPECT_EQ(learnt.at("chunks").size(), 16u);
  double before = 0;
  for (const auto& one : learnt.at("chunks")) {
    EXPECT_GE(one.at("n").get<double>(), before);  // N grows with c, utilisation falls
    before = one.at("n").get<double>();
    EXPECT_NEAR(one.at("utilisation").get<double>(), before / one.at("size").get<int>(), 1e-12);
  }
  const auto& whole = learnt.at("chunks").back();
  EXPECT_GT(whole.at("steps").get<int>(), 1000);
  // N at the end is that of the last hundred steps or so; foretold is what was believed at each.
  EXPECT_NEAR(whole.at("foretold").get<double>(), whole.at("decided").get<double>(),
              0.02 * whole.at("decided").get<double>());
}

}  // namespace
}  // namespace unmask
