// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations of a transformer's layers between its products; widths divide no vector (operation_test.h says what follows from them).
#include "harness/decode/kernels/features.h"
#include "kernels/model_core.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto norms = for_each_of<std::int64_t>({1, 3, 33, 128, 515}, [](std::int64_t width) {
  return declared(
      [=](operands& at, const batch& b) {
        return op::rms_norm{at.normal(b, few_rows(b), {width}, 1, 7, 2), at.shared({width}, 2),
                            1e-5F, at.out_rows<float>(few_rows(b), {width}, 5)};
      },
      2e-6);
});
const declared norm_in_place(
    [](operands& at, const batch& b) {
      const auto x = normal_values(b, few_rows(b), 100, 1);
      const tensor_view both = at.out_rows<float>(few_rows(b), {100}, 3, x);
      return op::rms_norm{both, at.shared({100}, 2), 1e-5F, both};
    },
    2e-6);

// Gates far from 0, where exp overflows, too.
const auto gates = for_each_of<std::int64_t>({1, 16, 33, 192}, [](std::int64_t width) {
  return declared(
      [=](operands& at, const batch& b) {
        const auto x = joined<float>(b, [&](int s) {
          std::mt19937 rng = rng_of(s, 1);
          auto v = random_vector(rng, few(s) * 2 * width, 4);
          if (v.size() > 1) v.front() = s % 2 == 0 ? 200.0F : -200.0F;
          return v;
        });
        return op::silu_mul{at.in(x, {2 * width}, 1), at.out_rows<float>(few_rows(b), {width}, 2)};
      },
      1e-6);
});

const declared embedding([](operands& at, const batch& b) {
  const auto token = joined<std::int32_t>(b, [](int s) {
    indices t;
    for (std::int64_t r = 0; r < few(s); ++r) t.push_back((s * 3 + static_cast<int>(r) * 5) % 7);
    return t;
  });
  return op::embed{at.in(token), at.shared({7, 19}, 1), at.out_rows<float>(few_rows(b), {19}, 3)};
});

struct head_shape {
  std::int64_t dim;
  std::int32_t rotary;
  bool norm;
};
const std::vector<head_shape> head_shapes{
    {48, 48, false}, {64, 32, true}, {24, 24, true}, {10, 6, false}, {128, 128, false}};

indices far_positions(const batch& b) {
  return joined<std::int32_t>(b, [](int s) {
    const indices at{0, 1, 77, 1023, 1024, 30001};
    indices p;
    for (std::int64_t r = 0; r < few(s); ++r) p.push_back(at[static_cast<std::size_t>(r + s) % 6]);
    return p;
  });
}
// YaRN's frequencies and magnitude: they differ from the unscaled ones in every pair but the first.
rope_params stretched(std::int32_t rotary, float theta) {
  rope_params rope{rotary, theta};
  rope.scaling = {rope_scaling_kind::yarn, 4, 1, 32, 2048};
  rope.magnitude = 1.14F;
  return rope;
}
const auto ropes = for_each_of(head_shapes, [](const head_shape& h) {
  return declared(
      [=](operands& at, const batch& b) {
        const auto x = normal_values(b, few_rows(b), 3 * h.dim, 1);
        return op::head_norm_rope{at.out_rows<float>(few_rows(b), {3, h.dim}, 11, x),
                                  h.norm ? at.shared({h.dim}, 2) : tensor_view{}, 1e-6F,
                                  stretched(h.rotary, 500000.0F), at.in(far_positions(b))};
      },
      3e-6);
});

// Pairs of one axis, as a model with pictures turns them: the frame and the column of Dimple, and the column of
// a patch in its tower, whose frequencies begin anew.
struct section {
  std::int32_t dim, first, last, restart;
};
const auto sections = for_each_of<section>(
    {{128, 0, 16, 0}, {128, 40, 64, 0}, {80, 20, 40, 40}}, [](const section& of) {
      return declared(
          [=](operands& at, const batch& b) {
            const auto x = normal_values(b, few_rows(b), std::int64_t{3} * of.dim, 1);
            rope_params rope{of.dim, 10000.0F};
            rope.first_pair = of.first;
            rope.last_pair = of.last;
            rope.restart = of.restart;
            return op::head_norm_rope{at.out_rows<float>(few_rows(b), {3, of.dim}, 11, x),
                                      {},
                                      0,
                                      rope,
                                      at.in(far_positions(b))};
          },
          3e-6);
    });

const auto stores = for_each_of<dtype>({dtype::f32, dtype::bf16}, [](dtype type) {
  return declared([=](operands& at, const batch& b) {
    const ragged r(at, b, few, 150, type == dtype::f32, 2);
    const bool stored = at.backend().holds_kv(dtype::bf16) || type == dtype::f32;
    const auto values = [&](int array) {
      auto v = normal_values(b, r.rows, 24, array);
      for (float& x : v) x = stored ? x : from_bf16(to_bf16(x));
      v.resize(v.size() + 2 * 24, nan);  // padding rows
      return at.in(v, {2, 12}, array);
    };
    return op::kv_write{r.set, values(5), values(9), at.cache(b, 3, 2, 12, 30, type, true)};
  });
});
const declared stores_keys_only([](operands& at, const batch& b) {
  const ragged r(at, b, few, 128);
  return op::kv_write{
      r.set, at.normal(b, r.rows, {2, 5}, 1), {}, at.cache(b, 2, 2, 5, 30, dtype::f32, true)};
});
const auto reads = for_each_of<bool>({false, true}, [](bool accumulate) {
  return declared([=](operands& at, const batch& b) {
    const ragged r(at, b, few, 150, accumulate);
    const auto before = [&](int array) { return normal_values(b, r.rows, 24, array); };
    return op::kv_read{r.set, at.cache(b, 3, 2, 12, 30),
                       at.out_rows<float>(r.rows, {2, 12}, 3, before(1)),
                       at.out_rows<float>(r.rows, {2, 12}, 1, before(2)), accumulate};
  });
});

const auto rotations = for_each_of(head_shapes, [](const head_shape& h) {
  return declared(
      [=](operands& at, const batch& b) {
        constexpr std::int64_t heads = 4, kv_heads = 2;
        const ragged r(at, b, few, 150, h.norm, 2);
        // Queries, keys and values side by side, as one product leaves them.
        const auto part = [&](std::int64_t n, int array) {
          auto v = normal_values(b, r.rows, n * h.dim, array);
          v.resize(v.size() + static_cast<std::size_t>(2 * n * h.dim), 1);  // padding rows
          return v;
        };
        const tensor_view q = at.out_rows(r.rows, {heads, h.dim}, 3, part(heads, 1), 2);
        const tensor_view k = at.out_rows(r.rows, {kv_heads, h.dim}, 5, part(kv_heads, 2), 2);
        const tensor_view v = at.in(part(kv_heads, 3), {kv_heads, h.dim}, 7);
        const auto norm = [&](int array) {
          return h.norm ? at.shared({h.dim}, array) : tensor_view{};
        };
        return op::rotate_and_store{r.set,
                                    q,
                                    k,
                                    v,
                                    norm(4),
                                    norm(5),
                                    1e-6F,
                                    stretched(h.rotary, 10000.0F),
                                    at.cache(b, 3, kv_heads, h.dim, 30, dtype::f32, true)};
      },
      3e-6);
});

}  // namespace
}  // namespace unmask::test
