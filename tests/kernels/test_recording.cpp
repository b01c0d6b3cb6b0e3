// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operations recorded once and repeated on other contents (CUDA graphs), on the emulated device.

#include "kernels/attention.h"
#include "kernels/cuda/emulation.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/rows.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using indices = std::vector<std::int32_t>;

// Launches wait and foreign memory is refused.
class recording : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = cuda::current_emulation();
    cuda::set_emulation({{}, true, true});
  }
  void TearDown() override {
    device.synchronize();
    cuda::set_emulation(before_);
  }
  template <class T>
  T* put(const std::vector<T>& values) {
    kept_.push_back(
        device.allocate(dtype_of<T>::value, {static_cast<std::int64_t>(values.size())}));
    std::copy(values.begin(), values.end(), kept_.back().template as<T>());
    return kept_.back().template as<T>();
  }
  tensor_view matrix(std::int64_t rows, std::int64_t columns, float first) {
    kept_.push_back(device.allocate(dtype::f32, {rows, columns}));
    float* to = kept_.back().as<float>();
    for (std::int64_t i = 0; i < rows * columns; ++i) to[i] = first + static_cast<float>(i);
    return kept_.back();
  }

  // One attention of one row of each of `sequences` sequences over one page each.
  struct attention_case {
    row_set rows;
    tensor_view q, out;
    paged_kv cache;
    key_set keys;
  };
  attention_case make_attention(std::int32_t sequences) {
    const auto n = static_cast<std::size_t>(sequences);
    indices begin(n + 1), sequence(n), position(n, 0), length(n, 3), table(n, 0);
    for (std::size_t s = 0; s <= n; ++s) begin[s] = static_cast<std::int32_t>(s);
    for (std::size_t s = 0; s < n; ++s) sequence[s] = static_cast<std::int32_t>(s);
    attention_case a;
    a.rows = {sequences, sequences, put(begin), put(sequence), put(position), nullptr};
    kept_.push_back(device.allocate(dtype::f32, {sequences, 1, 8}));
    a.q = kept_.back();
    kept_.push_back(device.allocate(dtype::f32, {sequences, 1, 8}));
    a.out = kept_.back();
    for (tensor_view* side : {&a.cache.keys, &a.cache.values}) {
      kept_.push_back(device.allocate(dtype::f32, {1, kv_page_size, 1, 8}));
      *side = kept_.back();
      for (int i = 0; i < 24; ++i) side->as<float>()[i] = static_cast<float>(i % 7) - 3;
    }
    a.cache.page_table = put(table);
    a.cache.table_stride = 1;
    a.keys.kv_length = put(length);
    return a;
  }
  void attend(const attention_case& a) const {
    device.run(op::attention{a.rows, a.q, a.cache, a.keys, 0.5F, a.out, {}});
  }

  const backend& device = cuda_emulated_backend({.graphs = true});

 private:
  cuda::emulation before_;
  std::vector<tensor> kept_;
};

TEST_F(recording, runs_nothing_when_recorded_and_reads_what_is_there_when_repeated) {
  const tensor_view from = matrix(3, 4, 0), to = matrix(2, 4, -100);
  std::int32_t* index = put(indices{2, 0});
  const auto work = device.capture([&] { device.run(op::gather_rows{from, index, to}); });
  device.synchronize();
  EXPECT_EQ(to.row<float>(0)[0], -100);
  device.replay(*work);
  device.synchronize();
  EXPECT_EQ(to.row<float>(0)[0], 8);
  EXPECT_EQ(to.row<float>(1)[3], 3);
  index[0] = 1;
  from.row<float>(1)[0] = 77;
  device.replay(*work);
  device.synchronize();
  EXPECT_EQ(to.row<float>(0)[0], 77);
}

