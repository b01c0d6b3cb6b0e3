// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Models of one checkpoint in one process whose runs ask for other kernels of the CPU.
#include "harness/devices/device.h"
#include "harness/model/config.h"
#include "harness/model/tokenizer.h"
#include "tests/methods/side_by_side.h"

namespace unmask {
namespace {

using testing::decoded_bits;

const backend& asked(const std::string& isa, const std::string& gemm) {
  run_keys run;
  run.device = "cpu";
  run.isa = isa;
  run.gemm = gemm;
  return backend_of(run);
}

// A whole canvas goes into every forward: rows enough for the library.
std::vector<decoded_bits> decode_on(const std::vector<const backend*>& backends) {
  const std::filesystem::path folder =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "experiments/models/tiny-llada";
  const model_config config = read_model_config(folder);
  const model_weights weights = load_weights(config, folder);
  sequence_request request;
  request.prompt = tokenizer::load(folder).encode(
      "<|im_start|>user\nEach of the shells costs 6 coins. Kai buys 2. Kai pays with 56 coins. How "
      "much change does Kai get?<|im_end|>\n<|im_start|>assistant\n");
  request.gen_length = 128;
  return testing::expect_same_side_by_side(
      backends,
      [&](const backend& on) {
        return std::make_unique<transformer>(config, weights, on, weight_format::f32, 256);
      },
      "vanilla", {{"block_length", 32}, {"steps", 16}}, request);
}

TEST(choices, instruction_sets_decode_side_by_side) {
  const backend &best = asked("auto", "auto"), &portable = asked("portable", "auto");
  EXPECT_EQ(portable.name(), "cpu-portable");
  EXPECT_EQ(&asked("portable", "own"), &portable);
  const auto alone = decode_on({&portable, &best});
  if (&best == &portable) GTEST_SKIP() << "this processor has one set";
  EXPECT_FALSE(alone[0].steps == alone[1].steps) << "the sets cannot be told apart";
}

TEST(choices, own_products_and_the_library_decode_side_by_side) {
  const std::string missing = test::message_of([] { asked("auto", "library"); });
  if (!missing.empty()) GTEST_SKIP() << missing;
  // The widest instructions of both add in one order; those of `portable` do not.
  const auto alone = decode_on({&asked("portable", "own"), &asked("portable", "library"),
                                &asked("auto", "own"), &asked("auto", "library")});
  EXPECT_FALSE(alone[0].steps == alone[1].steps) << "the library was not asked";
}

}  // namespace
}  // namespace unmask
