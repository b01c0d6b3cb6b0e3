// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Several ranks decode on the CUDA backend's kernels, emulated, with processes for ranks: what one process
// decodes there with as many pieces bit for bit, and the tokens and counts of the CPU backend.
#include <algorithm>

#include "kernels/cuda/choices.h"
#include "kernels/cuda/emulation.h"
#include "tests/methods/ranked_decoding.h"
#include "tests/rank_processes.h"

namespace unmask {
namespace {

using namespace testing;

std::string text_of(const decoded& d) {
  std::string text = std::to_string(d.bits);
  for (const auto& answer : d.tokens) {
    for (const std::int32_t token : answer) text += " " + std::to_string(token);
  }
  for (const sequence_counters& n : d.counts) {
    for (const counter_spec& c : counter_list()) text += " " + std::to_string(c.of(n));
  }
  return text;
}

std::string graphs_of(const decoded& d) {
  return std::to_string(d.graphs.direct) + " segments launched, " +
         std::to_string(d.graphs.replayed) + " repeated";
}

// The first setting of a method.
setting first_setting(const std::string& method) {
  const std::vector<setting> all = all_settings();
  return *std::ranges::find_if(all, [&](const setting& s) { return s.method == method; });
}

struct device_case {
  setting what;
  int ranks;
  dtype kv_type;
};
void PrintTo(const device_case& c, std::ostream* out) {
  *out << c.what.label;
}
// Each method that sums over heads in a way of its own, and one that does not.
std::vector<device_case> cases_here() {
  std::vector<device_case> some;
  const auto add = [&](std::initializer_list<const char*> methods, int ranks, dtype kv_type) {
    for (const char* method : methods) some.push_back({first_setting(method), ranks, kv_type});
  };
  add({"vanilla", "focus", "sparse_dllm", "focus_dllm", "d2cache", "dllm_cache", "sparse_d"}, 2,
      dtype::f32);
  add({"vanilla", "focus", "focus_dllm", "dllm_cache"}, 3, dtype::f32);
  add({"vanilla", "focus", "focus_dllm"}, 2, dtype::bf16);
  add({"focus"}, 3, dtype::bf16);
  return some;
}

class ranked_device : public ::testing::TestWithParam<device_case> {};
INSTANTIATE_TEST_SUITE_P(methods, ranked_device, ::testing::ValuesIn(cases_here()),
                         [](const auto& i) {
                           return i.param.what.label + "_on_" + std::to_string(i.param.ranks) +
                                  (i.param.kv_type == dtype::f32 ? "" : "_with_bf16_kv");
                         });

// Launches wait, and blocks and threads run backwards.
class emulated_for_ranks {
 public:
  emulated_for_ranks() { cuda::set_emulation({{.backwards = true}, true, true}); }
  ~emulated_for_ranks() { cuda::set_emulation(before_); }
  emulated_for_ranks(const emulated_for_ranks&) = delete;
  emulated_for_ranks& operator=(const emulated_for_ranks&) = delete;

 private:
  const cuda::emulation before_ = cuda::current_emulation();
};

// Launched and recorded on each of `ranks` processes, of which this is one.
void expect_one_process_of_pieces(int ranks, const setting& p, const model_share& like = {},
                                  dtype kv_type = dtype::f32) {
  constexpr int tokens = 8;
  test::rank_processes all(ranks, 600);
  const emulated_for_ranks emulated;
  const auto decoded_on = [&](const model_share& share, bool graphs) {
    const backend& device = cuda_emulated_backend({.graphs = graphs});
    const decoded d = decode(p, share, device, tokens, kv_type);
    device.synchronize();
    return d;
  };
  const model_share share = share_like(like, all.group().rank(), ranks, 0);
  const decoded got = decoded_on(share, false);
  const std::string text = text_of(got);
  std::vector<std::string> found = all.group().gather(text);
  if (p.recording != layer_recording::never) {
    const decoded recorded = decoded_on(share, true);
    for (const std::string& one : all.group().gather(text_of(recorded))) found.push_back(one);
    const std::string own = graphs_of(recorded);
    for (const std::string& one : all.group().gather(own)) EXPECT_EQ(one, own);
    EXPECT_EQ(recorded.graphs.replayed > 0, p.recording == layer_recording::repeated) << own;
  }
  for (const std::string& one : found) EXPECT_EQ(one, text);
  if (all.group().rank() == 0) {
    const ranks_in_force alone(nullptr);
    const model_share pieces = share_like(like, 0, 1, ranks);
    const decoded whole = decoded_on(pieces, false);
    EXPECT_EQ(got.tokens, whole.tokens);
    EXPECT_EQ(got.bits, whole.bits);
    expect_same_counts(got, whole);
    // Halves turn last bits into other roundings, which are those of this device; the CPU has no K/V of them.
    if (like.sums == dtype::f32 && kv_type == dtype::f32) {
      const decoded on_cpu = decode(p, pieces, cpu_backend(), tokens);
      EXPECT_EQ(got.tokens, on_cpu.tokens);
      expect_same_counts(got, on_cpu);
    }
  }
}

TEST_P(ranked_device, decodes_as_one_process_with_as_many_pieces) {
  expect_one_process_of_pieces(GetParam().ranks, GetParam().what, {}, GetParam().kv_type);
}

TEST(ranked_device_shares, are_whole_experts) {
  model_share like;
  like.whole_experts = true;
  expect_one_process_of_pieces(2, named_setting("llada2_blocks"), like);
}

TEST(ranked_device_shares, add_what_travelled_in_halves) {
  model_share like;
  like.sums = dtype::bf16;
  expect_one_process_of_pieces(2, first_setting("vanilla"), like);
}

TEST(ranked_device_shares, of_three_are_added_in_two_shots) {
  model_share like;
  like.two_shots = 0;
  expect_one_process_of_pieces(3, first_setting("focus"), like);
}

TEST(ranked_device_shares, of_three_are_whole_experts_whose_sums_travelled_in_halves) {
  model_share like;
  like.whole_experts = true;
  like.sums = dtype::bf16;
  expect_one_process_of_pieces(3, named_setting("optimus_moe"), like);
}

// A rank that launches every kernel while another repeats what it has recorded: NCCL may hang then.
TEST(ranked_device_faults, a_rank_that_records_alone_is_named) {
  test::rank_processes all(2, 600);
  const emulated_for_ranks emulated;
  const int rank = all.group().rank();
  const std::string said = test::message_of([&] {
    const backend& device = cuda_emulated_backend({.graphs = rank == 0});
    decode(first_setting("vanilla"), share_of(rank, 2, 0), device, 8);
    device.synchronize();
  });
  EXPECT_EQ(
      said,
      "ranks 0 and 1 recorded other layers by step 1: the row is void; `graphs` = \"off\" records "
      "none");
}

}  // namespace
}  // namespace unmask
