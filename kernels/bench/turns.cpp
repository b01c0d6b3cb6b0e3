// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/turns.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <utility>

#include "harness/base/error.h"
#include "kernels/attention.h"
#include "kernels/bench/library_module.h"
#include "kernels/bench/operands.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/few_rows_tiles.h"
#include "kernels/cuda/head_tiles.h"
#include "kernels/float16.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/random.h"

namespace unmask::bench {
namespace {

using cuda::multiplied;
using cuda::multiplier;

// A case on the device: operands, and call i of a backend that takes one of the ways.
struct prepared {
  std::function<void(const backend&, int)> call;
  // Call i by a module, whose operands are the same memory or copies of it.
  std::function<std::function<void(int)>(const library_module&)> by_module;
  std::function<void(const backend&)> clear;  // of what a call adds to or leaves
  std::function<tensor_view(const backend&)> result;
  std::vector<std::shared_ptr<void>> kept;
};

template <class T>
const T& keep(prepared& p, T value) {
  auto held = std::make_shared<T>(std::move(value));
  p.kept.push_back(held);
  return *held;
}

// Copies of weights that overflow L2 together.
std::int64_t copies_of(std::int64_t bytes, bool small) {
  return small ? 1 : std::max<std::int64_t>(1, (std::int64_t{256} << 20) / bytes);
}

struct sizes {
  std::string operation;
  multiplied what;
  std::vector<std::pair<const char*, std::int64_t>> of;
  std::int64_t operator()(const std::string& name) const {
    for (const auto& [key, value] : of) {
      if (name == key) return value;
    }
    throw std::logic_error("no size " + name);
  }
  std::string name() const {
    std::string text = operation;
    for (const auto& [key, value] : of)
      text += "/" + std::string(key) + ":" + std::to_string(value);
    return text + "/bits:16";
  }
};

// y [rows, out] = x [rows, in] W^T, bfloat16; to the residual stream, in float32, where it is narrow.
prepared product(const sizes& s, const backend& on, bool small) {
  prepared p;
  const std::int64_t m = s("rows"), k = s("in"), n = s("out");
  const bool adds = n <= k;
  std::vector<packed_handle> packed;
  const tensor w = filled(reference_backend(), {n, k}, 0.05F, dtype::f32);
  for (std::int64_t i = 0; i < copies_of(2 * n * k, small); ++i) {
    packed.push_back(on.pack(w, weight_format::bf16));
  }
  const auto& weights = keep(p, std::move(packed));
  // The CUDA cores' products take float32 activations, the library's bfloat16 ones: both have the same numbers.
  struct activations {
    tensor_view x, y;
  };
  const std::vector<float> numbers = read(on, filled(on, {m, k}, 1, dtype::bf16));
  const auto make = [&](dtype type) {
    const tensor_view x = keep(p, stored(on, {m, k}, numbers, type));
    return activations{x, keep(p, on.allocate(adds ? dtype::f32 : type, {m, n}))};
  };
  const activations half = make(dtype::bf16), full = make(dtype::f32);
  const auto of = [half, full](const backend& b) {
    return b.activation_type(weight_format::bf16) == dtype::bf16 ? half : full;
  };
  p.result = [of](const backend& b) { return of(b).y; };
  p.clear = [of](const backend& b) { clear(b, of(b).y); };
  p.call = [&weights, of, adds](const backend& b, int i) {
    const activations a = of(b);
    b.run(op::linear{a.x, *weights[static_cast<std::size_t>(i) % weights.size()], {}, a.y, adds});
  };
  return p;
}

// y [rows, hidden] = silu(x Wg^T) (x Wu^T). Types as above.
prepared gate_and_up(const sizes& s, const backend& on, bool small) {
  prepared p;
  const std::int64_t m = s("rows"), k = s("in"), n = s("hidden");
  std::vector<packed_handle> packed;
  const tensor w = filled(reference_backend(), {2 * n, k}, 0.05F, dtype::f32);
  for (std::int64_t i = 0; i < copies_of(4 * n * k, small); ++i) {
    packed.push_back(on.pack(w, weight_format::bf16));
  }
  const auto& weights = keep(p, std::move(packed));
  struct activations {
    tensor_view x, pair, y;
  };
  const std::vector<float> numbers = read(on, filled(on, {m, k}, 1, dtype::bf16));
  const auto make = [&](dtype type) {
    const tensor_view x = keep(p, stored(on, {m, k}, numbers, type));
    const tensor_view pair = keep(p, on.allocate(type, {m, 2 * n}));
    return activations{x, pair, keep(p, on.allocate(type, {m, n}))};
  };
  const activations half = make(dtype::bf16), full = make(dtype::f32);
  const auto of = [half, full](const backend& b) {
    return b.activation_type(weight_format::bf16) == dtype::bf16 ? half : full;
  };
  p.result = [of](const backend& b) { return of(b).y; };
  p.call = [&weights, of](const backend& b, int i) {
    const activations a = of(b);
    b.run(
        op::gated_linear{a.x, *weights[static_cast<std::size_t>(i) % weights.size()], a.pair, a.y});
  };
  return p;
}

// Rows at the end of sequences of as many keys, in pages; every key is seen. A module reads the same pages without
// their table: those of a sequence lie in order.
prepared attention(const sizes& s, const backend& on, bool small) {
  prepared p;
  const std::int64_t sequences = s("sequences"), each = s("rows"), heads = s("heads"), kv = s("kv"),
                     dim = s("dim"), length = s("keys");
  const dense_rows& all = keep(p, rows_at_the_end(on, sequences, each, length));
  const auto pages = [&] {
    return filled(on, {all.pages * sequences, kv_page_size, kv, dim}, 1, dtype::bf16);
  };
  std::vector<std::pair<tensor, tensor>> stored;
  const std::int64_t bytes = 4 * all.pages * sequences * kv_page_size * kv * dim;
  for (std::int64_t i = 0; i < copies_of(bytes, small); ++i) stored.emplace_back(pages(), pages());
  const auto& stores = keep(p, std::move(stored));
  const tensor_view q = keep(p, filled(on, {sequences * each, heads, dim}, 1, dtype::bf16));
  const tensor_view out = keep(p, on.allocate(dtype::bf16, {sequences * each, heads, dim}));
  const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
  p.result = [out](const backend&) { return out; };
  p.clear = [out](const backend& b) { clear(b, out); };
  p.call = [&stores, &all, q, out, scale](const backend& b, int i) {
    const auto& [keys, values] = stores[static_cast<std::size_t>(i) % stores.size()];
    const paged_kv cache{keys, values, all.page_table, static_cast<std::int32_t>(all.pages)};
    b.run(op::attention{all.rows, q, cache, all.seen, scale, out, {}});
  };
  const libraries::attention_shape shape{
      sequences, each, length, heads, kv, dim, all.pages * kv_page_size, scale};
  p.by_module = [&stores, q, out, shape](const library_module& module) {
    return [&stores, &module, plan = module.prepare(shape), q, out](int i) {
      const auto& [keys, values] = stores[static_cast<std::size_t>(i) % stores.size()];
      module.call(plan, libraries::attention_operands{q.data, keys.view().data, values.view().data,
                                                      out.data});
    };
  };
  return p;
}

// The weights of all experts end to end, as a module reads them, and the rows in bfloat16.
struct weights_in_a_row {
  tensor x, gate_up, down;
};
weights_in_a_row in_a_row(const backend& on, const tensor_view& x, const std::vector<float>& up,
                          const std::vector<float>& down, std::int64_t count) {
  const auto repeated = [&](const std::vector<float>& one, std::int64_t rows) {
    const auto columns = static_cast<std::int64_t>(one.size()) / rows;
    tensor all = on.allocate(dtype::bf16, {count, rows, columns});
    std::vector<std::uint16_t> half(one.size());
    std::ranges::transform(one, half.begin(), [](float v) { return to_bf16(v); });
    const std::size_t bytes = half.size() * sizeof(std::uint16_t);
    for (std::int64_t e = 0; e < count; ++e) {
      on.write(static_cast<char*>(all.view().data) + static_cast<std::size_t>(e) * bytes,
               half.data(), bytes);
    }
    return all;
  };
  const std::int64_t width = x.columns();
  weights_in_a_row w{stored(on, {x.rows(), width}, read(on, x), dtype::bf16),
                     repeated(up, static_cast<std::int64_t>(up.size()) / width),
                     repeated(down, width)};
  on.synchronize();
  return w;
}

// The feed-forward of routed experts, every expert drawn alike, added to the residual stream.
prepared experts(const sizes& s, const backend& on, bool) {
  prepared p;
  const std::int64_t rows = s("rows"), width = s("width"), hidden = s("hidden"),
                     count = s("experts"), per_row = s("per_row");
  moe_experts all;
  all.hidden = static_cast<std::int32_t>(hidden);
  const tensor up = filled(reference_backend(), {2 * hidden, width}, 0.05F, dtype::f32),
               down = filled(reference_backend(), {width, hidden}, 0.05F, dtype::f32);
  for (std::int64_t e = 0; e < count; ++e) {
    all.gate_up.push_back(on.pack(up, weight_format::bf16));
    all.down.push_back(on.pack(down, weight_format::bf16));
  }
  const moe_experts& weights = keep(p, std::move(all));
  std::vector<std::int32_t> chosen;
  for (std::int64_t r = 0; r < rows; ++r) {
    // Different ones of a row: from a random one on, in steps without a divisor of their number.
    const philox4 draw = philox4x32(stream_key(11, static_cast<std::uint64_t>(r)), 0, 0);
    for (std::int64_t i = 0; i < per_row; ++i) {
      chosen.push_back(static_cast<std::int32_t>((draw.x[0] + i * (count / 2 + 1)) % count));
    }
  }
  const tensor& flat = keep(p, listed(on, chosen));
  const tensor_view expert = make_view(flat.view().data, dtype::i32, {rows, per_row});
  const tensor_view share = keep(p, filled(on, {rows, per_row}, 0.5F, dtype::f32));
  const tensor_view x =
      keep(p, filled(on, {rows, width}, 1, on.activation_type(weight_format::bf16)));
  const tensor_view y = keep(p, on.allocate(dtype::f32, {rows, width}));
  p.result = [y](const backend&) { return y; };
  p.clear = [y](const backend& b) { clear(b, y); };
  p.call = [&weights, x, expert, share, y](const backend& b, int) {
    b.run(op::moe_feed_forward{x, expert, share, weights, y});
  };
  const libraries::experts_shape shape{rows, width, hidden, count, per_row};
  p.by_module = [&on, up, down, x, expert, share, y, shape](const library_module& module) {
    const auto w = std::make_shared<weights_in_a_row>(in_a_row(
        on, x, read(reference_backend(), up), read(reference_backend(), down), shape.experts));
    const libraries::experts_operands operands{w->x.view().data,    expert.as<std::int32_t>(),
                                               share.as<float>(),   w->gate_up.view().data,
                                               w->down.view().data, y.as<float>()};
    return
        [&module, plan = module.prepare(shape), w, operands](int) { module.call(plan, operands); };
  };
  return p;
}

// Token and probability of every row: products with the head, and what folds their logits. Of two ways the
// probability is compared: the largest logits of a row may be as good as equal.
prepared confidence(const sizes& s, const backend& on, bool small) {
  prepared p;
  const std::int64_t rows = s("rows"), width = s("width"), tokens = s("vocabulary");
  std::vector<packed_handle> packed;
  const tensor w = filled(reference_backend(), {tokens, width}, 0.05F, dtype::f32);
  for (std::int64_t i = 0; i < copies_of(2 * tokens * width, small); ++i) {
    packed.push_back(on.pack(w, weight_format::bf16));
  }
  const auto& weights = keep(p, std::move(packed));
  const std::vector<float> numbers = read(on, filled(on, {rows, width}, 1, dtype::bf16));
  const tensor_view half = keep(p, stored(on, {rows, width}, numbers, dtype::bf16)),
                    full = keep(p, stored(on, {rows, width}, numbers, dtype::f32));
  const auto count = static_cast<std::int32_t>(rows);
  std::vector<std::int32_t> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  const std::int32_t* row = keep(p, listed(on, all)).as<std::int32_t>();
  const std::int32_t* begin = keep(p, listed(on, {0, count})).as<std::int32_t>();
  const tensor_view probability = keep(p, on.allocate(dtype::f32, {rows}));
  confidence_out out;
  out.token = keep(p, on.allocate(dtype::i32, {rows})).as<std::int32_t>();
  out.probability = static_cast<float*>(probability.data);
  p.result = [probability](const backend&) { return probability; };
  p.clear = [probability](const backend& b) { clear(b, probability); };
  p.call = [&weights, half, full, count, begin, row, out](const backend& b, int i) {
    const bool bf16 = b.activation_type(weight_format::bf16) == dtype::bf16;
    b.run(op::confidence{bf16 ? half : full,
                         *weights[static_cast<std::size_t>(i) % weights.size()],
                         {1, count, begin, row, row},
                         {},
                         out});
  };
  return p;
}

prepared prepare(const sizes& s, const backend& on, bool small) {
  if (s.what == multiplied::products) return product(s, on, small);
  if (s.what == multiplied::gated) return gate_and_up(s, on, small);
  if (s.what == multiplied::head) return confidence(s, on, small);
  return s.what == multiplied::attention ? attention(s, on, small) : experts(s, on, small);
}

std::vector<sizes> every_case(bool small) {
  std::vector<sizes> all;
  const auto attends = [&](std::int64_t n, std::int64_t rows, std::int64_t heads, std::int64_t kv,
                           std::int64_t dim, std::int64_t keys) {
    all.push_back({"attention",
                   multiplied::attention,
                   {{"sequences", n},
                    {"rows", rows},
                    {"heads", heads},
                    {"kv", kv},
                    {"dim", dim},
                    {"keys", keys}}});
  };
  const auto multiplies = [&](std::int64_t rows, std::int64_t in, std::int64_t out) {
    all.push_back({"linear", multiplied::products, {{"rows", rows}, {"in", in}, {"out", out}}});
  };
  const auto gates = [&](std::int64_t rows, std::int64_t in, std::int64_t hidden) {
    all.push_back(
        {"gated_linear", multiplied::gated, {{"rows", rows}, {"in", in}, {"hidden", hidden}}});
  };
  const auto routes = [&](std::int64_t rows, std::int64_t width, std::int64_t hidden,
                          std::int64_t count, std::int64_t per_row) {
    all.push_back({"experts",
                   multiplied::experts,
                   {{"rows", rows},
                    {"width", width},
                    {"hidden", hidden},
                    {"experts", count},
                    {"per_row", per_row}}});
  };
  const auto decides = [&](std::int64_t rows, std::int64_t width, std::int64_t vocabulary) {
    all.push_back({"confidence",
                   multiplied::head,
                   {{"rows", rows}, {"width", width}, {"vocabulary", vocabulary}}});
  };
  if (small) {
    attends(2, 3, 4, 2, 128, 70);
    multiplies(9, 64, 40);
    multiplies(9, 512, 248);
    gates(9, 64, 376);
    routes(7, 64, 40, 4, 2);
    decides(3, 64, 300);
    decides(129, 64, 200);
    return all;
  }
  attends(1, 8192, 32, 32, 128, 8192);
  attends(64, 32, 32, 8, 128, 4096);
  attends(1, 32, 32, 8, 128, 4096);
  for (const std::int64_t rows : {1, 192, 1024}) {
    multiplies(rows, 4096, 24576);  // SDAR-8B: gate, up
    multiplies(rows, 12288, 4096);  // down
  }
  for (const std::int64_t rows : {32, 64, 128, 192}) multiplies(rows, 4096, 4096);  // output
  for (const std::int64_t rows : {32, 64, 128}) multiplies(rows, 12288, 4096);
  for (const std::int64_t rows : {32, 192}) gates(rows, 4096, 12288);
  routes(8192, 2048, 512, 256, 8);
  routes(32, 2048, 512, 256, 8);
  decides(320, 4096, 151936);
  decides(512, 4096, 151936);
  return all;
}

constexpr const char* no_wgmma = "this card or this program has no wgmma";
constexpr const char* wrong_before = "wrong at first use";

// A way with the kernels that take it or the module that computes it, or why there is neither.
struct candidate {
  kernel_way way;
  std::optional<cuda::choices> choices;
  const library_module* module = nullptr;
  std::function<void(int)> by_module;  // call i, once the module has planned the case

