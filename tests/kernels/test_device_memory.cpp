// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the emulated device refuses as a GPU would: bad input that a kernel sees, and memory of the
// host.
#include "harness/decode/kernels/features.h"
#include "kernels/decisions.h"
#include "kernels/selection.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using indices = std::vector<std::int32_t>;

// Arrays in a backend's own memory.
class arena {
 public:
  explicit arena(const ops& backend) : backend_(backend) {}
  template <class T>
  T* put(const std::vector<T>& values) {
    T* to = room<T>(static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), to);
    return to;
  }
  template <class T>
  T* room(std::int64_t n) {
    kept_.push_back(backend_.allocate(dtype_of<T>::value, {n}, memory_use::host_visible));
    return kept_.back().template as<T>();
  }

 private:
  const ops& backend_;
  std::vector<tensor> kept_;
};

struct outcome {
  std::vector<std::vector<std::int32_t>> numbers;
  std::vector<std::vector<float>> scores;
  template <class T>
  void keep(const T* from, std::int64_t n) {
    numbers.emplace_back(from, from + n);
  }
  void keep_scores(const float* from, std::int64_t n) { scores.emplace_back(from, from + n); }
};

// Every operation once, on two sequences of 40 positions, the later ones on what earlier ones
// wrote; the host reads nothing before the end but the counts that operations return.
outcome one_of_each(const ops& b) {
  std::mt19937 rng(77);
  constexpr std::int64_t length = 40, all = 2 * length, heads = 4, kv_heads = 2, dim = 8, m = 3;
  constexpr std::int64_t width = heads * dim;
  arena a(b);
  outcome out;
  bytes states(all);
  for (std::size_t i = 0; i < states.size(); ++i) states[i] = static_cast<std::uint8_t>(rng() % 3);
  std::uint8_t* state = a.put(states);
  const tensor_view state_view = make_view(state, dtype::u8, {2, length});
  std::int32_t* first = a.put(indices{3, 0});
  std::int32_t* last = a.put(indices{38, 40});
  std::int32_t* zero = a.put(indices{0, 0});
  std::int32_t* full = a.put(indices{40, 40});
  std::int32_t* four = a.put(indices{4, 4});
  std::uint8_t* flags = a.room<std::uint8_t>(all);
  const tensor_view flags_view = make_view(flags, dtype::u8, {2, length});

  auto* begin = a.room<std::int32_t>(3);
  auto* sequence = a.room<std::int32_t>(all);
  auto* position = a.room<std::int32_t>(all);
  auto* slot = a.room<std::int32_t>(all);
  auto* settles = a.room<std::uint8_t>(all);
  b.run(op::select_chunk{
      2, state_view, {first, last, full, 8}, begin, sequence, position, slot, settles});
  const std::int32_t rows_count =
      b.run(op::compact{2, {}, 0, zero, last, begin, position, sequence});
  const row_set rows{2, rows_count, begin, sequence, position, nullptr};
  auto* c_begin = a.room<std::int32_t>(3);
  auto* c_position = a.room<std::int32_t>(all);
  auto* c_row = a.room<std::int32_t>(all);
  const std::int32_t count =
      b.run(op::find_candidates{rows, state_view, 0, first, last, 0, c_begin, c_position, c_row});
  const candidate_set candidates{2, count, c_begin, c_position, c_row};

  const noise_source noise{a.put(std::vector<std::uint64_t>{5, 6}), a.put(indices{1, 2})};
  auto* score = a.room<float>(all);
  auto* noised = a.room<float>(all);
  b.run(op::uniform_scores{candidates, noise, score});
  b.run(op::combine_scores{count, score, 2.0F, nullptr, 0.0F, noised});
  b.run(op::gumbel_scores{candidates, noise, 0.5F, noised});
  b.run(op::combine_scores{count, score, 0.5F, score, 0.25F, score});
  b.run(op::round_bf16{count, score});
  std::uint8_t* accept[5];
  for (auto& flag : accept) flag = a.room<std::uint8_t>(all);
  b.run(op::accept_top{candidates, score, four, accept[0]});
  b.run(op::accept_threshold{candidates, score, 0.5F, false, true, accept[1]});
  b.run(op::accept_factor{candidates, score, 1.0F, accept[2]});
  b.run(op::accept_sequential{candidates, zero, 32, four, accept[3]});
  b.run(op::merge_accept{count, accept[1], false, accept[0]});
  retain_params retain;
  retain.target = four;
  retain.processed = zero;
  b.run(op::retain{candidates, score, retain, accept[4]});

  auto* history = a.room<float>(all * m);
  const tensor_view history_view = make_view(history, dtype::f32, {2, length, m});
  b.run(op::push_history{candidates, score, true, history_view});
  freeze_params freeze;
  freeze.first = first;
  freeze.last = last;
  freeze.limit = four;
  freeze.tier_mean = true;
  auto* frozen = a.room<std::uint8_t>(all);
  b.run(op::accept_two_centroids{candidates, history_view, four, freeze, frozen});

  auto* canvas = a.room<std::int32_t>(all);
  auto* token = a.put(indices(all, 17));
  auto* committed = a.room<std::int32_t>(2);
  b.run(op::commit{candidates, token, accept[0], 1, -1, make_view(canvas, dtype::i32, {2, length}),
                   state_view, committed});
  auto* tokens = a.room<std::int32_t>(all);
  b.run(op::gather_tokens{rows, make_view(canvas, dtype::i32, {2, length}), tokens});
  b.run(op::mark_kv_final{2, state_view, first, last, true, flags_view});
  b.run(op::advance_delayed_cache{state_view, {}, first, last, a.put(bytes{0, 1}), flags_view});
  b.run(op::fill_flags{2, zero, first, 7, flags_view});
  b.run(op::mark_top{rows, a.put(test::random_vector(rng, all)), four, flags_view});
  b.run(op::scatter_flags{rows, settles, 9, flags_view});

  auto* kept = a.room<std::int32_t>(all);
  auto* left_begin = a.room<std::int32_t>(3);
  auto* left_sequence = a.room<std::int32_t>(all);
  auto* left_position = a.room<std::int32_t>(all);
  const std::int32_t left = b.run(
      op::drop_rows{rows, candidates, accept[4], left_begin, left_sequence, left_position, kept});
  const row_set some{2, left, left_begin, left_sequence, left_position, nullptr};
  auto* index = a.room<std::int32_t>(all);
  b.run(op::find_rows{rows, some, index});

  auto* x = a.put(test::random_vector(rng, all * width));
  auto* taken = a.room<float>(all * width);
  auto* placed = a.room<float>(all * width);
  const tensor_view x_view = make_view(x, dtype::f32, {rows_count, width});
  const tensor_view taken_view = make_view(taken, dtype::f32, {left, width});
  b.run(op::gather_rows{x_view, kept, taken_view});
  b.run(op::scatter_rows{taken_view, index, make_view(placed, dtype::f32, {rows_count, width})});
  auto* mean = a.room<float>(2 * width);
  auto* distance = a.room<float>(all);
  b.run(op::mean_rows{rows, x_view, make_view(mean, dtype::f32, {2, width})});
  b.run(op::row_distance{x_view, make_view(placed, dtype::f32, {rows_count, width}), distance});

  auto* pages = a.put(test::random_vector(rng, 2 * kv_page_size * kv_heads * dim));
  const tensor_view keys = make_view(pages, dtype::f32, {2, kv_page_size, kv_heads, dim});
  const paged_kv cache{keys, keys, a.put(indices{1, 0}), 1};
  key_set seen;
  seen.kv_length = full;
  auto* key_score = a.room<float>(all);
  auto* pooled = a.room<float>(all);
  auto* best = a.room<std::int32_t>(8);
  const std::int32_t* segments = a.put(indices{0, 40, 80});
  b.run(op::key_scores{make_view(mean, dtype::f32, {2, heads, dim}), cache, seen, key_score});
  b.run(op::pool{2, segments, key_score, 3, true, pooled});
  b.run(op::top_indices{2, segments, pooled, a.put(indices{0, 4, 8}), best});
  auto* block_mean = a.room<float>(10 * kv_heads * dim);
  b.run(op::block_mean_keys{2, cache, full, 8, a.put(indices{0, 5, 10}),
                            make_view(block_mean, dtype::f32, {10, kv_heads, dim}), nullptr});
  auto* important = a.room<float>(all);
  b.run(op::importance{2, c_begin, c_row, make_view(x, dtype::f32, {rows_count, heads, dim}),
                       make_view(pages, dtype::f32, {2 * kv_page_size, kv_heads, dim}), 0.3F,
                       important});
  auto* mass = a.room<float>(2 * heads * 25);
  auto* keep = a.room<std::uint8_t>(2 * heads * 25);
  auto* mask_keys = a.room<float>(10);
  std::int32_t* five = a.put(indices{5, 5});
  const tensor_view keep_view = make_view(keep, dtype::u8, {2, heads, 5, 5});
  const tensor_view mass_view = make_view(mass, dtype::f32, {2, heads, 5, 5});
  b.run(op::block_mass{rows, make_view(x, dtype::f32, {rows_count, heads, dim}), cache, full, zero,
                       8, 0.3F, mass_view});
  b.run(op::keep_top_blocks{mass_view, five, zero, five, a.put(indices{2, 3}), keep_view});
  b.run(op::block_mask_keys{keep_view, a.put(bytes{1, 1}), 8, full,
                            make_view(mask_keys, dtype::f32, {2, 5})});

  b.synchronize();
  for (const std::int32_t* list : {sequence, position, slot, c_position, c_row, canvas, tokens,
                                   kept, left_sequence, left_position, index}) {
    out.keep(list, all);
  }
  for (const std::int32_t* list : {begin, c_begin, left_begin}) out.keep(list, 3);
  out.keep(committed, 2);
  out.keep(best, 8);
  for (const std::uint8_t* list : {state, flags, settles, frozen}) out.keep(list, all);
  for (const std::uint8_t* list : accept) out.keep(list, all);
  out.keep(keep, 2 * heads * 25);
  for (const float* list : {score, noised, distance, key_score, pooled, important}) {
    out.keep_scores(list, all);
  }
  out.keep_scores(history, all * m);
  out.keep_scores(taken, all * width);
  out.keep_scores(placed, all * width);
  out.keep_scores(mean, 2 * width);
  out.keep_scores(block_mean, 10 * kv_heads * dim);
  out.keep_scores(mass, 2 * heads * 25);
  out.keep_scores(mask_keys, 10);
  return out;
}

