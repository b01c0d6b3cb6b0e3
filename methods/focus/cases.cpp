// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FOCUS and its delayed caches: limit identities and counts by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "methods/focus/focus_rows.h"
#include "methods/focus/kernels/eviction.h"
#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using namespace testing;

const model_family families[] = {model_family::sdar, model_family::llada2_moe, model_family::llama};

// FOCUS section 4.2: to keep placeholders right a position is computed at most once more. Counted: the
// candidates of each eviction that stay only because their K/V is missing, by their position.
struct placeholders {
  static inline detail::bodies<op::retain>::body original = nullptr;
  static inline std::map<std::int32_t, int> kept;

  static void retain(const backend& backend, const op::retain& args) {
    op::retain chosen = args;
    chosen.params.keep_unprocessed = false;
    original(backend, chosen);
    const std::vector<std::uint8_t> without(args.accept, args.accept + args.candidates.count);
    original(backend, args);
    for (std::size_t c = 0; c < without.size(); ++c) {
      if (args.accept[c] != without[c]) ++kept[args.candidates.position[c]];
    }
  }
};

// With a budget of the whole block nothing is evicted: FOCUS is DC+, row for row.
TEST(limits_blocks, focus_with_a_budget_of_the_block_is_dc_plus) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 24);
    const parameter_map t = {{"threshold", 0.5}};
    const auto plain = decode_closed(*model, "delayed_cache_plus", t, requests, 2);
    parameter_map alpha = t, top = t;
    alpha["alpha"] = 8.0;
    top["selection"] = "top";
    top["k"] = 8;
    for (const parameter_map& open : {alpha, top}) {
      const auto focus = decode_closed(*model, "focus", open, requests, 2);
      EXPECT_EQ(outputs(focus), outputs(plain));
      EXPECT_EQ(focus.steps, plain.steps);
      EXPECT_EQ(rows_of(focus, &sequence_counters::layer_rows),
                rows_of(plain, &sequence_counters::layer_rows));
    }
    // And with a smaller one it does evict.
    const auto focus = decode_closed(*model, "focus", t, requests, 2);
    EXPECT_LT(rows_of(focus, &sequence_counters::layer_rows),
              rows_of(focus) * model->config().layers);
  }
}

// When the first forward decides a whole block, nothing was frozen before the commit: every
// delayed cache equals block diffusion, K/V included.
TEST(limits_blocks, threshold_zero_is_block_diffusion) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 24);
    const parameter_map zero = {{"threshold", 0.0}};
    const auto block = decode_closed(*model, "block_diffusion", zero, requests, 2);
    for (const char* method : {"delayed_cache", "delayed_cache_plus"}) {
      const auto delayed = decode_closed(*model, method, zero, requests, 2);
      EXPECT_EQ(outputs(delayed), outputs(block)) << method;
      EXPECT_EQ(delayed.steps, block.steps);
      EXPECT_EQ(rows_of(delayed), rows_of(block));
    }
  }
}

// The two presets of the code on Hugging Face's loop differ in the sampler and in nothing else;
// with the arg-max, decisions are those of the baseline's preset.
TEST(limits_blocks, hf_presets_say_how_tokens_are_chosen) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(4, 16);
  const parameter_map zero = {{"threshold", 0.0}, {"stop", "none"}};
  const auto block =
      outputs(decode_closed(*model, "block_diffusion", zero, requests, 2, "hf_argmax"));
  for (const char* method : {"delayed_cache", "delayed_cache_plus", "focus"}) {
    const auto& presets = method_registry::instance().find(method).presets;
    parameter_map drawn = presets.at("hf"), best = presets.at("hf_argmax");
    EXPECT_EQ(to_string(drawn.at("sampler")), "multinomial") << method;
    EXPECT_EQ(to_string(best.at("sampler")), "argmax") << method;
    drawn.erase("sampler");
    best.erase("sampler");
    EXPECT_EQ(drawn, best) << method;
    if (std::string(method) == "focus") continue;  // it decides less at once
    parameter_map given = zero;  // a random model may predict the mask token, which then stays one
    given["mask_track"] = "state";
    EXPECT_EQ(outputs(decode_closed(*model, method, given, requests, 2, "hf_argmax")), block)
        << method;
    EXPECT_NE(outputs(decode_closed(*model, method, given, requests, 2, "hf")), block) << method;
  }
}

