// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA backend's operations at the shapes of SDAR-8B and LLaDA2.0-mini. A sample is several
// calls in a row and one wait, divided by their number, so that launches overlap as they do in a
// forward; weights are cycled through copies that together overflow L2. %copy: bytes that must move
// over time, of what a copy reaches on this device in this process.
#include "kernels/bench/bench.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "kernels/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/selection.h"

namespace unmask::bench {
namespace {

// Where the cases run.
struct target {
  const unmask::backend& backend;
  bool emulated;
  bool small;  // sizes that a GPU in software computes in seconds too, one call each
  double copy_bytes() const {
    static const double roof = small ? 0 : cuda::measure_copy_roof(0).bytes_per_second;
    return roof;
  }
  int calls() const { return small ? 1 : 20; }
};

tensor indices(const backend& backend, const std::vector<std::int32_t>& values) {
  tensor t = backend.allocate(dtype::i32, {static_cast<std::int64_t>(values.size())});
  send(backend, t.view().data, values.data(), values.size() * sizeof(std::int32_t));
  return t;
}

void measure(benchmark::State& state, const target& on, double flops, double bytes,
             const std::function<void(int)>& work) {
  for (int i = 0; i < 3; ++i) work(i);  // scratch, tuning, pages that move to the device
  on.backend.synchronize();
  std::vector<double> samples;
  int call = 0;
  for (auto _ : state) {
    const double all = seconds_of([&] {
      for (int i = 0; i < on.calls(); ++i) work(call++);
      on.backend.synchronize();
    });
    samples.push_back(all / on.calls());
    state.SetIterationTime(samples.back());
  }
  const timing taken = summary(samples);
  state.counters["median_us"] = taken.median * 1e6;
  state.counters["best_us"] = taken.best * 1e6;
  state.counters["GFLOP/s"] = flops / taken.median / 1e9;
  state.counters["GB/s"] = bytes / taken.median / 1e9;
  state.counters["flops"] = flops;
  state.counters["bytes"] = bytes;
  if (on.copy_bytes() > 0) {
    state.counters["%copy"] = 100 * bytes / taken.median / on.copy_bytes();
  }
}

// Weights of 16 bits are bfloat16; int8 ones have a float scale for each of their outputs.
struct weight_kind {
  weight_format format;
  std::int64_t bytes;
  std::int64_t bytes_per_output;
};
weight_kind weights_of(std::int64_t bits) {
  return bits == 8 ? weight_kind{weight_format::int8, 1, 4}
                   : weight_kind{weight_format::bf16, 2, 0};
}

// Copies of an [outputs, inputs] weight on the device, packed from host memory as those of a
// checkpoint and kept until the process ends: packing them takes longer than measuring a case.
const std::vector<packed_handle>& packed_weights(const target& on, std::int64_t outputs,
                                                 std::int64_t inputs, weight_format format,
                                                 std::int64_t copies) {
  // Never destroyed: the driver may be gone before a static is.
  static auto& all = *new std::map<std::tuple<std::int64_t, std::int64_t, weight_format>,
                                   std::vector<packed_handle>>;
  std::vector<packed_handle>& kept = all[{outputs, inputs, format}];
  if (static_cast<std::int64_t>(kept.size()) < copies) {
    const tensor w = random_tensor(reference_backend(), {outputs, inputs}, 0.05F);
    while (static_cast<std::int64_t>(kept.size()) < copies) {
      kept.push_back(on.backend.pack(w, format));
    }
  }
  return kept;
}

// Arguments: rows, input features, output features, bits of a weight. Rows and results are of a
// model's types: what goes up is written anew, what comes down is added to the residual stream.
void linear(benchmark::State& state, const target& on) {
  const std::int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const weight_kind kind = weights_of(state.range(3));
  const std::int64_t weight_bytes = (kind.bytes * k + kind.bytes_per_output) * n;
  const std::int64_t copies =
      on.small ? 1 : std::max<std::int64_t>(1, (std::int64_t{256} << 20) / weight_bytes);
  const std::vector<packed_handle>& packed = packed_weights(on, n, k, kind.format, copies);
  const bool adds = n <= k;
  const dtype given = on.backend.activation_type(kind.format), made = adds ? dtype::f32 : given;
  const tensor x = random_tensor(on.backend, {m, k}, 1, given);
  const tensor y = random_tensor(on.backend, {m, n}, 1, made);
  const auto moved = static_cast<std::int64_t>(size_of(given)) * k +
                     static_cast<std::int64_t>(size_of(made)) * n * (adds ? 2 : 1);
  measure(state, on, 2.0 * static_cast<double>(m * k * n),
          static_cast<double>(weight_bytes + m * moved), [&](int i) {
            on.backend.run(
                op::linear{x,
                           *packed[static_cast<std::size_t>(i) % static_cast<std::size_t>(copies)],
                           {},
                           y,
                           adds});
          });
}

// Arguments: sequences, rows of each, heads, KV heads, head dimension, keys, bits of K/V.
void attention(benchmark::State& state, const target& on) {
  const std::int64_t sequences = state.range(0), each = state.range(1), heads = state.range(2);
  const std::int64_t kv_heads = state.range(3), dim = state.range(4), length = state.range(5);
  const bool half = state.range(6) == 16;
  const std::int64_t stride = (length + kv_page_size - 1) / kv_page_size, rows = sequences * each;
  const auto pages = [&] {
    return on.backend.allocate(half ? dtype::bf16 : dtype::f32,
                               {stride * sequences, kv_page_size, kv_heads, dim});
  };
  // As many caches as overflow L2 together: a cache that stays there is not read from memory.
  const std::int64_t cache_bytes =
      2 * stride * sequences * kv_page_size * kv_heads * dim * (half ? 2 : 4);
  const std::int64_t copies =
      on.small ? 1 : std::max<std::int64_t>(1, (std::int64_t{256} << 20) / cache_bytes);
  std::vector<std::pair<tensor, tensor>> stores;
  for (std::int64_t i = 0; i < copies; ++i) stores.emplace_back(pages(), pages());
  std::vector<std::int32_t> table(static_cast<std::size_t>(stride * sequences)), begin{0}, owner,
      place;
  std::iota(table.begin(), table.end(), 0);
  const auto list = [&](std::int64_t first, std::int64_t count) {
    begin = {0};
    owner.clear();
    place.clear();
    for (std::int64_t s = 0; s < sequences; ++s) {
      for (std::int64_t p = first; p < first + count; ++p) {
        owner.push_back(static_cast<std::int32_t>(s));
        place.push_back(static_cast<std::int32_t>(p));
      }
      begin.push_back(static_cast<std::int32_t>(place.size()));
    }
  };
  const tensor pages_of = indices(on.backend, table);
  const auto cache = [&](std::size_t i) {
    const auto& [keys, values] = stores[i % stores.size()];
    return paged_kv{keys, values, pages_of.as<std::int32_t>(), static_cast<std::int32_t>(stride)};
  };
  struct row_arrays {
    tensor begin, owner, place;
    row_set set;
  };
  const auto arrays = [&] {
    row_arrays a{
        indices(on.backend, begin), indices(on.backend, owner), indices(on.backend, place), {}};
    a.set = {static_cast<std::int32_t>(sequences), static_cast<std::int32_t>(place.size()),
             a.begin.as<std::int32_t>(),           a.owner.as<std::int32_t>(),
             a.place.as<std::int32_t>(),           nullptr};
    return a;
  };
  // Every slot holds random numbers: denormals or zeros would flatter no GPU, but NaN would.
  list(0, length);
  {
    const row_arrays all = arrays();
    const tensor fill = random_tensor(on.backend, {sequences * length, kv_heads, dim});
    for (std::size_t i = 0; i < stores.size(); ++i) {
      on.backend.run(op::kv_write{all.set, fill, fill, cache(i)});
    }
    on.backend.synchronize();
  }
  list(length - each, each);
  const row_arrays these = arrays();
  const tensor lengths =
      indices(on.backend, std::vector<std::int32_t>(static_cast<std::size_t>(sequences),
                                                    static_cast<std::int32_t>(length)));
  key_set seen;
  seen.kv_length = lengths.as<std::int32_t>();
  const dtype type = half ? dtype::bf16 : dtype::f32;
  const tensor q = random_tensor(on.backend, {rows, heads, dim}, 1, type);
  const tensor out = on.backend.allocate(type, {rows, heads, dim});
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  measure(state, on, 4.0 * static_cast<double>(rows * length * heads * dim),
          static_cast<double>((sequences * length * kv_heads + rows * heads) * dim * 2 *
                              (half ? 2 : 4)),
          [&](int i) {
            on.backend.run(op::attention{
                these.set, q, cache(static_cast<std::size_t>(i)), seen, scale, out, {}});
          });
}

// What a layer of a picture's tower does with its heads: query, key and value of float32 weights, attention inside
// each view, output. `room`: elements of a head with the zeros behind it.
class tower_heads {
 public:
  tower_heads(const target& on, std::int64_t views, std::int64_t each, std::int64_t heads,
              std::int64_t dim, std::int64_t room, dtype kv_type)
      : on_(on), heads_(heads), dim_(dim), room_(room), rows_(views * each) {
    const std::int64_t width = heads * dim, wide = heads * room;
    stride_ = (each + kv_page_size - 1) / kv_page_size;
    const auto pack = [&](std::int64_t outputs, std::int64_t inputs) {
      return on.backend.pack(random_tensor(reference_backend(), {outputs, inputs}, 0.02F),
                             weight_format::f32);
    };
    qkv_ = pack(3 * wide, width);
    out_ = pack(width, wide);
    for (tensor* pages : {&keys_, &values_}) {
      *pages = on.backend.allocate(kv_type, {views * stride_, kv_page_size, heads, room});
    }
    x_ = random_tensor(on.backend, {rows_, width});
    y_ = on.backend.allocate(dtype::f32, {rows_, width});
    made_ = on.backend.allocate(dtype::f32, {rows_, 3 * wide});
    mixed_ = on.backend.allocate(dtype::f32, {rows_, wide});
    std::vector<std::int32_t> begin{0}, owner, place, table;
    for (std::int64_t view = 0; view < views; ++view) {
      for (std::int64_t p = 0; p < each; ++p) {
        owner.push_back(static_cast<std::int32_t>(view));
        place.push_back(static_cast<std::int32_t>(p));
      }
      begin.push_back(static_cast<std::int32_t>(place.size()));
    }
    for (std::int32_t p = 0; p < views * stride_; ++p) table.push_back(p);
    const std::vector<std::int32_t> length(static_cast<std::size_t>(views),
                                           static_cast<std::int32_t>(each));
    for (const auto& list : {begin, owner, place, table, length}) {
      lists_.push_back(indices(on.backend, list));
    }
    set_ = {static_cast<std::int32_t>(views),
            static_cast<std::int32_t>(rows_),
            list_of(0),
            list_of(1),
            list_of(2),
            nullptr};
  }
  void run(int calls) const {
    for (int i = 0; i < calls; ++i) once();
    on_.backend.synchronize();
  }

