// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Batch invariance and the conservation of what is counted, for every method.
#include <gtest/gtest.h>

#include <algorithm>

#include "methods/settings.h"
#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using namespace testing;

class every_setting : public ::testing::TestWithParam<setting> {};

// A request decodes to the same tokens alone, in any batch and in any order, with ragged prompts.
TEST_P(every_setting, tokens_do_not_depend_on_the_batch) {
  const setting& p = GetParam();
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
    const auto model = tiny_model(p.family, *backend);
    auto requests = tiny_requests(5, 24);
    const auto alone = outputs(decode_closed(*model, p.method, p.given, requests, 1, p.preset));
    for (const std::int32_t batch : {2, 3, 5}) {
      EXPECT_EQ(outputs(decode_closed(*model, p.method, p.given, requests, batch, p.preset)), alone)
          << p.label << " " << backend->name() << " batch " << batch;
    }
    std::reverse(requests.begin(), requests.end());
    auto reversed = outputs(decode_closed(*model, p.method, p.given, requests, 3, p.preset));
    std::reverse(reversed.begin(), reversed.end());
    EXPECT_EQ(reversed, alone) << p.label << " " << backend->name() << " reversed";
  }
}

// Tokens of a prompt, but for its first and last, as rows of a picture with the same vectors.
struct shown_prompt {
  sequence_request request;
  tensor rows;  // no data: the prompt is text
};

shown_prompt show_tokens(const sequence_request& text, const model_weights& weights) {
  const std::int64_t width = weights.embedding.columns();
  const auto count = static_cast<std::int64_t>(text.prompt.size()) - 2;
  shown_prompt shown = {text, cpu_backend().allocate(dtype::f32, {count, width})};
  for (std::int64_t row = 0; row < count; ++row) {
    std::int32_t& token = shown.request.prompt[static_cast<std::size_t>(row) + 1];
    const float* vector = weights.embedding.row<float>(token);
    std::copy_n(vector, width, shown.rows.view().row<float>(row));
    token = static_cast<std::int32_t>(-1 - row);
  }
  return shown;
}

std::vector<std::vector<std::int32_t>> answers_of(const transformer& model, const setting& p,
                                                  const std::vector<shown_prompt>& all,
                                                  std::int32_t pieces) {
  constexpr std::int32_t most_rows = 48, longest = 128;
  step_loop loop(model, test::recipe_of(p.method, model.config(), p.given, p.preset),
                 {static_cast<std::int32_t>(all.size()), longest, 0, false, most_rows});
  std::vector<std::vector<std::int32_t>> found;
  if (pieces > 0 && !loop.pace().limit_prefill(pieces)) return found;
  for (const shown_prompt& one : all) {
    EXPECT_GE(loop.admit(one.request, 0, one.rows ? one.rows.view() : tensor_view{}), 0);
  }
  while (loop.step()) {
  }
  for (std::int32_t s = 0; s < std::ssize(all); ++s) found.push_back(loop.output(s));
  return found;
}

// A method sees rows of a prompt, not pictures: one whose rows have the vectors of tokens is answered as
// these tokens are; alone, among others, and when its prompt enters in pieces.
TEST_P(every_setting, pictures_are_rows_of_a_prompt) {
  const setting& p = GetParam();
  const auto model = tiny_model(p.family, cpu_backend());
  const model_weights weights = tiny_weights(tiny_config(p.family), 7);
  const auto texts = tiny_requests(8, 24);
  const auto want = outputs(decode_closed(*model, p.method, p.given, texts, 1, p.preset));
  std::vector<shown_prompt> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    all.push_back(i % 2 == 0 ? show_tokens(texts[i], weights) : shown_prompt{texts[i], {}});
  }
  EXPECT_EQ(answers_of(*model, p, all, 0), want);
  EXPECT_EQ(answers_of(*model, p, {all[2]}, 0).at(0), want[2]);
  const auto cut = answers_of(*model, p, all, 8);
  if (cut.empty()) return;
  std::vector<shown_prompt> plain;
  for (const sequence_request& text : texts) plain.push_back({text, {}});
  EXPECT_EQ(cut, answers_of(*model, p, plain, 8));
  // What is drawn depends on the number of the forward pass, and so on the pieces before it.
  const parameter_map resolved = test::resolved(p.method, p.given, p.preset).values();
  if (!varies(method_registry::instance().find(p.method).parameters, resolved)) {
    EXPECT_EQ(cut, want);
  }
}

