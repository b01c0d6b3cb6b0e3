// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Dimple: Qwen2.5-VL's tower (transformers, modeling_qwen2_5_vl.py) over one view of its own size, and two
// projections. Merged patches are ordered by window for the layers, and put back behind the merger.
#include <algorithm>
#include <array>

#include "harness/model/convert.h"
#include "harness/model/vision/tower_body.h"
#include "kernels/model_core.h"
#include "kernels/rows.h"
#include "kernels/vision.h"

namespace unmask {
namespace {

constexpr float theta = 10000.0F;

// A picture has one frame, which the tower is shown twice: both frames' weights add up.
tensor both_frames(const tensor_view& patches, std::int64_t patch) {
  const std::int64_t rows = patches.shape[0], area = patch * patch;
  const tensor frames = to_f32(patches, cpu_backend());
  tensor sum = cpu_backend().allocate(dtype::f32, {rows, 3 * area});
  const float* from = frames.as<float>();
  for (std::int64_t part = 0; part < rows * 3; ++part) {
    for (std::int64_t i = 0; i < area; ++i) {
      sum.as<float>()[part * area + i] =
          from[2 * part * area + i] + from[(2 * part + 1) * area + i];
    }
  }
  return sum;
}

class qwen_tower final : public picture_tower::body {
 public:
  qwen_tower(const vision_config& of, const vision_weights& weights, const unmask::backend& with,
             std::vector<std::shared_ptr<const void>> alive)
      : body(of, with, std::move(alive)) {
    const qwen_weights& w = weights.qwen;
    const tensor patches = both_frames(w.patches, config.patch);
    patches_ = pack({{patches, {}}});
    for (std::size_t i = 0; i < w.layers.size(); ++i) {
      const qwen_layer_weights& l = w.layers[i];
      const auto number = static_cast<std::int32_t>(i);
      const bool whole = std::ranges::count(config.whole_layers, number) > 0;
      layers_.push_back({to_f32(l.norm1, backend), to_f32(l.norm2, backend), pack_heads({l.qkv}),
                         pack_from_heads(l.out), pack({l.gate, l.up}), pack({l.down}), whole});
    }
    merge_norm_ = to_f32(w.merge_norm, backend);
    merge1_ = pack({w.merge1});
    merge2_ = pack({w.merge2});
    // silu(x) as silu(x) * 1: the second half of this product is its bias of ones.
    const std::int64_t width = weights.project1.weight.rows();
    const tensor zeros = cpu_backend().allocate(dtype::f32, {width, config.merged});
    std::fill_n(zeros.as<float>(), width * config.merged, 0.0F);
    const tensor ones = cpu_backend().allocate(dtype::f32, {width});
    std::fill_n(ones.as<float>(), width, 1.0F);
    project1_ = pack({weights.project1, {zeros, ones}});
    project2_ = pack({weights.project2});
  }

  picture_tower::features operator()(const tensor_view& pixels,
                                     const picture_shape& shape) const override {
    const layout at = lay_out(shape);
    tensor x = multiply(rows_of(pixels, shape.view_width, at.first), patches_);
    run_layers(x, at);
    picture_tower::features f;
    const std::int64_t cells = std::ssize(at.back), unit = config.merge * config.merge;
    const tensor normed = backend.allocate(dtype::f32, {cells * unit, config.hidden});
    backend.run(op::rms_norm{x, merge_norm_, config.norm_eps, normed});
    const tensor joined =
        multiply(make_view(normed.view().data, dtype::f32, {cells, unit * config.hidden}), merge1_);
    backend.run(op::gelu{joined, gelu_form::erf, joined});
    const tensor merged = multiply(joined, merge2_);
    f.tower = backend.allocate(dtype::f32, {cells, config.merged});
    backend.run(op::gather_rows{merged, at.back.data(), f.tower});
    const tensor pair = multiply(f.tower, project1_);
    const tensor hidden = backend.allocate(dtype::f32, {cells, pair.view().columns() / 2});
    backend.run(op::silu_mul{pair, hidden});
    f.projected = multiply(hidden, project2_);
    f.rows = f.projected;
    backend.synchronize();  // scratch ends here
    return f;
  }

 private:
  struct layer {
    tensor norm1, norm2;
    product qkv, out, gate_up, down;
    bool whole = false;
  };
  // Patches in the order of the layers.
  struct layout {
    shared_vector<std::int32_t> first, row, column;  // pixel and place of each patch
    shared_vector<std::int32_t> back;  // of each merged patch of the picture its row here
    sequences near, whole;
  };

  layout lay_out(const picture_shape& shape) const {
    const std::int32_t width = shape.view_width / config.cell(), merge = config.merge,
                       unit = merge * merge;
    window_plan windows = plan_windows(config, shape);
    layout at;
    at.back.resize(windows.cells.size());
    std::int32_t place = 0;
    for (const std::int32_t cell : windows.cells) {
      at.back[static_cast<std::size_t>(cell)] = place++;
      for (std::int32_t i = 0; i < unit; ++i) {
        at.row.push_back(cell / width * merge + i / merge);
        at.column.push_back(cell % width * merge + i % merge);
        at.first.push_back((at.row.back() * shape.view_width + at.column.back()) * config.patch);
      }
    }
    for (std::int32_t& count : windows.counts) count *= unit;
    at.near = lists_of(windows.counts);
    at.whole = lists_of({place * unit});
    return at;
  }

  // The first half of the pairs turns by the patch's row, the second by its column.
  void rotate(const tensor& qkv, const layout& at) const {
    const auto dim = static_cast<std::int32_t>(head_dim());
    rope_params rope{dim, theta};
    rope.restart = dim / 2;
    for (const auto* place : {&at.row, &at.column}) {
      rope.first_pair = rope.last_pair;
      rope.last_pair += dim / 4;
      for (const std::int64_t part : {0, 1}) {
        backend.run(op::head_norm_rope{part_of(qkv, part), {}, 0, rope, place->data()});
      }
    }
  }

  void run_layers(const tensor_view& x, const layout& at) const {
    const std::int64_t rows = x.rows();
    const kv_pages pages = make_pages(
        static_cast<std::int64_t>(std::max(at.near.table.size(), at.whole.table.size())));
    const tensor normed = backend.allocate(dtype::f32, {rows, config.hidden});
    const tensor attended = backend.allocate(dtype::f32, {rows, heads_width()});
    const tensor gated = backend.allocate(dtype::f32, {rows, config.feed_forward});
    for (const layer& l : layers_) {
      backend.run(op::rms_norm{x, l.norm1, config.norm_eps, normed});
      const tensor qkv = multiply(normed, l.qkv);
      rotate(qkv, at);
      attend(qkv, l.whole ? at.whole : at.near, pages, attended);
      add_product(attended, l.out, x);
      backend.run(op::rms_norm{x, l.norm2, config.norm_eps, normed});
      const tensor pair = multiply(normed, l.gate_up);
      backend.run(op::silu_mul{pair, gated});
      add_product(gated, l.down, x);
      backend.synchronize();  // scratch ends here
    }
  }

  product patches_, merge1_, merge2_, project1_, project2_;
  tensor merge_norm_;
  std::vector<layer> layers_;
};

}  // namespace

std::unique_ptr<picture_tower::body> make_qwen_tower(
    const vision_config& config, const vision_weights& weights, const backend& backend,
    std::vector<std::shared_ptr<const void>> keep_alive) {
  return std::make_unique<qwen_tower>(config, weights, backend, std::move(keep_alive));
}

}  // namespace unmask
