// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/vision/tower.h"

#include <algorithm>
#include <cmath>

#include "harness/model/convert.h"
#include "harness/model/vision/tower_body.h"
#include "harness/model/vision/tower_work.h"
#include "kernels/attention.h"
#include "kernels/cuda/choices.h"
#include "kernels/model_core.h"
#include "kernels/vision.h"

namespace unmask {
namespace {

// Heads as tensor cores take them, of as many elements as these at least; 0: no GPU, or heads stay as they are.
std::int64_t widened_heads(std::int64_t dim, const backend& backend) {
  if (!backend.holds_kv(dtype::bf16) || !cuda::widens_towers_by_environment()) return 0;
  return dim <= 64 ? 64 : dim <= 128 ? 128 : 0;
}

// Groups of `from` elements, each with zeros behind it up to `to`, as a tensor of this shape.
tensor with_zeros(const tensor_view& x, std::int64_t from, std::int64_t to,
                  std::initializer_list<std::int64_t> shape) {
  const tensor whole = to_f32(x, cpu_backend()), wide = cpu_backend().allocate(dtype::f32, shape);
  std::fill_n(wide.as<float>(), wide.view().elements(), 0.0F);
  for (std::int64_t group = 0; group < x.elements() / from; ++group) {
    std::copy_n(whole.as<float>() + group * from, from, wide.as<float>() + group * to);
  }
  return wide;
}

}  // namespace

tensor_view as_matrix(tensor_view weight) {
  const std::int64_t rows = weight.rows();
  weight.shape = {rows, weight.elements() / rows, 0, 0};
  weight.rank = 2;
  weight.row_stride = weight.shape[1];
  return weight;
}

picture_tower::body::body(const vision_config& of, const unmask::backend& with,
                          std::vector<std::shared_ptr<const void>> alive)
    : config(of), backend(with), keep_alive(std::move(alive)) {
  const auto worth = byte_values(config);
  values = backend.allocate(dtype::f32, {3, 256});
  backend.write(values.view().data, worth.data(), values.bytes());
  widened_ = widened_heads(head_dim(), backend);
}

picture_tower::body::product picture_tower::body::pack(
    const std::vector<biased_weight>& parts) const {
  std::vector<tensor_view> weights, biases;
  for (const biased_weight& part : parts) {
    weights.push_back(as_matrix(part.weight));
    biases.push_back(part.bias);
  }
  const bool one = parts.size() == 1;
  product p{one ? backend.pack(weights[0], weight_format::f32)
                : backend.pack(stack_rows(weights), weight_format::f32),
            {}};
  if (biases[0].data != nullptr) {
    p.bias = one ? to_f32(biases[0], backend) : to_f32(stack_rows(biases), backend);
  }
  return p;
}

picture_tower::body::product picture_tower::body::pack_heads(
    const std::vector<biased_weight>& parts) const {
  if (widened_ == 0) return pack(parts);
  const std::int64_t dim = head_dim();
  std::vector<tensor> kept;
  std::vector<biased_weight> wide;
  for (const biased_weight& part : parts) {
    const tensor_view weight = as_matrix(part.weight);
    const std::int64_t in = weight.columns(), rows = weight.rows() / dim * widened_;
    kept.push_back(with_zeros(weight, dim * in, widened_ * in, {rows, in}));
    wide.push_back({kept.back(), {}});
    if (part.bias.data != nullptr) {
      kept.push_back(with_zeros(part.bias, dim, widened_, {rows}));
      wide.back().bias = kept.back();
    }
  }
  return pack(wide);
}

picture_tower::body::product picture_tower::body::pack_from_heads(
    const biased_weight& weight) const {
  if (widened_ == 0) return pack({weight});
  const tensor_view narrow = as_matrix(weight.weight);
  const tensor wide = with_zeros(narrow, head_dim(), widened_, {narrow.rows(), heads_width()});
  return pack({biased_weight{wide, weight.bias}});
}

tensor picture_tower::body::multiply(const tensor_view& x, const product& p) const {
  tensor y = backend.allocate(dtype::f32, {x.rows(), p.weight->out_features});
  backend.run(op::linear{x, *p.weight, p.bias, y, false});
  return y;
}

void picture_tower::body::add_product(const tensor_view& x, const product& p,
                                      const tensor_view& to) const {
  backend.run(op::linear{x, *p.weight, p.bias, to, true});
}

tensor picture_tower::body::rows_of(const tensor_view& pixels, std::int64_t width,
                                    const shared_vector<std::int32_t>& first) const {
  const std::int64_t patch = config.patch;
  const tensor bytes = backend.allocate(dtype::u8, {pixels.elements() / 3, 3});
  backend.write(bytes.view().data, pixels.data, bytes.bytes());
  tensor input =
      backend.allocate(dtype::f32, {static_cast<std::int64_t>(first.size()), 3 * patch * patch});
  backend.run(op::patches{bytes, width, first.data(), patch, values, input});
  backend.synchronize();  // the bytes end here
  return input;
}

row_set picture_tower::body::sequences::set() const {
  return {static_cast<std::int32_t>(length.size()),
          static_cast<std::int32_t>(position.size()),
          begin.data(),
          sequence.data(),
          position.data(),
          nullptr};
}

picture_tower::body::sequences picture_tower::body::lists_of(
    const std::vector<std::int32_t>& lengths) {
  sequences l;
  const std::int32_t longest = *std::ranges::max_element(lengths);
  l.pages = (longest + kv_page_size - 1) / kv_page_size;
  l.begin.push_back(0);
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    for (std::int32_t p = 0; p < lengths[s]; ++p) {
      l.sequence.push_back(static_cast<std::int32_t>(s));
      l.position.push_back(p);
    }
    l.begin.push_back(l.begin.back() + lengths[s]);
    l.length.push_back(lengths[s]);
    for (std::int32_t p = 0; p < l.pages; ++p) {
      l.table.push_back(static_cast<std::int32_t>(s) * l.pages + p);
    }
  }
  return l;
}