// Freezing saves rows; the neighbour-aware rule frees a row no earlier than the plain one.
TEST(limits_blocks, delayed_caches_compute_fewer_rows_per_forward) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6, 7, 8}, 8, 0};
  const parameter_map one = {{"threshold", 1.5}, {"stop", "none"}};
  const auto block = decode_closed(*model, "block_diffusion", one, {request}, 1);
  const auto dc = decode_closed(*model, "delayed_cache", one, {request}, 1);
  const auto dcp = decode_closed(*model, "delayed_cache_plus", one, {request}, 1);
  // Eight steps of one token. DC: step t (from 0) computes 8 - (t - 1) rows from t = 2 on.
  EXPECT_EQ(rows_of(block), 8 + 8 * 8);
  EXPECT_EQ(rows_of(dc), 8 + 8 + 8 + 7 + 6 + 5 + 4 + 3 + 2);
  EXPECT_GE(rows_of(dcp), rows_of(dc));
  EXPECT_LE(rows_of(dcp), rows_of(block));
}

// SGLang commits twice, the engine once and not at the end, SDAR's loop always once.
TEST(limits_blocks, commit_forwards_of_the_published_loops) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6, 7, 8}, 24, 0};
  const parameter_map given = {{"threshold", 0.5}, {"stop", "none"}};
  const auto commits = [&](const char* preset) {
    return decode_closed(*model, "focus", given, {request}, 1, preset)
        .answers[0]
        .counters.commit_forwards;
  };
  EXPECT_EQ(commits("engine"), 2);
  EXPECT_EQ(commits("paper"), 2);
  EXPECT_EQ(commits("hf"), 3);
  EXPECT_EQ(commits("sgl"), 6);
}

// A full commit makes history exact: with commit=full the K/V of a block no longer depends on how
// its tokens were decided, so a second request that has them as its prompt decodes the same.
TEST(limits_blocks, full_commit_leaves_exact_history) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const parameter_map full = {{"threshold", 0.5}, {"stop", "none"}, {"commit", "full"}};
  for (const char* method : {"delayed_cache", "delayed_cache_plus", "focus"}) {
    sequence_request request{{1, 2, 3, 4, 5, 6, 7, 8}, 16, 0};
    const auto whole = decode_closed(*model, method, full, {request}, 1).answers[0].output;
    ASSERT_EQ(whole.size(), 16U);
    request.prompt.insert(request.prompt.end(), whole.begin(), whole.begin() + 8);
    request.gen_length = 8;
    const auto rest = decode_closed(*model, method, full, {request}, 1).answers[0].output;
    EXPECT_EQ(rest, std::vector<std::int32_t>(whole.begin() + 8, whole.end())) << method;
  }
}

TEST(limits_blocks, focus_budget_rounds_up_in_float) {
  EXPECT_EQ(focus_budget(0, 1), 1);
  EXPECT_EQ(focus_budget(1, 1.5F), 2);
  EXPECT_EQ(focus_budget(2, 1.5F), 3);
  EXPECT_EQ(focus_budget(2.1F, 1.5F), 4);
  EXPECT_EQ(focus_budget(8, 1.2F), 10);
  // The equations have no floor of one token a step, and one token is always kept.
  EXPECT_EQ(focus_budget(0.5F, 3, false), 2);
  EXPECT_EQ(focus_budget(0.5F, 3), 3);
  EXPECT_EQ(focus_budget(0, 1.5F, false), 1);
}

// Eqs. 17 to 19 over every step that may decide tokens: the prefill of a shared block decides 3, a step 1,
// the commit none, so that the mean is 4 / 3. Engine: the commit and the prefill are no steps.
TEST(limits_blocks, focus_means_by_hand) {
  sequence_step prefill, denoise, commit;
  prefill.what = forward_kind::prefill;
  prefill.candidate_first = 5;
  prefill.candidate_last = 8;
  commit.what = forward_kind::commit;
  const auto mean = [&](bool every_step) {
    focus_settings f;
    f.rules.scope = every_step ? average_scope::request : average_scope::block;
    f.rules.count_empty = f.rules.count_prefill = every_step;
    focus_budgets budgets(f);
    budgets.start(0);
    budgets.observe(0, prefill, 3);
    budgets.observe(0, denoise, 1);
    budgets.observe(0, commit, 0);
    return focus_average(budgets.records.at(0));
  };
  EXPECT_FLOAT_EQ(mean(true), 4.0F / 3);
  EXPECT_FLOAT_EQ(mean(false), 1.0F);
  // A prefill of whole blocks has nothing to decide and is no step.
  prefill.candidate_first = prefill.candidate_last;
  focus_settings f;
  f.rules.count_prefill = true;
  focus_budgets budgets(f);
  budgets.start(0);
  budgets.observe(0, prefill, 0);
  EXPECT_EQ(budgets.records.at(0).steps, 0);
}

