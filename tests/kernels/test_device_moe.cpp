// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The experts' products on tensor cores, emulated: the kernel alone against sums in float64, with
// a planted fault, and the whole feed-forward with bfloat16 weights against the same arithmetic
// written down here.
#include <cstdint>

#include "kernels/cuda/moe_roles_kernels.h"
#include "kernels/cuda/moe_tensor_kernels.h"
#include "kernels/cuda/queue.h"
#include "kernels/float16.h"
#include "kernels/moe.h"
#include "tests/kernels/support.h"

namespace unmask::cuda::emulated {
namespace {

constexpr emulator::schedule modes[] = {{false, false, 0}, {true, false, 0},  {false, true, 0},
                                        {true, true, 0},   {false, false, 7}, {true, false, 99}};

// Experts with so many assignments each, two of a row; one has none. Columns and depth divide nothing, or by 8 alone.
struct grouped_shape {
  int columns = 150, depth = 72;
  std::vector<std::int32_t> assignments{160, 0, 9};
};

struct grouped_kernel {
  void (*body)(grouped_tensor_params);
  int tile_rows, y_columns;  // of a block
  unsigned threads;
  std::size_t shared_bytes;
  bool bf16, gated;  // y as float32 or as bfloat16; gated, silu(gate) up in its first columns
};

struct grouped_case {
  static constexpr int divide = 2;
  grouped_shape of;
  int experts, all;
  std::vector<std::int32_t> assignment, begin{0};
  std::vector<std::uint16_t> x;
  std::vector<std::vector<std::uint16_t>> weight;
  std::vector<const void*> pointers;

