// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The engine over the step loop with real (small) models: what a request decodes to does not
// depend on how it was scheduled.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/engine/arrivals.h"
#include "harness/engine/closed_loop.h"
#include "harness/engine/latency.h"
#include "harness/engine/loop_runner.h"
#include "harness/engine/trajectory.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/emulation.h"
#include "kernels/sanitized.h"
#include "tests/harness/engine/support.h"
#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using enum model_family;

using namespace testing_engine;
using namespace testing;

using tokens = std::vector<std::vector<std::int32_t>>;

struct served {
  collector seen;
  std::int32_t free_pages = 0, pages = 0;
  std::int64_t repeated = 0;  // recorded stretches of layers
  tokens outputs(std::size_t n) const {
    tokens all;
    for (std::size_t i = 0; i < n; ++i) all.push_back(seen.of(i).answer.output);
    return all;
  }
};

recipe recipe_of(const transformer& model, const std::string& method, const parameter_map& given) {
  return test::recipe_of(method, model.config(), given);
}

served serve(const transformer& model, recipe method, const std::vector<sequence_request>& requests,
             const engine_settings& settings, std::int32_t places, std::int32_t pages = 0,
             std::int32_t chunk = 0, double rate = 0, step_observer* observer = nullptr,
             bool dry = false, std::int32_t repeat_window = 0) {
  std::int32_t length = 1;
  for (const sequence_request& r : requests) {
    length = std::max(length, method.pace->canvas_length(model.config(), r));
  }
  loop_runner runner(
      model, std::move(method), {places, length, pages, dry},
      [&](std::size_t i) {
        sequence_request r = requests[i];
        r.id = static_cast<std::int64_t>(i);
        return r;
      },
      chunk, repeat_window);
  runner.loop().observe(observer);
  engine_clock clock(std::make_shared<constant>(1));
  served result;
  const auto plans = at_times(rate > 0 ? poisson_arrivals(rate, requests.size(), 2)
                                       : std::vector<double>(requests.size(), 0));
  run_engine(runner, plans, settings, clock, result.seen);
  EXPECT_EQ(runner.loop().totals().steps, static_cast<std::int64_t>(result.seen.iterations.size()));
  result.free_pages = runner.free_pages();
  result.pages = runner.pages();
  result.repeated = runner.loop().graphs().replayed;
  return result;
}

struct tried_setting {
  const char* label;
  const char* method;
  model_family family;
  parameter_map given;
};

const std::vector<tried_setting>& settings() {
  static const std::vector<tried_setting> all = {
      {"block", "block_diffusion", sdar, {{"threshold", 0.5}}},
      {"block_hf", "block_diffusion", sdar, {{"threshold", 0.5}, {"loop", "hf"}}},
      {"moe", "block_diffusion", llada2_moe, {{"threshold", 0.5}}},
      {"autoregressive", "autoregressive", qwen3, {}},
      {"delayed", "delayed_cache_plus", sdar, {{"threshold", 0.5}}},
      {"delayed_twice",
       "delayed_cache",
       sdar,
       {{"threshold", 0.3}, {"commit", "frozen_then_full"}}},
      {"focus", "focus", sdar, {{"threshold", 0.5}}},
      {"focus_shifted", "focus", llama, {{"threshold", 0.5}}},
      {"focus_moe", "focus", llada2_moe, {{"threshold", 0.5}}},
      {"focus_holes", "focus", sdar, {{"threshold", 0.5}, {"placeholder_integrity", false}}},
      {"optimus", "optimus", sdar, {{"threshold", 0.5}, {"chunk", 4}}},
      {"optimus_whole", "optimus", llada2_moe, {{"threshold", 0.4}, {"policy", "prefix_caching"}}},
      {"optimus_ahead",
       "optimus",
       sdar,
       {{"threshold", 0.4}, {"policy", "prefix_caching"}, {"out_block", true}}},
      {"optimus_fusion", "optimus", sdar, {{"chunk", 4}, {"boundary_fusion", "full"}}},
      {"optimus_stale", "optimus", sdar, {{"chunk", 4}, {"suffix_visible", "stale"}}},
      {"optimus_late",
       "optimus",
       sdar,
       {{"chunk", 3}, {"prefill_emits", false}, {"final_refresh", true}}},
      {"vanilla", "vanilla", llada, {{"block_length", 8}}}};
  return all;
}

