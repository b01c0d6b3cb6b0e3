// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// `unmask run --ranks N`: processes that run one model together, one of which is killed, stopped or
// refused.
#include <gtest/gtest.h>

#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <thread>
#include <tuple>

#include <nlohmann/json.hpp>

#include "harness/base/process.h"
#include "tests/harness/cli/program.h"
#include "tests/harness/cli/ranked_runs.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::comes_true;
using test::followers_in;
using test::ranked_runs;
using test::run_program;

// What a row of two ranks says of them, beside that of one process. tiny-sdar: hidden size 192, of three
// KV heads rank 0 has one and rank 1 two. Rows that a layer's attention and feed-forward let pass are
// those that two sums bring. The head of a forward pass sends 48 bytes for each row that it reads; a method
// that sums over heads has more.
void expect_work_of_ranks(const json& alone, const json& row) {
  const json &m = row.at("metrics"), &from = row.at("provenance");
  const double hidden = 192;
  const double bytes =
      4 * hidden * (m.at("layer_rows").get<double>() + m.at("feed_forward_rows").get<double>()) +
      48 * m.at("head_rows").get<double>();
  if (row.at("method") == "block_diffusion" || row.at("method") == "delayed_cache") {
    EXPECT_EQ(m.at("sum_bytes"), bytes);
  } else {
    EXPECT_GT(m.at("sum_bytes"), bytes);
  }
  EXPECT_EQ(3 * m.at("peak_kv_bytes_per_rank").get<double>(),
            2 * m.at("peak_kv_bytes").get<double>());
  EXPECT_GT(m.at("weights_bytes_per_rank"), 0);
  EXPECT_GT(m.at("sum_share"), 0);
  EXPECT_LT(m.at("sum_share"), 1);
  EXPECT_GE(m.at("rank_skew"), 1);
  EXPECT_EQ(from.at("sum_bytes"), "counted");
  EXPECT_EQ(from.at("sum_share"), "measured");
  for (const char* of_ranks : {"sum_bytes", "sum_calls", "sum_share", "rank_skew",
                               "weights_bytes_per_rank", "peak_kv_bytes_per_rank"}) {
    EXPECT_FALSE(alone.at("metrics").contains(of_ranks)) << of_ranks;
  }
}