  bool runs() const { return choices || module != nullptr; }
  void refuse(std::string why) {
    way.why = std::move(why);
    choices.reset();
    module = nullptr;
  }
};

// Gate and up in one kernel, and by the library's product with a kernel that gates.
std::vector<candidate> gated_ways(const turn_settings& s, const sizes& size) {
  candidate own{{name_of(multiplier::newer), true, "", {}}, s.asked},
      library{{name_of(multiplier::library), false, "", {}}, s.asked};
  const bool wrong = s.asked.left_out.contains({multiplied::products, multiplier::library});
  if (!s.wgmma) {
    own.way.why = no_wgmma;
  } else if (wrong || s.asked.left_out.contains({multiplied::gated, multiplier::newer})) {
    own.way.why = wrong_before;
  } else if (size("rows") > cuda::few_most_rows) {
    own.way.why = "it takes up to 192 rows";
  } else if (const bool card = s.device(s.asked).where() == target::cuda;
             !cuda::few_rows_fill(size("hidden"), cuda::multiprocessors_of(card))) {
    own.way.why = "its tiles do not fill this card";
  }
  if (!s.library) {
    library.way.why = s.no_library;
  } else if (wrong) {
    library.way.why = wrong_before;
  }
  for (candidate* c : {&own, &library}) {
    c->choices->own_products = false;
    c->choices->wgmma = true;
    c->choices->newer = c == &own;
    if (!c->way.why.empty()) c->choices.reset();
  }
  std::vector<candidate> all;
  if (s.own) all.push_back(std::move(own));
  if (s.libraries || s.before) all.push_back(std::move(library));
  return all;
}

// A product into the residual stream by the kernel whose blocks share k; nothing: it does not take this size.
std::optional<candidate> way_of_few_rows(const turn_settings& s, const sizes& size) {
  const std::int64_t n = size("out"), k = size("in");
  const bool card = s.device(s.asked).where() == target::cuda;
  if (n > k || size("rows") > cuda::few_most_rows ||
      !cuda::few_parts_fill(n, k, cuda::multiprocessors_of(card))) {
    return std::nullopt;
  }
  candidate c{{name_of(multiplier::newer), true, "", {}}, s.asked};
  if (!s.wgmma) {
    c.way.why = no_wgmma;
  } else if (s.asked.left_out.contains({multiplied::few_rows, multiplier::newer}) ||
             s.asked.left_out.contains({multiplied::products, multiplier::library})) {
    c.way.why = wrong_before;
  }
  c.choices->own_products = false;
  c.choices->wgmma = c.choices->newer = true;
  if (!c.way.why.empty()) c.choices.reset();
  return c;
}

candidate own_way(const turn_settings& s, multiplied what, multiplier how) {
  candidate c{{name_of(how), true, "", {}}, s.asked};
  if (how == multiplier::wgmma && !s.wgmma) {
    c.way.why = no_wgmma;
  } else if (s.asked.left_out.contains({what, how})) {
    c.way.why = wrong_before;
  }
  if (!c.way.why.empty()) {
    c.choices.reset();
    return c;
  }
  c.choices->wgmma = how == multiplier::wgmma;
  c.choices->own_products = what == multiplied::products;
  return c;
}

// The newer kernels of attention, experts or the head, or those before them. Without wgmma the first two have neither.
candidate one_of_two(const turn_settings& s, multiplied what, bool newer) {
  const multiplier how = newer ? multiplier::newer : multiplier::wgmma;
  const bool by_wgmma = what != multiplied::head;
  candidate c{{newer ? name_of(how) : "kernels before", true, "", {}, !newer}, s.asked};
  if (by_wgmma && !s.wgmma) {
    c.way.why = no_wgmma;
  } else if (s.asked.left_out.contains({what, how}) ||
             (what == multiplied::experts &&
              s.asked.left_out.contains({what, multiplier::wgmma}))) {
    c.way.why = wrong_before;
  }
  c.choices->newer = newer;
  if (by_wgmma) c.choices->wgmma = true;
  if (what == multiplied::experts) c.choices->own_products = false;
  if (!c.way.why.empty()) c.choices.reset();
  return c;
}
// The head of so many candidates that one kernel takes product and fold; else nothing. The newer fold behind the
// library's product is timed beside it.
std::optional<candidate> way_of_head_product(const turn_settings& s, const sizes& size) {
  if (size.what != multiplied::head || !cuda::head_tiles_pay(size("rows"))) return std::nullopt;
  candidate c{{name_of(multiplier::newer), true, "", {}}, s.asked};
  if (!s.wgmma) {
    c.way.why = no_wgmma;
  } else if (s.asked.left_out.contains({multiplied::head_product, multiplier::newer}) ||
             s.asked.left_out.contains({multiplied::products, multiplier::library})) {
    c.way.why = wrong_before;
  }
  c.choices->own_products = false;
  c.choices->wgmma = c.choices->newer = true;
  if (!c.way.why.empty()) c.choices.reset();
  return c;
}
std::vector<candidate> ways_of_head(const turn_settings& s, const sizes& size) {
  std::vector<candidate> all;
  std::optional<candidate> product = way_of_head_product(s, size);
  if (s.own) {
    candidate fold = one_of_two(s, multiplied::head, true);
    if (product) {
      all.push_back(std::move(*product));
      fold.way.name = "newer fold";
      if (fold.choices) {
        fold.choices->left_out.insert({multiplied::head_product, multiplier::newer});
      }
    }
    all.push_back(std::move(fold));
  }
  if (s.before) all.push_back(one_of_two(s, multiplied::head, false));
  return all;
}
void add_both(const turn_settings& s, multiplied what, std::vector<candidate>& all) {
  if (s.own) all.push_back(one_of_two(s, what, true));
  if (s.before) all.push_back(one_of_two(s, what, false));
}

std::vector<candidate> ways_of_products(const turn_settings& s, const sizes& size) {
  std::vector<candidate> all;
  if (s.own) {
    if (auto newer = way_of_few_rows(s, size)) all.push_back(std::move(*newer));
    all.push_back(own_way(s, multiplied::products, multiplier::cuda_cores));
  }
  if (!s.libraries && !s.before) return all;
  candidate library{{name_of(multiplier::library), false, "", {}}, s.asked};
  library.choices->own_products = library.choices->newer = false;
  if (!s.library) {
    library.way.why = s.no_library;
  } else if (s.asked.left_out.contains({multiplied::products, multiplier::library})) {
    library.way.why = wrong_before;
  }
  if (!library.way.why.empty()) library.choices.reset();
  all.push_back(std::move(library));
  return all;
}

// The library that is no part of this program. It is opened once; a case may still be too much for it.
candidate way_of_module(const turn_settings& s, multiplied what) {
  candidate c{{library_module::name_of(what), false, "", {}}, std::nullopt};
  c.way.second = true;
  if (s.device(s.asked).where() != target::cuda) {
    c.way.why = s.library ? "it computes on a GPU only" : s.no_library;
    return c;
  }
  static std::map<multiplied, std::unique_ptr<library_module>> opened;
  std::unique_ptr<library_module>& module = opened[what];
  if (module == nullptr) module = std::make_unique<library_module>(what, s.device(s.asked));
  c.way.why = module->why();
  if (c.way.why.empty()) {
    c.module = module.get();
    c.way.version = module->version();
  }
  return c;
}

std::vector<candidate> candidates_of(const turn_settings& s, const sizes& size) {
  const multiplied what = size.what;
  if (what == multiplied::gated) return gated_ways(s, size);
  if (what == multiplied::products) return ways_of_products(s, size);
  if (what == multiplied::head) return ways_of_head(s, size);
  std::vector<candidate> all;
  add_both(s, what, all);
  if (s.own) all.push_back(own_way(s, what, multiplier::mma_sync));
  if (s.libraries) all.push_back(way_of_module(s, what));
  return all;
}

// What the CUDA cores make of the case: without tensor cores and libraries.
std::vector<float> expected(const turn_settings& s, multiplied what, const prepared& p) {
  cuda::choices plain = s.asked;
  plain.own_products = what != multiplied::attention && what != multiplied::experts;
  plain.wgmma = plain.newer = false;
  for (const multiplier how : {multiplier::wgmma, multiplier::mma_sync})
    plain.left_out.insert({what, how});
  const backend& on = s.device(plain);
  if (p.clear) p.clear(on);
  p.call(on, 0);
  on.synchronize();
  return read(on, p.result(on));
}

// A module's calls are on a stream of its own: the operands are there before it begins.
void plan_by_module(const turn_settings& s, const prepared& p, candidate& c) {
  if (c.module == nullptr) return;
  c.by_module = p.by_module(*c.module);
  s.device(s.asked).synchronize();
}
const backend& device_of(const turn_settings& s, const candidate& c) {
  return s.device(c.choices ? *c.choices : s.asked);
}
void call(const turn_settings& s, const prepared& p, const candidate& c, int i) {
  if (c.module != nullptr) return c.by_module(i);
  p.call(device_of(s, c), i);
}
void wait(const turn_settings& s, const candidate& c) {
  if (c.module != nullptr) return c.module->wait();
  device_of(s, c).synchronize();
}

// A module that fails while it is timed is left out from then on. The other ways go on.
template <class Work>
void unless_a_module_fails(candidate& c, const Work& work) {
  if (!c.runs()) return;
  try {
    work(c);
  } catch (const error& problem) {
    if (c.module == nullptr) throw;
    c.refuse(problem.what());
  }
}

void leave_out_the_wrong(const turn_settings& s, const prepared& p, const std::vector<float>& want,
                         std::vector<candidate>& all) {
  for (candidate& c : all) {
    if (!c.runs()) continue;
    try {
      const backend& on = device_of(s, c);
      if (p.clear) p.clear(on);
      plan_by_module(s, p, c);
      call(s, p, c, 0);
      wait(s, c);
      const double difference = relative_difference(read(on, p.result(on)), want);
      if (difference > allowed_difference) {
        c.refuse("wrong: differs from the CUDA cores by " + std::to_string(difference) +
                 " of the largest result");
      }
    } catch (const error& problem) {
      c.refuse(problem.what());
    }
  }
}

}  // namespace

std::vector<std::vector<double>> alternate(std::size_t ways, std::int64_t turns, int calls,
                                           const std::function<void(std::size_t, int)>& call,
                                           const std::function<void(std::size_t)>& wait) {
  std::vector<std::vector<double>> seconds(ways);
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < ways; ++i) {
      const std::size_t way = turn % 2 == 0 ? i : ways - 1 - i;
      const auto begin = std::chrono::steady_clock::now();
      for (int c = 0; c < calls; ++c) call(way, c);
      wait(way);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
      seconds[way].push_back(taken.count() / calls);
    }
  }
  return seconds;
}