// An answer ends where it first repeats itself, whether a block ends there or not, and whoever else
// is decoded; what would have come behind costs no forward.
TEST(loop, an_answer_that_repeats_itself_ends_there) {
  int cut = 0, inside = 0;
  for (const tried_setting& c : settings()) {
    const auto model = tiny_model(c.family, cpu_backend());
    const auto requests = tiny_requests(5, sanitized ? 24 : 72);
    tokens wanted =
        testing::outputs(testing::decode_closed(*model, c.method, c.given, requests, 1));
    std::vector<bool> repeats;
    for (auto& answer : wanted) {
      repetition_watch watch(2);
      const auto end = std::ranges::find_if(answer, [&](std::int32_t t) { return watch.add(t); });
      repeats.push_back(end != answer.end());
      if (!repeats.back()) continue;
      answer.erase(end + 1, answer.end());
      ++cut;
      inside += answer.size() % 8 != 0;
    }
    for (const std::string& policy : batching_names()) {
      engine_settings s;
      s.policy = parse_batching(policy);
      const auto run = [&](std::int32_t window) {
        return serve(*model, recipe_of(*model, c.method, c.given), requests, s, 2, 0, 0, 0, nullptr,
                     false, window);
      };
      const served stopped = run(2), free = run(0);
      EXPECT_EQ(stopped.outputs(requests.size()), wanted) << c.label << " under " << policy;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const finished_answer &with = stopped.seen.of(i).answer, &without = free.seen.of(i).answer;
        EXPECT_EQ(with.repeats, repeats[i]) << c.label << " under " << policy;
        EXPECT_EQ(stopped.seen.of(i).end, outcome::finished);
        // Blocks in step wait for each other: there a forward may go by without a decision of its.
        const auto forwards = s.policy == batching::block_sync ? &sequence_counters::denoise_steps
                                                               : &sequence_counters::forwards;
        EXPECT_LE(with.counters.*forwards, without.counters.*forwards)
            << c.label << " under " << policy << ", request " << i;
      }
      EXPECT_EQ(stopped.free_pages, stopped.pages);
    }
  }
  EXPECT_GT(cut, 5);
  EXPECT_GT(inside, 2);
}

TEST(loop, tokens_of_a_request_do_not_depend_on_scheduling) {
  for (const tried_setting& c : settings()) {
    const auto model = tiny_model(c.family, cpu_backend());
    const auto requests = tiny_requests(sanitized ? 4 : 7, sanitized ? 24 : 72);
    const tokens alone =
        testing::outputs(testing::decode_closed(*model, c.method, c.given, requests, 1));
    for (const std::string& policy : batching_names()) {
      for (const auto& [places, rate] : {std::pair(7, 0.0), std::pair(2, 0.1)}) {
        engine_settings s;
        s.policy = parse_batching(policy);
        s.prefill_tokens = 40;
        const served r =
            serve(*model, recipe_of(*model, c.method, c.given), requests, s, places, 0, 0, rate);
        EXPECT_EQ(r.outputs(requests.size()), alone)
            << c.label << " " << policy << " places " << places << " rate " << rate;
        EXPECT_EQ(r.free_pages, r.pages);
      }
    }
  }
}

// The same on the CUDA backend's kernels, emulated: launches wait until the host does, kernels
// reach the backend's memory only, and layers are recorded and repeated while requests come and go.
// A kernel does not know the policy, which the CPU runs with every setting above: here every setting
// runs under two policies, and every policy with six settings.
TEST(loop, a_device_serves_the_same_tokens) {
  if (thread_sanitized) GTEST_SKIP() << "the emulator's fibers";
  const cuda::emulation before = cuda::current_emulation();
  const std::vector<std::string>& policies = batching_names();
  std::int64_t repeated = 0;
  for (std::size_t i = 0; i < settings().size(); ++i) {
    const tried_setting& c = settings()[i];
    const auto requests = tiny_requests(3, sanitized ? 8 : 16);
    const tokens alone = testing::outputs(testing::decode_closed(
        *tiny_model(c.family, cpu_backend()), c.method, c.given, requests, 1));
    const auto model = tiny_model(c.family, cuda_emulated_backend({.graphs = true}), 256);
    for (const std::size_t turn : {i, i + 2}) {
      const std::string& policy = policies[turn % policies.size()];
      engine_settings s;
      s.policy = parse_batching(policy);
      s.prefill_tokens = 40;
      cuda::set_emulation({{.backwards = true}, true, true});
      const served r =
          serve(*model, recipe_of(*model, c.method, c.given), requests, s, 2, 0, 0, 0.1);
      EXPECT_EQ(r.outputs(requests.size()), alone) << c.label << " " << policy;
      EXPECT_EQ(r.free_pages, r.pages);
      repeated += r.repeated;
    }
    cuda_emulated_backend().synchronize();
    cuda::set_emulation(before);
  }
  EXPECT_GT(repeated, 0);
}

