// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Whole decodings on the CUDA backend's kernels, emulated, against the CPU backend's tokens. The
// emulator stands in for a GPU in two more ways: launches wait until the host synchronises, so a
// missing wait shows as wrong tokens; and only memory of the backend may be handed to a kernel.
#include <gtest/gtest.h>

#include <ostream>

#include "kernels/cuda/emulation.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using testing::decode;
using testing::outputs;
using testing::tiny_model;
using testing::tiny_requests;

struct device_setting {
  const char* label;
  const char* method;
  model_family family;
  parameter_map given;
  int sequences = 2;
  bool recorded = true;  // no policy works between the layers, but for narrowing
};

void PrintTo(const device_setting& s, std::ostream* out) {
  *out << s.label;
}

const std::int64_t eight = 8;

class device_decoding : public ::testing::TestWithParam<device_setting> {};

INSTANTIATE_TEST_SUITE_P(
    methods, device_decoding,
    ::testing::Values(
        device_setting{"vanilla_llada", "vanilla", model_family::llada, {{"block_length", eight}}},
        device_setting{"vanilla_gumbel",
                       "vanilla",
                       model_family::llada,
                       {{"block_length", eight}, {"temperature", 0.7}}},
        device_setting{"vanilla_dream", "vanilla", model_family::dream, {}},
        device_setting{"vanilla_dream_origin",
                       "vanilla",
                       model_family::dream,
                       {{"alg", std::string("origin")}}},
        device_setting{"vanilla_dream_sampled",
                       "vanilla",
                       model_family::dream,
                       {{"temperature", 0.6}, {"top_p", 0.9}, {"alg_temp", 0.4}}},
        device_setting{"fast_dllm_dual",
                       "fast_dllm",
                       model_family::llada,
                       {{"block_length", eight}, {"threshold", 0.4}}},
        device_setting{"dkv_cache", "dkv_cache", model_family::llada, {{"block_length", eight}}},
        device_setting{"dkv_greedy",
                       "dkv_cache",
                       model_family::llada,
                       {{"block_length", eight}, {"variant", std::string("greedy")}}},
        device_setting{"dllm_cache",
                       "dllm_cache",
                       model_family::llada,
                       {{"block_length", eight}},
                       2,
                       false},
        device_setting{"sparse_d",
                       "sparse_d",
                       model_family::llada,
                       {{"block_length", eight}, {"block_size", eight}},
                       2,
                       false},
        device_setting{
            "sparse_dllm", "sparse_dllm", model_family::llada, {{"block_length", eight}}},
        device_setting{"focus_dllm",
                       "focus_dllm",
                       model_family::llada,
                       {{"block_length", eight}, {"prompt_block_size", eight}},
                       2,
                       false},
        device_setting{"ada_dlm", "ada_dlm", model_family::llada, {}},
        device_setting{"ada_dlm_ffn_only",
                       "ada_dlm",
                       model_family::llada,
                       {{"execution", std::string("ffn_only")}},
                       2,
                       false},
        device_setting{"autoregressive", "autoregressive", model_family::qwen3, {}},
        device_setting{"block_diffusion_moe", "block_diffusion", model_family::llada2_moe, {}},
        device_setting{"delayed_cache_plus", "delayed_cache_plus", model_family::sdar, {}},
        device_setting{"focus", "focus", model_family::sdar, {}, 3},
        device_setting{"focus_chunks", "focus_chunks", model_family::sdar, {}},
        device_setting{"delayed_cache", "delayed_cache", model_family::sdar, {}},
        device_setting{"optimus", "optimus", model_family::sdar, {}},
        device_setting{"ada_blocks", "ada_blocks", model_family::sdar, {}},
        device_setting{"sparse_blocks", "sparse_blocks", model_family::sdar, {}, 2, false}),
    [](const auto& i) { return i.param.label; });

// The same requests on the CPU backend and on the emulated device.
struct both_results {
  closed_loop_result want, got;
};
both_results decode_on_both(const device_setting& s, const cuda::emulation& choice) {
  both_results both;
  const auto requests = tiny_requests(s.sequences, 16);
  both.want =
      decode(*tiny_model(s.family, cpu_ops(), 256), s.method, s.given, requests, s.sequences);
  const cuda::emulation before = cuda::current_emulation();
  const ops& device = cuda_emulated_ops();
  cuda::set_emulation(choice);
  try {
    const auto model = tiny_model(s.family, device, 256);
    both.got = decode(*model, s.method, s.given, requests, s.sequences);
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  device.synchronize();
  cuda::set_emulation(before);
  return both;
}

// Tokens may agree where a late read spoiled a choice: what was computed must agree too.
void expect_same_work(const both_results& both) {
  ASSERT_EQ(both.got.answers.size(), both.want.answers.size());
  for (std::size_t i = 0; i < both.want.answers.size(); ++i) {
    const sequence_counters &got = both.got.answers[i].counters,
                            &want = both.want.answers[i].counters;
    EXPECT_EQ(got.forwards, want.forwards);
    EXPECT_EQ(got.rows, want.rows);
    EXPECT_EQ(got.layer_rows, want.layer_rows);
    EXPECT_EQ(got.keys_seen, want.keys_seen);
    EXPECT_EQ(got.flops, want.flops);
  }
}

TEST_P(device_decoding, gives_the_tokens_of_the_cpu_backend) {
  const both_results both = decode_on_both(GetParam(), {{.backwards = true}, true, true});
  EXPECT_EQ(outputs(both.got), outputs(both.want));
  EXPECT_EQ(both.got.recorded.repeated, 0);
  expect_same_work(both);
}

// The layers recorded once for a number of rows and repeated with other rows: no launch of a
// repeated stretch is made anew, so an argument that had to change shows as a wrong token.
TEST_P(device_decoding, gives_them_with_recorded_layers_too) {
  const device_setting& s = GetParam();
  const both_results both = decode_on_both(s, {{}, true, true, true});
  EXPECT_EQ(outputs(both.got), outputs(both.want));
  if (s.recorded) {
    EXPECT_GE(both.got.recorded.repeated, both.got.recorded.recorded);
    EXPECT_GT(both.got.recorded.recorded, 0);
  } else {
    EXPECT_EQ(both.got.recorded.repeated + both.got.recorded.direct, 0);
  }
  expect_same_work(both);
}

}  // namespace
}  // namespace unmask
