// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/tower.h"

#include <cmath>
#include <cstring>

#include "harness/model/convert.h"
#include "kernels/attention.h"
#include "kernels/model_core.h"
#include "kernels/rows.h"
#include "kernels/vision.h"

namespace unmask {
namespace {

// A weight of more dimensions as [out, everything else].
tensor_view as_matrix(tensor_view w) {
  const std::int64_t rows = w.rows();
  w.shape = {rows, w.elements() / rows, 0, 0};
  w.rank = 2;
  w.row_stride = w.shape[1];
  return w;
}

}  // namespace

struct picture_tower::impl {
  struct product {
    packed_handle weight;
    tensor bias;
  };
  struct norm {
    tensor weight, bias;
  };
  struct layer {
    norm norm1, norm2;
    product qkv, out, fc1, fc2;
  };
  vision_config config;
  const unmask::backend& backend;
  std::vector<std::shared_ptr<const void>> keep_alive;
  product patches, project1, project2;
  tensor positions, newline, values;
  std::vector<layer> layers;

  product pack(const std::vector<biased_weight>& parts) const {
    std::vector<tensor_view> weights, biases;
    for (const biased_weight& part : parts) {
      weights.push_back(as_matrix(part.weight));
      biases.push_back(part.bias);
    }
    const bool one = parts.size() == 1;
    return {one ? backend.pack(weights[0], weight_format::f32)
                : backend.pack(stack_rows(weights), weight_format::f32),
            one ? to_f32(biases[0], backend) : to_f32(stack_rows(biases), backend)};
  }
  norm norm_of(const biased_weight& w) const {
    return {to_f32(w.weight, backend), to_f32(w.bias, backend)};
  }
  tensor multiply(const tensor_view& x, const product& p) const {
    tensor y = backend.allocate(dtype::f32, {x.rows(), p.weight->out_features});
    backend.run(op::linear{x, *p.weight, p.bias, y, false});
    return y;
  }
  void add_product(const tensor_view& x, const product& p, const tensor_view& to) const {
    backend.run(op::linear{x, *p.weight, p.bias, to, true});
  }
  void normalise(const tensor_view& x, const norm& n, const tensor_view& out) const {
    backend.run(op::layer_norm{x, n.weight, n.bias, config.norm_eps, out});
  }

  tensor patches_of(const tensor_view& pixels, std::int32_t views) const;
  void attend(const tensor_view& x, std::int32_t views) const;
};

picture_tower::picture_tower(const vision_config& config, const vision_weights& weights,
                             const unmask::backend& backend,
                             std::vector<std::shared_ptr<const void>> keep_alive)
    : impl_(new impl{.config = config, .backend = backend, .keep_alive = std::move(keep_alive)}) {
  impl& m = *impl_;
  m.patches = m.pack({weights.patches});
  m.positions = to_f32(weights.positions, backend);
  for (const tower_layer_weights& l : weights.layers) {
    m.layers.push_back({m.norm_of(l.norm1), m.norm_of(l.norm2), m.pack({l.q, l.k, l.v}),
                        m.pack({l.out}), m.pack({l.fc1}), m.pack({l.fc2})});
  }
  m.project1 = m.pack({weights.project1});
  m.project2 = m.pack({weights.project2});
  m.newline = to_f32(weights.newline, backend);
  const auto values = byte_values(config);
  m.values = backend.allocate(dtype::f32, {3, 256});
  backend.write(m.values.view().data, values.data(), m.values.bytes());
}
picture_tower::~picture_tower() = default;

// Patches of all views through the convolution, with the embedding of their places added.
tensor picture_tower::impl::patches_of(const tensor_view& pixels, std::int32_t views) const {
  const std::int64_t per_view = config.rows_of_view(), rows = views * per_view, n = config.grid(),
                     side = config.side, patch = config.patch;
  tensor bytes = backend.allocate(dtype::u8, {views * side * side, 3});
  backend.write(bytes.view().data, pixels.data, bytes.bytes());
  shared_vector<std::int32_t> first, place;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t in_view = r % per_view;
    first.push_back(static_cast<std::int32_t>((r / per_view * side + in_view / n * patch) * side +
                                              in_view % n * patch));
    place.push_back(static_cast<std::int32_t>(in_view));
  }
  const tensor input = backend.allocate(dtype::f32, {rows, 3 * patch * patch});
  backend.run(op::patches{bytes, side, first.data(), patch, values, input});
  tensor x = backend.allocate(dtype::f32, {rows, config.hidden});
  backend.run(op::gather_rows{positions, place.data(), x});
  add_product(input, patches, x);
  backend.synchronize();  // the lists end here
  return x;
}