  explicit grouped_case(grouped_shape shape = {}) : of(std::move(shape)) {
    for (const std::int32_t n : of.assignments) begin.push_back(begin.back() + n);
    experts = static_cast<int>(of.assignments.size());
    all = begin.back();
    std::mt19937 rng(5);
    for (std::int32_t a = 0; a < all; ++a) assignment.push_back(a);
    std::shuffle(assignment.begin(), assignment.end(), rng);
    const auto halves = [&](std::int64_t n) {
      std::vector<std::uint16_t> h;
      for (const float f : test::random_vector(rng, n, 0.5F)) h.push_back(to_bf16(f));
      return h;
    };
    x = halves((all + divide - 1) / divide * of.depth);
    for (int e = 0; e < experts; ++e) weight.push_back(halves(2 * of.columns * of.depth));
    for (const auto& w : weight) pointers.push_back(w.data());
  }
  double sum(std::size_t expert, int a, int column) const {
    const int depth = of.depth;
    double total = 0;
    for (int k = 0; k < depth; ++k) {
      total += static_cast<double>(from_bf16(x[static_cast<std::size_t>(a / divide * depth + k)])) *
               from_bf16(weight[expert][static_cast<std::size_t>(column * depth + k)]);
    }
    return total;
  }
  // y, whose bits are all set before; nothing if the emulator finds a fault. blocks: of a wide kernel.
  std::vector<float> result(const grouped_kernel& k, const emulator::schedule& order,
                            unsigned blocks = 2) {
    std::vector<float> y(static_cast<std::size_t>(all * of.columns), float_bits(0xFFFFFFFF));
    std::vector<std::int32_t> tile_begin{0};
    for (const std::int32_t n : of.assignments) {
      tile_begin.push_back(tile_begin.back() + (n + k.tile_rows - 1) / k.tile_rows);
    }
    queue q;
    emulator::set_schedule(order);
    const bool wide = k.tile_rows == wide_rows;
    try {
      q.launch("grouped_tensor",
               {wide ? blocks : blocks_for(of.columns, k.y_columns), k.threads, k.shared_bytes,
                wide ? 1U : 2U},
               k.body,
               {{assignment.data(), begin.data(), tile_begin.data(), k.tile_rows},
                experts,
                pointers.data(),
                x.data(),
                divide,
                y.data(),
                k.bf16 ? dtype::bf16 : dtype::f32,
                of.columns,
                of.depth});
    } catch (const emulator::emulation_error&) {
      y.clear();
    }
    emulator::set_schedule({});
    return y;
  }
  bool right(const grouped_kernel& k, const emulator::schedule& order) {
    const std::vector<float> y = result(k, order);
    if (y.empty()) return false;
    for (std::size_t e = 0; e < of.assignments.size(); ++e) {
      for (std::int32_t i = begin[e]; i < begin[e + 1]; ++i) {
        const std::int32_t a = assignment[static_cast<std::size_t>(i)];
        for (int n = 0; n < of.columns; ++n) {
          const auto at = static_cast<std::size_t>(a * of.columns + n);
          double want = sum(e, a, n);
          if (k.gated) want = want / (1 + std::exp(-want)) * sum(e, a, of.columns + n);
          const double got =
              k.bf16 ? from_bf16(reinterpret_cast<const std::uint16_t*>(y.data())[at]) : y[at];
          // 72 float32 additions of terms around 1/4; gate, up and result rounded to bfloat16.
          if (!test::close(got, want, k.gated ? 0x1p-6 : k.bf16 ? 0x1p-8 : 1e-5)) return false;
        }
      }
    }
    return true;
  }
};

template <bool gated, int fewer = 0>  // copies that are waited for than is right
grouped_kernel wide_of() {
  return {grouped_wide_kernel<wide_stages - 3 + fewer, gated>,
          wide_rows,
          gated ? wide_columns / 2 : wide_columns,
          routed_threads,
          wide_shared_bytes,
          true,
          gated};
}
template <bool gated, int fewer = 0>
grouped_kernel roles_of() {
  return {grouped_roles_kernel<roles_stages - 2 + fewer, gated>,
          wide_rows,
          gated ? wide_columns / 2 : wide_columns,
          roles_threads,
          roles_shared_bytes,
          true,
          gated};
}
template <int fewer>
std::vector<grouped_kernel> grouped_kernels() {
  constexpr int narrow = routed_stages - 2 + fewer;
  return {{grouped_tensor_kernel<narrow>, routed_rows, routed_columns, routed_threads,
           routed_shared_bytes, false, false},
          {grouped_tensor_kernel<narrow, float, true>, routed_rows, routed_columns / 2,
           routed_threads, routed_shared_bytes, true, true},
          wide_of<false, fewer>(),
          wide_of<true, fewer>()};
}

TEST(device_moe_tensor, grouped_products_are_right_under_every_schedule) {
  grouped_case c;
  for (const grouped_kernel& k : grouped_kernels<0>()) {
    for (const emulator::schedule& order : modes)
      EXPECT_TRUE(c.right(k, order)) << k.tile_rows << k.gated;
  }
}

// 152 columns end within a tile, and 200 lie in two tiles of a gated product. Two blocks compute four tiles and more:
// results are left where those of the tile before were stored from.
TEST(device_moe_tensor, roles_are_right_under_every_schedule) {
  for (const int columns : {152, 200}) {
    grouped_case c({columns, 200, {160, 0, 9, 145}});
    for (const grouped_kernel& k : {roles_of<false>(), roles_of<true>()}) {
      for (const emulator::schedule& order : modes)
        EXPECT_TRUE(c.right(k, order)) << columns << k.gated;
    }
  }
}

// Both sides of a tile's last row and column, less than a step of k, one, as many as there are stages and more, tiles
// for one block, for some blocks and for fewer than there are.
TEST(device_moe_tensor, roles_have_the_bits_of_the_kernel_before) {
  const std::vector<grouped_shape> shapes = {{8, 8, {1}},           {256, 64, {144}},
                                             {264, 72, {145, 143}}, {128, 192, {288, 0, 1}},
                                             {136, 256, {289, 7}},  {120, 64, {0, 36, 37, 35}}};
  for (const grouped_shape& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.columns) + " columns, depth " + std::to_string(shape.depth));
    grouped_case c(shape);
    const auto expect_same = [&](const grouped_kernel& roles, const grouped_kernel& before) {
      const std::vector<float> want = c.result(before, modes[0], 1);
      ASSERT_FALSE(want.empty());
      for (const unsigned blocks : {1U, 3U}) {
        const std::vector<float> got = c.result(roles, modes[blocks], blocks);
        ASSERT_EQ(got.size(), want.size());
        EXPECT_TRUE(test::same_bits(got.data(), want.data(), std::ssize(want)))
            << blocks << " blocks, gated: " << roles.gated;
      }
    };
    expect_same(roles_of<false>(), wide_of<false>());
    expect_same(roles_of<true>(), wide_of<true>());
  }
}

