// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sums over ranks on devices, with processes for ranks: emulated everywhere, and on GPUs if there are as
// many as ranks.
#include <unistd.h>

#include <bit>
#include <numeric>
#include <optional>

#include "kernels/ranks.h"
#include "tests/kernels/cut_heads.h"
#include "tests/rank_processes.h"

namespace unmask {
namespace {

using test::rank_processes;

// Sizes that lose bits in every order.
float part_of(std::size_t part, std::int64_t i) {
  return std::sin(static_cast<float>(17 * part + 3 * static_cast<std::size_t>(i) + 1)) *
         std::exp2(static_cast<float>((part * 5 + static_cast<std::size_t>(i)) % 13));
}
// To the nearest bfloat16, even on a tie: numbers here are finite.
float rounded(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t down = bits & 0xFFFF0000U, lost = bits & 0xFFFFU;
  const bool up = lost > 0x8000U || (lost == 0x8000U && (down & 0x10000U) != 0);
  return std::bit_cast<float>(down + (up ? 0x10000U : 0U));
}
// The definition by recursion: the left half of `count` parts is the largest power of two below it.
float sum_of(std::size_t first, std::size_t count, std::int64_t i, dtype travels) {
  if (count == 1) {
    return travels == dtype::bf16 ? rounded(part_of(first, i)) : part_of(first, i);
  }
  std::size_t left = 1;
  while (2 * left < count) left *= 2;
  return sum_of(first, left, i, travels) + sum_of(first + left, count - left, i, travels);
}

struct sum_shape {
  std::size_t pieces;  // of one rank
  std::int64_t rows, width;
  dtype travels;
  std::int64_t two_shots = two_shots_above;
};

struct device_case {
  bool emulated;
  int ranks;
};
std::string name_of_case(const ::testing::TestParamInfo<device_case>& i) {
  return std::string(i.param.emulated ? "emulated_" : "gpu_") + std::to_string(i.param.ranks);
}

class device_ranks : public ::testing::TestWithParam<device_case> {
 protected:
  void SetUp() override {
    const device_case& c = GetParam();
    // A rank that was started has its own GPU alone.
    const bool first = std::getenv(rank_processes::variable) == nullptr;
    const auto gpus = static_cast<int>(cuda::query().devices.size());
    if (!c.emulated && gpus < (first ? c.ranks : 1)) {
      GTEST_SKIP() << "NOT RUN: needs " << c.ranks << " GPUs, and " << gpus << " are visible";
    }
    before_ = cuda::current_emulation();
    if (c.emulated) cuda::set_emulation({{.backwards = true}, true, true, true});
    all.emplace(c.ranks);
  }
  void TearDown() override {
    if (!all) return;
    kept_.clear();
    device().synchronize();
    all.reset();
    cuda::set_emulation(before_);
  }
  static const backend& device() {
    return GetParam().emulated ? cuda_emulated_backend() : cuda_backend();
  }
  float* put(const std::vector<float>& values) {
    kept_.push_back(device().allocate(dtype::f32, {static_cast<std::int64_t>(values.size())}));
    device().write(kept_.back().view().data, values.data(), values.size() * sizeof(float));
    return kept_.back().as<float>();
  }
  static std::vector<float> read(const float* from, std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    device().read(values.data(), from, values.size() * sizeof(float));
    return values;
  }

  void expect_sums(const std::vector<sum_shape>& shapes);

  std::optional<rank_processes> all;

 private:
  std::vector<tensor> kept_;
  cuda::emulation before_;
};
INSTANTIATE_TEST_SUITE_P(on, device_ranks,
                         ::testing::Values(device_case{true, 2}, device_case{true, 3},
                                           device_case{true, 4}, device_case{false, 2},
                                           device_case{false, 3}, device_case{false, 4}),
                         name_of_case);

// Parts of every rank, added launched, recorded and repeated, with and without what is there, whatever lies
// between rows. Repeated sums see new parts.
class summed {
 public:
  summed(const sum_shape& s, const backend& device, rank_group& group, float* parts, float* y)
      : s_(s), device_(device), group_(group), parts_(parts), y_(y) {}

  void expect_the_definition() {
    for (const bool accumulate : {false, true}) {
      const op::sum_ranks sum = asked(accumulate);
      fill(0);
      device_.run(sum);
      expect_sums(0, accumulate);
      const auto recorded = device_.capture([&] { device_.run(sum); });
      for (const std::int64_t shift : {1, 2}) {
        fill(shift);
        device_.replay(*recorded);
        expect_sums(shift, accumulate);
      }
      device_.synchronize();
    }
  }
  static constexpr std::uint64_t times = 6;  // that it adds