// Counts, answers and their hash; times and the machine differ.
TEST_F(ranked_runs, find_what_one_process_finds_with_as_many_pieces) {
  write("block_diffusion focus sparse_blocks delayed_cache");
  const test::outcome one =
      run_program(folder(), "run x.toml -o one --no-progress --set run.pieces=2 --device cpu");
  ASSERT_EQ(one.code, 0) << one.text;
  const test::outcome two =
      run_program(folder(), "run x.toml -o two --no-progress --ranks 2 --device cpu");
  ASSERT_EQ(two.code, 0) << two.text;
  const std::vector<json> a = rows_in("one"), b = rows_in("two");
  ASSERT_EQ(a.size(), 4U);
  ASSERT_EQ(b.size(), 4U);
  for (std::size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE(a[i].at("method").dump());
    EXPECT_EQ(b[i].at("ranks"), 2);
    EXPECT_EQ(b[i].at("topology").dump(), R"({"hosts":1,"transport":"shared memory"})");
    EXPECT_FALSE(a[i].contains("topology"));
    EXPECT_EQ(b[i].at("answers_hash"), a[i].at("answers_hash"));
    EXPECT_EQ(b[i].at("verdict"), a[i].at("verdict"));
    EXPECT_NE(b[i].at("point_id"), a[i].at("point_id"));
    for (const char* count : {"rows", "nfe", "layer_rows", "head_rows", "committed", "keys_seen",
                              "flops", "selection_flops", "peak_kv_bytes"}) {
      EXPECT_EQ(b[i].at("metrics").at(count), a[i].at("metrics").at(count)) << count;
    }
    expect_work_of_ranks(a[i], b[i]);
  }
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// By hand, of tiny-sdar with 5 layers and hidden size 192. A prompt of two blocks and a response of one, whose 32
// tokens come one in each step, one request at a time:
//   sums    two a layer in every forward pass, of float32 rows
//   head    one in each of 32 steps, of 48 bytes for each row that it reads
//   FOCUS   keeps 2 masks, 1.5 tokens rounded up. While there are more, 32 to 3 of them, layers 0 and 1 add their
//           importance: 8 bytes each, and 8 for the number of heads
//   sparse_blocks  scores the 64 slots of the prompt once, in every layer: 8 bytes each, and 8
TEST_F(ranked_runs, move_what_the_formulas_say) {
  const test::outcome o = run_program(
      folder(), "bench " + test::shell_word(UNMASK_SOURCE_DIR "/experiments/models/tiny-sdar") +
                    " -m block_diffusion,delayed_cache,focus,sparse_blocks -p 64 -n 32 -b 1 "
                    "--requests 2 --repetitions 1 --warmup 0 --set params.threshold=1.5 --set "
                    "params.stop=none --ranks 2 --device cpu --no-progress -o bench");
  ASSERT_EQ(o.code, 0) << o.text;
  struct heads {
    double calls, bytes;  // of sums over heads, of one request
  };
  const double masks = (3 + 32) * 30 / 2;
  const std::map<std::string, heads> over_heads = {{"block_diffusion", {0, 0}},
                                                   {"delayed_cache", {0, 0}},
                                                   {"focus", {2 * 30, 2 * 8 * (masks + 30)}},
                                                   {"sparse_blocks", {5, 5 * 8 * (64 + 1)}}};
  const std::vector<json> rows = rows_in("bench");
  ASSERT_EQ(rows.size(), over_heads.size());
  for (const json& row : rows) {
    SCOPED_TRACE(row.at("method").dump());
    const auto number = [&](const char* metric) {
      return row.at("metrics").at(metric).get<double>();
    };
    const heads& more = over_heads.at(row.at("method").get<std::string>());
    ASSERT_EQ(number("denoise_steps"), 2 * 32);
    EXPECT_EQ(number("sum_calls"), 2 * 5 * number("batched_forwards") + 2 * 32 + 2 * more.calls);
    EXPECT_EQ(number("sum_bytes"), 4 * 192 * (number("layer_rows") + number("feed_forward_rows")) +
                                       48 * number("head_rows") + 2 * more.bytes);
  }
}

// Whole experts on each rank, and sums that travel as bfloat16: each is what one process finds that adds as
// many pieces in that way. tiny-llada2: hidden size 192; halves are two bytes an element.
TEST_F(ranked_runs, share_whole_experts_and_send_halves) {
  write("block_diffusion", 1, "", "tiny-llada2");
  const auto row_of = [&](const std::string& output, const std::string& arguments) {
    const test::outcome o = run_program(
        folder(), "run x.toml --no-progress --device cpu -o " + output + " " + arguments);
    EXPECT_EQ(o.code, 0) << o.text;
    return rows_in(output).at(0);
  };
  const json one = row_of("one", "--set run.pieces=2 --set run.experts=experts"),
             two = row_of("two", "--ranks 2 --set run.experts=experts");
  EXPECT_EQ(two.at("experts"), "experts");
  EXPECT_EQ(two.at("answers_hash"), one.at("answers_hash"));
  EXPECT_EQ(two.at("metrics").at("flops"), one.at("metrics").at("flops"));
  const json rounded = row_of("rounded", "--set run.pieces=2 --set run.sums=bf16"),
             halves = row_of("halves", "--ranks 2 --set run.sums=bf16");
  EXPECT_EQ(halves.at("sums"), "bf16");
  EXPECT_EQ(halves.at("answers_hash"), rounded.at("answers_hash"));
  const auto bytes_each = [](const json& row) {
    const json& m = row.at("metrics");
    return (m.at("sum_bytes").get<double>() - 48 * m.at("head_rows").get<double>()) /
           (192 * (m.at("layer_rows").get<double>() + m.at("feed_forward_rows").get<double>()));
  };
  EXPECT_EQ(bytes_each(two), 4);
  EXPECT_EQ(bytes_each(halves), 2);
}

// Three ranks, whose parts go whole, or in stretches with their sums: 2 x 4 bytes of an element, or 2/3 x 8.
// tiny-sdar: hidden size 192.
TEST_F(ranked_runs, add_in_two_shots_what_they_add_in_one) {
  write("block_diffusion", 1);
  const auto row_of = [&](const std::string& output, const std::string& arguments) {
    const test::outcome o =
        run_program(folder(), "run x.toml --no-progress --device cpu --ranks 3 -o " + output +
                                  " --set run.gen_length=8" + arguments);
    EXPECT_EQ(o.code, 0) << o.text;
    return rows_in(output).at(0);
  };
  const json one = row_of("one", ""), two = row_of("two", " --set run.two_shots=0");
  EXPECT_EQ(one.at("two_shots"), 524288);
  EXPECT_EQ(two.at("two_shots"), 0);
  EXPECT_EQ(two.at("answers_hash"), one.at("answers_hash"));
  EXPECT_NE(two.at("point_id"), one.at("point_id"));
  const auto bytes_of_sums = [](const json& row) {
    const json& m = row.at("metrics");
    return m.at("sum_bytes").get<double>() - 2 * 48 * m.at("head_rows").get<double>();
  };
  const json& m = two.at("metrics");
  const double elements =
      192 * (m.at("layer_rows").get<double>() + m.at("feed_forward_rows").get<double>());
  EXPECT_EQ(bytes_of_sums(one), 2 * 4 * elements);
  EXPECT_EQ(3 * bytes_of_sums(two), 2 * 8 * elements);
  EXPECT_EQ(m.at("sum_calls").get<double>() - one.at("metrics").at("sum_calls").get<double>(),
            2 * 5 * m.at("batched_forwards").get<double>());
}

// On the kernels of a GPU, which the emulator runs on each rank; its times make a row invalid, not its
// counts.
TEST_F(ranked_runs, find_it_on_emulated_gpus) {
  write("focus", 1);
  const std::string short_run = "run x.toml --no-progress --set run.gen_length=8 ";
  const test::outcome one =
      run_program(folder(), short_run + "-o one --set run.pieces=2 --device cpu");
  ASSERT_EQ(one.code, 0) << one.text;
  const test::outcome two =
      run_program(folder(), short_run + "-o two --ranks 2 --device cuda-emulated");
  ASSERT_EQ(two.code, 1) << two.text;
  const json a = rows_in("one").at(0), b = rows_in("two").at(0);
  EXPECT_EQ(b.at("reason"), "emulated kernels: the times mean nothing");
  EXPECT_EQ(b.at("ranks"), 2);
  for (const char* count :
       {"rows", "nfe", "layer_rows", "head_rows", "committed", "keys_seen", "flops"}) {
    EXPECT_EQ(b.at("metrics").at(count), a.at("metrics").at(count)) << count;
  }
}

// A profile is of rank 0, whose phases have what it takes from others, and beside them the times of all ranks.
TEST_F(ranked_runs, show_their_sums_in_a_profile) {
  const test::outcome o = run_program(
      folder(), "profile " + test::shell_word(UNMASK_SOURCE_DIR "/experiments/models/tiny-sdar") +
                    " -m block_diffusion --ranks 2 --device cpu --no-roofs -o profile");
  ASSERT_EQ(o.code, 0) << o.text;
  EXPECT_NE(o.text.find("| across_ranks |"), std::string::npos) << o.text;
  EXPECT_NE(o.text.find("| least ms | most ms |"), std::string::npos) << o.text;
  EXPECT_NE(o.text.find("Least and most are over its 2 ranks."), std::string::npos) << o.text;
  const json row = rows_in("profile").at(0);
  std::size_t unequal = 0;
  for (const json& phase : row.at("probes").at("phases").at("phases")) {
    SCOPED_TRACE(phase.at("phase").dump());
    const double own = phase.at("own_seconds"), least = phase.at("least_seconds"),
                 most = phase.at("most_seconds");
    EXPECT_EQ(least > 0, own > 0);  // the other rank has this phase too
    EXPECT_LE(least, own);
    EXPECT_GE(most, own);
    EXPECT_TRUE(own == least || own == most);  // of two ranks it is one of them
    unequal += least < most ? 1 : 0;
    if (phase.at("phase") == "across_ranks") {
      EXPECT_EQ(phase.at("bytes"), row.at("metrics").at("sum_bytes"));
    }
  }
  EXPECT_GT(unequal, 0U);  // two clocks
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// Somebody who listens to phases has every kernel launched, on all ranks: else rank 1 alone would repeat what it
// has recorded.
TEST_F(ranked_runs, record_nothing_in_a_profile_of_rank_0) {
  const test::outcome o = run_program(
      folder(), "profile " + test::shell_word(UNMASK_SOURCE_DIR "/experiments/models/tiny-sdar") +
                    " -m block_diffusion --set run.ranks=2 --set run.graphs=on --limit 1 -n 8 "
                    "--repetitions 1 --warmup 0 --device cuda-emulated --no-roofs -o profile");
  ASSERT_EQ(rows_in("profile").size(), 1U) << o.text;
  EXPECT_EQ(rows_in("profile")[0].at("reason"), "emulated kernels: the times mean nothing");
}

// Requests of a shape on a virtual clock, whose tokens nobody computes.
std::string served(const std::string& shape, const std::string& method, const std::string& serve) {
  return "title = \"t\"\nkind = \"serve\"\n[run]\nwarmup = 0\nrepetitions = 1\nbatch_size = 4\n"
         "gen_length = 64\n[serve]\nclock = \"virtual\"\narrivals = \"closed\"\nrequests = 12\n"
         "commits = \"lengths\"\nmax_prompt_tokens = 64\n" +
         serve + "[[model]]\npath = \"" UNMASK_SOURCE_DIR "/experiments/shapes/" + shape +
         "\"\nweights = \"random:0\"\n[[workload]]\nlengths = \"sdar-8b/gsm8k\"\n" + method;
}
constexpr const char* whole_blocks =
    "[[method]]\nname = \"block_diffusion\"\nparams.stop = \"none\"\n";

// The clock of a GPU knows the model and its ranks: the same tokens sooner, by no process but this one. By
// hand: LLaDA2.0-flash has 102.9 G parameters, 191.6 GiB in bfloat16, of which heads, feed-forwards and
// experts are halved: 97.1 with the embedding, the head and the routers whole.
TEST_F(ranked_runs, of_shapes_take_the_time_of_a_gpu) {
  std::ofstream(folder() + "/x.toml")
      << served("sdar-8b", whole_blocks, "cost = \"a100\"\n") << "[sweep]\nranks = [1, 2, 4]\n";
  const test::outcome o = run_program(folder(), "run x.toml -o out --no-progress");
  ASSERT_EQ(o.code, 0) << o.text;
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 3U);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const json &before = rows[i - 1].at("metrics"), &now = rows[i].at("metrics");
    EXPECT_EQ(now.at("output_tokens"), before.at("output_tokens"));
    EXPECT_LT(now.at("wall_seconds"), before.at("wall_seconds"));
    EXPECT_GT(2 * now.at("wall_seconds").get<double>(), before.at("wall_seconds"));
    EXPECT_FALSE(now.contains("sum_bytes"));
  }
  std::ofstream(folder() + "/x.toml")
      << served("llada2-flash", whole_blocks, "cost = \"a100\"\n") << "[sweep]\nranks = [2, 4]\n";
  const test::outcome large = run_program(folder(), "run x.toml -o large --no-progress");
  const std::vector<json> flash = rows_in("large");
  ASSERT_EQ(flash.size(), 2U) << large.text;
  EXPECT_EQ(flash[0].at("verdict"), "NOT_SUPPORTED");
  const std::string reason = flash[0].at("reason");
  EXPECT_TRUE(reason.starts_with("llada2-flash on 2 ranks needs 96.5 GiB")) << reason;
  EXPECT_TRUE(reason.ends_with("besides on each GPU, and the a100 has 73.6")) << reason;
  EXPECT_NE(flash[1].at("verdict"), "NOT_SUPPORTED") << flash[1].at("reason");
}

