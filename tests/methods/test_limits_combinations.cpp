// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Combinations of methods are their parts where the other part has nothing to say.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using namespace testing;

const model_family families[] = {model_family::sdar, model_family::llada2_moe};

// A threshold in place of the freeze rule: block diffusion, row for row.
TEST(limits_ada_blocks, a_threshold_rule_is_block_diffusion) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 40);
    for (const double threshold : {0.2, 0.5, 0.9}) {
      const auto blocks =
          decode_closed(*model, "block_diffusion",
                        {{"threshold", threshold}, {"accept_compare", ">"}}, requests, 2);
      const auto frozen = decode_closed(
          *model, "ada_blocks", {{"rule", "threshold"}, {"threshold", threshold}}, requests, 2);
      EXPECT_EQ(outputs(frozen), outputs(blocks)) << threshold;
      EXPECT_EQ(frozen.steps, blocks.steps);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(frozen.answers[i].counters.rows, blocks.answers[i].counters.rows);
        EXPECT_EQ(frozen.answers[i].counters.commit_forwards,
                  blocks.answers[i].counters.commit_forwards);
      }
    }
  }
}

// K = 1 and one confidence: exactly the best token freezes, which is the static rule of one token
// per step.
TEST(limits_ada_blocks, one_token_per_step_is_the_static_rule) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 24);
    const auto blocks = decode_closed(*model, "block_diffusion",
                                      {{"remasking", "low_confidence_static"}}, requests, 2);
    const auto frozen =
        decode_closed(*model, "ada_blocks", {{"k_tokens", 1}, {"history", 1}}, requests, 2);
    EXPECT_EQ(outputs(frozen), outputs(blocks));
    EXPECT_EQ(frozen.steps, blocks.steps);
  }
}

// With its own defaults it decides more than one token per step, or the rule would not be there.
TEST(limits_ada_blocks, the_rule_decides_several_tokens) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(3, 40);
  const parameter_map all = {{"stop", "none"}};
  std::int64_t committed = 0, steps = 0;
  for (const auto& a : decode_closed(*model, "ada_blocks", all, requests, 1).answers) {
    committed += a.counters.committed;
    steps += a.counters.denoise_steps;
  }
  EXPECT_GT(committed, steps);
}

// A budget beyond every chunk: nothing is evicted, and what is left is Optimus.
TEST(limits_focus_chunks, a_large_budget_is_optimus) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 40);
    for (const char* preset : {"chunk8", "bd32"}) {
      const bool chunks = std::string(preset) == "chunk8";
      parameter_map given = {{"threshold", 0.5}};
      const auto plain =
          decode_closed(*model, "optimus", given, requests, 2, chunks ? preset : "prefix_caching");
      given["alpha"] = 1024.0;
      const auto evicting = decode_closed(*model, "focus_chunks", given, requests, 2, preset);
      EXPECT_EQ(outputs(evicting), outputs(plain)) << preset;
      EXPECT_EQ(evicting.steps, plain.steps);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(evicting.answers[i].counters.layer_rows, plain.answers[i].counters.layer_rows);
        EXPECT_EQ(evicting.answers[i].counters.keys_seen, plain.answers[i].counters.keys_seen);
      }
    }
  }
}

// One masked row survives each forward, so that each denoising step decides exactly one token; rows
// and keys are spared in the layers above.
TEST(limits_focus_chunks, one_kept_row_decides_one_token) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 40);
    const parameter_map base = {
        {"threshold", 0.0}, {"prefill_emits", false}, {"chunk", 8}, {"stop", "none"}};
    parameter_map one = base;
    one["selection"] = "top";
    one["k"] = 1;
    one["ar_context"] = false;
    const auto evicting = decode_closed(*model, "focus_chunks", one, requests, 2);
    const auto plain = decode_closed(*model, "optimus", base, requests, 2);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const sequence_counters& c = evicting.answers[i].counters;
      EXPECT_EQ(c.committed, c.denoise_steps);
      const double forwards = static_cast<double>(c.forwards),
                   other = static_cast<double>(plain.answers[i].counters.forwards);
      EXPECT_LT(static_cast<double>(c.layer_rows) / forwards,
                static_cast<double>(plain.answers[i].counters.layer_rows) / other);
      EXPECT_LT(static_cast<double>(c.keys_seen) / forwards,
                static_cast<double>(plain.answers[i].counters.keys_seen) / other);
    }
  }
}