 private:
  op::sum_ranks asked(bool accumulate) const {
    const auto count = static_cast<std::int64_t>(s_.pieces);
    tensor_view to = make_view(y_, dtype::f32, {s_.rows, s_.width});
    to.row_stride = stride();
    return {&group_,    make_view(parts_, dtype::f32, {count, s_.rows * s_.width}),
            to,         accumulate,
            s_.travels, s_.two_shots};
  }
  std::int64_t stride() const { return s_.width + 3; }
  void fill(std::int64_t shift) {
    const std::int64_t n = s_.rows * s_.width;
    std::vector<float> own;
    for (std::size_t p = 0; p < s_.pieces; ++p) {
      const std::size_t number = static_cast<std::size_t>(group_.rank()) * s_.pieces + p;
      for (std::int64_t i = 0; i < n; ++i) own.push_back(part_of(number, i + shift));
    }
    device_.write(parts_, own.data(), own.size() * sizeof(float));
    const std::vector<float> before(static_cast<std::size_t>(s_.rows * stride()), 0.75F);
    device_.write(y_, before.data(), before.size() * sizeof(float));
  }
  void expect_sums(std::int64_t shift, bool accumulate) {
    std::vector<float> got(static_cast<std::size_t>(s_.rows * stride()));
    device_.synchronize();  // which hears of a rank that has failed; a copy would wait for it
    device_.read(got.data(), y_, got.size() * sizeof(float));
    const std::size_t count = static_cast<std::size_t>(group_.size()) * s_.pieces;
    int wrong = 0;
    for (std::int64_t r = 0; r < s_.rows; ++r) {
      for (std::int64_t d = 0; d < stride(); ++d) {
        const float sum =
            d < s_.width ? sum_of(0, count, r * s_.width + d + shift, s_.travels) : 0.75F;
        const bool adds = accumulate && d < s_.width;
        const float want = adds ? 0.75F + sum : sum;
        wrong += got[static_cast<std::size_t>(r * stride() + d)] == want ? 0 : 1;
      }
    }
    EXPECT_EQ(wrong, 0);
  }