// A recording that went wrong leaves the backend as it was.
TEST_F(recording, refuses_what_waits) {
  std::int32_t *first = put(indices{0}), *last = put(indices{5}), *begin = put(indices{0, 0}),
               *list = put(indices(5)), *sequence = put(indices(5));
  const auto count = [&] {
    return device.run(op::compact{1, {}, 0, first, last, begin, list, sequence});
  };
  EXPECT_THROW(device.capture([&] { count(); }), std::logic_error);
  EXPECT_THROW(device.capture([&] { device.synchronize(); }), std::logic_error);
  EXPECT_THROW(device.capture([&] { device.allocate(dtype::f32, {4}); }), std::logic_error);
  EXPECT_EQ(count(), 5);
}

TEST_F(recording, refuses_to_take_more_scratch_memory_than_the_operation_took_before) {
  const attention_case large = make_attention(4000);
  EXPECT_THROW(device.capture([&] { attend(large); }), std::logic_error);
}

// The scratch memory of a recording stays its own when a later operation needs more.
TEST_F(recording, survives_operations_that_need_more_scratch_memory) {
  const attention_case small = make_attention(2), large = make_attention(6000);
  attend(small);
  device.synchronize();
  const float want = small.out.as<float>()[0];
  ASSERT_NE(want, 0);
  const auto work = device.capture([&] { attend(small); });
  attend(large);
  device.synchronize();
  small.out.as<float>()[0] = 0;
  device.replay(*work);
  device.synchronize();
  EXPECT_EQ(small.out.as<float>()[0], want);
}

TEST_F(recording, buckets_hold_the_rows_and_waste_less_than_a_tile) {
  for (std::int32_t rows = 1; rows <= 2048; ++rows) {
    const std::int32_t padded = device.graph_bucket(rows);
    ASSERT_GE(padded, rows);
    ASSERT_LT(padded, std::max(2 * rows, rows + 1));
    if (rows > 128) {
      ASSERT_LT(padded - rows, rows > 512 ? 128 : 32);
    }
    ASSERT_EQ(device.graph_bucket(padded), padded);
  }
  EXPECT_EQ(device.graph_bucket(2049), 0);
  EXPECT_EQ(cuda_emulated_backend({.graphs = false}).graph_bucket(5), 0);
}

TEST(staged_rows, are_the_lists_and_nobody_behind_them) {
  const indices begin{0, 2, 2, 5}, sequence{0, 0, 2, 2, 2}, position{3, 4, 0, 1, 7},
      slot{1, 2, 3, 4, 5}, token{103, 104, 6, 301, 307}, index{4, 3, 2, 1, 0},
      own{-1, -1, 6, -1, -1};
  indices canvas(32);
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    canvas[i] = static_cast<std::int32_t>(100 * (i / 8 + 1) + i % 8);
  }
  const tensor_view there = make_view(canvas.data(), dtype::i32, {4, 8});
  for (const backend* backend : test::host_backends()) {
    SCOPED_TRACE(backend->name());
    for (const std::int32_t padded : {5, 6, 300}) {
      const row_set rows{3, 5, begin.data(), sequence.data(), position.data(), slot.data()};
      const auto n = static_cast<std::size_t>(padded);
      indices to_begin(4, 7), lists[5];
      for (indices& list : lists) list.assign(n, 77);
      backend->run(op::stage_rows{rows,
                                  there,
                                  own.data(),
                                  index.data(),
                                  padded,
                                  {to_begin.data(), lists[0].data(), lists[1].data(),
                                   lists[2].data(), lists[3].data(), lists[4].data()}});
      EXPECT_EQ(to_begin, begin);
      const indices* from[] = {&sequence, &position, &slot, &token, &index};
      for (int i = 0; i < 5; ++i) {
        indices want = *from[i];
        want.resize(n, i == 0 ? -1 : 0);
        EXPECT_EQ(lists[i], want) << "list " << i;
      }
      // Nothing else is written, and nothing is read that is not there.
      indices only(n, 77);
      const row_set bare{3, 5, begin.data(), sequence.data(), position.data(), nullptr};
      backend->run(op::stage_rows{bare, {}, nullptr, nullptr, padded, {nullptr, only.data()}});
      EXPECT_EQ(only, lists[0]);
    }
  }
}