// Twelve requests of one length on two engines take as long as six on one, at twice the rate.
TEST_F(ranked_runs, engines_serve_their_share) {
  const std::string token_by_token = "[[method]]\nname = \"autoregressive\"\nparams.stop = false\n";
  const auto row_of = [&](const std::string& output, const std::string& requests) {
    std::ofstream(folder() + "/x.toml")
        << served("qwen3-8b", token_by_token, "cost = \"1:10 4:16\"\ntrim = 0.0\n");
    const test::outcome o =
        run_program(folder(), "run x.toml -o " + output + " --no-progress " + requests);
    EXPECT_EQ(o.code, 0) << o.text;
    return rows_in(output).at(0);
  };
  const json one = row_of("one", "--set serve.requests=6"),
             two = row_of("two", "--set serve.replicas=2");
  const json &a = one.at("metrics"), &b = two.at("metrics");
  EXPECT_EQ(b.at("requests_finished"), 12);
  EXPECT_EQ(b.at("output_tokens"), 12 * 64);
  EXPECT_EQ(b.at("wall_seconds"), a.at("wall_seconds"));
  for (const char* rate :
       {"tokens_per_second", "decode_tokens_per_second", "steady_tokens_per_second"}) {
    EXPECT_NEAR(b.at(rate).get<double>(), 2 * a.at(rate).get<double>(), 1e-9) << rate;
  }
  for (const char* same : {"e2e_mean_seconds", "batch_mean"}) {
    EXPECT_NEAR(b.at(same).get<double>(), a.at(same).get<double>(), 1e-9) << same;
  }
  EXPECT_EQ(b.at("batched_forwards").get<int>(), 2 * a.at("batched_forwards").get<int>());
  const test::outcome real = run_program(
      folder(),
      "run x.toml -o no --no-progress --set serve.replicas=2 --set 'serve.clock=\"real\"'");
  EXPECT_EQ(real.code, 2);
  EXPECT_NE(real.text.find("`replicas` above 1 needs clock = \"virtual\""), std::string::npos)
      << real.text;
}