// Rows of pictures have places on three axes (M-RoPE), and text counts on behind them: alone, among others,
// and when the prompt enters in pieces.
TEST_P(every_setting, places_on_axes_do_not_depend_on_the_batch_or_on_pieces) {
  const setting& p = GetParam();
  model_config config = tiny_config(p.family);
  const std::int32_t pairs = config.rope.rotary_dim / 2;
  config.axes = {1, (pairs - 1) / 2, pairs - 1 - (pairs - 1) / 2};
  const auto model = tiny_model(config, cpu_backend(), 2048, 7, dtype::f32);
  const model_weights weights = tiny_weights(config, 7);
  const auto texts = tiny_requests(8, 24);
  std::vector<shown_prompt> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i % 2 == 1) {
      all.push_back({texts[i], {}});
      continue;
    }
    all.push_back(show_tokens(texts[i], weights));
    const auto rows = static_cast<std::int32_t>(all.back().rows.view().rows());
    all.back().request.grids = {rows % 2 == 0 ? std::array{2, rows / 2} : std::array{1, rows}};
  }
  const auto together = answers_of(*model, p, all, 0);
  for (const std::size_t i : {0, 1, 2}) {
    EXPECT_EQ(answers_of(*model, p, {all[i]}, 0).at(0), together[i]) << i;
  }
  const auto cut = answers_of(*model, p, all, 8);
  const parameter_map resolved = test::resolved(p.method, p.given, p.preset).values();
  if (!cut.empty() && !varies(method_registry::instance().find(p.method).parameters, resolved)) {
    EXPECT_EQ(cut, together);
  }
}

// The fast backend takes the same decisions as the reference.
TEST_P(every_setting, cpu_decides_as_the_reference) {
  const setting& p = GetParam();
  const auto requests = tiny_requests(3, 24);
  const auto slow = tiny_model(p.family, reference_backend());
  const auto fast = tiny_model(p.family, cpu_backend());
  EXPECT_EQ(outputs(decode_closed(*slow, p.method, p.given, requests, 2, p.preset)),
            outputs(decode_closed(*fast, p.method, p.given, requests, 2, p.preset)));
}

// Another seed changes nothing but where a parameter says that it may (parameter_spec::varies).
TEST_P(every_setting, the_seed_decides_only_where_a_parameter_says_so) {
  const setting& p = GetParam();
  const auto model = tiny_model(p.family, reference_backend());
  const method_registry& methods = method_registry::instance();
  const parameter_map resolved = test::resolved(p.method, p.given, p.preset).values();
  auto requests = tiny_requests(3, 24);
  const auto with_one = outputs(decode_closed(*model, p.method, p.given, requests, 2, p.preset));
  for (sequence_request& r : requests) r.seed += 1;
  const auto with_other = outputs(decode_closed(*model, p.method, p.given, requests, 2, p.preset));
  if (!varies(methods.find(p.method).parameters, resolved)) {
    EXPECT_EQ(with_other, with_one);
  } else if (!resolved.contains("latency") && p.method != "dpad") {
    // Nobody measures times here, and dpad finds hardly a suffix to drop in so short a canvas.
    EXPECT_NE(with_other, with_one);
  }
}

// Rows of every forward as the loop's observer sees them.
struct row_sums final : step_observer {
  std::int64_t entered = 0, left = 0;
  void on_step(const step_view& s) override {
    entered += s.entered.rows;
    left += s.left.rows;
    EXPECT_LE(s.left.rows, s.entered.rows);
  }
};

bool computes_partial_layers(const setting& s) {
  const auto& all = all_method_settings();
  return std::ranges::find(all, s.method, &method_settings::method)->partial_layers;
}

