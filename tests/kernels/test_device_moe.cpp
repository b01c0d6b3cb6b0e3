// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The experts' products on tensor cores, emulated: the kernel alone against sums in float64, with
// a planted fault, and the whole feed-forward with bfloat16 weights against the same arithmetic
// written down here.
#include <cstdint>

#include "kernels/cuda/moe_tensor_kernels.h"
#include "kernels/cuda/queue.h"
#include "kernels/float16.h"
#include "kernels/moe.h"
#include "tests/kernels/support.h"

namespace unmask::cuda::emulated {
namespace {

constexpr emulator::schedule modes[] = {{false, false, 0}, {true, false, 0},  {false, true, 0},
                                        {true, true, 0},   {false, false, 7}, {true, false, 99}};

// Three experts with 160, 0 and 9 assignments of 85 rows, two per row: more than a tile, nothing,
// and less than a tile. Columns and depth divide nothing, or by 8 alone.
struct grouped_case {
  static constexpr int experts = 3, divide = 2, depth = 72, all = 169;
  int columns;
  std::vector<std::int32_t> assignment, begin{0, 160, 160, all};
  std::vector<std::uint16_t> x, weight[experts];
  std::vector<const void*> pointers;

  explicit grouped_case(int of_columns = 150) : columns(of_columns) {
    std::mt19937 rng(5);
    for (std::int32_t a = 0; a < all; ++a) assignment.push_back(a);
    std::shuffle(assignment.begin(), assignment.end(), rng);
    const auto halves = [&](std::int64_t n) {
      std::vector<std::uint16_t> h;
      for (const float f : test::random_vector(rng, n, 0.5F)) h.push_back(to_bf16(f));
      return h;
    };
    x = halves(85 * depth);
    for (auto& w : weight) {
      w = halves(2 * columns * depth);
      pointers.push_back(w.data());
    }
  }
  double sum(std::size_t expert, int a, int column) const {
    double total = 0;
    for (int k = 0; k < depth; ++k) {
      total += static_cast<double>(from_bf16(x[static_cast<std::size_t>(a / divide * depth + k)])) *
               from_bf16(weight[expert][static_cast<std::size_t>(column * depth + k)]);
    }
    return total;
  }
  // y as float32 or, with bf16, as bfloat16; gated, silu(gate) up in its first columns.
  struct kernel {
    void (*body)(grouped_tensor_params);
    int tile_rows, y_columns;  // of a block
    std::size_t shared_bytes;
    bool bf16, gated;
  };
  bool right(const kernel& k, const emulator::schedule& order) {
    std::vector<float> y(static_cast<std::size_t>(all * columns), test::nan);
    std::vector<std::int32_t> tile_begin{0};
    for (std::size_t e = 0; e < experts; ++e) {
      tile_begin.push_back(tile_begin.back() +
                           (begin[e + 1] - begin[e] + k.tile_rows - 1) / k.tile_rows);
    }
    queue q;
    emulator::set_schedule(order);
    try {
      q.launch("grouped_tensor",
               {k.tile_rows == wide_rows ? 2 : blocks_for(columns, k.y_columns), routed_threads,
                k.shared_bytes, k.tile_rows == wide_rows ? 1U : 2U},
               k.body,
               {{assignment.data(), begin.data(), tile_begin.data(), k.tile_rows},
                experts,
                pointers.data(),
                x.data(),
                divide,
                y.data(),
                k.bf16 ? dtype::bf16 : dtype::f32,
                columns,
                depth});
    } catch (const emulator::emulation_error&) {
      return false;
    }
    emulator::set_schedule({});
    for (std::size_t e = 0; e < experts; ++e) {
      for (std::int32_t i = begin[e]; i < begin[e + 1]; ++i) {
        const std::int32_t a = assignment[static_cast<std::size_t>(i)];
        for (int n = 0; n < columns; ++n) {
          const auto at = static_cast<std::size_t>(a * columns + n);
          double want = sum(e, a, n);
          if (k.gated) want = want / (1 + std::exp(-want)) * sum(e, a, columns + n);
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

template <int fewer>  // copies that are waited for than is right
std::vector<grouped_case::kernel> grouped_kernels() {
  constexpr int narrow = routed_stages - 2 + fewer, wide = wide_stages - 3 + fewer;
  const int half = routed_columns / 2;
  return {
      {grouped_tensor_kernel<narrow>, routed_rows, routed_columns, routed_shared_bytes, false,
       false},
      {grouped_tensor_kernel<narrow, float, true>, routed_rows, half, routed_shared_bytes, true,
       true},
      {grouped_wide_kernel<wide, false>, wide_rows, routed_columns, wide_shared_bytes, true, false},
      {grouped_wide_kernel<wide, true>, wide_rows, half, wide_shared_bytes, true, true}};
}

TEST(device_moe_tensor, grouped_products_are_right_under_every_schedule) {
  grouped_case c;
  for (const grouped_case::kernel& k : grouped_kernels<0>()) {
    for (const emulator::schedule& order : modes)
      EXPECT_TRUE(c.right(k, order)) << k.tile_rows << k.gated;
  }
}

// 152 columns end behind one half of a warp's 16, and 200 columns lie in two tiles of a gated product.
TEST(device_moe_tensor, whole_pieces_are_stored_where_they_belong) {
  constexpr int in_flight = wide_stages - 3;
  const grouped_case::kernel kernels[] = {{grouped_wide_kernel<in_flight, false, true>, wide_rows,
                                           routed_columns, wide_shared_bytes, true, false},
                                          {grouped_wide_kernel<in_flight, true, true>, wide_rows,
                                           routed_columns / 2, wide_shared_bytes, true, true}};
  for (const int columns : {152, 200}) {
    grouped_case c(columns);
    for (const grouped_case::kernel& k : kernels) {
      for (const emulator::schedule& order : modes)
        EXPECT_TRUE(c.right(k, order)) << columns << k.gated;
    }
  }
}

TEST(device_moe_tensor, one_copy_too_many_in_flight_is_found) {
  grouped_case c;
  for (const grouped_case::kernel& k : grouped_kernels<1>()) {
    bool right = true;
    for (const emulator::schedule& order : modes) right = c.right(k, order) && right;
    EXPECT_FALSE(right) << k.tile_rows << k.gated;
  }
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

void expect_the_definition(const backend& device, const feed_forward& of) {
  const std::int64_t width = of.width, hidden = of.hidden, rows = of.rows;
  std::mt19937 rng(14);
  const std::int64_t k = 2;
  std::vector<std::vector<float>> up, down;
  moe_experts own;
  own.hidden = static_cast<std::int32_t>(hidden);
  for (int e = 0; e < 5; ++e) {
    up.push_back(test::random_vector(rng, 2 * hidden * width, 0.2F));
    down.push_back(test::random_vector(rng, hidden * width, 0.2F));
    own.gate_up.push_back(device.pack(make_view(up.back().data(), dtype::f32, {2 * hidden, width}),
                                      weight_format::bf16));
    own.down.push_back(device.pack(make_view(down.back().data(), dtype::f32, {width, hidden}),
                                   weight_format::bf16));
  }
  // Expert 0 gets every row and more than a tile; expert 4 none.
  std::vector<std::int32_t> expert;
  std::vector<float> weight;
  for (std::int32_t r = 0; r < rows; ++r) {
    expert.insert(expert.end(), {0, r % 3 == 0 ? r % 4 : 0});
    weight.insert(weight.end(), {0.7F, 0.4F});
  }
  const tensor_view routed = make_view(expert.data(), dtype::i32, {rows, k});
  const tensor_view shares = make_view(weight.data(), dtype::f32, {rows, k});
  grid x({rows, width}, 2), start({rows, width}), want({rows, width});
  x.randomize(rng);
  start.randomize(rng);
  want.copy(start);
  const auto decode = [&](std::int64_t from, std::int64_t n) {
    auto y = std::make_unique<grid>(std::vector<std::int64_t>{n, width}, 4);
    for (std::int64_t r = 0; r < n; ++r) std::copy_n(start.row(from + r), width, y->row(r));
    device.run(op::moe_feed_forward{x.view().slice(from, n), routed.slice(from, n),
                                    shares.slice(from, n), own, *y});
    device.synchronize();
    return y;
  };
  // A row alone and among others; the same where experts have the rows for the large tiles, whose
  // instructions need not sum in the same order.
  const auto one = decode(7, 1), few = decode(0, of.few), many = decode(0, of.many),
             all = decode(0, rows);
  EXPECT_TRUE(test::same_bits(one->row(0), few->row(7), width));
  EXPECT_TRUE(test::same_bits(many->row(7), all->row(7), width));
  experts_by_hand(x, expert, weight, up, down, k, hidden, want);
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

}  // namespace
}  // namespace unmask