// Rows of a delayed cache that sees what is stored see the whole block and all before it: the mask hides
// nothing else. The engine's do not see what was frozen to the right of the last computed row.
TEST(limits_blocks, stored_keys_hide_nothing_of_the_block) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 24);
    for (const char* method : {"delayed_cache", "delayed_cache_plus"}) {
      const auto hidden = [&](const char* keys) {
        double sum = 0;
        for (const decoded_answer& a :
             decode_closed(*model, method, {{"threshold", 0.5}, {"keys", std::string(keys)}},
                           requests, 2)
                 .answers) {
          sum += a.counters.keys_hidden;
        }
        return sum;
      };
      EXPECT_EQ(hidden("stored"), 0) << method;
      EXPECT_GT(hidden("retained"), 0) << method;
    }
  }
}

// Requests of unequal lengths share a batch, and one takes the place of another: each computes the rows that
// it computes alone, which see the same keys, in every forward.
TEST(limits_blocks, a_request_sees_alone_what_it_sees_in_a_batch) {
  const auto model = tiny_model(model_family::sdar, cpu_backend());
  std::vector<sequence_request> requests = tiny_requests(7, 24, 11);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].gen_length = 5 + 7 * static_cast<std::int32_t>(i % 5);
    if (i % 3 == 0) requests[i].prompt.resize(8 * (1 + i / 3), 3);
  }
  for (const char* method : {"delayed_cache", "delayed_cache_plus", "focus"}) {
    for (const char* preset : {"engine", "paper", "hf_argmax"}) {
      for (const double threshold : {0.2, 0.5, 0.9}) {
        const parameter_map given = {
            {"threshold", threshold}, {"mask_track", "state"}, {"stop", "3,7,11,19,23"}};
        const auto batch = decode_closed(*model, method, given, requests, 3, preset);
        for (std::size_t i = 0; i < requests.size(); ++i) {
          SCOPED_TRACE(std::string(method) + " " + preset + " " + std::to_string(i));
          const auto one = decode_closed(*model, method, given, {requests[i]}, 1, preset);
          const sequence_counters &alone = one.answers[0].counters,
                                  &among = batch.answers[i].counters;
          EXPECT_EQ(one.answers[0].output, batch.answers[i].output);
          EXPECT_EQ(alone.forwards, among.forwards);
          EXPECT_EQ(alone.layer_rows, among.layer_rows);
          EXPECT_EQ(alone.keys_seen, among.keys_seen);
          EXPECT_EQ(alone.keys_hidden, among.keys_hidden);
        }
      }
    }
  }
}

// FOCUS without eviction is DC+ whatever the keys are; and a request decodes alone as it does in a batch.
TEST(limits_blocks, focus_of_the_paper_with_a_budget_of_the_block_is_dc_plus) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 24);
    const parameter_map t = {{"threshold", 0.5}};
    const auto plain = decode_closed(*model, "delayed_cache_plus", t, requests, 2, "paper");
    const auto focus =
        decode_closed(*model, "focus", with(t, {{"alpha", 100.0}}), requests, 2, "paper");
    EXPECT_EQ(outputs(focus), outputs(plain));
    EXPECT_EQ(rows_of(focus, &sequence_counters::layer_rows),
              rows_of(plain, &sequence_counters::layer_rows));
    const auto evicting = decode_closed(*model, "focus", t, requests, 2, "paper");
    EXPECT_LT(rows_of(evicting, &sequence_counters::layer_rows),
              rows_of(evicting) * model->config().layers);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto alone = decode_closed(*model, "focus", t, {requests[i]}, 1, "paper");
      EXPECT_EQ(alone.answers[0].output, evicting.answers[i].output);
      EXPECT_EQ(alone.answers[0].counters.layer_rows, evicting.answers[i].counters.layer_rows);
      EXPECT_EQ(alone.answers[0].counters.keys_seen, evicting.answers[i].counters.keys_seen);
    }
  }
}