TEST(staged_rows, nobody_stores_keys_or_values) {
  const indices begin{0, 1}, sequence{0, -1, -1}, position{5, 0, 0}, table{0};
  const row_set rows{1, 3, begin.data(), sequence.data(), position.data(), nullptr};
  std::mt19937 rng(5);
  test::grid k({3, 2, 4}), v({3, 2, 4});
  k.randomize(rng);
  v.randomize(rng);
  for (const backend* backend : test::host_backends()) {
    SCOPED_TRACE(backend->name());
    std::vector<float> keys(kv_page_size * 8, 7.0F), values(kv_page_size * 8, 7.0F);
    paged_kv cache;
    cache.keys = make_view(keys.data(), dtype::f32, {1, kv_page_size, 2, 4});
    cache.values = make_view(values.data(), dtype::f32, {1, kv_page_size, 2, 4});
    cache.page_table = table.data();
    cache.table_stride = 1;
    backend->run(op::kv_write{rows, k, v, cache});
    EXPECT_EQ(keys[0], 7.0F);
    EXPECT_EQ(values[0], 7.0F);
    EXPECT_EQ(keys[5 * 8], k.at(0, 0));
    EXPECT_EQ(values[5 * 8], v.at(0, 0));
  }
}

// Padding reads no expert: it takes none, and its row stays as it is.
TEST(staged_rows, nobody_takes_an_expert) {
  constexpr std::int32_t experts = 4, each = 2, hidden = 3;
  constexpr std::int64_t width = 5, rows = 4;
  const indices sequence{0, -1, 1, -1};
  for (const backend* backend : test::host_backends()) {
    SCOPED_TRACE(backend->name());
    std::mt19937 rng(6);
    moe_experts weights;
    weights.hidden = hidden;
    for (int e = 0; e < experts; ++e) {
      test::grid gate_up({2 * hidden, width}), down({width, hidden});
      weights.gate_up.push_back(backend->pack(gate_up.randomize(rng), weight_format::f32));
      weights.down.push_back(backend->pack(down.randomize(rng), weight_format::f32));
    }
    test::grid router_weight({experts, width}), x({rows, width}), start({rows, width});
    moe_router router;
    router.experts = experts;
    router.experts_per_token = each;
    router.weight = router_weight.randomize(rng).view();
    x.randomize(rng);
    start.randomize(rng);
    const auto run = [&](const std::int32_t* whose, const test::grid& y) {
      indices expert(rows * each, 77);
      test::grid weight({rows, each});
      router.sequence = whose;
      const tensor_view chosen = make_view(expert.data(), dtype::i32, {rows, each});
      backend->run(op::moe_route{x, router, chosen, weight});
      backend->run(op::moe_feed_forward{x, chosen, weight, weights, y});
      backend->synchronize();
      return expert;
    };
    test::grid all({rows, width}), some({rows, width});
    all.copy(start);
    some.copy(start);
    const indices everybody = run(nullptr, all), somebody = run(sequence.data(), some);
    for (std::int64_t r = 0; r < rows; ++r) {
      const bool there = sequence[static_cast<std::size_t>(r)] >= 0;
      for (std::int64_t i = r * each; i < (r + 1) * each; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(somebody[at], there ? everybody[at] : -1);
      }
      EXPECT_TRUE(test::same_bits(some.row(r), there ? all.row(r) : start.row(r), width));
    }
    const indices nobody(rows, -1);
    some.copy(start);
    run(nobody.data(), some);
    EXPECT_TRUE(test::same_bits(some.row(2), start.row(2), width));
  }
}

}  // namespace
}  // namespace unmask
