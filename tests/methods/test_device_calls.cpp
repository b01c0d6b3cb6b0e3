// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a step of decoding makes the host ask the CUDA runtime for: waits, copies and launches. Counted on the
// emulator, with layers recorded and with lists as long as a server's, so that lists beside each other share a
// copy here only if they do so there. Not one of these counts may rise; each call costs the host some
// microseconds, in which the device may have nothing to do.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "harness/decode/step_loop.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/emulation.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using cuda::emulator::device_traffic;

constexpr std::int32_t places = 4, max_length = 2048;

struct step_calls {
  device_traffic asked;
  bool enters = false;   // a request has come since the step before
  bool replays = false;  // layers ran as graphs
  bool narrows = false;  // rows left between the layers
};

// Two batches one after the other in one loop. The steps of the second, but those that record: what only the
// first forwards of a kind need is there then.
std::vector<step_calls> steps_of(const std::string& method, model_family family,
                                 const parameter_map& given) {
  const auto model =
      testing::tiny_model(family, cuda_emulated_backend({.graphs = true}), places * max_length);
  step_loop loop(*model, test::recipe_of(method, model->config(), given), {places, max_length, 0});
  std::vector<step_calls> steps;
  for (const bool counted : {false, true}) {
    cuda::emulator::begin_counting(false);
    std::vector<std::int32_t> taken;
    for (const sequence_request& request : testing::tiny_requests(places, 24)) {
      taken.push_back(loop.admit(request));
    }
    const auto dropped = [&] {
      std::int64_t rows = 0;
      for (const std::int32_t s : taken) rows += loop.state().at(s).counters.rows_dropped;
      return rows;
    };
    for (bool enters = true;; enters = false) {
      const graph_counts before = loop.graphs();
      const std::int64_t rows = dropped();
      const bool stepped = loop.step();
      step_calls step{cuda::emulator::end_counting(), enters,
                      loop.graphs().replayed > before.replayed, dropped() > rows};
      if (!stepped) break;
      const bool recorded =
          loop.graphs().direct > before.direct || loop.graphs().seconds > before.seconds;
      if (counted && !recorded) steps.push_back(std::move(step));
      cuda::emulator::begin_counting(false);
    }
    for (const std::int32_t s : taken) loop.release(s);
  }
  return steps;
}

struct most_calls {
  std::string method;
  model_family family;
  parameter_map given;
  std::uint64_t waits, copies, fetches, calls;  // of a replayed step in which no request came
};
void PrintTo(const most_calls& c, std::ostream* out) {
  *out << c.method;
}

class device_calls : public ::testing::TestWithParam<most_calls> {
 protected:
  void SetUp() override {
    before_ = cuda::current_emulation();
    cuda::set_emulation({{}, true, true});
  }
  void TearDown() override {
    cuda_emulated_backend().synchronize();
    cuda::set_emulation(before_);
  }

 private:
  cuda::emulation before_;
};

INSTANTIATE_TEST_SUITE_P(
    methods, device_calls,
    ::testing::Values(most_calls{"block_diffusion", model_family::sdar, {}, 1, 3, 2, 13},
                      most_calls{
                          "fast_dllm", model_family::llada, {{"block_length", 8}}, 1, 2, 2, 13},
                      most_calls{"ada_dlm", model_family::llada, {{"k", 0.3}}, 1, 2, 2, 13},
                      most_calls{"focus", model_family::sdar, {{"threshold", 0.9}}, 2, 4, 2, 25}),
    [](const auto& i) { return i.param.method; });

TEST_P(device_calls, of_a_step_stay_as_few) {
  const most_calls& most = GetParam();
  const std::vector<step_calls> steps = steps_of(most.method, most.family, most.given);
  most_calls found{};
  std::size_t replayed = 0, narrowed = 0;
  for (const step_calls& step : steps) {
    const device_traffic& asked = step.asked;
    SCOPED_TRACE(fmt::format("step {} of {}: {} waits, {} copies from the host, {} to it, {} calls",
                             &step - steps.data() + 1, steps.size(), asked.waits, asked.copies,
                             asked.fetches, asked.calls));
    // A request that comes, a prompt that enters and a block that is written wait for nothing more.
    EXPECT_LE(asked.waits, step.narrows ? most.waits : 1);
    narrowed += step.narrows ? 1 : 0;
    if (!step.replays || step.enters) continue;
    ++replayed;
    EXPECT_LE(asked.copies, most.copies);
    EXPECT_LE(asked.fetches, most.fetches);
    EXPECT_LE(asked.calls, most.calls);
    found.waits = std::max(found.waits, asked.waits);
    found.copies = std::max(found.copies, asked.copies);
    found.fetches = std::max(found.fetches, asked.fetches);
    found.calls = std::max(found.calls, asked.calls);
  }
  EXPECT_GE(replayed, 3U);
  EXPECT_EQ(narrowed > 0, most.waits > 1);
  // A budget that nothing fills any more would hide what comes back.
  EXPECT_EQ(found.copies, most.copies);
  EXPECT_EQ(found.fetches, most.fetches);
  EXPECT_EQ(found.calls, most.calls);
}

}  // namespace
}  // namespace unmask