// All layers, in place. A view is a sequence with pages of its own.
void picture_tower::impl::attend(const tensor_view& x, std::int32_t views) const {
  const std::int32_t per_view = config.rows_of_view(), heads = config.heads;
  const std::int64_t rows = x.rows(), width = config.hidden, dim = width / heads;
  const std::int32_t pages = (per_view + kv_page_size - 1) / kv_page_size;
  const tensor key_pages = backend.allocate(dtype::f32, {views * pages, kv_page_size, heads, dim});
  const tensor value_pages =
      backend.allocate(dtype::f32, {views * pages, kv_page_size, heads, dim});
  shared_vector<std::int32_t> begin, sequence, position, table, length;
  for (std::int32_t v = 0; v <= views; ++v) begin.push_back(v * per_view);
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(rows); ++r) {
    sequence.push_back(r / per_view);
    position.push_back(r % per_view);
  }
  for (std::int32_t p = 0; p < views * pages; ++p) table.push_back(p);
  length.assign(static_cast<std::size_t>(views), per_view);
  const row_set set{views,           static_cast<std::int32_t>(rows),
                    begin.data(),    sequence.data(),
                    position.data(), nullptr};
  const paged_kv cache{key_pages, value_pages, table.data(), pages, 0};
  const tensor normed = backend.allocate(dtype::f32, {rows, width});
  const tensor attended = backend.allocate(dtype::f32, {rows, width});
  const tensor_view by_head = make_view(attended.view().data, dtype::f32, {rows, heads, dim});
  for (const layer& l : layers) {
    normalise(x, l.norm1, normed);
    const tensor qkv = multiply(normed, l.qkv);
    const auto part = [&](std::int64_t which) {
      tensor_view v = qkv.view();
      v.data = v.as<float>() + which * width;
      v.rank = 3;
      v.shape = {rows, heads, dim, 0};
      return v;
    };
    backend.run(op::kv_write{set, part(1), part(2), cache});
    backend.run(op::attention{set,
                              part(0),
                              cache,
                              {length.data(), nullptr, nullptr, mask_kind::full, 1, {}},
                              1.0F / std::sqrt(static_cast<float>(dim)),
                              by_head,
                              {}});
    add_product(attended, l.out, x);
    normalise(x, l.norm2, normed);
    const tensor hidden = multiply(normed, l.fc1);
    backend.run(op::gelu{hidden, gelu_form::tanh, hidden});
    add_product(hidden, l.fc2, x);
    backend.synchronize();  // scratch ends here
  }
}

picture_tower::features picture_tower::operator()(const tensor_view& pixels,
                                                  const picture_shape& shape) const {
  const impl& m = *impl_;
  const unmask::backend& backend = m.backend;
  features f;
  f.tower = m.patches_of(pixels, shape.views());
  m.attend(f.tower, shape.views());
  const tensor hidden = m.multiply(f.tower, m.project1);
  backend.run(op::gelu{hidden, gelu_form::erf, hidden});
  const std::int64_t rows = f.tower.view().rows(), width = m.project2.weight->out_features;
  f.projected = backend.allocate(dtype::f32, {rows + 1, width});
  const tensor_view made = f.projected.view().first(rows);
  backend.run(op::linear{hidden, *m.project2.weight, m.project2.bias, made, false});
  const shared_vector<std::int32_t> only = {0};
  backend.run(op::gather_rows{make_view(m.newline.view().data, dtype::f32, {1, width}), only.data(),
                              f.projected.view().slice(rows, 1)});
  const row_plan plan = plan_rows(m.config, shape);
  f.rows = backend.allocate(dtype::f32, {plan.rows(), width});
  backend.run(
      op::blend_rows{f.projected, plan.from.data(), plan.across.data(), plan.down.data(), f.rows});
  backend.synchronize();
  return f;
}

double picture_tower::flops(std::int32_t views) const {
  const impl& m = *impl_;
  const auto weights = [](const impl::product& p) {
    return static_cast<double>(p.weight->out_features) * static_cast<double>(p.weight->in_features);
  };
  double of_row = weights(m.patches) + weights(m.project1) + weights(m.project2);
  for (const impl::layer& l : m.layers) {
    of_row += weights(l.qkv) + weights(l.out) + weights(l.fc1) + weights(l.fc2) +
              2.0 * m.config.rows_of_view() * m.config.hidden;
  }
  return 2.0 * of_row * views * m.config.rows_of_view();
}

std::array<std::array<float, 256>, 3> byte_values(const vision_config&) {
  std::array<std::array<float, 256>, 3> values{};
  for (std::size_t c = 0; c < values.size(); ++c) {
    for (std::size_t b = 0; b < values[c].size(); ++b) {
      const auto scaled = static_cast<float>(static_cast<double>(b) * (1.0 / 255));
      values[c][b] = (scaled - 0.5F) / 0.5F;
    }
  }
  return values;
}

}  // namespace unmask