// A closed batch takes at most 8192 rows of prompts into one forward, so a large batch of long prompts
// needs no more room than that and its blocks; the answers are those of smaller batches.
TEST(loop, prompts_of_a_closed_batch_enter_in_pieces) {
  const auto model = tiny_model(sdar, cpu_backend(), 8192 + 33 * 64);
  std::vector<sequence_request> requests = tiny_requests(33, 8);
  for (sequence_request& r : requests) {
    r.prompt.resize(300, r.prompt.back());
  }
  const method_info& method = method_registry::instance().find("block_diffusion");
  const parameters given = test::resolved("block_diffusion");
  const std::int32_t rows = rows_needed(model->config(), method, given, requests, 33);
  EXPECT_GT(rows, 8192);
  EXPECT_LE(rows, model->max_rows());
  std::int64_t all = 0;
  for (const sequence_request& r : requests) all += static_cast<std::int64_t>(r.prompt.size());
  EXPECT_GT(all, 9000);
  const auto together = testing::decode_closed(*model, "block_diffusion", {}, requests, 33);
  const auto apart = testing::decode_closed(*model, "block_diffusion", {}, requests, 8);
  EXPECT_EQ(testing::outputs(together), testing::outputs(apart));
}

// Two prompts fit at first, their answers do not: somebody gives way again and again.
TEST(loop, preempted_requests_decode_to_the_same_tokens) {
  for (const tried_setting& c : settings()) {
    const auto model = tiny_model(c.family, cpu_backend());
    const auto requests = tiny_requests(6, 152);
    parameter_map given = c.given;
    const std::string method = c.method;
    if (method != "autoregressive" && method != "vanilla") given["stop"] = "none";
    const tokens alone =
        testing::outputs(testing::decode_closed(*model, c.method, given, requests, 1));
    // Caching inside a block leaves K/V that a fresh prefill of the same tokens does not repeat.
    const bool exact =
        method == "block_diffusion" || method == "autoregressive" || method == "vanilla";
    for (const bool keep : {true, false}) {
      if (keep && !exact) continue;
      for (const batching policy : {batching::iter, batching::lmd, batching::block_sync}) {
        if (sanitized && policy == batching::lmd) continue;
        engine_settings s;
        s.policy = policy;
        s.grow_pages = true;
        s.keep_on_preemption = keep;
        const served r = serve(*model, recipe_of(*model, c.method, given), requests, s, 4, 5);
        EXPECT_EQ(r.outputs(requests.size()), alone) << c.label << " " << name_of(policy) << keep;
        EXPECT_EQ(r.free_pages, r.pages);
        std::int32_t preemptions = 0;
        for (const request_record& q : r.seen.requests) {
          preemptions += q.preemptions;
          EXPECT_EQ(
              q.answer.counters.committed >= static_cast<std::int64_t>(q.answer.output.size()),
              true);
        }
        // A method that touches its whole canvas has all its pages from the start.
        EXPECT_EQ(preemptions > 0, method != "vanilla") << c.label;
      }
    }
  }
}

