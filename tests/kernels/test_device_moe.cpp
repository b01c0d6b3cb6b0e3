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

// Three experts with 70, 0 and 9 assignments of 40 rows, two per row: more than a tile, nothing,
// and less than a tile. Columns and depth divide nothing.
struct grouped_case {
  static constexpr int experts = 3, divide = 2, columns = 150, depth = 72;
  std::vector<std::int32_t> assignment, begin{0, 70, 70, 79}, tile_begin{0, 2, 2, 3};
  std::vector<std::uint16_t> x, weight[experts];
  std::vector<const void*> pointers;

  grouped_case() {
    std::mt19937 rng(5);
    for (std::int32_t a = 0; a < 79; ++a) assignment.push_back(a);
    std::shuffle(assignment.begin(), assignment.end(), rng);
    const auto halves = [&](std::int64_t n) {
      std::vector<std::uint16_t> h;
      for (const float f : test::random_vector(rng, n)) h.push_back(to_bf16(f));
      return h;
    };
    x = halves(40 * depth);
    for (auto& w : weight) {
      w = halves(columns * depth);
      pointers.push_back(w.data());
    }
  }
  template <int in_flight>
  bool right(const emulator::schedule& order) {
    std::vector<float> y(static_cast<std::size_t>(79 * columns), test::nan);
    queue q;
    emulator::set_schedule(order);
    q.launch("grouped_tensor", {2, routed_threads, routed_shared_bytes, 2},
             grouped_tensor_kernel<in_flight>,
             {{assignment.data(), begin.data(), tile_begin.data()},
              experts,
              pointers.data(),
              x.data(),
              divide,
              y.data(),
              dtype::f32,
              columns,
              depth});
    emulator::set_schedule({});
    for (std::int32_t e = 0; e < experts; ++e) {
      for (std::int32_t i = begin[static_cast<std::size_t>(e)];
           i < begin[static_cast<std::size_t>(e) + 1]; ++i) {
        const std::int32_t a = assignment[static_cast<std::size_t>(i)];
        for (int n = 0; n < columns; ++n) {
          double sum = 0;
          for (int k = 0; k < depth; ++k) {
            sum += static_cast<double>(from_bf16(x[static_cast<std::size_t>(a / 2 * depth + k)])) *
                   from_bf16(weight[e][static_cast<std::size_t>(n * depth + k)]);
          }
          // 72 float32 additions of terms around 1.
          if (!test::close(y[static_cast<std::size_t>(a * columns + n)], sum, 1e-5)) return false;
        }
      }
    }
    return true;
  }
};

TEST(device_moe_tensor, grouped_products_are_right_under_every_schedule) {
  grouped_case c;
  for (const emulator::schedule& order : modes) EXPECT_TRUE(c.right<routed_stages - 2>(order));
}

TEST(device_moe_tensor, one_copy_too_many_in_flight_is_found) {
  grouped_case c;
  bool right = true;
  for (const emulator::schedule& order : modes) {
    right = c.right<routed_stages - 1>(order) && right;
  }
  EXPECT_FALSE(right);
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

TEST(device_moe_tensor, feed_forward_matches_the_definition_and_the_batch) {
  test::for_each_device([&](const backend& device) {
    std::mt19937 rng(14);
    const std::int64_t width = 72, hidden = 40, rows = 520, k = 2;  // more than one block plans
    std::vector<std::vector<float>> up, down;
    moe_experts own;
    own.hidden = static_cast<std::int32_t>(hidden);
    for (int e = 0; e < 5; ++e) {
      up.push_back(test::random_vector(rng, 2 * hidden * width, 0.2F));
      down.push_back(test::random_vector(rng, hidden * width, 0.2F));
      own.gate_up.push_back(device.pack(
          make_view(up.back().data(), dtype::f32, {2 * hidden, width}), weight_format::bf16));
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
    grid x({rows, width}, 2), want({rows, width}), got({rows, width}, 4), one({1, width});
    x.randomize(rng);
    want.randomize(rng);
    got.copy(want);
    std::copy_n(want.row(7), width, one.row(0));
    experts_by_hand(x, expert, weight, up, down, k, hidden, want);
    device.run(op::moe_feed_forward{x, routed, shares, own, got});
    device.run(op::moe_feed_forward{x.view().slice(7, 1), routed.slice(7, 1), shares.slice(7, 1),
                                    own, one});
    device.synchronize();
    // Gate, up, their product and each expert's result are rounded to bfloat16 between the products:
    // each by 2^-9 at most.
    double difference = 0, size = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t d = 0; d < width; ++d) {
        const double w = want.at(r, d), off = got.at(r, d) - w;
        difference += off * off;
        size += w * w;
      }
    }
    EXPECT_LT(std::sqrt(difference / size), 4e-3);
    EXPECT_TRUE(test::same_bits(one.row(0), got.row(7), width));
  });
}

}  // namespace
}  // namespace unmask