void time_in_turn(const turn_settings& s, const std::function<void(const kernel_case&)>& tell) {
  std::regex chosen;
  try {
    chosen = std::regex(s.cases);
  } catch (const std::regex_error&) {
    throw usage_error("--cases " + s.cases + " is no regular expression");
  }
  bool any = false;
  for (const sizes& size : every_case(s.small)) {
    if (!std::regex_search(size.name(), chosen)) continue;
    any = true;
    std::vector<candidate> all = candidates_of(s, size);
    const prepared p = prepare(size, s.device(s.asked), s.small);
    leave_out_the_wrong(s, p, expected(s, size.what, p), all);
    std::vector<candidate*> timed;
    for (candidate& c : all) {
      if (c.runs()) timed.push_back(&c);
    }
    const auto call_way = [&](std::size_t way, int i) {
      unless_a_module_fails(*timed[way], [&](const candidate& c) { call(s, p, c, i); });
    };
    const auto wait_way = [&](std::size_t way) {
      unless_a_module_fails(*timed[way], [&](const candidate& c) { wait(s, c); });
    };
    const int calls = s.small ? 1 : 20;
    if (!s.small) (void)alternate(timed.size(), 2, 3, call_way, wait_way);  // tuning, scratch
    s.begin();
    const auto seconds = alternate(timed.size(), s.turns, calls, call_way, wait_way);
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (timed[i]->runs()) timed[i]->way.seconds = seconds[i];
    }
    kernel_case done{size.name(), {}};
    for (candidate& c : all) done.ways.push_back(std::move(c.way));
    tell(done);
  }
  if (!any) throw usage_error("no case of bench --kernels has " + s.cases + " in its name");
}

}  // namespace unmask::bench