TEST(device_moe_tensor, one_copy_too_many_in_flight_is_found) {
  grouped_case c, eights({152, 200, {160, 0, 9, 145}});
  const auto finds = [](grouped_case& in, const grouped_kernel& k) {
    bool right = true;
    for (const emulator::schedule& order : modes) right = in.right(k, order) && right;
    return !right;
  };
  for (const grouped_kernel& k : grouped_kernels<1>())
    EXPECT_TRUE(finds(c, k)) << k.tile_rows << k.gated;
  for (const grouped_kernel& k : {roles_of<false, 1>(), roles_of<true, 1>()})
    EXPECT_TRUE(finds(eights, k)) << "roles, gated: " << k.gated;
}

}  // namespace
}  // namespace unmask::cuda::emulated

namespace unmask {
namespace {

using test::grid;

float rounded(float v) {
  return from_bf16(to_bf16(v));
}

// y[r] += sum_i weight[r, i] W_down silu(W_gate x) (W_up x), with weights, inputs and the gated
// hidden values rounded to bfloat16, sums in float64.
void experts_by_hand(const grid& x, const std::vector<std::int32_t>& expert,
                     const std::vector<float>& weight, const std::vector<std::vector<float>>& up,
                     const std::vector<std::vector<float>>& down, std::int64_t k,
                     std::int64_t hidden, const grid& y) {
  const std::int64_t width = x.columns();
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t i = 0; i < k; ++i) {
      const auto e = static_cast<std::size_t>(expert[static_cast<std::size_t>(r * k + i)]);
      const auto product = [&](std::int64_t row) {
        double sum = 0;
        for (std::int64_t d = 0; d < width; ++d) {
          sum += static_cast<double>(rounded(x.at(r, d))) *
                 rounded(up[e][static_cast<std::size_t>(row * width + d)]);
        }
        return sum;
      };
      std::vector<double> gated;
      for (std::int64_t f = 0; f < hidden; ++f) {
        const double g = product(f);
        gated.push_back(rounded(static_cast<float>(g / (1 + std::exp(-g)) * product(hidden + f))));
      }
      for (std::int64_t d = 0; d < width; ++d) {
        double sum = 0;
        for (std::int64_t f = 0; f < hidden; ++f) {
          sum += gated[static_cast<std::size_t>(f)] *
                 rounded(down[e][static_cast<std::size_t>(d * hidden + f)]);
        }
        y.at(r, d) += static_cast<float>(weight[static_cast<std::size_t>(r * k + i)] * sum);
      }
    }
  }
}

// Rows of a feed-forward: few of them take the small tiles, many and all the large ones where there are
// any.
struct feed_forward {
  std::int64_t width, hidden, few, many, rows;
};

// Five experts, two a row. Expert 0 gets every row and more than a tile; expert 4 none.
struct experts_case {
  static constexpr std::int64_t k = 2;
  feed_forward of;
  std::mt19937 rng{14};
  std::vector<std::vector<float>> up, down;
  moe_experts own;
  std::vector<std::int32_t> expert;
  std::vector<float> weight;
  grid x, start;