// What the eviction keeps is at least the budget, and the probe tells why.
TEST(limits_blocks, focus_retains_at_least_its_budget) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  recipe r = test::recipe_of("focus", model->config(), {{"threshold", 0.5}});
  const recipe_views views = r.views;
  const sequence_request request = tiny_requests(1, 32)[0];
  const std::int32_t length = r.pace->canvas_length(model->config(), request);
  step_loop loop(*model, std::move(r), {1, length, 0});
  struct watcher : step_observer {
    recipe_views views;
    int evictions = 0;
    double products = 0;  // of masked rows with one another
    void on_step(const step_view& s) override {
      const method_report told = views.reports.at("eviction")(0);
      const auto score = told.arrays.find("score");
      if (score == told.arrays.end()) {
        EXPECT_EQ(s.left.rows, s.entered.rows);
        return;
      }
      ++evictions;
      products += static_cast<double>(score->second.size() * score->second.size());
      EXPECT_GE(s.candidates.count, told.numbers.at("budget"));  // the masked rows that stayed
      EXPECT_LE(static_cast<std::size_t>(s.candidates.count), score->second.size());
      double sum = 0;  // both layers' importances sum to masked rows x heads
      for (const float one : score->second) sum += one;
      EXPECT_NEAR(sum, 0, 1e-3);
      EXPECT_GE(told.numbers.at("processed_end"), s.left.position[s.left.rows - 1] + 1);
    }
  } seen;
  seen.views = views;
  loop.observe(&seen);
  loop.admit(request);
  while (loop.step()) {
  }
  EXPECT_GT(seen.evictions, 3);
  // In two layers, 4 heads of 10.
  EXPECT_EQ(loop.state().at(0).counters.selection_flops, 2 * seen.products * 2 * 40);
}

TEST(limits_blocks, focus_computes_a_position_at_most_once_for_a_placeholder) {
  placeholders::original = replace_body<op::retain>(target::reference, placeholders::retain);
  int positions = 0;
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    for (const parameter_map& given :
         {parameter_map{{"threshold", 0.5}}, parameter_map{{"threshold", 0.9}, {"alpha", 1.0}},
          parameter_map{{"threshold", 0.5}, {"selection", "random"}, {"k", 2}}}) {
      for (const sequence_request& request : tiny_requests(4, 32)) {
        placeholders::kept.clear();
        decode_closed(*model, "focus", given, {request}, 1);
        positions += static_cast<int>(placeholders::kept.size());
        for (const auto& [position, times] : placeholders::kept) {
          EXPECT_EQ(times, 1) << position << " of " << model->config().name;
        }
      }
    }
  }
  replace_body<op::retain>(target::reference, placeholders::original);
  EXPECT_GT(positions, 100);
}

// Ablations that must make a difference, and refusals by name.
TEST(limits_blocks, focus_settings_that_contradict_are_refused) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const struct {
    parameter_map given;
    const char* says;
  } wrong[] = {{{{"selection", "top"}}, "needs k"},
               {{{"k", 3}}, "k belongs to"},
               {{{"alpha", 0.5}}, "alpha"},
               {{{"deviation_set", "block"}}, "importance_set block"},
               {{{"loop", "hf"}}, "commit_last"}};
  for (const auto& w : wrong) {
    const std::string said = refusal_of("focus", model->config(), w.given);
    EXPECT_NE(said.find(w.says), std::string::npos) << said;
  }
}

// A model whose every prediction is the mask token: by state it is decided, by id it never is, and
// the loop says so instead of running for ever.
TEST(limits_blocks, a_mask_that_predicts_itself_ends_with_a_sentence) {
  model_config c = testing::tiny_config(model_family::sdar);
  c.mask_id = 0;
  const model_weights w = random_weights(c, 7, dtype::f32);
  std::fill_n(static_cast<float*>(w.lm_head.data), w.lm_head.elements(), 0.0F);  // ties: token 0
  const transformer model(c, w, reference_backend(), weight_format::f32, 256);
  const sequence_request request{{1, 2, 3}, 8, 0};
  const auto by_state = decode_closed(model, "delayed_cache_plus", {}, {request}, 1);
  EXPECT_EQ(by_state.answers[0].output, std::vector<std::int32_t>(8, 0));
  test::expect_error(exit_code::run_failed, "mask_track=state", [&] {
    decode_closed(model, "delayed_cache_plus", {{"mask_track", "id"}}, {request}, 1);
  });
}

}  // namespace
}  // namespace unmask