TEST_P(every_setting, counts_are_conserved) {
  const setting& p = GetParam();
  const auto model = tiny_model(p.family, reference_backend());
  const auto requests = tiny_requests(3, 24);
  row_sums seen;
  const auto result = decode_closed(*model, p.method, p.given, requests, 2, p.preset, &seen);
  const model_config& c = model->config();
  sequence_counters all;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& n = result.answers[i].counters;
    EXPECT_LE(n.layer_rows, n.rows * c.layers);
    EXPECT_LE(n.feed_forward_rows, n.layer_rows);
    if (computes_partial_layers(p)) {
      EXPECT_LT(n.layer_rows, n.rows * c.layers);
    }
    EXPECT_LE(n.decode_rows, n.rows);
    EXPECT_EQ(n.forwards >= n.prefill_forwards + n.commit_forwards, true);
    EXPECT_GE(static_cast<std::int64_t>(n.committed),
              static_cast<std::int64_t>(result.answers[i].output.size()) -
                  static_cast<std::int64_t>(std::count(result.answers[i].output.begin(),
                                                       result.answers[i].output.end(), c.mask_id)));
    all.rows += n.rows;
    all.layer_rows += n.layer_rows;
    all.feed_forward_rows += n.feed_forward_rows;
    all.keys_seen += n.keys_seen;
    all.head_rows += n.head_rows;
    all.flops += n.flops;
    all.selection_flops += n.selection_flops;
  }
  if (computes_partial_layers(p)) return;  // counted by hand in the method's own test
  // Rows leave inside layer 1 or not at all: after its projections, before its attention.
  EXPECT_EQ(all.rows, seen.entered);
  EXPECT_EQ(all.layer_rows, seen.entered + (c.layers - 1) * seen.left);
  // FLOPs = rows x per-row cost + keys x per-key cost + judged rows x head cost, to rounding.
  double expected = all.keys_seen * 4.0 * c.heads * c.head_dim + all.selection_flops +
                    static_cast<double>(all.head_rows) * model->head_flops();
  // Rows that skip the feed-forward (ada_dlm's ffn_only) skip it in every layer.
  const double fed =
      static_cast<double>(all.feed_forward_rows) / static_cast<double>(all.layer_rows);
  for (std::int32_t l = 0; l < c.layers; ++l) {
    const row_cost cost = model->cost(l);
    const double before = static_cast<double>(l <= 1 ? seen.entered : seen.left);
    const double after = static_cast<double>(l == 0 ? seen.entered : seen.left);
    expected +=
        before * cost.qkv_flops + after * (cost.output_flops + fed * cost.feed_forward_flops);
  }
  EXPECT_NEAR(all.flops, expected, 1e-9 * expected);
}

INSTANTIATE_TEST_SUITE_P(methods, every_setting, ::testing::ValuesIn(all_settings()),
                         [](const auto& setting) { return setting.param.label; });

// Rows and forwards of a case small enough to count by hand: prompt 6, canvas 4, one block of 4,
// one token per step: 4 forwards of 10 rows; candidates 4 + 3 + 2 + 1.
TEST(counters, vanilla_by_hand) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 4, 0};
  const auto r = decode_closed(*model, "vanilla", {{"block_length", 4}}, {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  EXPECT_EQ(n.forwards, 4);
  EXPECT_EQ(n.rows, 40);
  EXPECT_EQ(n.head_rows, 10);
  EXPECT_DOUBLE_EQ(n.keys_seen, 4.0 * 10 * 10 * model->config().layers);
}

// Prompt 6, canvas 4, K = 1 and one confidence: one token per step. Rows: everything; then the
// masks and the token frozen just before, 3 + 1, 2 + 1, 1 + 1. Keys: all 10, always.
TEST(counters, ada_dlm_by_hand) {
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 4, 0};
  const parameter_map one = {{"k_tokens", 1}, {"history", 1}};
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto r = decode_closed(*model, "ada_dlm", one, {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  EXPECT_EQ(n.forwards, 4);
  EXPECT_EQ(n.rows, 10 + 4 + 3 + 2);
  EXPECT_EQ(n.feed_forward_rows, n.rows * model->config().layers);
  EXPECT_EQ(n.head_rows, 10);
  EXPECT_DOUBLE_EQ(n.keys_seen, 19.0 * 10 * model->config().layers);
  parameter_map ffn = one;
  ffn["execution"] = "ffn_only";
  const auto f = decode_closed(*model, "ada_dlm", ffn, {request}, 1);
  EXPECT_EQ(f.answers[0].counters.rows, 10 + 4 + 4 + 4);
  EXPECT_EQ(f.answers[0].counters.feed_forward_rows, n.feed_forward_rows);
  parameter_map late = one;
  late["delay"] = 0;
  EXPECT_EQ(decode_closed(*model, "ada_dlm", late, {request}, 1).answers[0].counters.rows,
            10 + 3 + 2 + 1);
}

// Prompt 5, block 8, canvas 11: prefill of 8 rows decides the first; see the comment per phase.
TEST(counters, block_diffusion_by_hand) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const sequence_request request{{1, 2, 3, 4, 5}, 11, 0};
  const auto r =
      decode_closed(*model, "block_diffusion",
                    {{"stop", "none"}, {"remasking", "low_confidence_static"}}, {request}, 1);
  const sequence_counters& n = r.answers[0].counters;
  // Block 0: prefill decides 1 of 3 masks, 2 more denoise steps, 1 commit. Block 1: 8 denoise
  // steps, no commit for the last block.
  EXPECT_EQ(n.prefill_forwards, 1);
  EXPECT_EQ(n.commit_forwards, 1);
  EXPECT_EQ(n.forwards, 1 + 2 + 1 + 8);
  EXPECT_EQ(n.rows, 12 * 8);
  EXPECT_EQ(n.decode_rows, 11 * 8);
  EXPECT_EQ(n.committed, 11);
  EXPECT_EQ(r.answers[0].output.size(), 11U);
}

}  // namespace
}  // namespace unmask