  experts_case(const backend& device, const feed_forward& sizes)
      : of(sizes), x({sizes.rows, sizes.width}, 2), start({sizes.rows, sizes.width}) {
    own.hidden = static_cast<std::int32_t>(of.hidden);
    for (int e = 0; e < 5; ++e) {
      up.push_back(test::random_vector(rng, 2 * of.hidden * of.width, 0.2F));
      down.push_back(test::random_vector(rng, of.hidden * of.width, 0.2F));
      own.gate_up.push_back(device.pack(
          make_view(up.back().data(), dtype::f32, {2 * of.hidden, of.width}), weight_format::bf16));
      own.down.push_back(device.pack(
          make_view(down.back().data(), dtype::f32, {of.width, of.hidden}), weight_format::bf16));
    }
    for (std::int32_t r = 0; r < of.rows; ++r) {
      expert.insert(expert.end(), {0, r % 3 == 0 ? r % 4 : 0});
      weight.insert(weight.end(), {0.7F, 0.4F});
    }
    x.randomize(rng);
    start.randomize(rng);
  }
  // What becomes of `n` rows from one on.
  std::unique_ptr<grid> decode(const backend& device, std::int64_t from, std::int64_t n) {
    const tensor_view routed = make_view(expert.data(), dtype::i32, {of.rows, k}),
                      shares = make_view(weight.data(), dtype::f32, {of.rows, k});
    auto y = std::make_unique<grid>(std::vector<std::int64_t>{n, of.width}, 4);
    for (std::int64_t r = 0; r < n; ++r) std::copy_n(start.row(from + r), of.width, y->row(r));
    device.run(op::moe_feed_forward{x.view().slice(from, n), routed.slice(from, n),
                                    shares.slice(from, n), own, *y});
    device.synchronize();
    return y;
  }
};

void expect_the_definition(const backend& device, const feed_forward& of) {
  experts_case c(device, of);
  const std::int64_t width = of.width, rows = of.rows;
  // A row alone and among others; the same where experts have the rows for the large tiles, whose
  // instructions need not sum in the same order.
  const auto one = c.decode(device, 7, 1), few = c.decode(device, 0, of.few),
             many = c.decode(device, 0, of.many), all = c.decode(device, 0, rows);
  EXPECT_TRUE(test::same_bits(one->row(0), few->row(7), width));
  EXPECT_TRUE(test::same_bits(many->row(7), all->row(7), width));
  grid want({rows, width});
  want.copy(c.start);
  experts_by_hand(c.x, c.expert, c.weight, c.up, c.down, experts_case::k, of.hidden, want);
  // Gate, up, their product and each expert's result are rounded to bfloat16 between the products:
  // each by 2^-9 at most.
  double difference = 0, size = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t d = 0; d < width; ++d) {
      const double w = want.at(r, d), off = all->at(r, d) - w;
      difference += off * off;
      size += w * w;
    }
  }
  EXPECT_LT(std::sqrt(difference / size), 4e-3);
}

TEST(device_moe_tensor, feed_forward_matches_the_definition_and_the_batch) {
  test::for_each_device([&](const backend& device) {
    expect_the_definition(device, {72, 40, 90, 400, 520});  // more than one block plans
  });
}

// More steps of 64 than there are stages: the ring turns, and a wait that is missing shows.
TEST(device_moe_tensor, experts_fill_the_ring_of_stages) {
  static_assert(328 > 64 * (cuda::emulated::wide_stages + 1));
  test::for_each_device([&](const backend& device) {
    expect_the_definition(device, {328, 40, 20, 240, 260});
  });
}

// Newer kernels and those before sum in the same order. 296 columns are in two tiles, and hidden values in one or two.
TEST(device_moe_tensor, newer_kernels_have_the_bits_of_those_before) {
  const auto kernels = [](bool newer) {
    return cuda::choices{.graphs = false, .newer = newer, .left_out = {}};
  };
  test::for_each_device([&](const backend& device) {
    for (const std::int64_t hidden : {40, 136}) {
      experts_case c(device, {296, hidden, 0, 0, 250});
      const auto newer = c.decode(test::with(kernels(true), device), 0, 250),
                 before = c.decode(test::with(kernels(false), device), 0, 250);
      for (std::int64_t r = 0; r < 250; ++r)
        ASSERT_TRUE(test::same_bits(newer->row(r), before->row(r), 296)) << r;
    }
  });
}

}  // namespace
}  // namespace unmask
