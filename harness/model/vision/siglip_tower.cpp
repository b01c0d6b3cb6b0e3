// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LLaDA-V: a SigLIP tower less its last layer, two projections, tiles (LLaVA's anyres).
#include "harness/model/convert.h"
#include "harness/model/vision/tower_body.h"
#include "kernels/model_core.h"
#include "kernels/rows.h"
#include "kernels/vision.h"

namespace unmask {
namespace {

class siglip_tower final : public picture_tower::body {
 public:
  siglip_tower(const vision_config& of, const vision_weights& weights, const unmask::backend& with,
               std::vector<std::shared_ptr<const void>> alive)
      : body(of, with, std::move(alive)) {
    patches_ = pack({weights.patches});
    positions_ = to_f32(weights.positions, backend);
    for (const tower_layer_weights& l : weights.layers) {
      layers_.push_back({norm_of(l.norm1), norm_of(l.norm2), pack_heads({l.q, l.k, l.v}),
                         pack_from_heads(l.out), pack({l.fc1}), pack({l.fc2})});
    }
    project1_ = pack({weights.project1});
    project2_ = pack({weights.project2});
    newline_ = to_f32(weights.newline, backend);
  }

  picture_tower::features operator()(const tensor_view& pixels,
                                     const picture_shape& shape) const override {
    picture_tower::features f;
    f.tower = patches_of(pixels, shape.views());
    run_layers(f.tower, shape.views());
    const tensor hidden = multiply(f.tower, project1_);
    backend.run(op::gelu{hidden, gelu_form::erf, hidden});
    const std::int64_t rows = f.tower.view().rows(), width = project2_.weight->out_features;
    f.projected = backend.allocate(dtype::f32, {rows + 1, width});
    const tensor_view made = f.projected.view().first(rows);
    backend.run(op::linear{hidden, *project2_.weight, project2_.bias, made, false});
    const shared_vector<std::int32_t> only = {0};
    backend.run(op::gather_rows{make_view(newline_.view().data, dtype::f32, {1, width}),
                                only.data(), f.projected.view().slice(rows, 1)});
    const row_plan plan = plan_rows(config, shape);
    f.rows = backend.allocate(dtype::f32, {plan.rows(), width});
    backend.run(op::blend_rows{f.projected, plan.from.data(), plan.across.data(), plan.down.data(),
                               f.rows});
    backend.synchronize();
    return f;
  }

 private:
  struct norm {
    tensor weight, bias;
  };
  struct layer {
    norm norm1, norm2;
    product qkv, out, fc1, fc2;
  };

  norm norm_of(const biased_weight& w) const {
    return {to_f32(w.weight, backend), to_f32(w.bias, backend)};
  }
  void normalise(const tensor_view& x, const norm& n, const tensor_view& out) const {
    backend.run(op::layer_norm{x, n.weight, n.bias, config.norm_eps, out});
  }

  // Patches of all views through the convolution, with the embedding of their places added.
  tensor patches_of(const tensor_view& pixels, std::int32_t views) const {
    const std::int64_t per_view = config.rows_of_view(), rows = views * per_view, n = config.grid(),
                       side = config.side, patch = config.patch;
    shared_vector<std::int32_t> first, place;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t in_view = r % per_view;
      first.push_back(static_cast<std::int32_t>((r / per_view * side + in_view / n * patch) * side +
                                                in_view % n * patch));
      place.push_back(static_cast<std::int32_t>(in_view));
    }
    const tensor input = rows_of(pixels, side, first);
    tensor x = backend.allocate(dtype::f32, {rows, config.hidden});
    backend.run(op::gather_rows{positions_, place.data(), x});
    add_product(input, patches_, x);
    backend.synchronize();  // the lists end here
    return x;
  }

  // All layers, in place. A view is a sequence.
  void run_layers(const tensor_view& x, std::int32_t views) const {
    const std::int64_t rows = x.rows();
    const sequences seen =
        lists_of(std::vector(static_cast<std::size_t>(views), config.rows_of_view()));
    const kv_pages pages = make_pages(std::int64_t{views} * seen.pages);
    const tensor normed = backend.allocate(dtype::f32, {rows, config.hidden});
    const tensor attended = backend.allocate(dtype::f32, {rows, heads_width()});
    for (const layer& l : layers_) {
      normalise(x, l.norm1, normed);
      const tensor qkv = multiply(normed, l.qkv);
      attend(qkv, seen, pages, attended);
      add_product(attended, l.out, x);
      normalise(x, l.norm2, normed);
      const tensor hidden = multiply(normed, l.fc1);
      backend.run(op::gelu{hidden, gelu_form::tanh, hidden});
      add_product(hidden, l.fc2, x);
      backend.synchronize();  // scratch ends here
    }
  }

  product patches_, project1_, project2_;
  tensor positions_, newline_;
  std::vector<layer> layers_;
};

}  // namespace

std::unique_ptr<picture_tower::body> make_siglip_tower(
    const vision_config& config, const vision_weights& weights, const backend& backend,
    std::vector<std::shared_ptr<const void>> keep_alive) {
  return std::make_unique<siglip_tower>(config, weights, backend, std::move(keep_alive));
}

}  // namespace unmask