TEST(device_memory, operations_read_device_memory_only_and_never_on_the_host) {
  const outcome want = one_of_each(reference_ops());
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, false});
  const ops& device = cuda_emulated_ops();
  const indices begin{0, 1}, zero{0}, at{3}, other{4};
  const row_set rows{1, 1, begin.data(), zero.data(), at.data(), nullptr};
  const row_set absent{1, 1, begin.data(), zero.data(), other.data(), nullptr};
  indices index{-7};
  EXPECT_NO_THROW(device.run(op::find_rows{rows, absent, index.data()}));
  EXPECT_THROW(device.synchronize(), std::logic_error);
  EXPECT_NO_THROW(device.synchronize());  // once
  device.run(op::find_rows{rows, rows, index.data()});
  EXPECT_NO_THROW(device.synchronize());
  EXPECT_EQ(index[0], 0);
  const indices two{0, 2};
  const float score = 1;
  indices out{-7, -7};
  EXPECT_NO_THROW(device.run(op::top_indices{1, begin.data(), &score, two.data(), out.data()}));
  EXPECT_THROW(device.synchronize(), std::logic_error);
  EXPECT_EQ(out, (indices{-7, -7}));
  cuda::set_emulation(before);
}

// What the host and kernels share: kernels see it as it was when they were launched, the host sees
// what they wrote behind the next wait.
TEST(device_memory, exchanged_arrays_are_copied_when_an_operation_is_run) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true});
  const ops& device = cuda_emulated_ops();
  const auto array = [&] { return device.allocate(dtype::f32, {40}, memory_use::host_visible); };
  const tensor x = array(), doubled = array(), tripled = array();
  std::fill_n(x.as<float>(), 40, 1.0F);
  const auto times = [&](float factor, const tensor& to) {
    device.run(op::combine_scores{40, x.as<float>(), factor, nullptr, 0, to.as<float>()});
  };
  times(2, doubled);
  std::fill_n(x.as<float>(), 40, 10.0F);  // the first operation has not run
  times(3, tripled);
  x.as<float>()[0] = 7;
  EXPECT_EQ(doubled.as<float>()[0], 0);
  device.synchronize();
  EXPECT_EQ(doubled.as<float>()[0], 2);
  EXPECT_EQ(tripled.as<float>()[39], 30);
  EXPECT_EQ(x.as<float>()[0], 7);
  times(3, doubled);  // what is freed while a kernel writes it is not handed out before
  {
    const tensor gone = array();
    times(5, gone);
  }
  const tensor next = array();
  std::fill_n(next.as<float>(), 40, 4.0F);
  device.run(op::combine_scores{40, next.as<float>(), 1, nullptr, 0, tripled.as<float>()});
  device.synchronize();
  EXPECT_EQ(doubled.as<float>()[0], 21);
  EXPECT_EQ(tripled.as<float>()[0], 4);
  EXPECT_EQ(next.as<float>()[0], 4);
  cuda::set_emulation(before);
}

