// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Choosing: candidates, decisions, the rows that FOCUS drops, the keys that Sparse-dLLM and
// Focus-dLLM keep, SparseD's blocks, Optimus' chunks, Ada-DLM's frozen tokens. Where a choice rests
// on sums of floats, both sides choose from the reference's sums: a near-tie is no fault.
#include "kernels/selection.h"

#include "harness/decode/kernels/features.h"
#include "kernels/decisions.h"
#include "kernels/rows.h"
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/focus/kernels/eviction.h"
#include "methods/focus_dllm/kernels/block_means.h"
#include "methods/optimus/kernels/chunk.h"
#include "methods/sparse_dllm/kernels/eviction.h"
#include "tests/gpu/device_check.h"

namespace unmask::gpu_check {
namespace {

constexpr double exact = 1e-30;

// Token states (masked 0, decided 1, cached 2) of some sequences.
mirrored states(checker& c, std::int64_t sequences, std::int64_t length) {
  const mirrored m = c.empty(dtype::u8, {sequences, length});
  for (std::int64_t i = 0; i < sequences * length; ++i) {
    m.here.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(c.below(3));
  }
  c.send(m);
  return m;
}

void decide(checker& c) {
  const auto count = static_cast<std::int32_t>(c.size(90, 5000));
  const mirrored begin = c.ints({0, count / 3, count / 3, count}), quota = c.ints({5, 3, 17});
  std::vector<std::int32_t> at(static_cast<std::size_t>(count));
  std::iota(at.begin(), at.end(), 0);
  const mirrored position = c.ints(at);
  const mirrored score = c.reals({count});
  for (std::int32_t i = 0; i < count; ++i) {  // ties, which must go to the lowest index
    score.here.as<float>()[i] = std::round(score.here.as<float>()[i] * 8) / 8;
  }
  c.send(score);
  const mirrored top = c.poisoned(dtype::u8, {count}), above = c.poisoned(dtype::u8, {count});
  const mirrored canvas = c.poisoned(dtype::i32, {3, count}), state = states(c, 3, count);
  const mirrored committed = c.ints({0, 0, 0});
  c.both([&](const side& s) {
    const candidate_set candidates{3, count, s.at(begin), s.at(position), s.at(position)};
    s.with().run(
        op::accept_top{candidates, s.at<float>(score), s.at(quota), s.at<std::uint8_t>(top)});
    s.with().run(op::accept_threshold{candidates, s.at<float>(score), 1.0F, false, true,
                                      s.at<std::uint8_t>(above)});
    s.with().run(op::commit{.candidates = candidates,
                            .token = s.at(position),
                            .accept = s.at<std::uint8_t>(above),
                            .canvas = s(canvas),
                            .state = s(state),
                            .counts = {.taken = s.at(committed)}});
  });
  c.same("accept_top", std::to_string(count), top);
  c.same("accept_threshold", std::to_string(count), above);
  c.same("commit", "canvas", canvas);
  c.same("commit", "committed", committed);
}

void find_candidates(checker& c) {
  const std::int64_t sequences = 3, length = c.size(70, 3000);
  const ragged r(c, std::vector<std::int32_t>(3, static_cast<std::int32_t>(length)), 3);
  const mirrored state = states(c, sequences, length);
  const mirrored first = c.ints({0, 5, 11}),
                 last = c.ints(std::vector<std::int32_t>(3, static_cast<std::int32_t>(length)));
  for (const std::int32_t shift : {0, 1}) {
    const mirrored begin = c.empty(dtype::i32, {sequences + 1}),
                   position = c.empty(dtype::i32, {sequences * length}),
                   row = c.empty(dtype::i32, {sequences * length});
    std::int32_t found[2] = {};
    c.both([&](const side& s) {
      found[s.is_device()] = s.with().run(
          op::find_candidates{r.set(s), s(state), one_state(0), s.at(first), s.at(last), shift,
                              s.at(begin), s.at(position), s.at(row)});
    });
    const std::string what = "shift " + std::to_string(shift);
    c.report("find_candidates", what, found[0] == found[1] ? 0 : 2);
    c.same("find_candidates", what + ": begin", begin);
    c.same("find_candidates", what + ": position", position);
    c.same("find_candidates", what + ": row", row);
  }
}

// FOCUS: attention received, the masked rows that stay, the rows dropped.
void evict(checker& c) {
  const std::int64_t heads = c.size(4, 32), kv_heads = c.size(2, 8), dim = c.size(64, 128);
  const ragged r(c, {40, 7, 64}, 2);
  const mirrored q = c.reals({r.rows, heads, dim}), k = c.reals({r.rows, kv_heads, dim});
  std::vector<std::int32_t> order(static_cast<std::size_t>(r.rows));
  std::iota(order.begin(), order.end(), 0);
  const mirrored index = c.ints(order);
  const mirrored score = c.poisoned({r.rows});
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  c.both([&](const side& s) {
    s.with().run(op::importance{r.sequences, s.at(r.begin), s.at(index), s(q), s(k), scale,
                                s.at<float>(score)});
  });
  c.compare("importance", c.text({r.rows, heads, dim}), score, 1e-3, 1e-4);
  c.send(score);
  const mirrored target = c.ints({9, 3, 0}), processed = c.ints({4, 0, 0});
  for (const bool by_deviation : {true, false}) {
    const mirrored accept = c.poisoned(dtype::u8, {r.rows});
    const mirrored begin = c.empty(dtype::i32, {r.sequences + 1}),
                   owner = c.empty(dtype::i32, {r.rows}), place = c.empty(dtype::i32, {r.rows}),
                   kept = c.empty(dtype::i32, {r.rows});
    std::int32_t left[2] = {};
    c.both([&](const side& s) {
      const candidate_set candidates{r.sequences, r.rows, s.at(r.begin), s.at(r.place),
                                     s.at(index)};
      retain_params params;
      params.target = s.at(target);
      params.processed = s.at(processed);
      params.by_deviation = by_deviation;
      s.with().run(op::retain{candidates, s.at<float>(score), params, s.at<std::uint8_t>(accept)});
      left[s.is_device()] =
          s.with().run(op::drop_rows{r.set(s), candidates, s.at<std::uint8_t>(accept), s.at(begin),
                                     s.at(owner), s.at(place), s.at(kept)});
    });
    const std::string what = by_deviation ? "by deviation" : "by target";
    c.same("retain", what, accept);
    c.report("drop_rows", what, left[0] == left[1] ? 0 : 2);
    c.same("drop_rows", what + ": begin", begin);
    c.same("drop_rows", what + ": kept", kept);
    c.same("drop_rows", what + ": position", place);
  }
}

// Sparse-dLLM and Focus-dLLM: scores of keys, pooled, the best of them, their K/V copied.
void keep_keys(checker& c) {
  const std::int64_t heads = 8, kv_heads = 2, dim = c.size(64, 128);
  const ragged r(c, {static_cast<std::int32_t>(c.size(130, 4000)), 70}, 1);
  const auto pages = [&] { return c.reals({r.all_pages(), kv_page_size, kv_heads, dim}); };
  const mirrored k = pages(), v = pages(), q = c.reals({r.sequences, heads, dim});
  const mirrored score = c.poisoned({r.rows}), pooled = c.poisoned({r.rows});
  c.both([&](const side& s) {
    key_set keys;
    keys.kv_length = s.at(r.lengths);
    keys.key_begin = s.at(r.begin);
    keys.key_slot = s.at(r.place);
    s.with().run(op::key_scores{s(q), r.cache(s, k, v), keys, s.at<float>(score)});
  });
  c.compare("key_scores", c.text({r.rows, heads, dim}), score, 1e-3, 1e-3);
  c.send(score);
  c.both([&](const side& s) {
    s.with().run(
        op::pool{r.sequences, s.at(r.begin), s.at<float>(score), 3, true, s.at<float>(pooled)});
  });
  c.compare("pool", "maximum of 3", pooled, 0, exact);
  const std::int32_t half = r.length[0] / 2;
  const mirrored out_begin = c.ints({0, half, half + 20}), out = c.empty(dtype::i32, {half + 20});
  const mirrored to_k = c.empty(dtype::f32, {r.all_pages(), kv_page_size, kv_heads, dim}),
                 to_v = c.empty(dtype::f32, {r.all_pages(), kv_page_size, kv_heads, dim});
  c.both([&](const side& s) {
    s.with().run(op::top_indices{r.sequences, s.at(r.begin), s.at<float>(score), s.at(out_begin),
                                 s.at(out)});
    s.with().run(op::kv_copy{r.sequences, s.at(out_begin), s.at(out), r.cache(s, k, v),
                             r.cache(s, to_k, to_v)});
  });
  c.same("top_indices", std::to_string(half) + " of " + std::to_string(r.length[0]), out);
  c.same("kv_copy", "keys", to_k);
  c.same("kv_copy", "values", to_v);
}

void top_of_many(checker& c) {
  const auto n = static_cast<std::int32_t>(c.size(700, 16384));
  const mirrored score = c.reals({n}), begin = c.ints({0, n}), out_begin = c.ints({0, n / 2});
  const mirrored out = c.empty(dtype::i32, {n / 2});
  c.both([&](const side& s) {
    s.with().run(op::top_indices{1, s.at(begin), s.at<float>(score), s.at(out_begin), s.at(out)});
  });
  c.same("top_indices", std::to_string(n / 2) + " of " + std::to_string(n), out);
}

void block_scores(checker& c) {
  const std::int64_t heads = 4, kv_heads = 2, dim = 64;
  const std::int32_t size = 32;
  const ragged r(c, {static_cast<std::int32_t>(c.size(96, 1024)), 64}, 1);
  const auto pages = [&] { return c.reals({r.all_pages(), kv_page_size, kv_heads, dim}); };
  const mirrored k = pages(), v = pages(), q = c.reals({r.rows, heads, dim});
  const std::int32_t blocks = r.length[0] / size;
  const mirrored block_begin = c.ints({0, blocks, blocks + 2});
  const mirrored means = c.poisoned({blocks + 2, kv_heads, dim});
  const mirrored first = c.ints({0, 0}), used = c.ints({blocks, 2}), count = c.ints({2, 1});
  const mirrored mass = c.empty(dtype::f32, {2, heads, blocks, blocks}),
                 keep = c.empty(dtype::u8, {2, heads, blocks, blocks});
  c.both([&](const side& s) {
    s.with().run(op::block_mean_keys{r.sequences, r.cache(s, k, v), s.at(r.lengths), size,
                                     s.at(block_begin), s(means), nullptr});
    s.with().run(op::block_mass{r.set(s), s(q), r.cache(s, k, v), s.at(r.lengths), s.at(first),
                                size, 1.0F / 8, s(mass)});
  });
  c.compare("block_mean_keys", std::to_string(blocks) + " blocks", means, 1e-4, 1e-5);
  c.compare_typical("block_mass", std::to_string(blocks) + " blocks", mass, 1e-3);
  c.send(mass);
  c.both([&](const side& s) {
    s.with().run(
        op::keep_top_blocks{s(mass), s.at(used), s.at(first), s.at(used), s.at(count), s(keep)});
  });
  c.same("keep_top_blocks", std::to_string(blocks) + " blocks", keep);
}

void chunks(checker& c) {
  const std::int64_t sequences = 3, length = 96;
  const mirrored state = states(c, sequences, length);
  const mirrored first = c.ints({0, 32, 64}), last = c.ints({96, 96, 96}),
                 size = c.ints({8, 40, 5});
  const auto list = [&](dtype type) { return c.empty(type, {sequences * length}); };
  const mirrored begin = c.empty(dtype::i32, {sequences + 1}), owner = list(dtype::i32),
                 place = list(dtype::i32), slot = list(dtype::i32), settles = list(dtype::u8);
  std::int32_t rows[2] = {};
  c.both([&](const side& s) {
    chunk_params params;
    params.first = s.at(first);
    params.last = s.at(last);
    params.size = s.at(size);
    params.block = 32;
    rows[s.is_device()] = s.with().run(
        op::select_chunk{static_cast<std::int32_t>(sequences), s(state), params, s.at(begin),
                         s.at(owner), s.at(place), s.at(slot), s.at<std::uint8_t>(settles)});
  });
  c.report("select_chunk", "rows", rows[0] == rows[1] ? 0 : 2);
  c.same("select_chunk", "position", place);
  c.same("select_chunk", "slot", slot);
  c.same("select_chunk", "settles", settles);
}

void freeze(checker& c) {
  const std::int64_t sequences = 2, length = 64;
  const mirrored state = states(c, sequences, length),
                 flags = c.empty(dtype::u8, {sequences, length});
  const mirrored first = c.ints({0, 32}), last = c.ints({64, 64});
  const auto count = static_cast<std::int32_t>(sequences * length);
  const mirrored begin = c.ints({0, count / 2, count});
  std::vector<std::int32_t> at(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) at[static_cast<std::size_t>(i)] = i % (count / 2);
  const mirrored position = c.ints(at), score = c.reals({count}), rank = c.ints({7, 20});
  const mirrored history = c.empty(dtype::f32, {sequences, length, 4});
  const mirrored accept = c.poisoned(dtype::u8, {count});
  c.both([&](const side& s) {
    s.with().run(op::mark_kv_final{static_cast<std::int32_t>(sequences), s(state), s.at(first),
                                   s.at(last), true, s(flags)});
    const candidate_set candidates{static_cast<std::int32_t>(sequences), count, s.at(begin),
                                   s.at(position), s.at(position)};
    s.with().run(op::push_history{candidates, s.at<float>(score), true, s(history)});
    s.with().run(op::accept_two_centroids{
        candidates, s(history), s.at(rank), {}, s.at<std::uint8_t>(accept)});
  });
  c.same("mark_kv_final", "right neighbour", flags);
  c.compare("push_history", "four steps", history, 0, exact);
  c.same("accept_two_centroids", "squared euclidean", accept);
}

}  // namespace

void check_selection(checker& c) {
  c.guarded("importance, retain, drop_rows", [&] { evict(c); });
  c.guarded("key_scores, pool, top_indices, kv_copy", [&] { keep_keys(c); });
  c.guarded("top_indices", [&] { top_of_many(c); });
  c.guarded("block_mean_keys, block_mass", [&] { block_scores(c); });
  c.guarded("select_chunk", [&] { chunks(c); });
  c.guarded("mark_kv_final, accept_two_centroids", [&] { freeze(c); });
  c.guarded("find_candidates", [&] { find_candidates(c); });
  c.guarded("accept, commit", [&] { decide(c); });
}

}  // namespace unmask::gpu_check
