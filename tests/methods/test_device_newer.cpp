// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Whole decodings by the kernels that run.kernels = "new" takes, emulated and with recorded layers: the tokens of
// the kernels before and of the CPU backend. bfloat16 models of one KV head, wide enough that each newer kernel
// is taken on four multiprocessors; which were launched is counted.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/choices.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/emulation.h"
#include "kernels/float16.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

using launches = std::set<std::string>;

struct newer_case {
  const char* name;
  std::int32_t head_dim, layers;
  int requests;
  launches newer, before;  // of attention
};
void PrintTo(const newer_case& c, std::ostream* out) {
  *out << c.name;
}

// A prompt of 144 tokens is 1,152 packed rows: a refresh. A block of one sequence is a tile of 64 rows that a
// cluster takes; of two sequences with heads of 128 it is two, whose blocks draw tickets.
const newer_case with_clusters{
    "dim_64", 64, 2, 1, {"attention_refresh", "attention_cluster"}, {"attention_tensor"}};
const newer_case with_tickets{"dim_128",
                              128,
                              1,
                              2,
                              {"attention_refresh", "attention_joined"},
                              {"attention_tensor", "attention_tensor: groups"}};

model_config config_of(const newer_case& c) {
  model_config m = tiny_config(model_family::sdar);
  m.layers = c.layers;
  m.hidden = 64;
  m.heads = 8;
  m.kv_heads = 1;
  m.head_dim = c.head_dim;
  m.rope = {c.head_dim, 10000.0F};
  m.feed_forward = 384;  // four tiles of gate and up
  return m;
}

std::vector<sequence_request> requests_of(const newer_case& c) {
  std::vector<sequence_request> all = tiny_requests(c.requests, 16);
  for (sequence_request& r : all) {
    r.prompt.resize(144);
    for (std::size_t p = 0; p < r.prompt.size(); ++p) {
      r.prompt[p] = static_cast<std::int32_t>(uniform_open(r.seed, p) * 58);
    }
  }
  return all;
}

// What the head reads of every row in every step that decides.
class head_inputs final : public step_observer {
 public:
  explicit head_inputs(const backend& on) : on_(on) {}
  void on_step(const step_view& step) override {
    const tensor_view& rows = step.head_input;
    const auto width = static_cast<std::size_t>(rows.columns());
    if (step.candidates.count == 0) return;
    for (std::int64_t r = 0; r < rows.rows(); ++r) {
      if (rows.type == dtype::f32) {
        std::vector<float> row(width);
        on_.read(row.data(), rows.row<float>(r), width * sizeof(float));
        values.insert(values.end(), row.begin(), row.end());
        continue;
      }
      std::vector<std::uint16_t> row(width);
      on_.read(row.data(), static_cast<std::uint16_t*>(rows.data) + r * rows.row_stride,
               width * sizeof(std::uint16_t));
      for (const std::uint16_t v : row) values.push_back(from_bf16(v));
    }
  }
  std::vector<float> values;

 private:
  const backend& on_;
};

struct decoded {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<float> rows;
  std::int64_t replayed = 0;
  launches kernels;
};

decoded decode_on(const newer_case& c, const backend& on, std::uint64_t seed, weight_format format,
                  dtype kv_type) {
  const auto model = tiny_model(config_of(c), on, 512, seed, kv_type, format);
  head_inputs seen(on);
  cuda::emulator::begin_counting(false);
  const closed_loop_result r = decode_closed(*model, "block_diffusion",
                                             {{"remasking", "low_confidence_static"}, {"steps", 4}},
                                             requests_of(c), c.requests, "", &seen);
  decoded d{outputs(r), std::move(seen.values), r.graphs.replayed, {}};
  for (const auto& [name, kernel] : cuda::emulator::end_counting().kernels) d.kernels.insert(name);
  return d;
}
decoded decode_on_cpu(const newer_case& c, std::uint64_t seed, weight_format format) {
  return decode_on(c, cpu_backend(), seed, format, dtype::f32);
}
decoded decode_by(const newer_case& c, bool newer, std::uint64_t seed) {
  return decode_on(c, cuda_emulated_backend({.graphs = true, .newer = newer}), seed,
                   weight_format::bf16, dtype::bf16);
}

// Root mean square of the difference over that of the second; infinite if they are not of the same rows.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

class device_newer : public ::testing::TestWithParam<newer_case> {
 protected:
  void SetUp() override {
    before_ = cuda::current_emulation();
    cuda::set_emulation({{}, true, true});  // launches wait, and are told from the host's memory
  }
  void TearDown() override {
    cuda_emulated_backend().synchronize();
    cuda::set_emulation(before_);
  }

 private:
  cuda::emulation before_;
};

INSTANTIATE_TEST_SUITE_P(models, device_newer, ::testing::Values(with_clusters, with_tickets),
                         [](const auto& i) { return std::string(i.param.name); });

// The model is the first, by its seed, with the same tokens on the CPU by float32, bfloat16 and int8 weights and,
// step by step, on the emulator by the kernels before: no decision of it hangs on a rounding.
TEST_P(device_newer, kernels_decode_whole_answers_as_those_before_and_the_cpu) {
  constexpr double rounding = 0.05;
  const newer_case& c = GetParam();
  std::uint64_t seed = 1;
  decoded want, before;
  for (;; ++seed) {
    ASSERT_LT(seed, 200U) << "no model decodes alike";
    want = decode_on_cpu(c, seed, weight_format::bf16);
    if (decode_on_cpu(c, seed, weight_format::f32).tokens != want.tokens ||
        decode_on_cpu(c, seed, weight_format::int8).tokens != want.tokens) {
      continue;
    }
    before = decode_by(c, false, seed);
    if (before.tokens == want.tokens && apart(before.rows, want.rows) < rounding) break;
  }
  SCOPED_TRACE("seed " + std::to_string(seed));
  ASSERT_EQ(want.tokens.size(), static_cast<std::size_t>(c.requests));
  const decoded newer = decode_by(c, true, seed);
  EXPECT_EQ(newer.tokens, want.tokens);
  EXPECT_GT(newer.replayed, 0);
  EXPECT_EQ(newer.replayed, before.replayed);
  // Sums in another order, rounded to bfloat16 as before.
  EXPECT_LT(apart(newer.rows, before.rows), 0.02);
  EXPECT_GT(apart(newer.rows, before.rows), 0);
  EXPECT_LT(apart(newer.rows, want.rows), rounding);

  launches taken = c.newer;
  taken.insert({"few_rows", "few_parts", "head_fold"});
  launches others = c.before;
  others.insert("head_chunk");
  for (const std::string& kernel : taken) {
    EXPECT_TRUE(newer.kernels.contains(kernel)) << kernel;
    EXPECT_FALSE(before.kernels.contains(kernel)) << kernel;
  }
  for (const std::string& kernel : others) {
    EXPECT_FALSE(newer.kernels.contains(kernel)) << kernel;
    EXPECT_TRUE(before.kernels.contains(kernel)) << kernel;
  }
}

}  // namespace
}  // namespace unmask
