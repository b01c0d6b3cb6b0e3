// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A picture's tower against op::linear on the shapes of its own products, in turns. Widths are the published
// ones of LLaDA-V and Dimple. There are fewer layers, of which each costs the same, and a narrower language
// model, so that the projections keep about their share of the time.
#include "harness/model/vision/tower.h"

#include <cmath>

#include "harness/model/vision/tower_work.h"
#include "kernels/bench/bench.h"
#include "kernels/model_core.h"

namespace unmask::bench {
namespace {

constexpr std::int32_t language_width = 1024;

vision_config llada_v(std::int32_t layers, std::int32_t side) {
  vision_config v;
  v.kind = vision_kind::siglip;
  v.family = "llada-v";
  v.preset = "squeeze";  // one view
  v.side = side;
  v.patch = 14;
  v.hidden = 1152;
  v.layers = layers;
  v.stored = layers + 1;
  v.heads = 16;
  v.feed_forward = 4304;
  return v;
}

vision_config dimple(std::int32_t layers) {
  vision_config v;
  v.kind = vision_kind::qwen;
  v.family = "dimple";
  v.preset = "own-size";
  v.patch = 14;
  v.hidden = 1280;
  v.layers = v.stored = layers;
  v.heads = 16;
  v.feed_forward = 3420;
  v.merge = 2;
  v.window = 4;
  v.merged = language_width;
  v.whole_layers = {layers - 1};  // one in eight of the published tower
  v.least_pixels = 3136;
  v.most_pixels = 1003520;
  return v;
}

// Random weights of these shapes, which live as long as `memory`.
vision_weights weights_of(const vision_config& v, std::vector<tensor>& memory) {
  const auto get = [&](const std::string&, const std::vector<std::int64_t>& shape) {
    std::int64_t in = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) in *= shape[i];
    const float scale = 1 / std::sqrt(static_cast<float>(in));
    memory.push_back(random_tensor(cpu_backend(), {shape[0], in}, scale));
    return shape.size() == 1 ? make_view(memory.back().view().data, dtype::f32, {shape[0]})
                             : memory.back().view();
  };
  return collect_vision_weights(v, language_width, get);
}

// The products alone. Each has weights of its own: neither these nor the tower's are in a cache.
class products_alone {
 public:
  explicit products_alone(const std::vector<tower_work::product>& shapes) {
    for (const tower_work::product& s : shapes) {
      const float scale = 1 / std::sqrt(static_cast<float>(s.in));
      all_.push_back({cpu_backend().pack(random_tensor(cpu_backend(), {s.out, s.in}, scale),
                                         weight_format::f32),
                      random_tensor(cpu_backend(), {s.rows, s.in}),
                      cpu_backend().allocate(dtype::f32, {s.rows, s.out})});
      flops_ += 2.0 * static_cast<double>(s.rows * s.in * s.out);
      bytes_ += static_cast<double>(all_.back().weight->bytes);
    }
  }
  void run() const {
    for (const one& p : all_) cpu_backend().run(op::linear{p.x, *p.weight, {}, p.y, false});
  }
  double flops() const { return flops_; }
  double bytes() const { return bytes_; }

 private:
  struct one {
    packed_handle weight;
    tensor x, y;
  };
  std::vector<one> all_;
  double flops_ = 0, bytes_ = 0;
};

// Arguments: tower (0 LLaDA-V, 1 Dimple), layers, pixels of a side. share_of_linear_% is the tower's FLOP/s,
// attention included, over those of its products alone. The bar is 60 at the published sizes.
void picture_tower_forward(benchmark::State& state) {
  const auto layers = static_cast<std::int32_t>(state.range(1)),
             side = static_cast<std::int32_t>(state.range(2));
  const vision_config v = state.range(0) == 0 ? llada_v(layers, side) : dimple(layers);
  std::vector<tensor> memory;
  const vision_weights weights = weights_of(v, memory);
  const picture_tower tower(v, weights, cpu_backend(), {});
  const picture_shape shape = shape_of_picture(v, v.preset, side, side);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * side * side));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
  }
  const tensor_view shown = make_view(pixels.data(), dtype::u8, {1, side, side, 3});
  const products_alone products(work_of_tower(v, language_width, shape).products);
  const auto t = interleave(state, {[&] { tower(shown, shape); }, [&] { products.run(); }});
  const double flops = tower.flops(shape);
  report(state, t[0], flops, products.bytes());
  const double more = flops / products.flops();
  state.counters["linear/whole"] = t[1].median / t[0].median;
  state.counters["share_of_linear_%"] = 100 * more * t[1].median / t[0].median;
  state.counters["best_share_of_linear_%"] = 100 * more * t[1].best / t[0].best;
}

void arguments(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tower", "layers", "side"})->UseManualTime()->Unit(benchmark::kMillisecond);
}
// A fixed number of turns: a whole forward takes a second, and the benchmark's own choice would be one.
BENCHMARK(picture_tower_forward)
    ->Apply(arguments)
    ->Args({0, 4, 384})
    ->Args({1, 4, 448})
    ->Iterations(9);
// As small as it can be: does it run?
BENCHMARK(picture_tower_forward)
    ->Apply(arguments)
    ->Args({0, 1, 56})
    ->Args({1, 1, 56})
    ->Iterations(2);

}  // namespace
}  // namespace unmask::bench