  const sum_shape s_;
  const backend& device_;
  rank_group& group_;
  float *parts_, *y_;
};

// Bit for bit on every rank; and what moves for it.
void device_ranks::expect_sums(const std::vector<sum_shape>& shapes) {
  rank_group& group = all->group();
  const auto others = static_cast<std::uint64_t>(group.size() - 1);
  std::uint64_t calls = 0, bytes = 0;
  for (const sum_shape& s : shapes) {
    const rank_sum of{s.rows * s.width, static_cast<std::int64_t>(size_of(s.travels)),
                      group.size()};
    const bool dealt = of.takes_two_shots(s.two_shots);
    SCOPED_TRACE(std::to_string(s.pieces) + " parts, " + std::to_string(s.rows) + " rows, " +
                 name_of(s.travels) + (dealt ? ", in two shots" : ", in one shot"));
    float* parts = put(std::vector<float>(s.pieces * static_cast<std::size_t>(of.elements)));
    float* y = put(std::vector<float>(static_cast<std::size_t>(s.rows * (s.width + 3))));
    summed(s, device(), group, parts, y).expect_the_definition();
    const std::int64_t each =
        dealt ? of.count(group.rank()) * of.element_bytes + 4 * of.stretch() : of.bytes();
    calls += (dealt ? 2 : 1) * summed::times;
    bytes += others * static_cast<std::uint64_t>(each) * summed::times;
  }
  EXPECT_EQ(group.traffic().calls, calls);
  EXPECT_EQ(group.traffic().bytes, bytes);
}

TEST_P(device_ranks, sums_are_those_of_the_definition) {
  expect_sums({{1, 7, 40, dtype::f32},
               {1, 2, 1030, dtype::f32},
               {2, 3, 33, dtype::f32},
               {4, 1, 515, dtype::f32},
               {1, 7, 40, dtype::bf16},
               {1, 2, 1030, dtype::bf16},
               {1, 3, 33, dtype::bf16}});
}

// Elements that no number of ranks divides, and a last rank that has none of them.
TEST_P(device_ranks, stretches_are_sums_of_the_definition) {
  expect_sums({{1, 7, 41, dtype::f32, 0},
               {1, 2, 1031, dtype::f32, 0},
               {2, 3, 33, dtype::f32, 0},
               {4, 1, 515, dtype::f32, 0},
               {1, 1, 17, dtype::f32, 0},
               {1, 7, 41, dtype::bf16, 0},
               {1, 2, 1031, dtype::bf16, 0}});
}

// Of 512 KiB, which go in one shot, and of little more; of halves that are as large.
TEST_P(device_ranks, large_sums_are_those_of_the_definition) {
  expect_sums(
      {{1, 128, 1024, dtype::f32}, {1, 131, 1001, dtype::f32}, {1, 263, 1001, dtype::bf16}});
}

// Several parts of one rank are added before they travel, and no halves any more.
TEST_P(device_ranks, send_no_sums_of_parts_as_halves) {
  float* parts = put(std::vector<float>(8));
  float* y = put(std::vector<float>(4));
  const op::sum_ranks sum{&all->group(), make_view(parts, dtype::f32, {2, 4}),
                          make_view(y, dtype::f32, {1, 4}), false, dtype::bf16};
  EXPECT_THROW(device().run(sum), std::logic_error);
  EXPECT_EQ(all->group().traffic().calls, 0U);
}

// Rank r holds r + 1 heads. A sum, a mean, and a sum on top of what is there.
TEST_P(device_ranks, heads_are_added_behind_the_kernels_that_found_theirs) {
  const int ranks = GetParam().ranks, rank = all->group().rank();
  constexpr std::int64_t count = 200;
  struct kind {
    bool mean, grows;
  };
  for (const kind& k : {kind{false, false}, kind{true, false}, kind{false, true}}) {
    const std::vector<float> there(count, 100.0F);
    float* data = put(there);
    detail::head_sums sums({data, count, k.mean ? rank + 1 : 0, k.grows});
    if (k.grows) {
      EXPECT_EQ(read(data, count), std::vector<float>(count)) << "else it would be added twice";
    }
    std::vector<float> found(count);
    std::iota(found.begin(), found.end(), static_cast<float>(10 * (rank + 1)));
    device().write(data, found.data(), count * sizeof(float));
    sums.add();
    float heads = 0, sum = 0, at = 0;
    for (int r = 0; r < ranks; ++r) {
      const auto n = static_cast<float>(k.mean ? r + 1 : 1);
      sum += n * static_cast<float>(10 * (r + 1));
      at += n;
      heads += n;
    }
    const std::vector<float> got = read(data, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const float all_of = sum + at * static_cast<float>(i);
      const float want = k.mean ? all_of / heads : all_of + (k.grows ? 100.0F : 0);
      EXPECT_FLOAT_EQ(got[static_cast<std::size_t>(i)], want) << i;
    }
  }
}

// A rank that does not come is named with the move that it was to come to.
TEST_P(device_ranks, that_do_not_come_are_named) {
  rank_group& group = all->group();
  float* parts = put(std::vector<float>(8));
  float* y = put(std::vector<float>(8));
  const auto sum = [&] {
    device().run(op::sum_ranks{&group, make_view(parts, dtype::f32, {1, 8}),
                               make_view(y, dtype::f32, {1, 8}), false});
    device().synchronize();
  };
  sum();
  group.wait_for(0.3);
  const int last = GetParam().ranks - 1;
  if (group.rank() == last) {
    while (group.failure().empty()) ::usleep(1000);
    return;
  }
  const std::string said = test::message_of(sum);
  EXPECT_NE(said.find("rank " + std::to_string(last) + " did not "), std::string::npos) << said;
  EXPECT_NE(said.find(" within 0.3 s"), std::string::npos) << said;
  if (!GetParam().emulated) {
    EXPECT_NE(said.find("come to move 2 of the devices"), std::string::npos) << said;
  }
}

// Tokens and their numbers have the bits of one process with as many pieces on this device: launched,
// recorded and repeated.
TEST_P(device_ranks, heads_in_pieces_have_the_bits_of_one_process) {
  const auto ranks = static_cast<std::size_t>(GetParam().ranks);
  const auto rank = static_cast<std::size_t>(all->group().rank());
  const std::vector<std::int32_t> edges(
      test::uneven_edges.begin(),
      test::uneven_edges.begin() + static_cast<std::ptrdiff_t>(ranks) + 1);
  const test::head_question question(device());
  const tensor_view w = question.weights().first(edges.back());
  for (const weight_format format : {weight_format::f32, weight_format::bf16}) {
    const auto whole = test::head_in_pieces(device(), w, edges, 0, ranks, format),
               mine = test::head_in_pieces(device(), w, edges, rank, 1, format);
    for (const bool entropy : {false, true}) {
      const auto want = question.ask(*whole, 0.8F, entropy);
      test::said_of_candidates got(device(), test::head_question::rows);
      const auto run = [&] { question.ask(*mine, 0.8F, entropy, got); };
      const auto expect = [&](const char* how) {
        device().synchronize();
        EXPECT_EQ(got.tokens(), want.tokens()) << how;
        EXPECT_EQ(got.all_numbers(), want.all_numbers()) << how;
      };
      run();
      expect("launched");
      const auto recorded = device().capture(run);
      device().replay(*recorded);
      expect("repeated");
    }
  }
}

// So have whole logits, and a rank that read another row is noted on all.
TEST_P(device_ranks, logits_in_pieces_tell_who_read_another_row) {
  const auto ranks = static_cast<std::size_t>(GetParam().ranks);
  const auto rank = static_cast<std::size_t>(all->group().rank());
  std::vector<std::int32_t> edges(test::uneven_edges.begin(),
                                  test::uneven_edges.begin() + static_cast<std::ptrdiff_t>(ranks));
  edges.push_back(test::head_question::vocabulary);
  test::head_question question(device());
  const auto whole = device().pack(question.weights(), weight_format::f32),
             mine = test::head_in_pieces(device(), question.weights(), edges, rank, 1);
  EXPECT_EQ(question.logits(*mine), question.logits(*whole));
  EXPECT_EQ(all->group().difference(), 0);
  if (rank == ranks - 1) question.change(5);
  question.logits(*mine);
  EXPECT_EQ(all->group().difference(), GetParam().ranks - 1);
}

}  // namespace
}  // namespace unmask