// A prompt in pieces leaves the same K/V behind as a whole one.
TEST(loop, chunked_prefill_decodes_to_the_same_tokens) {
  for (const tried_setting& c : settings()) {
    const auto model = tiny_model(c.family, cpu_backend());
    const auto requests = tiny_requests(5, 40);
    const tokens alone =
        testing::outputs(testing::decode_closed(*model, c.method, c.given, requests, 1));
    for (const std::int32_t chunk : {1, 8, 13, 16, 1000}) {
      if (std::string(c.method) == "vanilla") {
        EXPECT_THROW(serve(*model, recipe_of(*model, c.method, c.given), requests, {}, 2, 0, chunk),
                     error);
        continue;
      }
      engine_settings s;
      s.prefill_tokens = chunk;
      const served r =
          serve(*model, recipe_of(*model, c.method, c.given), requests, s, 3, 0, chunk);
      EXPECT_EQ(r.outputs(requests.size()), alone) << c.label << " " << chunk;
      std::int64_t prefills = 0, widest = 0;
      for (const iteration_record& it : r.seen.iterations) {
        prefills += it.prefill;
        if (it.prefill) widest = std::max(widest, it.rows);
      }
      if (chunk == 8) {
        EXPECT_GE(prefills, 5) << c.label;
        EXPECT_LE(widest, 8);
      }
    }
  }
}

// An elastic chunk follows the load and so do the tokens; everything else holds.
TEST(loop, elastic_chunks_serve_everybody) {
  const auto model = tiny_model(sdar, cpu_backend());
  const auto requests = tiny_requests(9, 72);
  const parameter_map given = {{"threshold", 0.5},
                               {"cold_steps", 8},
                               {"latency", "roofline"},
                               {"latency_floor_ms", 0.1},
                               {"stop", "none"}};
  for (const std::string& policy : batching_names()) {
    engine_settings s;
    s.policy = parse_batching(policy);
    s.grow_pages = true;
    s.keep_on_preemption = false;
    const served r = serve(*model, recipe_of(*model, "optimus", given), requests, s, 4, 7, 0, 0.3);
    EXPECT_EQ(r.free_pages, r.pages) << policy;
    std::int64_t smaller = 0;
    for (const iteration_record& it : r.seen.iterations) {
      const std::int64_t stepping = it.requests - it.recomputed;
      smaller += !it.prefill && it.rows - it.recomputed_rows < 8 * stepping;
    }
    EXPECT_GT(smaller, 0) << policy;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(r.seen.of(i).answer.output.size(), 72u) << policy;
    }
  }
}

// Delayed caches and FOCUS change the rows of a block after every forward: LMDeploy runs them one
// forward per turn, and longer turns are refused.
TEST(loop, frozen_rows_take_turns_of_one_forward) {
  const auto model = tiny_model(sdar, cpu_backend());
  const auto requests = tiny_requests(3, 24);
  for (const char* method : {"delayed_cache", "delayed_cache_plus", "focus"}) {
    engine_settings s;
    s.policy = batching::lmd;
    const served r = serve(*model, recipe_of(*model, method, {}), requests, s, 3);
    for (const iteration_record& it : r.seen.iterations) EXPECT_EQ(it.recomputed, 0) << method;
    s.forwards_per_turn = 4;
    test::expect_error(exit_code::usage, "forwards_per_turn",
                       [&] { serve(*model, recipe_of(*model, method, {}), requests, s, 3); });
  }
}

// A loop without layers refuses, by name, what needs them, and only that.
TEST(loop, dry_runs_refuse_what_reads_activations) {
  struct dry_case {
    const char* method;
    model_family family;
    parameter_map given;
    bool refused;
  };
  const std::int64_t eight = 8;
  const std::vector<dry_case> cases = {{"focus", sdar, {}, true},
                                       {"focus_dllm", llada, {{"block_length", eight}}, true},
                                       {"sparse_dllm", llada, {{"block_length", eight}}, true},
                                       {"sparse_d", llada, {{"block_length", eight}}, true},
                                       {"dllm_cache", llada, {{"block_length", eight}}, true},
                                       {"delayed_cache_plus", sdar, {}, false},
                                       {"optimus", sdar, {{"chunk", 4}}, false},
                                       {"optimus", sdar, {}, false},
                                       {"ada_dlm", llada, {}, false},
                                       {"fast_dllm", llada, {{"block_length", eight}}, false}};
  const commit_process process{8, 0.1, 0.5};
  const auto source = [&](std::int64_t id) {
    return draw_trajectory(process, 24, 24, static_cast<std::uint64_t>(id));
  };
  for (const dry_case& c : cases) {
    const auto model = tiny_model(c.family, cpu_backend());
    const auto requests = tiny_requests(2, 24);
    const auto run = [&] {
      return serve(*model, with_trajectory(recipe_of(*model, c.method, c.given), source, 1),
                   requests, {}, 2, 0, 0, 0, nullptr, true);
    };
    if (c.refused) {
      test::expect_error(exit_code::usage, c.method, run);
    } else {
      EXPECT_EQ(run().seen.requests.size(), 2u) << c.method;
    }
  }
}

