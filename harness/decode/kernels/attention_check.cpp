// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of the cache and of attention: float32 by the exact kernel, bfloat16 K/V by
// tensor cores on a GPU.
#include "kernels/attention.h"

#include <memory>
#include <numeric>

#include "harness/decode/kernels/features.h"
#include "kernels/check/checker.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"

namespace unmask::device_checks {
namespace {

const char* name_of(mask_kind mask) {
  return mask == mask_kind::full ? "full " : mask == mask_kind::causal ? "causal " : "block ";
}

// K or V of all slots: the reference keeps in float32 what the backend keeps in `type`.
struct cache_pair {
  mirrored k, v;
  paged_kv of(const side& s, const ragged& r) const { return r.cache(s, k, v); }
};

// Numbers that `type` holds exactly.
mirrored representable(checker& c, dtype type, checker::shape s, float scale = 1.0F) {
  mirrored m = c.reals(s, scale);
  if (type == dtype::bf16) {
    for (std::int64_t i = 0; i < m.here.view().elements(); ++i) {
      m.here.as<float>()[i] = from_bf16(to_bf16(m.here.as<float>()[i]));
    }
    c.send(m);
  }
  return m;
}

// A cache whose every slot was written by the backend's own operation, and read back.
cache_pair filled_cache(checker& c, const ragged& r, dtype type, std::int64_t heads,
                        std::int64_t dim) {
  const auto pages = [&] {
    return mirrored{c.reference().allocate(dtype::f32, {r.all_pages(), kv_page_size, heads, dim}),
                    c.device().allocate(type, {r.all_pages(), kv_page_size, heads, dim})};
  };
  const cache_pair cache{pages(), pages()};
  std::vector<std::int32_t> begins{0}, owners, places;
  for (std::int32_t s = 0; s < r.sequences; ++s) {
    for (std::int32_t p = 0; p < r.length[static_cast<std::size_t>(s)]; ++p) {
      owners.push_back(s);
      places.push_back(p);
    }
    begins.push_back(static_cast<std::int32_t>(places.size()));
  }
  const mirrored begin = c.ints(begins), owner = c.ints(owners), place = c.ints(places);
  const std::int64_t rows = std::ssize(places);
  const mirrored k = representable(c, type, {rows, heads, dim});
  const mirrored v = representable(c, type, {rows, heads, dim});
  const mirrored k_back = c.poisoned({rows, heads, dim}), v_back = c.poisoned({rows, heads, dim});
  c.both([&](const side& s) {
    const row_set all{r.sequences, static_cast<std::int32_t>(rows),
                      s.at(begin), s.at(owner),
                      s.at(place), nullptr};
    s.with().run(op::kv_write{all, s(k), s(v), cache.of(s, r)});
    s.with().run(op::kv_read{all, cache.of(s, r), s(k_back), s(v_back), false});
  });
  c.same("kv_write, kv_read", std::string(unmask::name_of(type)) + " keys", k_back);
  c.same("kv_write, kv_read", std::string(unmask::name_of(type)) + " values", v_back);
  return cache;
}

struct attention_case {
  dtype type = dtype::f32;
  mask_kind mask = mask_kind::full;
  std::int64_t group = 1, dim = 64;
  bool listed = false, mass = false;
  std::int64_t apart = 0;  // rows of a sequence at most; 0: as many keys as the size says
  // Every key is a row, of sequences with 1,024 packed rows and more. Without a mask all rows see two
  // tiles of 128 keys and all but one key of a third, so that each place of a tile counts whether or not
  // its loop masks. Scores are far apart: a row takes most of its result from one key, which must not be
  // left out.
  bool refresh = false;
  std::int64_t kv_heads = 2;
  std::vector<std::int32_t> keys =
      {};  // of each sequence; none: several parts, a sequence of one key
};

// The keys that rows see.
key_set seen_by(const side& s, const attention_case& t, const ragged& r, const mirrored& key_begin,
                const mirrored& key_slot) {
  key_set seen;
  seen.kv_length = s.at(r.lengths);
  seen.mask = t.mask;
  seen.block = 32;
  if (t.listed) {
    seen.key_begin = s.at(key_begin);
    seen.key_slot = s.at(key_slot);
  }
  return seen;
}

// The results as bfloat16 are those of float32, `wide`, rounded once.
void expect_rounded(checker& c, const std::string& what, const mirrored& wide,
                    const std::function<void(const tensor_view&)>& attend_into) {
  const tensor half = c.device().allocate(dtype::bf16, {wide.here.view().elements()});
  tensor_view rows = wide.there.view();
  rows.data = half.view().data;
  rows.type = dtype::bf16;
  attend_into(rows);
  std::vector<std::uint16_t> got(static_cast<std::size_t>(half.view().elements()));
  c.device().read(got.data(), half.view().data, got.size() * 2);
  const std::vector<std::byte> bytes = c.fetch(wide);
  const auto* full = reinterpret_cast<const float*>(bytes.data());
  std::size_t differ = 0;
  for (std::size_t i = 0; i < got.size(); ++i) differ += got[i] != to_bf16(full[i]);
  c.report("attention", what + " as bfloat16", static_cast<double>(differ) * 2);
}

void attend(checker& c, const attention_case& t) {
  const std::int64_t kv_heads = t.refresh ? 1 : t.kv_heads, heads = kv_heads * t.group;
  const auto keys = [&](std::int64_t small, std::int64_t large) {
    return static_cast<std::int32_t>(c.size(small, large));
  };
  // More than one part of 512 keys, a sequence of one key, and a page that is not full.
  const ragged r(c,
                 !t.keys.empty() ? t.keys
                 : t.refresh     ? std::vector{keys(383, 1500), keys(257, 2100)}
                                 : std::vector{keys(70, 1500), 1, keys(600, 3001)},
                 t.apart > 0 ? t.apart : c.size(60, 120));
  const cache_pair cache = filled_cache(c, r, t.type, kv_heads, t.dim);
  const mirrored q = representable(c, t.type, {r.rows, heads, t.dim}, t.refresh ? 4.0F : 1.0F);
  const mirrored out = c.poisoned({r.rows, heads, t.dim});
  // Two of three slots, shuffled.
  std::vector<std::int32_t> starts{0}, slots;
  for (const std::int32_t n : r.length) {
    std::vector<std::int32_t> some;
    for (std::int32_t p = 0; p < n; ++p) {
      if (p == 0 || c.below(3) > 0) some.push_back(p);
    }
    std::ranges::shuffle(some, c.random());
    slots.insert(slots.end(), some.begin(), some.end());
    starts.push_back(static_cast<std::int32_t>(slots.size()));
  }
  const mirrored key_begin = c.ints(starts), key_slot = c.ints(slots);
  const std::int32_t longest = *std::ranges::max_element(r.length);
  const mirrored mass = c.empty(dtype::f32, {r.sequences, longest});
  const float scale = 1.0F / std::sqrt(static_cast<float>(t.dim));
  c.both([&](const side& s) {
    s.with().run(op::attention{r.set(s), s(q), cache.of(s, r),
                               seen_by(s, t, r, key_begin, key_slot), scale, s(out),
                               t.mass ? s(mass).view() : tensor_view{}});
  });
  const std::string what = std::string(unmask::name_of(t.type)) + " " + name_of(t.mask) +
                           (t.listed ? "listed " : "") + (t.mass ? "with mass " : "") +
                           c.text({r.rows, heads, t.dim}) + " group " + std::to_string(t.group);
  if (t.type == dtype::bf16) {
    c.compare_typical("attention", what, out, 8e-2);
    const side s(c.device(), true);
    if (!t.mass) {
      expect_rounded(c, what, out, [&](const tensor_view& half) {
        c.device().run(op::attention{r.set(s), s(q), cache.of(s, r),
                                     seen_by(s, t, r, key_begin, key_slot), scale, half,
                                     tensor_view{}});
      });
    }
  } else {
    c.compare("attention", what, out, 1e-4, 1e-5);
  }
  if (t.mass)
    c.compare_typical("attention", what + ": mass", mass, t.type == dtype::bf16 ? 8e-2 : 1e-3);
}

// What every layer does between its projection and its attention, in one pass.
void rotate_and_store(checker& c, dtype type) {
  const std::int64_t heads = c.size(4, 32), kv_heads = c.size(2, 8), dim = c.size(64, 128);
  const ragged r(c, {static_cast<std::int32_t>(c.size(70, 900)), 5}, 9);
  const auto pages = [&] {
    return mirrored{
        c.reference().allocate(dtype::f32, {r.all_pages(), kv_page_size, kv_heads, dim}),
        c.device().allocate(type, {r.all_pages(), kv_page_size, kv_heads, dim})};
  };
  const cache_pair cache{pages(), pages()};
  const mirrored q = c.reals({r.rows, heads, dim}), k = c.reals({r.rows, kv_heads, dim}),
                 v = c.reals({r.rows, kv_heads, dim});
  const mirrored q_norm = c.reals({dim}), k_norm = c.reals({dim});
  const mirrored k_back = c.poisoned({r.rows, kv_heads, dim}),
                 v_back = c.poisoned({r.rows, kv_heads, dim});
  const rope_params rope{static_cast<std::int32_t>(dim), 1e6F};
  c.both([&](const side& s) {
    s.with().run(op::rotate_and_store{r.set(s), s(q), s(k), s(v), s(q_norm), s(k_norm), 1e-6F, rope,
                                      cache.of(s, r)});
    s.with().run(op::kv_read{r.set(s), cache.of(s, r), s(k_back), s(v_back), false});
  });
  const std::string what = std::string(unmask::name_of(type)) + " " + c.text({r.rows, heads, dim});
  const double rounding = type == dtype::bf16 ? 0x1p-8 : 0;  // of a page: half a step of bfloat16
  c.compare_typical("rotate_and_store", what + ": q", q, 1e-3);
  c.compare_typical("rotate_and_store", what + ": keys", k_back, 1e-3, rounding);
  c.compare_typical("rotate_and_store", what + ": values", v_back, 1e-3, rounding);
}

void attend_half(checker& c) {
  if (!c.device().holds_kv(dtype::bf16)) {
    return c.report("attention", "this backend keeps no bf16 K/V", 0);
  }
  std::vector<attention_case> cases;
  for (const mask_kind mask : {mask_kind::full, mask_kind::block_causal, mask_kind::causal}) {
    for (const std::int64_t group : {4, 1, 7}) cases.push_back({dtype::bf16, mask, group, 128});
  }
  cases.push_back({dtype::bf16, mask_kind::full, 4, 64});
  cases.push_back({dtype::bf16, mask_kind::full, 4, 128, true});
  cases.push_back({dtype::bf16, mask_kind::full, 4, 128, false, true});
  // Items of 16, 32, 64 and 128 rows.
  for (const std::int64_t dim : {64, 128}) {
    for (const std::int64_t apart : {120, 20, 6, 3}) {
      cases.push_back({dtype::bf16, mask_kind::block_causal, 1, dim, false, false, apart});
    }
  }
  for (const attention_case& t : cases) attend(c, t);
}

// More items than clusters are taken for, in tiles of 16, 32, 64 and 128 rows.
void attend_many_heads(checker& c) {
  if (!c.device().holds_kv(dtype::bf16)) {
    return c.report("attention", "this backend keeps no bf16 K/V", 0);
  }
  for (const auto& [apart, kv_heads] : {std::pair{120, 17}, {12, 17}, {6, 12}, {2, 6}}) {
    attention_case t{dtype::bf16, mask_kind::block_causal, 1, 128, false, false, apart};
    t.kv_heads = kv_heads;
    t.keys = {70, 1, static_cast<std::int32_t>(c.size(330, 3001))};
    attend(c, t);
  }
}

// Few sequences with many keys, which clusters share: eight tiles of 64 keys, one key more and one less;
// fewer tiles than blocks; groups of 1, 4 and 8 heads; listed keys.
void attend_few_sequences(checker& c) {
  if (!c.device().holds_kv(dtype::bf16)) {
    return c.report("attention", "this backend keeps no bf16 K/V", 0);
  }
  const std::vector<std::vector<std::int32_t>> edges = {{511, 512, 513}, {449, 65, 3}};
  for (const std::int64_t dim : {64, 128}) {
    for (const auto& [group, mask] : {std::pair{std::int64_t{8}, mask_kind::full},
                                      {std::int64_t{4}, mask_kind::causal},
                                      {std::int64_t{1}, mask_kind::block_causal}}) {
      for (const auto& keys : edges) {
        attention_case t{dtype::bf16, mask, group, dim, false, false, 200};
        t.keys = keys;
        attend(c, t);
      }
    }
    attention_case t{dtype::bf16, mask_kind::full, 8, dim, true, false, 200};
    t.keys = edges[0];
    attend(c, t);
  }
}

void attend_many_rows(checker& c) {
  if (!c.device().holds_kv(dtype::bf16)) {
    return c.report("attention", "this backend keeps no bf16 K/V", 0);
  }
  for (const std::int64_t dim : {64, 128}) {
    for (const mask_kind mask : {mask_kind::full, mask_kind::block_causal}) {
      attend(c, {dtype::bf16, mask, 4, dim, false, false, 1, true});
    }
  }
}

// Sequences whose last `each` rows see 4,096 keys, of the 8B checkpoints' heads: a refresh, or blocks. All
// read the same pages.
std::function<void()> some_sequences(const backend& device, std::int32_t sequences,
                                     std::int32_t each) {
  constexpr std::int64_t keys = 4096, heads = 32, kv_heads = 8, dim = 128;
  constexpr std::int32_t pages = keys / kv_page_size;
  const std::int32_t rows = sequences * each;
  struct operands {
    tensor q, k, v, out, lists, pages;
  };
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(keys * heads * dim));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = to_bf16(static_cast<float>(i * 2654435761U % 1024) / 512.0F - 1.0F);
  }
  const auto filled = [&](std::initializer_list<std::int64_t> shape) {
    tensor t = device.allocate(dtype::bf16, shape);
    device.write(t.view().data, numbers.data(), t.bytes());
    return t;
  };
  const auto all = std::make_shared<operands>(
      filled({rows, heads, dim}), filled({pages, kv_page_size, kv_heads, dim}),
      filled({pages, kv_page_size, kv_heads, dim}),
      device.allocate(dtype::bf16, {rows, heads, dim}),
      device.allocate(dtype::i32, {rows + 2 * sequences + 1}, memory_use::host_visible),
      device.allocate(dtype::i32, {sequences * pages}, memory_use::host_visible));
  // Positions, then where rows begin, then keys.
  auto *list = all->lists.as<std::int32_t>(), *begins = list + rows,
       *table = all->pages.as<std::int32_t>();
  begins[0] = 0;
  for (std::int32_t s = 0; s < sequences; ++s) {
    std::iota(list + s * each, list + (s + 1) * each, static_cast<std::int32_t>(keys) - each);
    std::iota(table + s * pages, table + (s + 1) * pages, 0);
    begins[s + 1] = (s + 1) * each;
    begins[sequences + 1 + s] = static_cast<std::int32_t>(keys);
  }
  return [&device, all, rows, sequences] {
    const auto *at = all->lists.as<std::int32_t>(), *first = at + rows;
    const row_set set{sequences, rows, first, nullptr, at, nullptr};
    const paged_kv cache{all->k.view(), all->v.view(), all->pages.as<std::int32_t>(), pages};
    key_set seen;
    seen.kv_length = first + sequences + 1;
    device.run(op::attention{set, all->q.view(), cache, seen, 0.0884F, all->out.view(), {}});
  };
}
// Newer kernels of attention are taken together, so all have to be faster: of a refresh, of few sequences by
// clusters, and of more that merge the parts of cut keys in the same launch.
const register_device_race raced("refresh", cuda::multiplied::attention,
                                 [](const backend& d) { return some_sequences(d, 1, 4096); });
