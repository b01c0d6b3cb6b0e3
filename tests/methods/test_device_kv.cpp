// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Keys and values stored as bfloat16 by the CUDA backend, emulated, against the CPU backend fed
// with keys and values that were rounded to bfloat16 before they were stored.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ostream>
#include <vector>

#include "harness/decode/plain_forward.h"
#include "kernels/cpu/backend.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/emulation.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using enum model_family;

using namespace testing;

tensor_view rounded(const tensor_view& x, std::vector<float>& to) {
  if (!x.data) return x;
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    for (std::int64_t c = 0; c < x.columns(); ++c) {
      to.push_back(from_bf16(to_bf16(x.row<float>(r)[c])));
    }
  }
  return make_view(to.data(), dtype::f32, {x.rows(), x.shape[1], x.shape[2]});
}

// The CPU backend with every key and value of `head_dim` dimensions rounded as it is stored; other
// widths are stored layer outputs, which stay float32.
class rounding_cpu final : public cpu::backend {
 public:
  explicit rounding_cpu(std::int64_t head_dim)
      : cpu::backend(cpu::isa_of_environment(), cpu::gemm_path::own), head_dim_(head_dim) {
    static detail::bodies<op::kv_write>::body original = nullptr;
    if (original != nullptr) return;
    original = replace_body<op::kv_write>(
        target::cpu, [](const unmask::backend& on, const op::kv_write& args) {
          const auto* self = dynamic_cast<const rounding_cpu*>(&on);
          if (self == nullptr || args.cache.keys.shape[3] != self->head_dim_) {
            return original(on, args);
          }
          std::vector<float> keys, values;
          original(on, {args.rows, rounded(args.k, keys), rounded(args.v, values), args.cache});
        });
  }

 private:
  std::int64_t head_dim_;
};

// The emulated backend with float32 pages whose elements are rounded as soon as they are written:
// its projections have the very bits of the backend under test, so nothing rounds the other way.
class rounding_device final : public cuda::emulated::device_backend {
 public:
  rounding_device() : device_backend({.graphs = false}) {
    wrap<op::kv_write>();
    wrap<op::rotate_and_store>();
  }

 private:
  // The operation as it is, and what it stored rounded where the backend is one of these.
  template <class P>
  static void wrap() {
    static typename detail::bodies<P>::body original = nullptr;
    if (original != nullptr) return;
    original = replace_body<P>(target::cuda_emulated, [](const backend& backend, const P& args) {
      original(backend, args);
      if (dynamic_cast<const rounding_device*>(&backend) == nullptr) return;
      backend.synchronize();
      round_stored(args.rows, args.cache);
    });
  }
  static void round_stored(const row_set& rows, const paged_kv& cache) {
    for (std::int32_t r = 0; r < rows.rows; ++r) {
      const std::int32_t slot = rows.slot ? rows.slot[r] : rows.position[r];
      const std::int32_t page =
          cache.page_table[rows.sequence[r] * cache.table_stride + slot / kv_page_size];
      for (const tensor_view& side : {cache.keys, cache.values}) {
        const std::int64_t width = side.shape[2] * side.shape[3];
        float* x = side.row<float>(page) + slot % kv_page_size * width;
        for (std::int64_t d = 0; d < width; ++d) x[d] = from_bf16(to_bf16(x[d]));
      }
    }
  }
};

// Runs `work` with launches held back until the host waits and every argument checked.
template <class function>
void emulated(const function& work) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true});
  try {
    work();
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  cuda_emulated_backend().synchronize();
  cuda::set_emulation(before);
}

// Largest difference of logits in units of their largest value; infinite for a NaN.
double difference(const tensor& a, const tensor& b) {
  double most = 0, largest = 0;
  for (std::int64_t i = 0; i < a.view().elements(); ++i) {
    const double apart = std::abs(static_cast<double>(a.as<float>()[i]) - b.as<float>()[i]);
    most = std::isnan(apart) ? INFINITY : std::max(most, apart);
    largest = std::max(largest, std::abs(static_cast<double>(b.as<float>()[i])));
  }
  return most / largest;
}

std::vector<std::int32_t> tokens(int count) {
  std::vector<std::int32_t> t(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) t[static_cast<std::size_t>(i)] = i * 7 % 58;
  return t;
}