// Without layers the elastic scheduler still learns from what the trajectory decides.
TEST(loop, elastic_chunks_follow_a_trajectory) {
  const auto model = tiny_model(sdar, cpu_backend());
  const auto requests = tiny_requests(6, 72);
  const commit_process process{8, 0, 0.2};
  const auto source = [&](std::int64_t id) {
    return draw_trajectory(process, 24, 72, static_cast<std::uint64_t>(id));
  };
  const parameter_map given = {
      {"cold_steps", 8}, {"latency", "roofline"}, {"latency_floor_ms", 0.0}, {"stop", "none"}};
  const served r = serve(*model, with_trajectory(recipe_of(*model, "optimus", given), source, 1),
                         requests, {}, 6, 0, 0, 0, nullptr, true);
  std::int64_t narrow = 0;
  for (const iteration_record& it : r.seen.iterations) {
    narrow += !it.prefill && it.rows <= 4 * it.requests;
  }
  EXPECT_GT(narrow, static_cast<std::int64_t>(r.seen.iterations.size()) / 2);
}

// The counts of the engine's forwards are those of its requests.
TEST(loop, work_is_conserved) {
  for (const batching policy :
       {batching::iter, batching::lmd, batching::block_sync, batching::fdfo}) {
    const auto model = tiny_model(sdar, cpu_backend());
    const auto requests = tiny_requests(6, 50);
    engine_settings s;
    s.policy = policy;
    const served r =
        serve(*model, recipe_of(*model, "block_diffusion", {{"threshold", 0.5}}), requests, s, 3);
    std::int64_t rows = 0, committed = 0, candidates = 0, forwards = 0;
    std::int64_t rows_of = 0, committed_of = 0, candidates_of = 0, forwards_of = 0;
    for (const iteration_record& it : r.seen.iterations) {
      rows += it.rows;
      committed += it.committed;
      candidates += it.candidates;
      forwards += it.requests;
    }
    for (const request_record& q : r.seen.requests) {
      rows_of += q.answer.counters.rows;
      committed_of += q.answer.counters.committed;
      candidates_of += q.answer.counters.head_rows;
      forwards_of += q.answer.counters.forwards;
    }
    EXPECT_EQ(rows, rows_of) << name_of(policy);
    EXPECT_EQ(committed, committed_of) << name_of(policy);
    EXPECT_EQ(candidates, candidates_of) << name_of(policy);
    EXPECT_EQ(forwards, forwards_of) << name_of(policy);
  }
}

// Recorded with the model, replayed without it, and read back from a file: same tokens, same
// forwards, same times.
TEST(trajectory, replay_repeats_the_recording) {
  const auto model = tiny_model(sdar, cpu_backend());
  const auto requests = tiny_requests(5, 60);
  const parameter_map given = {{"threshold", 0.4}};
  trajectory_recorder recorder;
  engine_settings s;
  const served real = serve(*model, recipe_of(*model, "block_diffusion", given), requests, s, 3, 0,
                            0, 0.2, &recorder);
  EXPECT_EQ(recorder.size(), 5u);
  const scratch_folder folder;
  const std::string path = (folder.path() / "trajectories").string();
  recorder.save(path);
  const std::vector<trajectory_source> sources = {[&](std::int64_t id) { return recorder.of(id); },
                                                  load_trajectories(path)};
  for (const trajectory_source& source : sources) {
    for (const bool dry : {false, true}) {
      const served again =
          serve(*model, with_trajectory(recipe_of(*model, "block_diffusion", given), source, 0),
                requests, s, 3, 0, 0, 0.2, nullptr, dry);
      EXPECT_EQ(again.outputs(5), real.outputs(5));
      EXPECT_EQ(again.seen.trace(), real.seen.trace());
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(again.seen.of(i).finish, real.seen.of(i).finish);
        EXPECT_EQ(again.seen.of(i).answer.counters.rows, real.seen.of(i).answer.counters.rows);
      }
    }
  }
  // Under another recipe: half blocks decide the same tokens in more, smaller forwards.
  const served other = serve(
      *model,
      with_trajectory(recipe_of(*model, "block_diffusion", {{"block_length", 4}}), sources[0], 0),
      requests, s, 3, 0, 0, 0.2);
  EXPECT_GT(other.seen.iterations.size(), 0u);
  for (std::size_t i = 0; i < 5; ++i) {
    const auto& a = other.seen.of(i).answer.output;
    const auto& b = real.seen.of(i).answer.output;
    const std::size_t n = std::min(a.size(), b.size());
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()));
  }
  write_file(path, "0 1:2\n1 3:\n");
  EXPECT_THROW(load_trajectories(path), error);
  EXPECT_THROW(load_trajectories(path + ".none"), error);
}