// Recorded operations take what the arrays hold when they are repeated.
TEST(device_memory, repeated_operations_read_the_arrays_anew) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true, true});
  const ops& device = cuda_emulated_ops();
  const tensor x = device.allocate(dtype::f32, {8}, memory_use::host_visible);
  const auto body = [&] {
    device.run(op::combine_scores{8, x.as<float>(), 2, nullptr, 0, x.as<float>()});
  };
  const auto work = device.capture(body);
  for (const float start : {1.0F, 5.0F}) {
    std::fill_n(x.as<float>(), 8, start);
    device.replay(*work);
    device.replay(*work);
    device.synchronize();
    EXPECT_EQ(x.as<float>()[7], 4 * start);
  }
  cuda::set_emulation(before);
}

// Memory that only operations use ends the program that touches it, where the tests ask for that.
TEST(device_memory, resident_memory_can_be_closed_to_the_host) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true, false, false, true});
  const ops& device = cuda_emulated_ops();
  const tensor x = device.allocate(dtype::f32, {4});
  const std::vector<float> ones(4, 1.0F);
  device.write(x.view().data, ones.data(), x.bytes());
  device.run(op::combine_scores{4, x.as<float>(), 2, nullptr, 0, x.as<float>()});
  std::vector<float> twos(4);
  device.read(twos.data(), x.view().data, x.bytes());
  EXPECT_EQ(twos, std::vector<float>(4, 2.0F));
  EXPECT_DEATH(x.as<float>()[0] = 1, ".*");
  cuda::set_emulation(before);
}

// The check has teeth: an array on the host is refused.
TEST(device_memory, host_memory_is_refused) {
  if (!cuda::checks_arguments) GTEST_SKIP() << "this compiler cannot clear padding";
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, false, true});
  std::vector<float> x(8, 1.0F);
  EXPECT_THROW(cuda_emulated_ops().run(op::round_bf16{8, x.data()}),
               cuda::emulator::emulation_error);
  cuda::set_emulation(before);
}

}  // namespace
}  // namespace unmask