// Step times are measured once, by rank 0: ranks that fitted others would choose other chunks, and be
// found at once.
TEST_F(ranked_runs, decide_by_the_clock_of_rank_0) {
  write("optimus");
  const test::outcome o =
      run_program(folder(), "run x.toml -o out --no-progress --ranks 2 --device cpu");
  ASSERT_EQ(o.code, 0) << o.text;
  ASSERT_EQ(rows_in("out").size(), 1U);
  EXPECT_EQ(rows_in("out")[0].at("calibration").at("origin"), "measured");
}

// Served, whoever moves the clock: ranks that saw other times would admit and choose otherwise, and be found.
// On a virtual clock the row is that of one process.
TEST_F(ranked_runs, serve_by_one_clock) {
  const auto row_of = [&](const std::string& clock, const std::string& output,
                          const std::string& arguments) {
    std::ofstream(folder() + "/x.toml")
        << "title = \"t\"\nkind = \"serve\"\n[run]\nwarmup = 0\nrepetitions = 1\nbatch_size = 2\n"
           "gen_length = 32\n[serve]\narrivals = \"closed\"\nrequests = 4\nclock = \""
        << clock << "\"\n"
        << (clock == "virtual" ? "cost = \"1:1 64:4\"\n" : "")
        << "[[model]]\npath = \"" UNMASK_SOURCE_DIR
           "/experiments/models/tiny-sdar\"\n"
           "[[workload]]\nfile = \"" UNMASK_SOURCE_DIR
           "/experiments/data/word_problem.jsonl\"\nlimit = 4\n[[method]]\nname = \"optimus\"\n";
    const test::outcome o = run_program(
        folder(), "run x.toml --no-progress --device cpu -o " + output + " " + arguments);
    EXPECT_EQ(o.code, 0) << o.text;
    return rows_in(output).at(0);
  };
  const json one = row_of("virtual", "one", "--set run.pieces=2"),
             two = row_of("virtual", "two", "--ranks 2");
  EXPECT_EQ(two.at("answers_hash"), one.at("answers_hash"));
  EXPECT_EQ(two.at("calibration"), one.at("calibration"));
  for (const char* same : {"batched_forwards", "batch_mean", "rows", "wall_seconds"}) {
    EXPECT_EQ(two.at("metrics").at(same), one.at("metrics").at(same)) << same;
  }
  const json real = row_of("real", "real", "--ranks 2");
  EXPECT_NE(real.at("verdict"), "FAILED") << real.at("reason");
  EXPECT_EQ(real.at("metrics").at("requests_finished"), 4);
}

// By the roofline of an A100 Optimus serves faster than plain block diffusion on every number of ranks, and
// with a dense model gains less on eight than on one. The claims of Figure 12 are judged on all its rows.
TEST_F(ranked_runs, of_figure_12_gain_less_on_more) {
  const std::string file = UNMASK_SOURCE_DIR "/experiments/optimus/figure_12.toml";
  const test::outcome o = run_program(
      folder(), "run " + test::shell_word(file) +
                    " --scale shapes -o out --no-progress --set serve.requests=32 --points " +
                    test::shell_word("{model = [\"sdar-1.7b\", \"sdar-8b\"], batch_size = 16}"));
  ASSERT_EQ(o.code, 0) << o.text;
  std::map<std::string, std::map<int, std::map<std::string, double>>> speed;
  for (const json& row : rows_in("out")) {
    speed[row.at("model").at("name")][row.at("ranks")][row.at("label")] =
        row.at("metrics").at("tokens_per_second");
  }
  ASSERT_EQ(speed.size(), 2U);
  for (auto& [model, on] : speed) {
    ASSERT_EQ(on.size(), 4U) << model;
    const auto gain = [&](int ranks) {
      return on[ranks].at("Optimus") / on[ranks].at("LMDeploy-BD32");
    };
    for (const int ranks : {1, 2, 4, 8}) EXPECT_GT(gain(ranks), 1) << model << " on " << ranks;
    EXPECT_LT(gain(8), gain(1)) << model;
  }
}

