// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Models of one checkpoint in one process whose runs ask for other kernels of the emulated device.
#include "harness/devices/device.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/emulation.h"
#include "tests/methods/side_by_side.h"

namespace unmask {
namespace {

using cuda::multiplied;
using cuda::multiplier;

class device_choices : public ::testing::Test {
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

const backend& asked(const std::string& gemm, const std::string& graphs) {
  run_keys run;
  run.device = "cuda-emulated";
  run.gemm = gemm;
  run.graphs = graphs;
  return backend_of(run);
}

TEST_F(device_choices, own_products_and_the_library_decode_side_by_side) {
  const auto alone = testing::expect_same_side_by_side(
      {&asked("own", "on"), &asked("library", "on"), &asked("library", "off")},
      [](const backend& on) {
        return testing::tiny_model(testing::tiny_config(model_family::llada2_moe), on, 256, 7,
                                   dtype::bf16, weight_format::bf16);
      },
      "delayed_cache_plus", {}, testing::tiny_requests(1, 16).front());
  EXPECT_FALSE(alone[0].steps == alone[1].steps) << "the library was not asked";
  EXPECT_TRUE(alone[1].steps == alone[2].steps);
  EXPECT_GT(alone[0].replayed, 0);
  EXPECT_GT(alone[1].replayed, 0);
  EXPECT_EQ(alone[2].replayed, 0);
}

// Attention's launches, on tensor cores and not, of decodings that step in turn.
TEST_F(device_choices, a_way_that_one_backend_leaves_out_is_taken_by_the_other) {
  model_config config = testing::tiny_config(model_family::sdar);
  config.hidden = 128;
  config.head_dim = 64;  // for tensor cores
  config.rope = {64, 10000.0F};
  const auto launches_on = [&](const std::vector<const backend*>& backends) {
    std::vector<std::unique_ptr<transformer>> models;
    std::vector<std::unique_ptr<testing::stepwise>> all;
    for (const backend* on : backends) {
      models.push_back(testing::tiny_model(config, *on, 64, 7, dtype::bf16, weight_format::bf16));
      all.push_back(
          std::make_unique<testing::stepwise>(*models.back(), "delayed_cache_plus", parameter_map{},
                                              sequence_request{{1, 2, 3, 4, 5, 6, 7, 8}, 8, 0}));
    }
    cuda_emulated_backend().synchronize();
    cuda::emulator::begin_counting(false);
    for (bool busy = true; busy;) {
      busy = false;
      for (const auto& one : all) busy = one->step() || busy;
    }
    cuda_emulated_backend().synchronize();
    const auto counted = cuda::emulator::end_counting().kernels;
    const auto of = [&](const char* name) {
      const auto at = counted.find(name);
      return at == counted.end() ? 0U : at->second.launches;
    };
    return std::pair(of("attention_tensor"), of("attention"));
  };
  const backend& all_ways = cuda_emulated_backend({.graphs = false});
  const backend& without = cuda_emulated_backend(
      {.graphs = false, .left_out = {{multiplied::attention, multiplier::mma_sync}}});
  const auto one = launches_on({&all_ways}), other = launches_on({&without}),
             both = launches_on({&all_ways, &without});
  EXPECT_GT(one.first, 0U);
  EXPECT_EQ(one.second, 0U);
  EXPECT_EQ(other.first, 0U);
  EXPECT_GT(other.second, 0U);
  EXPECT_EQ(both, std::pair(one.first, other.second));
}

TEST_F(device_choices, a_graph_is_replayed_by_the_backend_that_captured_it) {
  const backend &on = asked("library", "on"), &own = asked("own", "on");
  const auto work = on.capture([] {});
  EXPECT_THROW(own.replay(*work), std::logic_error);
  on.replay(*work);
}

}  // namespace
}  // namespace unmask
