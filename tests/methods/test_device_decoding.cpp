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
        device_setting{"dllm_cache", "dllm_cache", model_family::llada, {{"block_length", eight}}},
        device_setting{"sparse_d",
                       "sparse_d",
                       model_family::llada,
                       {{"block_length", eight}, {"block_size", eight}}},
        device_setting{
            "sparse_dllm", "sparse_dllm", model_family::llada, {{"block_length", eight}}},
        device_setting{"focus_dllm",
                       "focus_dllm",
                       model_family::llada,
                       {{"block_length", eight}, {"prompt_block_size", eight}}},
        device_setting{"ada_dlm", "ada_dlm", model_family::llada, {}},
        device_setting{"autoregressive", "autoregressive", model_family::qwen3, {}},
        device_setting{"block_diffusion_moe", "block_diffusion", model_family::llada2_moe, {}},
        device_setting{"delayed_cache_plus", "delayed_cache_plus", model_family::sdar, {}},
        device_setting{"focus", "focus", model_family::sdar, {}},
        device_setting{"optimus", "optimus", model_family::sdar, {}},
        device_setting{"ada_blocks", "ada_blocks", model_family::sdar, {}},
        device_setting{"sparse_blocks", "sparse_blocks", model_family::sdar, {}}),
    [](const auto& i) { return i.param.label; });

TEST_P(device_decoding, gives_the_tokens_of_the_cpu_backend) {
  const device_setting& s = GetParam();
  const auto requests = tiny_requests(s.sequences, 16);
  const auto want = outputs(
      decode(*tiny_model(s.family, cpu_ops(), 256), s.method, s.given, requests, s.sequences));
  const cuda::emulation before = cuda::current_emulation();
  const ops& device = cuda_emulated_ops();
  cuda::set_emulation({{}, true, true});
  std::vector<std::vector<std::int32_t>> got;
  try {
    const auto model = tiny_model(s.family, device, 256);
    got = outputs(decode(*model, s.method, s.given, requests, s.sequences));
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  device.synchronize();
  cuda::set_emulation(before);
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace unmask