const register_device_race raced_block("block", cuda::multiplied::attention,
                                       [](const backend& d) { return some_sequences(d, 1, 32); });
const register_device_race raced_blocks("blocks", cuda::multiplied::attention,
                                        [](const backend& d) { return some_sequences(d, 8, 32); });

void attend_exactly(checker& c) {
  for (const mask_kind mask : {mask_kind::full, mask_kind::causal, mask_kind::block_causal}) {
    for (const std::int64_t group : {1, 4, 7}) {
      attend(c, {dtype::f32, mask, group, c.size(64, 128)});
    }
  }
  attend(c, {dtype::f32, mask_kind::full, 4, 64, true});
  attend(c, {dtype::f32, mask_kind::full, 4, 64, false, true});
  for (const std::int64_t dim : {72, 80}) {  // heads of pictures' towers
    attend(c, {dtype::f32, mask_kind::full, 1, dim});
  }
}

const register_device_check half("attention bf16", attend_half, cuda::multiplied::attention);
const register_device_check many("attention of many rows", attend_many_rows,
                                 cuda::multiplied::attention);
const register_device_check heads("attention of many heads", attend_many_heads,
                                  cuda::multiplied::attention);
const register_device_check few("attention of few sequences", attend_few_sequences,
                                cuda::multiplied::attention);
const register_device_check exact("attention f32", attend_exactly);
const register_device_check stored("rotate_and_store", [](checker& c) {
  if (c.device().holds_kv(dtype::bf16)) rotate_and_store(c, dtype::bf16);
  rotate_and_store(c, dtype::f32);
});

}  // namespace
}  // namespace unmask::device_checks
