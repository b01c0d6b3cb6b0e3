// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Requests with pictures beside requests without: each gives in a batch what it gives alone.
#include <gtest/gtest.h>

#include <random>

#include "harness/decode/plain_forward.h"
#include "harness/decode/step_loop.h"
#include "harness/model/weights.h"
#include "kernels/cpu/backend.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/emulation.h"
#include "tests/methods/tiny_models.h"
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

struct decoded {
  std::vector<std::vector<std::int32_t>> outputs;
  std::vector<sequence_counters> counters;
  graph_counts graphs;
};
decoded decode(const transformer& model, const char* method, const std::vector<asked>& all,
               const parameter_map& given = {{"block_length", std::int64_t{4}}}) {
  step_loop loop(model, test::recipe_of(method, model.config(), given),
                 {static_cast<std::int32_t>(all.size()), 64, 0, false, rows_of_picture});
  for (const asked& a : all) {
    EXPECT_GE(loop.admit(a.request, 0, a.pictures ? a.pictures.view() : tensor_view{}), 0);
  }
  while (loop.step()) {
  }
  decoded d;
  for (std::int32_t s = 0; s < std::ssize(all); ++s) {
    d.outputs.push_back(loop.output(s));
    d.counters.push_back(loop.state().at(s).counters);
  }
  d.graphs = loop.graphs();
  return d;
}

std::vector<std::vector<std::int32_t>> answers(const transformer& model, const char* method,
                                               const std::vector<asked>& all) {
  return decode(model, method, all).outputs;
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
    std::vector<asked> all = {on_axes(model, 1, {2, 3}), about_text(2), on_axes(model, 3, {3, 2})};
    // The emulator is slow.
    for (const std::int32_t seed : {4, 5, 6, 7, 8}) {
      if (b != &cpu_backend()) break;
      const auto number = static_cast<std::uint32_t>(seed);
      all.push_back(seed % 2 == 0 ? about_text(seed) : on_axes(model, number, {1, 6}));
    }
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

// Layers that are recorded once and repeated take the places and the rows of each forward: an argument that
// had to change shows as another token than the CPU's.
TEST(pictures, recorded_layers_take_the_places_of_each_forward) {
  const std::filesystem::path directory =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures/models/tiny-dimple-s1";
  const model_config config = read_model_config(directory);
  const model_weights weights = load_weights(config, directory);
  const auto ask = [&](const backend& backend) {
    const transformer model(config, weights, backend, weight_format::f32, 256);
    return decode(model, "fast_dllm", {on_axes(model, 1, {2, 3}), about_text(2)});
  };
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true, true});
  const decoded got = ask(cuda_emulated_backend({.graphs = true}));
  cuda_emulated_backend().synchronize();
  cuda::set_emulation(before);
  EXPECT_EQ(got.outputs, ask(cpu_backend()).outputs);
  EXPECT_GT(got.graphs.replayed, 0);
}

// FOCUS evicts rows of the block in work behind layer 1. The block holds the end of the prompt, which is a
// picture, so that the rows that stay are those of the picture and of the masks that are left.
TEST(pictures, focus_narrows_a_block_that_a_picture_ends_in) {
  const auto ask = [](const backend& backend, bool shown) {
    const auto model = testing::tiny_model(model_family::sdar, backend, 256);
    std::vector<asked> all = {about_picture(*model, 1), about_picture(*model, 2)};
    for (asked& a : all) {  // 3 tokens and 6 rows: one row in the block of the first masks
      std::vector<std::int32_t>& prompt = a.request.prompt;
      prompt.resize(3 + static_cast<std::size_t>(rows_of_picture));
      a.request.gen_length = 23;
      for (std::int32_t& token : prompt) token = token < 0 && shown ? token : std::abs(token) % 50;
      if (!shown) a.pictures = {};
    }
    return decode(*model, "focus", all, {{"threshold", 0.5}});
  };
  const decoded want = ask(cpu_backend(), true);
  EXPECT_NE(want.outputs, ask(cpu_backend(), false).outputs);
  const cuda::emulation before = cuda::current_emulation();
  for (const bool graphs : {false, true}) {
    cuda::set_emulation({{.backwards = !graphs}, true, true, true});
    const decoded got = ask(cuda_emulated_backend({.graphs = graphs}), true);
    cuda_emulated_backend().synchronize();
    EXPECT_EQ(got.outputs, want.outputs) << graphs;
    EXPECT_EQ(got.graphs.replayed > 0, graphs);
    for (std::size_t i = 0; i < want.counters.size(); ++i) {
      EXPECT_EQ(got.counters[i].layer_rows, want.counters[i].layer_rows);
      EXPECT_LT(want.counters[i].layer_rows, 3 * want.counters[i].rows);  // of three layers
    }
  }
  cuda::set_emulation(before);
}

// Counts the bytes that are allocated.
class counting_cpu final : public cpu::backend {
 public:
  counting_cpu() : cpu::backend(cpu::isa_of_environment(), cpu::gemm_path::own) {}
  tensor allocate(dtype type, std::initializer_list<std::int64_t> shape,
                  memory_use use = memory_use::resident) const override {
    tensor made = cpu::backend::allocate(type, shape, use);
    bytes += made.bytes();
    return made;
  }
  mutable std::size_t bytes = 0;
};

TEST(pictures, a_loop_has_room_for_the_rows_of_each_place_and_none_for_text) {
  const std::filesystem::path directory =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures/models/tiny-llada-v-s1";
  const model_config config = read_model_config(directory);
  const counting_cpu counting;
  const transformer model(config, load_weights(config, directory), counting, weight_format::f32,
                          256);
  const auto bytes_of = [&](std::int32_t places, std::int32_t rows) {
    const std::size_t before = counting.bytes;
    const step_loop loop(model, test::recipe_of("vanilla", config), {places, 64, 0, false, rows});
    return counting.bytes - before;
  };
  for (const std::int32_t places : {1, 3}) {
    const std::size_t text = bytes_of(places, 0);
    for (const std::int32_t rows : {1, 6, 40}) {
      EXPECT_EQ(bytes_of(places, rows) - text,
                sizeof(float) * static_cast<std::size_t>(places * rows * config.hidden));
    }
  }
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