 private:
  void once() const {
    const backend& b = on_.backend;
    const paged_kv cache{keys_, values_, list_of(3), static_cast<std::int32_t>(stride_)};
    key_set seen;
    seen.kv_length = list_of(4);
    b.run(op::linear{x_, *qkv_, {}, made_, false});
    b.run(op::kv_write{set_, part(1), part(2), cache});
    b.run(op::attention{set_,
                        part(0),
                        cache,
                        seen,
                        1.0F / std::sqrt(static_cast<float>(dim_)),
                        make_view(mixed_.view().data, dtype::f32, {rows_, heads_, room_}),
                        {}});
    b.run(op::linear{mixed_, *out_, {}, y_, false});
  }
  const std::int32_t* list_of(std::size_t i) const { return lists_[i].as<std::int32_t>(); }
  tensor_view part(std::int64_t which) const {
    tensor_view t =
        make_view(made_.as<float>() + which * heads_ * room_, dtype::f32, {rows_, heads_, room_});
    t.row_stride = 3 * heads_ * room_;
    return t;
  }
  const target& on_;
  std::int64_t heads_, dim_, room_, rows_, stride_ = 0;
  std::vector<tensor> lists_;
  packed_handle qkv_, out_;
  tensor keys_, values_, x_, y_, made_, mixed_;
  row_set set_;
};

// Arguments: views, patches of each, heads, elements of a head. median_us is that of heads as they are with K/V in
// float32, padded_us that of heads with zeros up to 128 and K/V in bfloat16 (UNMASK_CUDA_TOWERS); they take turns.
void tower_attention(benchmark::State& state, const target& on) {
  const std::int64_t views = state.range(0), each = state.range(1), heads = state.range(2),
                     dim = state.range(3);
  const tower_heads exact(on, views, each, heads, dim, dim, dtype::f32),
      padded(on, views, each, heads, dim, 128, dtype::bf16);
  const std::vector<timing> t =
      interleave(state, {[&] { exact.run(on.calls()); }, [&] { padded.run(on.calls()); }});
  state.counters["median_us"] = t[0].median / on.calls() * 1e6;
  state.counters["best_us"] = t[0].best / on.calls() * 1e6;
  state.counters["padded_us"] = t[1].median / on.calls() * 1e6;
  state.counters["exact/padded"] = t[0].median / t[1].median;
}

// Arguments: rows, heads, KV heads, head dimension. What every layer does between its projection
// and its attention, into bfloat16 K/V.
void rotate(benchmark::State& state, const target& on) {
  const std::int64_t rows = state.range(0), heads = state.range(1), kv_heads = state.range(2),
                     dim = state.range(3);
  const std::int64_t stride = (rows + kv_page_size - 1) / kv_page_size;
  const auto pages = [&] {
    return on.backend.allocate(dtype::bf16, {stride, kv_page_size, kv_heads, dim});
  };
  const tensor keys = pages(), values = pages();
  std::vector<std::int32_t> order(static_cast<std::size_t>(std::max(rows, stride)));
  std::iota(order.begin(), order.end(), 0);
  const tensor place = indices(on.backend, order);
  const tensor owner = indices(on.backend, std::vector<std::int32_t>(order.size(), 0));
  const tensor begin = indices(on.backend, {0, static_cast<std::int32_t>(rows)});
  const row_set set{1,
                    static_cast<std::int32_t>(rows),
                    begin.as<std::int32_t>(),
                    owner.as<std::int32_t>(),
                    place.as<std::int32_t>(),
                    nullptr};
  const paged_kv cache{keys, values, place.as<std::int32_t>(), static_cast<std::int32_t>(stride)};
  const dtype type = on.backend.activation_type(weight_format::bf16);
  const tensor q = random_tensor(on.backend, {rows, heads, dim}, 1, type),
               k = random_tensor(on.backend, {rows, kv_heads, dim}, 1, type),
               v = random_tensor(on.backend, {rows, kv_heads, dim}, 1, type);
  const tensor norm = random_tensor(on.backend, {dim});
  const rope_params rope{static_cast<std::int32_t>(dim), 1e6F};
  // q and k read and written, v read, and k and v stored as bfloat16.
  const auto size = static_cast<std::int64_t>(size_of(type));
  const std::int64_t moved = size * (2 * heads + 3 * kv_heads) + 4 * kv_heads;
  measure(state, on, 0, static_cast<double>(rows * dim * moved), [&](int) {
    on.backend.run(op::rotate_and_store{set, q, k, v, norm, norm, 1e-6F, rope, cache});
  });
}

// Arguments: rows, hidden features.
void silu_mul(benchmark::State& state, const target& on) {
  const std::int64_t rows = state.range(0), width = state.range(1);
  const dtype type = on.backend.activation_type(weight_format::bf16);
  const tensor pair = on.backend.allocate(type, {rows, 2 * width});
  const tensor y = on.backend.allocate(type, {rows, width});
  const auto size = static_cast<std::int64_t>(size_of(type));
  measure(state, on, 0, static_cast<double>(3 * rows * width * size), [&](int) {
    on.backend.run(op::silu_mul{pair, y});
  });
}

// Arguments: rows, input features, hidden features. Gate, up and what becomes of them, bfloat16.
void gated_linear(benchmark::State& state, const target& on) {
  const std::int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const std::int64_t copies =
      on.small ? 1 : std::max<std::int64_t>(1, (std::int64_t{256} << 20) / (4 * n * k));
  const std::vector<packed_handle>& packed =
      packed_weights(on, 2 * n, k, weight_format::bf16, copies);
  const dtype type = on.backend.activation_type(weight_format::bf16);
  const tensor x = random_tensor(on.backend, {m, k}, 1, type);
  const tensor pair = on.backend.allocate(type, {m, 2 * n}), y = on.backend.allocate(type, {m, n});
  const auto size = static_cast<std::int64_t>(size_of(type));
  measure(state, on, 4.0 * static_cast<double>(m * k * n),
          static_cast<double>(4 * n * k + size * m * (k + n)), [&](int i) {
            const auto at = static_cast<std::size_t>(i) % static_cast<std::size_t>(copies);
            on.backend.run(op::gated_linear{x, *packed[at], pair, y});
          });
}

// Arguments: rows, width, experts, experts of a row, bits of a row's value. Grouped as LLaDA2.0
// groups them. Rows of 16 bits, those of models in bfloat16, go through the product library.
void route(benchmark::State& state, const target& on) {
  const std::int64_t rows = state.range(0), width = state.range(1), count = state.range(2),
                     per_row = state.range(3);
  const bool half = state.range(4) == 16;
  const tensor x = random_tensor(on.backend, {rows, width}, 1, half ? dtype::bf16 : dtype::f32),
               weight = random_tensor(on.backend, {count, width}, 0.05F);
  const tensor expert = on.backend.allocate(dtype::i32, {rows, per_row});
  const tensor share = on.backend.allocate(dtype::f32, {rows, per_row});
  moe_router router;
  router.experts = static_cast<std::int32_t>(count);
  router.experts_per_token = static_cast<std::int32_t>(per_row);
  router.groups = count % 8 == 0 ? 8 : 1;
  router.groups_kept = router.groups / 2 + router.groups % 2;
  router.weight = weight;
  if (half) {
    router.parts = pack_router(
        on.backend, random_tensor(reference_backend(), {count, width}, 0.05F), weight_format::bf16);
  }
  measure(state, on, 2.0 * static_cast<double>(rows * width * count),
          static_cast<double>((half ? 2 : 4) * rows * width + 4 * count * width), [&](int) {
            on.backend.run(op::moe_route{x, router, expert, share});
          });
}

// Arguments: sequences, rows of each, heads, KV heads, head dimension: how much attention rows give
// each other.
void importance(benchmark::State& state, const target& on) {
  const std::int64_t sequences = state.range(0), each = state.range(1), heads = state.range(2),
                     kv_heads = state.range(3), dim = state.range(4);
  const std::int64_t rows = sequences * each;
  const dtype type = on.backend.activation_type(weight_format::bf16);
  const tensor q = random_tensor(on.backend, {rows, heads, dim}, 1, type),
               k = random_tensor(on.backend, {rows, kv_heads, dim}, 1, type);
  std::vector<std::int32_t> begins, order(static_cast<std::size_t>(rows));
  for (std::int64_t s = 0; s <= sequences; ++s)
    begins.push_back(static_cast<std::int32_t>(s * each));
  std::iota(order.begin(), order.end(), 0);
  const tensor begin = indices(on.backend, begins), index = indices(on.backend, order);
  const tensor score = on.backend.allocate(dtype::f32, {rows});
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  measure(state, on, 2.0 * static_cast<double>(rows * each * heads * dim),
          static_cast<double>(rows * dim * (heads + kv_heads)) * static_cast<double>(size_of(type)),
          [&](int) {
            on.backend.run(op::importance{static_cast<std::int32_t>(sequences),
                                          begin.as<std::int32_t>(), index.as<std::int32_t>(), q, k,
                                          scale, score.as<float>()});
          });
}

// Arguments: segments, scores of each, how many of them are wanted.
void top_indices(benchmark::State& state, const target& on) {
  const std::int64_t segments = state.range(0), each = state.range(1), wanted = state.range(2);
  const tensor score = random_tensor(on.backend, {segments * each});
  std::vector<std::int32_t> begins, ends;
  for (std::int64_t s = 0; s <= segments; ++s) {
    begins.push_back(static_cast<std::int32_t>(s * each));
    ends.push_back(static_cast<std::int32_t>(s * wanted));
  }
  const tensor begin = indices(on.backend, begins), end = indices(on.backend, ends);
  const tensor out = on.backend.allocate(dtype::i32, {segments * wanted});
  measure(state, on, 0, static_cast<double>(4 * segments * (each + wanted)), [&](int) {
    on.backend.run(op::top_indices{static_cast<std::int32_t>(segments), begin.as<std::int32_t>(),
                                   score.as<float>(), end.as<std::int32_t>(),
                                   out.as<std::int32_t>()});
  });
}

// Arguments: rows, width, hidden features of an expert, experts, experts of a row, bits of a
// weight. Every expert that a row is routed to is drawn alike.
void experts(benchmark::State& state, const target& on) {
  const std::int64_t rows = state.range(0), width = state.range(1), hidden = state.range(2);
  const std::int64_t count = state.range(3), per_row = state.range(4);
  const weight_kind kind = weights_of(state.range(5));
  moe_experts all;
  all.hidden = static_cast<std::int32_t>(hidden);
  all.gate_up = packed_weights(on, 2 * hidden, width, kind.format, count);
  all.down = packed_weights(on, width, hidden, kind.format, count);
  all.gate_up.resize(static_cast<std::size_t>(count));
  all.down.resize(static_cast<std::size_t>(count));
  std::mt19937 rng(3);
  std::vector<std::int32_t> order(static_cast<std::size_t>(count)), chosen;
  std::iota(order.begin(), order.end(), 0);
  std::vector<bool> hit(static_cast<std::size_t>(count));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::shuffle(order.begin(), order.end(), rng);
    for (std::int64_t i = 0; i < per_row; ++i) {
      chosen.push_back(order[static_cast<std::size_t>(i)]);
      hit[static_cast<std::size_t>(chosen.back())] = true;
    }
  }
  const tensor flat = indices(on.backend, chosen);
  const tensor_view expert = make_view(flat.view().data, dtype::i32, {rows, per_row});
  const tensor weight = random_tensor(on.backend, {rows, per_row});
  const dtype type = on.backend.activation_type(kind.format);
  const tensor x = random_tensor(on.backend, {rows, width}, 1, type);
  const tensor y = random_tensor(on.backend, {rows, width});  // the residual stream
  const auto used = static_cast<double>(std::count(hit.begin(), hit.end(), true));
  state.counters["experts_hit"] = used;
  const auto matrices = static_cast<double>(3 * width * hidden);
  measure(state, on, 2.0 * matrices * static_cast<double>(rows * per_row),
          (matrices * static_cast<double>(kind.bytes) +
           static_cast<double>((2 * hidden + width) * kind.bytes_per_output)) *
                  used +
              static_cast<double>((8 + static_cast<std::int64_t>(size_of(type))) * rows * width),
          [&](int) {
            on.backend.run(op::moe_feed_forward{x, expert, weight, all, y});
          });
}

// Arguments: rows, width.
void rms_norm(benchmark::State& state, const target& on) {
  const std::int64_t rows = state.range(0), width = state.range(1);
  const tensor x = random_tensor(on.backend, {rows, width}),
               weight = random_tensor(on.backend, {width});
  const dtype type = on.backend.activation_type(weight_format::bf16);
  const tensor y = on.backend.allocate(type, {rows, width});
  const auto moved = static_cast<std::int64_t>(4 + size_of(type));
  measure(state, on, 4.0 * static_cast<double>(rows * width),
          static_cast<double>(moved * rows * width), [&](int) {
            on.backend.run(op::rms_norm{x, weight, 1e-6F, y});
          });
}

// Arguments: candidates, width, vocabulary, bits of the head's weights; token and probability.
void confidence(benchmark::State& state, const target& on) {
  const std::int64_t rows = state.range(0), width = state.range(1), tokens = state.range(2);
  const weight_kind kind = weights_of(state.range(3));
  const dtype type = on.backend.activation_type(kind.format);
  const tensor x = random_tensor(on.backend, {rows, width}, 1, type);
  const packed_handle head = packed_weights(on, tokens, width, kind.format, 1).front();
  std::vector<std::int32_t> place(static_cast<std::size_t>(rows));
  std::iota(place.begin(), place.end(), 0);
  const tensor row = indices(on.backend, place);
  const tensor begin = indices(on.backend, {0, static_cast<std::int32_t>(rows)});
  const candidate_set candidates{1, static_cast<std::int32_t>(rows), begin.as<std::int32_t>(),
                                 row.as<std::int32_t>(), row.as<std::int32_t>()};
  const tensor token = on.backend.allocate(dtype::i32, {rows});
  const tensor probability = on.backend.allocate(dtype::f32, {rows});
  confidence_out out;
  out.token = token.as<std::int32_t>();
  out.probability = probability.as<float>();
  measure(state, on, 2.0 * static_cast<double>(rows * width * tokens),
          static_cast<double>((kind.bytes * width + kind.bytes_per_output) * tokens +
                              static_cast<std::int64_t>(size_of(type)) * rows * width),
          [&](int) {
            on.backend.run(op::confidence{x, *head, candidates, {}, out});
          });
}

using shape = std::vector<std::int64_t>;

void add(const target& on, const char* name, void (*body)(benchmark::State&, const target&),
         const std::vector<std::string>& names, const std::vector<shape>& shapes,
         const std::vector<shape>& small) {
  const std::string full = (on.emulated ? "emulated_" : "cuda_") + std::string(name);
  auto* b =
      benchmark::RegisterBenchmark(full.c_str(), [body, on](benchmark::State& s) { body(s, on); });
  b->ArgNames(names)->UseManualTime();
  for (const shape& s : on.small ? small : shapes) b->Args(s);
  // A fixed number of samples: looking for one would fill the operands anew for every try. A
  // profiler that replays kernels asks for one.
  const char* asked = std::getenv("UNMASK_BENCH_ITERATIONS");
  b->Iterations(on.small ? 1 : asked != nullptr ? std::max(1, std::atoi(asked)) : 25);
}

}  // namespace