// The fitted process has the published moments, and so has the decoding that draws from it.
TEST(trajectory, published_commits_are_reproduced) {
  EXPECT_EQ(published_commits().size(), 14u);
  EXPECT_THROW(find_commits("sdar/sharegpt"), error);
  for (const commit_statistics& c : published_commits()) {
    const commit_process p = fit_commits(c.mean, c.deviation, 32);
    EXPECT_NEAR(p.mean(), c.mean, 1e-6) << c.name;
    EXPECT_NEAR(p.deviation(), c.deviation, 1e-6) << c.name;
    EXPECT_GE(p.at_once, 0);
    EXPECT_LE(p.at_once, 1);
    // Commits per forward of drawn blocks, their K/V forward counted with none.
    double steps = 0, sum = 0, squares = 0;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::vector<std::int32_t> step_of =
          draw_trajectory(p, 64, 320, stream_key(1, i)).steps();
      for (std::size_t block = 0; block < 320; block += 32) {
        std::map<std::int32_t, int> commits;
        for (std::size_t k = block; k < block + 32; ++k) ++commits[step_of[k]];
        for (const auto& [step, n] : commits) {
          sum += n;
          squares += n * n;
        }
        steps += static_cast<double>(commits.size()) + 1;
      }
    }
    const double mean = sum / steps;
    EXPECT_NEAR(mean, c.mean, 0.06 * c.mean) << c.name;
    EXPECT_NEAR(std::sqrt(squares / steps - mean * mean), c.deviation, 0.08 * c.deviation)
        << c.name;
  }
  EXPECT_THROW(fit_commits(20, 5, 32), error);
  EXPECT_THROW(fit_commits(5, 30, 32), error);
  EXPECT_THROW(fit_commits(0.5, 1, 32), error);
}

TEST(latency, times_full_batches_by_their_rows) {
  const auto model = tiny_model(sdar, cpu_backend());
  latency_grid grid;
  grid.batches = {1, 3};
  grid.chunks = {4, 8};
  grid.context = 40;
  grid.repeats = 5;
  const auto make = [&](std::int32_t chunk) {
    return recipe_of(*model, "block_diffusion",
                     {{"block_length", std::int64_t{chunk}}, {"stop", "none"}});
  };
  const auto samples = measure_latency(*model, make, grid);
  ASSERT_EQ(samples.size(), 4u);
  const std::int64_t rows[] = {4, 12, 8, 24};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(samples[i].rows, rows[i]);
    EXPECT_EQ(samples[i].samples.size(), 5u);
    EXPECT_GT(samples[i].seconds, 0);
  }
  EXPECT_EQ(cost_of(samples).samples().size(), 4u);
}

// Prompts of 40 tokens and answers of 256. A method without a cache computes all of it at every place.
TEST(latency, makes_room_for_methods_that_compute_the_whole_canvas) {
  latency_grid grid;
  grid.batches = {1, 3};
  grid.context = 40;
  grid.repeats = 2;
  const model_config config = tiny_config(llada);
  const auto make = [&](std::int32_t) { return test::recipe_of("vanilla", config); };
  const std::int32_t rows = latency_rows(config, make, grid);
  EXPECT_EQ(rows, 3 * (40 + 256));
  const auto samples = measure_latency(*tiny_model(llada, cpu_backend(), rows), make, grid);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].rows, 40 + 256);
  EXPECT_EQ(samples[1].rows, 3 * (40 + 256));
}

}  // namespace
}  // namespace unmask