TEST(limits_focus_chunks, refuses_by_name) {
  const auto config = testing::tiny_config(model_family::sdar);
  for (const auto& [given, word] : std::vector<std::pair<parameter_map, const char*>>{
           {{{"suffix_visible", "stale"}}, "suffix_visible"},
           {{{"selection", "top"}}, "needs k"},
           {{{"chunk", 1}}, "chunk"}}) {
    const std::string said = refusal_of("focus_chunks", config, given);
    EXPECT_NE(said.find("focus_chunks"), std::string::npos) << word;
    EXPECT_NE(said.find(word), std::string::npos) << said;
  }
}

// Nothing is left out: block diffusion, key for key; for each reason why nothing is.
TEST(limits_sparse_blocks, all_keys_are_block_diffusion) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 40);
    const parameter_map base = {{"threshold", 0.5}};
    const auto blocks = decode_closed(*model, "block_diffusion", base, requests, 2);
    for (const parameter_map& open :
         std::vector<parameter_map>{{{"retention_ratio", 1.0}, {"commit_keys", "kept"}},
                                    {{"retention_ratio", 1.0}, {"candidates", "history"}},
                                    {{"delay", 9}}}) {
      parameter_map given = base;
      given.insert(open.begin(), open.end());
      const auto sparse = decode_closed(*model, "sparse_blocks", given, requests, 2);
      EXPECT_EQ(outputs(sparse), outputs(blocks));
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(sparse.answers[i].counters.rows, blocks.answers[i].counters.rows);
        EXPECT_DOUBLE_EQ(sparse.answers[i].counters.keys_seen,
                         blocks.answers[i].counters.keys_seen);
      }
    }
  }
}

// Prompt 20, blocks of 8, one token per step: the prefill decides one of the four masks of the
// block shared with the prompt, three denoising forwards the others; the next block takes eight.
// With delay 1 and a quarter of the prompt: block 16..23 has 16 candidates and keeps 4,
// block 24..31 has 20 and keeps 5. Each of its rows sees, per layer:
//   prefill: 16 rows see their own and earlier blocks (8 x 8, 8 x 16, 8 x 24)
//   block 16..23: 2 forwards of 24 keys, then 4 + 8; the commit 24
//   block 24..31: 2 forwards of 32 keys, then 5 + 4 + 8; no commit for the last block
TEST(limits_sparse_blocks, keys_by_hand) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  sequence_request request;
  for (std::int32_t p = 0; p < 20; ++p) request.prompt.push_back(p + 1);
  request.gen_length = 12;
  const auto r = decode_closed(
      *model, "sparse_blocks",
      {{"retention_ratio", 0.25}, {"stop", "none"}, {"remasking", "low_confidence_static"}},
      {request}, 1);
  const double prefill = 8.0 * (8 + 16 + 24);
  const double first = 8.0 * (2 * 24 + (4 + 8) + 24);
  const double second = 8.0 * (2 * 32 + 6 * (5 + 4 + 8));
  const sequence_counters& n = r.answers[0].counters;
  EXPECT_EQ(n.forwards, 1 + 3 + 1 + 8);
  EXPECT_DOUBLE_EQ(n.keys_seen, (prefill + first + second) * model->config().layers);
}