void register_device_cases() {
  const auto asked = [](const char* name) {
    const char* text = std::getenv(name);
    return text != nullptr && std::string(text) == "1";
  };
  const bool emulated = asked("UNMASK_BENCH_EMULATED");
  if (const cuda::report machine = cuda::query(); !emulated && machine.devices.empty()) {
    std::fprintf(stderr, "NOT RUN: cuda_*: %s\n", machine.note.c_str());
    return;
  }
  const target on{emulated ? cuda_emulated_backend() : cuda_backend(), emulated,
                  emulated || asked("UNMASK_BENCH_SMALL")};
  // In order of value: a run out of time keeps what it measured. 32 rows of a sequence are a whole
  // block of SDAR, 7 what an eviction leaves of it; 8192 rows are a piece of a prefill or refresh.
  add(on, "attention", attention, {"sequences", "rows", "heads", "kv", "dim", "keys", "bits"},
      {{64, 32, 32, 8, 128, 4096, 16},
       {64, 7, 32, 8, 128, 4096, 16},
       {256, 32, 32, 8, 128, 512, 16},
       {256, 7, 32, 8, 128, 512, 16},
       {1, 8192, 32, 32, 128, 8192, 16},
       {1, 8192, 32, 32, 128, 16384, 16},
       {1, 8192, 32, 32, 128, 32768, 16},
       {1, 32, 32, 8, 128, 512, 16},
       {1, 32, 32, 8, 128, 4096, 16},
       {1, 32, 32, 8, 128, 32768, 16},
       {64, 7, 32, 8, 128, 512, 32}},
      {{2, 3, 4, 2, 64, 70, 16}});
  add(on, "tower_attention", tower_attention, {"views", "patches", "heads", "dim"},
      {{1, 729, 16, 72}, {5, 729, 16, 72}, {1, 1024, 16, 80}, {16, 64, 16, 80}}, {{2, 9, 2, 24}});
  add(on, "experts", experts, {"rows", "width", "hidden", "experts", "per_row", "bits"},
      {{8192, 2048, 512, 256, 8, 16},
       {1740, 2048, 512, 256, 8, 16},
       {32, 2048, 512, 256, 8, 16},
       {7, 2048, 512, 256, 8, 16},
       {8192, 2048, 768, 128, 8, 16},
       {32, 2048, 512, 256, 8, 8}},
      {{7, 64, 40, 4, 2, 16}, {7, 64, 40, 4, 2, 8}});
  add(on, "route", route, {"rows", "width", "experts", "per_row", "bits"},
      {{8192, 2048, 256, 8, 16},
       {1740, 2048, 256, 8, 16},
       {7, 2048, 256, 8, 16},
       {8192, 2048, 128, 8, 16},
       {1740, 2048, 256, 8, 32}},
      {{5, 64, 8, 2, 16}, {5, 64, 8, 2, 32}});
  add(on, "confidence", confidence, {"rows", "width", "vocabulary", "bits"},
      {{512, 4096, 151936, 16},
       {1703, 4096, 151936, 16},
       {4096, 4096, 151936, 16},
       {16, 4096, 151936, 16},
       {512, 4096, 151936, 8}},
      {{3, 64, 300, 16}, {3, 64, 300, 8}});
  add(on, "importance", importance, {"sequences", "rows", "heads", "kv", "dim"},
      {{256, 16, 32, 8, 128}, {32, 16, 32, 8, 128}}, {{2, 5, 4, 2, 64}});
  add(on, "top_indices", top_indices, {"segments", "scores", "wanted"},
      {{1, 16384, 8192}, {32, 4096, 2048}}, {{2, 100, 40}});
  add(on, "rotate_and_store", rotate, {"rows", "heads", "kv", "dim"},
      {{8192, 32, 8, 128}, {1703, 32, 8, 128}, {32, 32, 8, 128}}, {{5, 4, 2, 64}});
  add(on, "silu_mul", silu_mul, {"rows", "hidden"}, {{8192, 12288}, {1703, 12288}, {32, 12288}},
      {{5, 36}});
  add(on, "rms_norm", rms_norm, {"rows", "width"}, {{32, 4096}, {1703, 4096}, {8192, 4096}},
      {{5, 72}});
  std::vector<shape> products;
  for (const std::int64_t bits : {16, 8}) {
    for (const std::int64_t rows : {32, 256, 1703, 8192, 1}) {
      products.push_back({rows, 4096, 24576, bits});  // SDAR-8B: gate, up
      products.push_back({rows, 12288, 4096, bits});  // down
      products.push_back({rows, 4096, 6144, bits});   // query, key, value
    }
  }
  for (const std::int64_t rows : {32, 64, 128, 192}) {
    if (rows > 32) products.push_back({rows, 12288, 4096, 16});
    products.push_back({rows, 4096, 4096, 16});  // output
  }
  add(on, "linear", linear, {"rows", "in", "out", "bits"}, products,
      {{9, 64, 40, 16}, {9, 512, 248, 16}, {9, 64, 40, 8}});
  add(on, "gated_linear", gated_linear, {"rows", "in", "hidden"},
      {{192, 4096, 12288}, {32, 4096, 12288}}, {{9, 64, 40}});
}

}  // namespace unmask::bench