// The exact attention kernel reads what was stored: the same bits as from float32 pages that hold
// the rounded values, over one key tile and over several, and visibly not those of unrounded ones.
TEST(device_kv, logits_have_the_bits_of_rounded_keys_and_values) {
  const rounding_device rounds;
  for (const int rows : {1, 20, 40, 75}) {
    const auto forward = [&](const backend& backend, dtype type) {
      return plain_forward(*tiny_model(llada, backend, 80, 7, type), tokens(rows), mask_kind::full,
                           1);
    };
    tensor got, want, exact;
    emulated([&] {
      got = forward(cuda_emulated_backend(), dtype::bf16);
      want = forward(rounds, dtype::f32);
      exact = forward(cuda_emulated_backend(), dtype::f32);
    });
    ASSERT_TRUE(got && want && exact);
    EXPECT_EQ(std::memcmp(got.view().data, want.view().data, got.bytes()), 0)
        << rows << " rows, difference " << difference(got, want);
    EXPECT_GT(difference(got, exact), 2e-4) << rows << " rows";
  }
}

// Head dimension 64 takes tensor cores, which round the queries and the softmax weights too: three
// roundings of relative size 2^-9 over three layers, so 2e-2 of the largest logit is allowed.
TEST(device_kv, tensor_cores_stay_near_the_rounded_reference) {
  model_config c = tiny_config(sdar);
  c.head_dim = 64;
  c.rope.rotary_dim = 64;
  const rounding_cpu rounds(c.head_dim);
  const auto forward = [&](const backend& backend, dtype type) {
    return plain_forward(*tiny_model(c, backend, 80, 7, type), tokens(75), mask_kind::block_causal,
                         8);
  };
  const tensor want = forward(rounds, dtype::f32);
  tensor got;
  emulated([&] { got = forward(cuda_emulated_backend(), dtype::bf16); });
  ASSERT_TRUE(got);
  EXPECT_LT(difference(got, want), 2e-2);
  EXPECT_GT(difference(got, want), 1e-6);  // it did take another path
}

struct kv_setting {
  const char* method;
  model_family family;
  parameter_map given;
};
void PrintTo(const kv_setting& s, std::ostream* out) {
  *out << s.method;
}
const std::int64_t eight = 8;

class device_kv_decoding : public ::testing::TestWithParam<kv_setting> {};

INSTANTIATE_TEST_SUITE_P(
    methods, device_kv_decoding,
    ::testing::Values(
        kv_setting{"vanilla", llada, {{"block_length", eight}}},
        kv_setting{"fast_dllm", llada, {{"block_length", eight}, {"threshold", 0.4}}},
        kv_setting{"dllm_cache", llada, {{"block_length", eight}}},
        kv_setting{"sparse_d", llada, {{"block_length", eight}, {"block_size", eight}}},
        kv_setting{"sparse_dllm", llada, {{"block_length", eight}}},
        kv_setting{"focus_dllm", llada, {{"block_length", eight}, {"prompt_block_size", eight}}},
        kv_setting{"autoregressive", qwen3, {}}, kv_setting{"focus", sdar, {}},
        kv_setting{"optimus", sdar, {}}),
    [](const auto& i) { return std::string(i.param.method); });

TEST_P(device_kv_decoding, gives_the_tokens_of_rounded_keys_and_values_in_half_the_memory) {
  const kv_setting& s = GetParam();
  const model_config c = tiny_config(s.family);
  const auto requests = tiny_requests(2, 16);
  const rounding_cpu rounds(c.head_dim);
  const auto want =
      decode_closed(*tiny_model(s.family, rounds, 256), s.method, s.given, requests, 2);
  closed_loop_result got;
  emulated([&] {
    const auto model = tiny_model(s.family, cuda_emulated_backend(), 256, 7, dtype::bf16);
    got = decode_closed(*model, s.method, s.given, requests, 2);
  });
  EXPECT_EQ(outputs(got), outputs(want));
  // Outputs of layers that dllm_cache stores beside K/V stay float32: per slot 2 x hidden in every
  // layer but the first, beside 2 x kv_heads x head_dim in all.
  const std::size_t kv = static_cast<std::size_t>(2 * c.layers * c.kv_heads * c.head_dim);
  const std::size_t stored = std::string(s.method) == "dllm_cache"
                                 ? static_cast<std::size_t>(2 * (c.layers - 1) * c.hidden)
                                 : 0;
  EXPECT_EQ(got.peak_kv_bytes * (4 * kv + 4 * stored), want.peak_kv_bytes * (2 * kv + 4 * stored));
}

TEST(device_kv, a_backend_that_cannot_hold_the_type_refuses_the_model) {
  for (const backend* backend : {&cpu_backend(), &reference_backend()}) {
    EXPECT_EQ(test::message_of([&] { tiny_model(llada, *backend, 16, 7, dtype::bf16); }),
              "random-tiny: keys and values in bf16: the " + backend->name() +
                  " backend keeps them in f32; use auto or f32");
  }
  EXPECT_THROW(tiny_model(llada, cuda_emulated_backend(), 16, 7, dtype::f16), error);
}

}  // namespace
}  // namespace unmask