picture_tower::body::kv_pages picture_tower::body::make_pages(std::int64_t pages) const {
  const dtype type = widened_ > 0 ? dtype::bf16 : dtype::f32;
  return {backend.allocate(type, {pages, kv_page_size, config.heads, head_room()}),
          backend.allocate(type, {pages, kv_page_size, config.heads, head_room()})};
}

tensor_view picture_tower::body::part_of(const tensor& qkv, std::int64_t which) const {
  tensor_view v = qkv.view();
  v.data = v.as<float>() + which * heads_width();
  v.rank = 3;
  v.shape = {qkv.view().rows(), config.heads, head_room(), 0};
  return v;
}

void picture_tower::body::attend(const tensor& qkv, const sequences& rows, const kv_pages& pages,
                                 const tensor& out) const {
  const row_set set = rows.set();
  const paged_kv cache{pages.keys, pages.values, rows.table.data(), rows.pages, 0};
  backend.run(op::kv_write{set, part_of(qkv, 1), part_of(qkv, 2), cache});
  backend.run(op::attention{
      set,
      part_of(qkv, 0),
      cache,
      {rows.length.data(), nullptr, nullptr, mask_kind::full, 1, {}},
      1.0F / std::sqrt(static_cast<float>(head_dim())),
      make_view(out.view().data, dtype::f32, {qkv.view().rows(), config.heads, head_room()}),
      {}});
}

picture_tower::picture_tower(const vision_config& config, const vision_weights& weights,
                             const unmask::backend& backend,
                             std::vector<std::shared_ptr<const void>> keep_alive)
    : config_(config),
      width_(static_cast<std::int32_t>(weights.project1.weight.rows())),
      body_(config.kind == vision_kind::qwen
                ? make_qwen_tower(config, weights, backend, std::move(keep_alive))
                : make_siglip_tower(config, weights, backend, std::move(keep_alive))) {}
picture_tower::~picture_tower() = default;

picture_tower::features picture_tower::operator()(const tensor_view& pixels,
                                                  const picture_shape& shape) const {
  return (*body_)(pixels, shape);
}

double picture_tower::flops(const picture_shape& shape) const {
  return work_of_tower(config_, width_, shape).flops();
}

std::array<std::array<float, 256>, 3> byte_values(const vision_config& config) {
  // Dimple's are CLIP's.
  std::array<float, 3> mean = {0.5F, 0.5F, 0.5F}, deviation = mean;
  if (config.kind == vision_kind::qwen) {
    mean = {0.48145466F, 0.4578275F, 0.40821073F};
    deviation = {0.26862954F, 0.26130258F, 0.27577711F};
  }
  std::array<std::array<float, 256>, 3> worth{};
  for (std::size_t c = 0; c < worth.size(); ++c) {
    for (std::size_t b = 0; b < worth[c].size(); ++b) {
      const auto scaled = static_cast<float>(static_cast<double>(b) * (1.0 / 255));
      worth[c][b] = (scaled - mean[c]) / deviation[c];
    }
  }
  return worth;
}

}  // namespace unmask
