// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Requests with pictures beside requests without: each gives in a batch what it gives alone.
#include <gtest/gtest.h>

#include <random>

#include "harness/decode/plain_forward.h"
#include "harness/decode/step_loop.h"
#include "harness/model/weights.h"
#include "tests/registered.h"
#include "tests/support.h"

namespace unmask {
namespace {

constexpr std::int32_t rows_of_picture = 6;

struct asked {
  sequence_request request;
  tensor pictures;
};

asked about_text(std::int32_t seed) {
  asked a;
  for (std::int32_t i = 0; i < 9; ++i) a.request.prompt.push_back((seed * 7 + i * 13) % 200);
  a.request.gen_length = 8;
  return a;
}

// Rows of the size of embeddings, in the middle of a prompt.
asked about_picture(const transformer& model, std::uint32_t seed) {
  asked a = about_text(static_cast<std::int32_t>(seed));
  for (std::int32_t row = 0; row < rows_of_picture; ++row) {
    a.request.prompt.insert(a.request.prompt.begin() + 3 + row, -1 - row);
  }
  const std::int64_t width = model.config().hidden;
  std::vector<float> values(static_cast<std::size_t>(rows_of_picture * width));
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 1);
  for (float& v : values) v = normal(rng);
  a.pictures = model.backend().allocate(dtype::f32, {rows_of_picture, width});
  model.backend().write(a.pictures.view().data, values.data(), a.pictures.bytes());
  return a;
}

std::vector<std::vector<std::int32_t>> answers(const transformer& model, const char* method,
                                               const std::vector<asked>& all) {
  recipe r = test::recipe_of(method, model.config(), {{"block_length", std::int64_t{4}}});
  step_loop loop(model, std::move(r),
                 {static_cast<std::int32_t>(all.size()), 64, 0, false, rows_of_picture});
  for (const asked& a : all) {
    EXPECT_GE(loop.admit(a.request, 0, a.pictures ? a.pictures.view() : tensor_view{}), 0);
  }
  while (loop.step()) {
  }
  std::vector<std::vector<std::int32_t>> found;
  for (std::int32_t s = 0; s < std::ssize(all); ++s) found.push_back(loop.output(s));
  return found;
}

TEST(pictures, answers_do_not_depend_on_the_batch) {
  const std::filesystem::path directory =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures/models/tiny-llada-v-s1";
  const model_config config = read_model_config(directory);
  const model_weights weights = load_weights(config, directory);
  EXPECT_TRUE(weights.unread.pictures.empty());
  for (const backend* b : {&cpu_backend(), &cuda_emulated_backend()}) {
    const transformer model(config, weights, *b, weight_format::f32, 256);
    std::vector<asked> all = {about_picture(model, 1), about_text(2), about_picture(model, 3),
                              about_text(4)};
    // The emulator is slow: one method, two requests.
    const bool emulated = b == &cuda_emulated_backend();
    if (emulated) all.resize(2);
    for (const char* method : {"fast_dllm", "vanilla"}) {
      if (emulated && method == std::string("vanilla")) continue;
      const auto together = answers(model, method, all);
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(together[i], answers(model, method, {all[i]})[0]) << b->name() << method << i;
      }
      // The picture matters: another one gives another answer.
      EXPECT_NE(answers(model, method, {about_picture(model, 1)}),
                answers(model, method, {[&] {
                          asked other = about_picture(model, 1);
                          other.pictures = about_picture(model, 9).pictures;
                          return other;
                        }()}));
    }
  }
}

// A picture of Dimple's, whose rows have places on axes.
asked on_axes(const transformer& model, std::uint32_t seed, std::array<std::int32_t, 2> grid) {
  asked a = about_picture(model, seed);
  a.request.grids = {grid};
  return a;
}

TEST(pictures, places_on_axes_do_not_depend_on_the_batch) {
  const std::filesystem::path directory =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures/models/tiny-dimple-s1";
  const model_config config = read_model_config(directory);
  EXPECT_EQ(config.axes, (std::array<std::int32_t, 3>{2, 3, 3}));
  const model_weights weights = load_weights(config, directory);
  EXPECT_TRUE(weights.unread.pictures.empty());
  for (const backend* b : {&cpu_backend(), &cuda_emulated_backend()}) {
    const transformer model(config, weights, *b, weight_format::f32, 256);
    const std::vector<asked> all = {on_axes(model, 1, {2, 3}), about_text(2),
                                    on_axes(model, 3, {3, 2})};
    const auto together = answers(model, "fast_dllm", all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(together[i], answers(model, "fast_dllm", {all[i]})[0]) << b->name() << i;
    }
  }
  // The same rows at other places give other logits.
  const transformer model(config, weights, cpu_backend(), weight_format::f32, 256);
  const asked one = on_axes(model, 1, {2, 3});
  const auto logits_at = [&](std::array<std::int32_t, 2> grid) {
    const tensor logits =
        plain_forward(model, one.request.prompt, mask_kind::full, 1, one.pictures, {grid});
    return std::vector(logits.as<float>(), logits.as<float>() + logits.view().elements());
  };
  EXPECT_NE(logits_at({2, 3}), logits_at({3, 2}));
  EXPECT_EQ(logits_at({2, 3}), logits_at({2, 3}));
}

TEST(pictures, rows_without_places_are_refused) {
  const std::filesystem::path directory =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures/models/tiny-dimple-s1";
  const model_config config = read_model_config(directory);
  const transformer model(config, load_weights(config, directory), cpu_backend(),
                          weight_format::f32, 256);
  step_loop loop(model, test::recipe_of("vanilla", config), {1, 64, 0, false, rows_of_picture});
  for (const auto& grids : std::vector<std::vector<std::array<std::int32_t, 2>>>{
           {}, {{2, 2}}, {{2, 4}}, {{2, 3}, {1, 1}}, {{0, 6}}, {{-2, -3}}}) {
    asked a = about_picture(model, 1);
    a.request.grids = grids;
    test::expect_error(exit_code::usage, "no places on the axes",
                       [&] { loop.admit(a.request, 0, a.pictures); });
  }
}

TEST(pictures, rows_that_are_not_there_are_refused) {
  const std::filesystem::path directory =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures/models/tiny-llada-v-s1";
  const model_config config = read_model_config(directory);
  const transformer model(config, load_weights(config, directory), cpu_backend(),
                          weight_format::f32, 256);
  asked a = about_picture(model, 1);
  step_loop loop(model, test::recipe_of("vanilla", config), {1, 64, 0, false, rows_of_picture - 1});
  test::expect_error(exit_code::usage, "6 rows, more than the 5",
                     [&] { loop.admit(a.request, 0, a.pictures); });
  test::expect_error(exit_code::usage, "prompt token -1 is outside the vocabulary",
                     [&] { loop.admit(a.request); });
}

}  // namespace
}  // namespace unmask