// The point fails within two seconds and names the rank; the next one is measured by new ranks.
TEST_F(ranked_runs, name_a_rank_that_is_killed_and_go_on) {
  write("block_diffusion delayed_cache", 200);
  const auto start = [&] {
    return std::make_unique<child_process>(
        std::vector<std::string>{"sh", "-c",
                                 "cd " + test::shell_word(folder()) + " && exec " +
                                     test::shell_word(UNMASK_PROGRAM) +
                                     " run x.toml -o out --no-progress --ranks 3 --device cpu"},
        folder() + "/out.txt", folder() + "/err.txt");
  };
  const auto run = start();
  std::vector<pid_t> followers;
  ASSERT_TRUE(comes_true([&] { return (followers = followers_in(folder())).size() == 2; }));
  // They compute: the last one has used its core for a while.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(followers.back(), SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  ASSERT_TRUE(comes_true([&] { return !rows_in("out").empty(); }, 10))
      << test::text_of(folder() + "/err.txt");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took.count(), 2);
  ASSERT_TRUE(comes_true([&] { return run->ended().has_value(); }, 60));
  EXPECT_EQ(test::exit_code_of(*run->ended()), 1);
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("verdict"), "FAILED");
  const std::string reason = rows[0].at("reason");
  EXPECT_NE(reason.find("(process " + std::to_string(followers.back()) + ") was ended by signal 9"),
            std::string::npos)
      << reason;
  EXPECT_NE(rows[1].at("verdict"), "FAILED") << rows[1].dump();
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// One that is stopped is named when patience ends, and killed.
TEST_F(ranked_runs, name_a_rank_that_does_not_answer) {
  write("block_diffusion", 200);
  const auto run = std::make_unique<child_process>(
      std::vector<std::string>{"sh", "-c",
                               "cd " + test::shell_word(folder()) +
                                   " && UNMASK_RANKS_PATIENCE=1 exec " +
                                   test::shell_word(UNMASK_PROGRAM) +
                                   " run x.toml -o out --no-progress --ranks 2 --device cpu"},
      folder() + "/out.txt", folder() + "/err.txt");
  std::vector<pid_t> followers;
  ASSERT_TRUE(comes_true([&] { return (followers = followers_in(folder())).size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ::kill(followers.front(), SIGSTOP);
  ASSERT_TRUE(comes_true([&] { return run->ended().has_value(); }, 20));
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 1U);
  const std::string reason = rows[0].at("reason");
  EXPECT_TRUE(reason.starts_with("rank 1 did not answer within 1 s while rank 0 waited")) << reason;
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// The end of rank 0 is the end of all, also of one that it cannot say goodbye from.
TEST_F(ranked_runs, end_with_rank_0) {
  write("block_diffusion", 200);
  const auto run = std::make_unique<child_process>(
      std::vector<std::string>{"sh", "-c",
                               "cd " + test::shell_word(folder()) + " && exec " +
                                   test::shell_word(UNMASK_PROGRAM) +
                                   " run x.toml -o out --no-progress --ranks 2 --device cpu"},
      folder() + "/out.txt", folder() + "/err.txt");
  ASSERT_TRUE(comes_true([&] { return followers_in(folder()).size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::kill(run->pid(), SIGKILL);
  EXPECT_TRUE(comes_true([&] { return followers_in(folder()).empty(); }, 2));
}

// SIGINT as a terminal sends it, to all ranks, and SIGTERM as a scheduler may, to rank 0: both end as one
// process does, and the same command goes on behind the row that was finished.
TEST_F(ranked_runs, end_by_a_signal_with_the_rows_they_finished) {
  write("block_diffusion", 60, "[sweep]\ngen_length = [8, 64]\n");
  for (const auto& [number, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    SCOPED_TRACE(code);
    const std::string output = "out" + std::to_string(code);
    const std::string line = test::shell_word(UNMASK_PROGRAM) + " run x.toml -o " + output +
                             " --no-progress --ranks 2 --device cpu";
    const std::string said = folder() + "/err" + std::to_string(code);
    child_process run({"sh", "-c", "cd " + test::shell_word(folder()) + " && exec setsid " + line},
                      folder() + "/out.txt", said);
    ASSERT_TRUE(comes_true([&] { return rows_in(output).size() == 1; })) << test::text_of(said);
    ::kill(number == SIGINT ? -run.pid() : run.pid(), number);
    ASSERT_TRUE(comes_true([&] { return run.ended().has_value(); }, 5));
    EXPECT_EQ(test::exit_code_of(*run.ended()), code);
    EXPECT_TRUE(comes_true([&] { return followers_in(folder()).empty(); }, 2));
    EXPECT_NE(test::text_of(said).find("stopped; 1 row and "), std::string::npos)
        << test::text_of(said);
    ASSERT_EQ(rows_in(output).size(), 1U);
    const test::outcome more = test::run_shell(folder(), line);
    EXPECT_EQ(more.code, 0) << more.text;
    EXPECT_EQ(rows_in(output).size(), 2U);
  }
}

// The variables by which a launcher says that a process is rank `rank` of two.
std::string variables_of(const std::string& launcher, int rank) {
  const std::string r = std::to_string(rank);
  if (launcher == "torchrun") {
    return "MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(::getpid()) + " RANK=" + r +
           " WORLD_SIZE=2 LOCAL_RANK=" + r + " LOCAL_WORLD_SIZE=2";
  }
  if (launcher == "mpirun") {
    return "OMPI_COMM_WORLD_RANK=" + r + " OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=" + r +
           " OMPI_COMM_WORLD_LOCAL_SIZE=2";
  }
  if (launcher == "mpiexec") {
    return "PMI_RANK=" + r + " PMI_SIZE=2 MPI_LOCALRANKID=" + r + " MPI_LOCALNRANKS=2";
  }
  return "SLURM_JOB_ID=" + std::to_string(::getpid()) + " SLURM_STEP_ID=0 SLURM_PROCID=" + r +
         " SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=" + r;
}

// Both ranks, each started by itself; the text ends with the exit code of rank 1.
test::outcome launched(const std::string& folder, const std::string& launcher,
                       const std::string& arguments) {
  const std::string words = " \"$UNMASK\" run x.toml --no-progress --device cpu " + arguments;
  return test::run_shell(folder, variables_of(launcher, 1) + words + " & " +
                                     variables_of(launcher, 0) + words +
                                     "; code=$?; wait $!; echo \"rank 1: $?\"; exit $code");
}

// One set of rows, the answers of one process with two pieces, and points of other numbers of ranks left.
TEST_F(ranked_runs, are_those_that_a_launcher_started) {
  write("block_diffusion", 2, "[sweep]\nranks = [1, 2]\n");
  const test::outcome own = run_program(folder(), "run x.toml -o own --no-progress --device cpu");
  ASSERT_EQ(own.code, 0) << own.text;
  const std::vector<json> want = rows_in("own");
  ASSERT_EQ(want.size(), 2U);
  for (const char* launcher : {"torchrun", "mpirun", "mpiexec", "srun"}) {
    SCOPED_TRACE(launcher);
    const test::outcome o = launched(folder(), launcher, std::string("-o ") + launcher);
    EXPECT_EQ(o.code, 0) << o.text;
    EXPECT_NE(o.text.find("rank 1: 0"), std::string::npos) << o.text;
    EXPECT_NE(
        o.text.find(std::string(launcher) + " started 2 ranks: 1 point of other numbers left out"),
        std::string::npos)
        << o.text;
    const std::vector<json> rows = rows_in(launcher);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].at("ranks"), 2);
    EXPECT_EQ(rows[0].at("point_id"), want[1].at("point_id"));
    EXPECT_EQ(rows[0].at("answers_hash"), want[1].at("answers_hash"));
  }
  // Nothing is left to measure: rank 1 leaves all the same.
  const test::outcome again = launched(folder(), "srun", "-o srun");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_NE(again.text.find("rank 1: 0"), std::string::npos) << again.text;
  EXPECT_EQ(rows_in("srun").size(), 1U);
}

// Two at once, as tasks of a job array: each has ranks, claims and a file of its own, and the points are measured
// once. Both together find what one run does.
TEST_F(ranked_runs, of_two_shards_share_a_folder) {
  write("block_diffusion", 2, "ranks = 2\n[sweep]\n\"params.threshold\" = [0.7, 0.8, 0.9]\n");
  const std::string words = "\"$UNMASK\" run x.toml --no-progress --device cpu";
  const test::outcome whole = test::run_shell(folder(), words + " -o whole");
  ASSERT_EQ(whole.code, 0) << whole.text;
  std::map<std::string, std::string> want, found;
  for (const json& row : rows_in("whole")) want[row.at("point_id")] = row.at("answers_hash");
  ASSERT_EQ(want.size(), 3U);
  for (int turn = 0; turn < 2; ++turn) {  // the second time all points have a row
    const test::outcome both = test::run_shell(
        folder(), words + " -o shards --shard 1/2 & " + words +
                      " -o shards --shard 0/2; code=$?; wait $!; exit $((code + $?))");
    ASSERT_EQ(both.code, 0) << both.text;
    std::size_t rows = 0;
    for (const char* part : {"part-00000-of-00002.jsonl", "part-00001-of-00002.jsonl"}) {
      std::istringstream lines(test::text_of(folder() + "/shards/" + part));
      for (std::string line; std::getline(lines, line); ++rows) {
        const json row = json::parse(line);
        EXPECT_EQ(row.at("ranks"), 2);
        found[row.at("point_id")] = row.at("answers_hash");
      }
    }
    EXPECT_EQ(rows, 3U);
    EXPECT_EQ(found, want);
  }
  EXPECT_EQ(followers_in(folder()), std::vector<pid_t>());
}

// Ranks that were not started alike: a sentence that names the one that is another.
TEST_F(ranked_runs, that_are_not_alike_are_named) {
  write("block_diffusion");
  const auto both = [&](const std::string& first, const std::string& second) {
    const std::string words = " run x.toml --no-progress --device cpu --ranks 2 -o ";
    return test::run_shell(folder(), variables_of("mpirun", 1) + " " + second + words + "other & " +
                                         variables_of("mpirun", 0) + " " + first + words +
                                         "out; code=$?; wait $!; exit $code");
  };
  fs::copy_file(UNMASK_PROGRAM, folder() + "/copy");
  const test::outcome program = both("\"$UNMASK\"", "./copy");
  EXPECT_EQ(program.code, 3) << program.text;
  EXPECT_NE(program.text.find("rank 1 runs another program than rank 0"), std::string::npos)
      << program.text;
  const auto reason_of = [&](const std::string& more) {
    fs::remove_all(folder() + "/out");
    const std::string words = " run x.toml --no-progress --device cpu --ranks 2 -o ";
    const test::outcome o =
        test::run_shell(folder(), variables_of("mpirun", 1) + " \"$UNMASK\"" + words + "other " +
                                      more + " & " + variables_of("mpirun", 0) + " \"$UNMASK\"" +
                                      words + "out; code=$?; wait $!; exit $code");
    EXPECT_NE(o.code, 0) << o.text;
    return rows_in("out").empty() ? o.text : rows_in("out")[0].at("reason").get<std::string>();
  };
  const std::string isa = reason_of("--set run.isa=portable"), seed = reason_of("--set run.seed=7");
  for (const std::string& reason : {isa, seed}) {
    EXPECT_NE(reason.find("rank 1: its plan has no point "), std::string::npos) << reason;
    EXPECT_NE(reason.find("it was started with other words, or with other files"),
              std::string::npos)
        << reason;
  }
}

// A rank that has another checkpoint has another plan; one that has none says so itself.
TEST_F(ranked_runs, with_another_checkpoint_are_named) {
  write("block_diffusion");
  const std::string models = UNMASK_SOURCE_DIR "/experiments/models/";
  const auto started = [&](const std::string& model) {
    const std::string at = folder() + "/" + model, words = " run x.toml --no-progress -o out ";
    fs::create_directory(at);
    std::string text = test::text_of(folder() + "/x.toml");
    const std::string path = models + "tiny-sdar";
    text.replace(text.find(path), path.size(), "model");
    std::ofstream(at + "/x.toml") << text;
    return words + "--device cpu --ranks 2";
  };
  const std::string words = started("first");
  started("second");
  fs::create_directory_symlink(models + "tiny-sdar", folder() + "/first/model");
  const auto run_both = [&] {
    fs::remove_all(folder() + "/first/out");
    return test::run_shell(
        folder(),
        "(cd second && UNMASK_RANKS_PATIENCE=1 UNMASK_RANKS_KEY=" + std::to_string(::getpid()) +
            " " + variables_of("mpirun", 1) + " \"$UNMASK\"" + words +
            ") & cd first && UNMASK_RANKS_PATIENCE=1 UNMASK_RANKS_KEY=" +
            std::to_string(::getpid()) + " " + variables_of("mpirun", 0) + " \"$UNMASK\"" + words +
            "; code=$?; wait $!; exit $code");
  };
  const test::outcome none = run_both();
  EXPECT_NE(none.code, 0);
  EXPECT_NE(none.text.find("x.toml: no model in model (no config.json there)"), std::string::npos)
      << none.text;
  EXPECT_NE(none.text.find("rank 1 did not answer within 1 s while rank 0 waited"),
            std::string::npos)
      << none.text;
  fs::create_directory_symlink(models + "deep-sdar", folder() + "/second/model");
  const test::outcome other = run_both();
  EXPECT_NE(other.code, 0);
  EXPECT_NE(other.text.find("rank 1: its plan has no point "), std::string::npos) << other.text;
}

TEST_F(ranked_runs, of_a_launcher_with_another_number_are_refused) {
  write("block_diffusion");
  const auto said = [&](const std::string& variables, const std::string& arguments) {
    return run_program(folder(), "run x.toml --no-progress --device cpu " + arguments, variables);
  };
  const test::outcome other = said(variables_of("srun", 0), "--ranks 3 -o three");
  EXPECT_EQ(other.code, 2) << other.text;
  EXPECT_NE(other.text.find("this run asks for 3 ranks, and srun started 2 (SLURM_STEP_NUM_TASKS): "
                            "srun --ntasks=3"),
            std::string::npos)
      << other.text;
  // One that waits for a rank that does not come.
  const test::outcome alone =
      said("UNMASK_RANKS_PATIENCE=0.5 " + variables_of("mpirun", 0), "--ranks 2 -o alone");
  EXPECT_EQ(alone.code, 3) << alone.text;
  EXPECT_NE(alone.text.find("rank 1 did not answer within 0.5 s while rank 0 waited"),
            std::string::npos)
      << alone.text;
  const test::outcome first =
      said("UNMASK_RANKS_PATIENCE=0.5 " + variables_of("mpirun", 1), "--ranks 2 -o alone");
  EXPECT_EQ(first.code, 3) << first.text;
  EXPECT_NE(first.text.find("rank 0 did not start within 0.5 s: /dev/shm/unmask-ranks-"),
            std::string::npos)
      << first.text;
  // A batch script without srun starts its own, and one rank asks no launcher.
  EXPECT_EQ(said("SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=2", "--ranks 2 -o batch").code, 0);
  EXPECT_EQ(said("LOCAL_RANK=1", "-o one").code, 0);
  const test::outcome nobody = said("UNMASK_FOLLOWS=soon", "-o nobody");
  EXPECT_EQ(nobody.code, 2) << nobody.text;
  EXPECT_NE(nobody.text.find("UNMASK_FOLLOWS is 'soon' but is set for the ranks of a run only: "
                             "unset it"),
            std::string::npos)
      << nobody.text;
  const test::outcome half = said("LOCAL_RANK=1", "--ranks 2 -o half");
  EXPECT_EQ(half.code, 2) << half.text;
  EXPECT_NE(half.text.find("ranks: LOCAL_RANK is set as torchrun sets it, but RANK, WORLD_SIZE, "
                           "LOCAL_WORLD_SIZE is not"),
            std::string::npos)
      << half.text;
}

// Rank 0 cannot start it again: the point fails by its name, and so does what comes. A pass of the first point
// takes several times as long as it lives.
TEST_F(ranked_runs, that_a_launcher_lost_are_named) {
  write("block_diffusion delayed_cache", 1000);
  const auto start = [&](int rank) {
    return std::make_unique<child_process>(
        std::vector<std::string>{"sh", "-c",
                                 "cd " + test::shell_word(folder()) + " && exec env " +
                                     variables_of("torchrun", rank) + " " +
                                     test::shell_word(UNMASK_PROGRAM) +
                                     " run x.toml -o out --no-progress --ranks 2 --device cpu"},
        folder() + "/out" + std::to_string(rank), folder() + "/err" + std::to_string(rank));
  };
  const auto first = start(0), second = start(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  ::kill(second->pid(), SIGKILL);
  ASSERT_TRUE(comes_true([&] { return second->ended().has_value(); }, 5));
  ASSERT_TRUE(comes_true([&] { return first->ended().has_value(); }, 20));
  EXPECT_EQ(test::exit_code_of(*first->ended()), 1) << test::text_of(folder() + "/err0");
  const std::vector<json> rows = rows_in("out");
  ASSERT_EQ(rows.size(), 2U);
  const std::string gone =
      "rank 1 (process " + std::to_string(second->pid()) + ") has ended; torchrun started it";
  EXPECT_EQ(rows[0].at("reason"), gone);
  EXPECT_EQ(rows[1].at("reason"), gone + "; torchrun started the ranks and must start them again");
}

// An artifact of several ranks takes all cores: beside one in each lane it comes when they are over, though it
// is first in the folder, and is over soon. The package says that nothing of the folder is timed.
TEST_F(ranked_runs, have_no_lane_beside_them) {
  for (const auto& [id, ranks, limit] :
       {std::tuple{"table_1", 4, 1}, std::tuple{"table_2", 1, 100}}) {
    write("block_diffusion", limit, "ranks = " + std::to_string(ranks) + "\n");
    const std::regex entry(R"(\[\[(model|workload)\]\])");
    fs::create_directory(folder() + "/all");
    std::ofstream(folder() + "/all/" + id + ".toml")
        << std::regex_replace(test::text_of(folder() + "/x.toml"), entry, "[[scale.tiny.$1]]")
        << "[scale.tiny]\ntakes = \"1 s\"\n[layout]\ncolumns = [\"nfe\"]\n[artifact]\npaper = "
           "\"focus\"\nid = \""
        << id << "\"\nkind = \"table\"\ntitle = \"t\"\n";
  }
  const test::outcome o =
      run_program(folder(), "run all -o out --lanes 2 --experiments-dir all", "UNMASK_PYTHON=true");
  EXPECT_EQ(o.code, 0) << o.text;
  const std::size_t plain = o.text.find("[1/2] focus table_2 tiny: measured"),
                    ranked = o.text.find("[2/2] focus table_1 tiny: measured");
  EXPECT_NE(plain, std::string::npos) << o.text;
  EXPECT_NE(ranked, std::string::npos) << o.text;
}

TEST_F(ranked_runs, refuse_what_ranks_cannot_do_in_a_sentence) {
  const auto refused = [&](const std::string& arguments, int code, const std::string& sentence) {
    const test::outcome o = run_program(folder(), "run x.toml --no-progress " + arguments);
    EXPECT_EQ(o.code, code) << o.text;
    EXPECT_NE(o.text.find(sentence), std::string::npos) << o.text;
  };
  write("block_diffusion");
  refused("--ranks 2 --set run.pieces=3 --device cpu", 2,
          "`pieces` is 3 but must be `ranks`, 2, times 1, 2, 4, ...");
  refused("--ranks 2 --set run.format=int8 --device cpu", 2, "`format` int8 needs ranks = 1");
  refused("--ranks 2 --set run.gemm=fastest --device cpu", 2, "`gemm` fastest needs ranks = 1");
  refused("--ranks 2 --set run.pieces=4 --set run.sums=bf16 --device cpu", 2,
          "`sums` bf16 needs pieces = 0 or as many as ranks, 2, not 4");
  refused("--set run.experts=whole --device cpu", 2, "'whole'");
  refused("--ranks 65 --device cpu", 2, "`ranks` is 65 but must be from 1 to 64");
  write("block_diffusion", 2, "[probe]\nnames = [\"decoding\"]\n");
  refused("--ranks 2 --device cpu", 2, "`probe` needs ranks = 1");
  // A model that cannot be dealt is a row.
  write("block_diffusion");
  const test::outcome o =
      run_program(folder(), "run x.toml -o four --no-progress --ranks 4 --device cpu");
  EXPECT_EQ(o.code, 0) << o.text;
  ASSERT_EQ(rows_in("four").size(), 1U);
  EXPECT_EQ(rows_in("four")[0].at("verdict"), "NOT_SUPPORTED");
  EXPECT_EQ(
      rows_in("four")[0].at("reason"),
      "tiny-sdar: 6 heads in 3 groups cannot be dealt to 4 ranks: at most 3, or a multiple of "
      "it that divides the heads");
}

}  // namespace
}  // namespace unmask