// Everything that a combination excludes: one sentence that begins with its name, before anything
// runs.
TEST(limits_combinations, each_refusal_is_one_sentence_that_names_the_combination) {
  const struct {
    const char* method;
    parameter_map given;
    const char* word;
  } refused[] = {// The rule's parameters that exclude each other; a quota that nothing heeds.
                 {"ada_blocks", {{"steps", 4}}, "limit_to_quota"},
                 {"ada_blocks", {{"w_clamp", true}, {"metric", "cosine"}}, "w_clamp"},
                 {"ada_blocks", {{"w_clamp", true}, {"rule", "threshold"}}, "w_clamp"},
                 {"ada_blocks", {{"boundary", "last"}, {"short_set", "freeze_all"}}, "freeze_all"},
                 {"ada_blocks", {{"boundary", "last"}, {"centroid", "tier_mean"}}, "tier_mean"},
                 // Pooling needs a middle; the official loop commits every block.
                 {"sparse_blocks", {{"kernel_size", 4}}, "kernel_size"},
                 {"sparse_blocks", {{"loop", "hf"}, {"commit_last", false}}, "commit_last"},
                 // What Optimus refuses, and what eviction does.
                 {"focus_chunks", {{"suffix_visible", "stale"}}, "suffix_visible"},
                 {"focus_chunks", {{"selection", "top"}}, "needs k"},
                 {"focus_chunks", {{"k", 3}}, "selection"},
                 {"focus_chunks", {{"chunk", 1}}, "chunk"},
                 {"focus_chunks", {{"chunk", 9}}, "block length 8"},
                 {"focus_chunks", {{"policy", "prefix_caching"}, {"chunk", 4}}, "prefix_caching"},
                 {"focus_chunks", {{"policy", "naive"}}, "fixed chunk"},
                 {"focus_chunks", {{"policy", "naive"}, {"chunk", 3}}, "divides"},
                 {"focus_chunks",
                  {{"policy", "naive"}, {"chunk", 4}, {"cache_rule", "right_neighbour"}},
                  "right_neighbour"},
                 {"focus_chunks", {{"cache_rule", "none"}, {"chunk", 4}}, "cache_rule none"},
                 {"focus_chunks", {{"out_block", true}, {"chunk", 4}}, "out_block"},
                 {"focus_chunks",
                  {{"boundary_fusion", "fill"}, {"final_refresh", true}, {"chunk", 4}},
                  "boundary_fusion"},
                 {"focus_chunks", {{"obs_mask", "full"}}, "obs_mask"},
                 {"focus_chunks", {{"latency", "table"}}, "latency_samples"}};
  const auto expect_refusal = [](const std::string& method, const model_config& config,
                                 const parameter_map& given, const std::string& word) {
    const std::string said = refusal_of(method, config, given);
    EXPECT_EQ(said.find(method), 0U) << method << " takes what it should refuse: " << word << said;
    EXPECT_NE(said.find(word), std::string::npos) << said;
    EXPECT_EQ(said.find(". "), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  };
  const model_config sdar = testing::tiny_config(model_family::sdar);
  for (const auto& r : refused) expect_refusal(r.method, sdar, r.given, r.word);
  for (const char* method : {"ada_blocks", "focus_chunks", "sparse_blocks"}) {
    for (const model_family family :
         {model_family::llada, model_family::dream, model_family::qwen3}) {
      expect_refusal(method, testing::tiny_config(family), {}, "block-causal");
    }
    model_config nameless = sdar;
    nameless.block = 0;
    expect_refusal(method, nameless, {}, "set block_length");
    // And nothing is refused without a reason.
    EXPECT_NO_THROW(test::recipe_of(method, sdar));
    EXPECT_NO_THROW(test::recipe_of(method, testing::tiny_config(model_family::llada2_moe)));
  }
  model_config shallow = sdar;
  shallow.layers = 1;
  expect_refusal("focus_chunks", shallow, {}, "one layer");
}

// Without the model there are no activations to choose keys or rows by; Ada-DLM's rule is replaced
// by the trajectory and needs none.
TEST(limits_combinations, a_dry_run_is_refused_where_activations_decide) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  loop_limits limits;
  limits.sequences = 1;
  limits.max_length = 64;
  limits.dry = true;
  const auto make_loop = [&](const char* method) {
    return step_loop(*model, test::recipe_of(method, model->config()), limits);
  };
  for (const auto& [method, what] :
       {std::pair{"sparse_blocks", "keys"}, std::pair{"focus_chunks", "rows"}}) {
    const std::string said = test::expect_error(exit_code::usage, what, [&] { make_loop(method); });
    EXPECT_EQ(said.find(method), 0U) << said;
  }
  EXPECT_NO_THROW(make_loop("ada_blocks"));
}

TEST(limits_ada_blocks, refuses_by_name) {
  const auto message = [](model_family family, const parameter_map& given) {
    return refusal_of("ada_blocks", testing::tiny_config(family), given);
  };
  EXPECT_EQ(message(model_family::sdar, {}), "");
  for (const auto& [given, word] : std::vector<std::pair<parameter_map, std::string>>{
           {{{"steps", 4}}, "limit_to_quota"},
           {{{"w_clamp", true}, {"metric", "cosine"}}, "w_clamp"},
           {{{"boundary", "last"}, {"centroid", "tier_mean"}}, "tier_mean"}}) {
    const std::string text = message(model_family::sdar, given);
    EXPECT_NE(text.find("ada_blocks"), std::string::npos) << word;
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_NE(message(model_family::llada, {}).find("ada_blocks"), std::string::npos);
}

}  // namespace
}  // namespace unmask
