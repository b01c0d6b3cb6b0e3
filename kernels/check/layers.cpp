// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of a transformer's layer and of its head (many candidates: head.cpp).
#include <numeric>
#include <span>

#include "kernels/check/checker.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/few_rows_tiles.h"
#include "kernels/cuda/moe_tiles.h"
#include "kernels/float16.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/rows.h"

namespace unmask::device_checks {
namespace {

std::string name_of(weight_format format) {
  return format == weight_format::f32 ? "f32 " : format == weight_format::bf16 ? "bf16 " : "int8 ";
}

// A weight packed for both.
struct packed_pair {
  packed_handle here, there;
  const packed_matrix& of(const side& s) const { return s.is_device() ? *there : *here; }
};
packed_pair pack(checker& c, const mirrored& weight, weight_format format) {
  return {c.reference().pack(weight.here, format), c.device().pack(weight.here, format)};
}

void rms_norm(checker& c) {
  const std::int64_t rows = c.size(13, 517), width = c.size(72, 4096);
  const mirrored x = c.reals({rows, width}), weight = c.reals({width});
  const mirrored y = c.poisoned({rows, width});
  c.both([&](const side& s) { s.with().run(op::rms_norm{s(x), s(weight), 1e-6F, s(y)}); });
  c.compare("rms_norm", c.text({rows, width}), y, 1e-5, 1e-6);
}

void linear(checker& c, weight_format format) {
  const bool exact = format == weight_format::f32;
  // The CUDA backend's int8 levels, sums and scales are the reference's: no bit may differ. The
  // CPU backend's levels may be neighbours of those: 1/127 of the largest input times a weight.
  const bool bits = format == weight_format::int8 && c.device().where() != target::cpu;
  for (const std::int64_t rows : {std::int64_t{1}, c.size(9, 33), c.size(17, 200)}) {
    const std::int64_t in = c.size(72, 1024), out = c.size(40, 768);
    const mirrored x = c.reals({rows, in}), weight = c.reals({out, in}, 0.1F),
                   bias = c.reals({out});
    const packed_pair w = pack(c, weight, format);
    const mirrored y = c.poisoned({rows, out});
    c.both([&](const side& s) { s.with().run(op::linear{s(x), w.of(s), s(bias), s(y), false}); });
    // Both have the rounded weights; a GPU's bf16 products round the inputs too, to 8 bits: by 1.7e-3
    // (the root of the mean square). So errs each of `in` terms of size 0.1, and their sum by
    // 1.7e-4 sqrt(in). Eight of these deviations are allowed.
    const double absolute = (exact ? 1e-5 : 1.36e-2) * 0.1 * std::sqrt(static_cast<double>(in)) +
                            (format == weight_format::int8 ? 2e-2 : 1e-5);
    c.compare("linear", name_of(format) + c.text({rows, out, in}), y,
              bits    ? 0
              : exact ? 1e-4
                      : 1e-2,
              bits ? 1e-30 : absolute);
  }
}

// A feed-forward with its norm: what is stored between the operations is of activation_type. Run
// as it is, recorded (a CUDA graph), and repeated on other rows; each time against the reference.
void recording(checker& c, weight_format format) {
  const backend &device = c.device(), &reference = c.reference();
  const std::int64_t width = c.size(64, 512), hidden = c.size(48, 1024);
  const auto rows = device.graph_bucket(static_cast<std::int32_t>(c.size(11, 120)));
  if (rows == 0) return c.report("recording", "this backend records nothing", 0);
  const dtype type = device.activation_type(format);
  mirrored x = c.reals({rows, width});
  const mirrored norm = c.reals({width});
  const packed_pair gate_up = pack(c, c.reals({2 * hidden, width}, 0.1F), format);
  const packed_pair down = pack(c, c.reals({width, hidden}, 0.1F), format);
  mirrored bias = c.reals({2 * hidden});  // of the result's type
  if (type == dtype::bf16) {
    std::vector<std::uint16_t> half(static_cast<std::size_t>(2 * hidden));
    for (std::size_t i = 0; i < half.size(); ++i) half[i] = to_bf16(bias.here.as<float>()[i]);
    bias.there = device.allocate(type, {2 * hidden});
    device.write(bias.there.view().data, half.data(), bias.there.bytes());
  }
  const tensor normed = device.allocate(type, {rows, width});
  const tensor pair = device.allocate(type, {rows, 2 * hidden});
  const tensor gated = device.allocate(type, {rows, hidden});
  const mirrored y = c.poisoned({rows, width});
  const auto chain = [&] {
    device.run(op::rms_norm{x.there, norm.there, 1e-6F, normed});
    device.run(op::linear{normed, *gate_up.there, bias.there, pair, false});
    device.run(op::silu_mul{pair, gated});
    device.run(op::linear{gated, *down.there, {}, y.there, false});
  };
  const tensor wide_normed = reference.allocate(dtype::f32, {rows, width}),
               wide_pair = reference.allocate(dtype::f32, {rows, 2 * hidden}),
               wide_gated = reference.allocate(dtype::f32, {rows, hidden});
  const auto expect = [&](const char* how) {
    reference.run(op::rms_norm{x.here, norm.here, 1e-6F, wide_normed});
    reference.run(op::linear{wide_normed, *gate_up.here, bias.here, wide_pair, false});
    reference.run(op::silu_mul{wide_pair, wide_gated});
    reference.run(op::linear{wide_gated, *down.here, {}, y.here, false});
    // Five roundings to bfloat16; with int8, inputs that differ in their last bits may have
    // neighbouring levels.
    c.compare_typical("recording", name_of(format) + how, y,
                      format == weight_format::f32 ? 1e-4 : 8e-2);
  };
  chain();
  expect("as it is");
  const auto work = device.capture(chain);
  for (const char* how : {"repeated", "repeated again"}) {
    device.synchronize();
    std::normal_distribution<float> normal(0.0F, 1.0F);
    for (std::int64_t i = 0; i < x.here.view().elements(); ++i) {
      x.here.as<float>()[i] = normal(c.random());
    }
    c.send(x);
    device.replay(*work);
    expect(how);
  }
}

// Of all pairs, and of a part of them with frequencies of their own, as the columns of a picture's patches turn.
void rope_of(checker& c, std::int64_t dim, std::int32_t first, std::int32_t last,
             std::int32_t restart) {
  const std::int64_t rows = c.size(11, 300), heads = c.size(3, 32);
  const mirrored x = c.reals({rows, heads, dim}), norm = c.reals({dim});
  std::vector<std::int32_t> at(static_cast<std::size_t>(rows));
  for (std::int32_t& p : at) p = c.below(c.size(500, 30000));
  const mirrored position = c.ints(at);
  rope_params rope{static_cast<std::int32_t>(dim), 500000.0F};
  rope.first_pair = first;
  rope.last_pair = last;
  rope.restart = restart;
  c.both([&](const side& s) {
    s.with().run(op::head_norm_rope{s(x), s(norm), 1e-6F, rope, s.at(position)});
  });
  // A float32 angle of p radians is known to about p 2^-24.
  const std::string part =
      last > 0 ? ", pairs " + std::to_string(first) + " to " + std::to_string(last) : "";
  c.compare("head_norm_rope", c.text({rows, heads, dim}) + part, x, 1e-4,
            c.size(500, 30000) * 4e-7 + 1e-5);
}
void rope(checker& c) {
  rope_of(c, c.size(64, 128), 0, 0, 0);
  rope_of(c, 128, 40, 64, 0);
  rope_of(c, 80, 20, 40, 40);
}

void silu(checker& c) {
  const std::int64_t rows = c.size(9, 200), width = c.size(36, 12288);
  const mirrored pair = c.reals({rows, 2 * width}, 3.0F), y = c.poisoned({rows, width});
  c.both([&](const side& s) { s.with().run(op::silu_mul{s(pair), s(y)}); });
  c.compare("silu_mul", c.text({rows, width}), y, 1e-5, 1e-6);
}

// Columns of gate and up with which every multiprocessor has a tile, the last of them not a full one; of an
// emulated GPU, four.
std::int64_t filling_columns(const backend& device) {
  return std::int64_t{cuda::few_columns} *
             cuda::multiprocessors_of(device.where() == target::cuda) -
         8;
}

// x and the result as models have them, of activation_type.
void gated_linear_of(checker& c, std::int64_t rows, std::int64_t width) {
  const backend &device = c.device(), &reference = c.reference();
  const std::int64_t hidden = filling_columns(device);
  const dtype type = device.activation_type(weight_format::bf16);
  const mirrored x = c.reals({rows, width});
  const packed_pair w = pack(c, c.reals({2 * hidden, width}, 0.1F), weight_format::bf16);
  const tensor pair = device.allocate(type, {rows, 2 * hidden}),
               gated = device.allocate(type, {rows, hidden}),
               wide_pair = reference.allocate(dtype::f32, {rows, 2 * hidden}),
               want = reference.allocate(dtype::f32, {rows, hidden});
  std::vector<std::uint16_t> poison(gated.bytes() / sizeof(std::uint16_t), 0xFFFF);
  device.write(gated.view().data, poison.data(), gated.bytes());
  device.run(op::gated_linear{x.there, *w.there, pair, gated});
  device.synchronize();
  reference.run(op::gated_linear{x.here, *w.here, wide_pair, want});
  std::vector<float> got(static_cast<std::size_t>(rows * hidden));
  if (type == dtype::f32) {
    device.read(got.data(), gated.view().data, gated.bytes());
  } else {
    device.read(poison.data(), gated.view().data, gated.bytes());
    std::ranges::transform(poison, got.begin(), [](std::uint16_t h) { return from_bf16(h); });
  }
  double squares = 0, worst = 0;
  for (const float v : std::span(want.as<float>(), got.size())) squares += double{v} * v;
  const double typical = std::sqrt(squares / static_cast<double>(got.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    // Rows, gate, up and the result are rounded to bfloat16.
    const double v = want.as<float>()[i],
                 error = std::fabs(got[i] - v) / (8e-2 * typical + 2e-2 * std::fabs(v));
    worst = error == error ? std::max(worst, error) : std::numeric_limits<double>::infinity();
  }
  c.report("gated_linear", "bf16 " + c.text({rows, hidden, width}), worst);
}

// Few rows in one launch where a newer kernel may be taken: tiles of 64 and 192 rows, not all of them there,
// and a k that ends within a step and has more of them than stages, so that each is filled again.
void gated_linear(checker& c) {
  const auto refills = [](int tile_rows) {
    return (cuda::few_stages(tile_rows) + 1) * cuda::few_depth + 24;
  };
  gated_linear_of(c, c.size(9, 32), c.size(refills(64), 1096));
  gated_linear_of(c, c.size(130, 192), c.size(refills(192), 4096));
}

// Gate and up of the 8B checkpoints, 192 rows.
std::function<void()> gates_few_rows(const backend& device) {
  constexpr std::int64_t rows = 192, hidden = 12288, width = 4096;
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(2 * hidden * width));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = to_bf16(static_cast<float>(i * 2654435761U % 1024) / 512.0F - 1.0F);
  }
  struct operands {
    packed_handle weight;
    tensor x, pair, out;
  };
  const auto all = std::make_shared<operands>(
      device.pack(make_view(numbers.data(), dtype::bf16, {2 * hidden, width}), weight_format::bf16),
      device.allocate(dtype::bf16, {rows, width}), device.allocate(dtype::bf16, {rows, 2 * hidden}),
      device.allocate(dtype::bf16, {rows, hidden}));
  device.write(all->x.view().data, numbers.data(), all->x.bytes());
  return [&device, all] {
    device.run(op::gated_linear{all->x.view(), *all->weight, all->pair.view(), all->out.view()});
  };
}
const register_device_race raced_gates("gate and up", cuda::multiplied::gated, gates_few_rows);

void embed(checker& c) {
  const std::int64_t tokens = c.size(61, 5000), width = c.size(40, 4096), rows = c.size(17, 400);
  const mirrored table = c.reals({tokens, width}), y = c.poisoned({rows, width});
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
  for (std::int32_t& id : ids) id = c.below(tokens);
  const mirrored token = c.ints(ids);
  c.both([&](const side& s) { s.with().run(op::embed{s.at(token), s(table), s(y)}); });
  c.same("embed", c.text({rows, width}), y);
}

void confidence(checker& c, weight_format format) {
  const std::int64_t rows = c.size(21, 128), width = c.size(40, 512), tokens = c.size(301, 16003);
  const mirrored x = c.reals({rows, width});
  const packed_pair head = pack(c, c.reals({tokens, width}, 0.2F), format);
  std::vector<std::int32_t> chosen;
  for (std::int32_t r = 0; r < rows; r += 2) chosen.push_back(r);
  const auto count = static_cast<std::int32_t>(chosen.size());
  const mirrored row = c.ints(chosen), begin = c.ints({0, count});
  const mirrored p = c.poisoned({count}), token = c.poisoned(dtype::i32, {count});
  c.both([&](const side& s) {
    const candidate_set candidates{1, count, s.at(begin), s.at(row), s.at(row)};
    confidence_out o;
    o.token = s.at(token);
    o.probability = s.at<float>(p);
    s.with().run(op::confidence{s(x), head.of(s), candidates, {}, o});
  });
  const std::string what = name_of(format) + c.text({count, tokens, width});
  const bool exact = format == weight_format::f32;
  c.compare("confidence", what, p, exact ? 1e-3 : 0.2, exact ? 1e-6 : 2e-2);
  if (exact) c.same("confidence", what + " arg-max", token);
}

void gather(checker& c) {
  const std::int64_t rows = c.size(19, 700), width = c.size(33, 3000);
  const mirrored from = c.reals({rows, width});
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, c.random());
  const mirrored index = c.ints(order);
  const mirrored there = c.poisoned({rows, width}), back = c.poisoned({rows, width});
  c.both([&](const side& s) {
    s.with().run(op::gather_rows{s(from), s.at(index), s(there)});
    s.with().run(op::scatter_rows{s(there), s.at(index), s(back)});
  });
  c.same("gather_rows", c.text({rows, width}), there);
  c.same("scatter_rows", c.text({rows, width}), back);
}

// bf16 experts take the tensor cores on a GPU. Routing is compared by itself: a near-tie that goes
// to another expert would drown what the experts do, so both sides run on the reference's choice.
struct moe_shape {
  std::int64_t rows;
  std::int32_t experts;
  std::int64_t width, hidden;
};
void moe_of(checker& c, weight_format format, const moe_shape& of) {
  const std::int64_t rows = of.rows, width = of.width, hidden = of.hidden;
  const std::int32_t experts = of.experts, each = 2;
  // Logits, gate and up as large in any width: what is rounded is told apart from what is wrong.
  const float unit = 1 / std::sqrt(static_cast<float>(width));
  const mirrored x = c.reals({rows, width}), router = c.reals({experts, width}, 2.4F * unit);
  std::vector<packed_pair> gate_up, down;
  for (int e = 0; e < experts; ++e) {
    gate_up.push_back(pack(c, c.reals({2 * hidden, width}, 1.6F * unit), format));
    down.push_back(pack(c, c.reals({width, hidden}, 0.2F), format));
  }
  const mirrored expert = c.poisoned(dtype::i32, {rows, each}), weight = c.poisoned({rows, each});
  const mirrored y = c.reals({rows, width});  // experts are added to it
  c.both([&](const side& s) {
    moe_router route;
    route.experts = experts;
    route.experts_per_token = each;
    route.groups = experts / 2;
    route.groups_kept = experts / 4;
    route.weight = s(router);
    s.with().run(op::moe_route{s(x), route, s(expert), s(weight)});
  });
  if (format == weight_format::f32) c.same("moe_route", "experts", expert);
  c.compare("moe_route", name_of(format) + "weights", weight, 1e-2, 1e-3);
  c.send(expert);
  c.send(weight);
  if (format == weight_format::f32) {
    const mirrored held = c.poisoned(dtype::i32, {rows, each});
    c.both([&](const side& s) {
      s.with().run(op::moe_held{s(expert), experts / 4, experts / 2, s(held)});
    });
    c.same("moe_held", c.text({rows, each}), held);
  }
  c.both([&](const side& s) {
    moe_experts all;
    all.hidden = static_cast<std::int32_t>(hidden);
    for (int e = 0; e < experts; ++e) {
      const auto i = static_cast<std::size_t>(e);
      all.gate_up.push_back(s.is_device() ? gate_up[i].there : gate_up[i].here);
      all.down.push_back(s.is_device() ? down[i].there : down[i].here);
    }
    s.with().run(op::moe_feed_forward{s(x), s(expert), s(weight), all, s(y)});
  });
  // Each expert's result is rounded to bfloat16, so a large one is off by more than a typical one.
  c.compare_typical("moe_feed_forward", name_of(format) + c.text({rows, width, hidden}), y,
                    format == weight_format::f32 ? 1e-3 : 8e-2,
                    format == weight_format::bf16 ? 2e-2 : 0);
}

void moe(checker& c, weight_format format) {
  const std::int64_t width = c.size(64, 512), hidden = c.size(32, 256);
  moe_of(c, format, {c.size(13, 200), 8, width, hidden});
  if (format != weight_format::bf16) return;
  // Enough rows for each expert that wgmma multiplies where it can. Four tiles of rows.
  const std::int64_t rows = c.size(200, 800);
  moe_of(c, format, {rows, 4, width, hidden});
  // And so many columns, of down or of gate and up, that blocks compute several tiles in turn.
  const std::int64_t across =
      cuda::multiprocessors_of(c.device().where() == target::cuda) * 5 / 16 + 1;
  moe_of(c, format, {rows, 4, cuda::wide_columns * across - 8, 8});
  moe_of(c, format, {rows, 4, 8, cuda::wide_columns / 2 * across - 8});
}

// 16 experts of LLaDA2.0-mini with 256 assignments each.
std::function<void()> many_assignments(const backend& device) {
  constexpr std::int64_t rows = 1024, width = 2048, hidden = 512;
  constexpr std::int32_t count = 16, each = 4;
  struct operands {
    moe_experts experts;
    tensor x, expert, weight, y;
  };
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(2 * hidden * width));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = to_bf16(static_cast<float>(i * 2654435761U % 1024) / 512.0F - 1.0F);
  }
  const auto packed = [&](std::int64_t out, std::int64_t in) {
    return device.pack(make_view(numbers.data(), dtype::bf16, {out, in}), weight_format::bf16);
  };
  const auto all = std::make_shared<operands>();
  all->experts.hidden = static_cast<std::int32_t>(hidden);
  for (std::int32_t e = 0; e < count; ++e) {
    all->experts.gate_up.push_back(packed(2 * hidden, width));
    all->experts.down.push_back(packed(width, hidden));
  }
  all->x = device.allocate(dtype::bf16, {rows, width});
  all->expert = device.allocate(dtype::i32, {rows, each});
  all->weight = device.allocate(dtype::f32, {rows, each});
  all->y = device.allocate(dtype::f32, {rows, width});
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(rows * each));
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<std::int32_t>(i) % count;
  const std::vector<float> shares(chosen.size(), 0.25F);
  device.write(all->x.view().data, numbers.data(), all->x.bytes());
  device.write(all->expert.view().data, chosen.data(), all->expert.bytes());
  device.write(all->weight.view().data, shares.data(), all->weight.bytes());
  return [&device, all] {
    device.run(op::moe_feed_forward{all->x.view(), all->expert.view(), all->weight.view(),
                                    all->experts, all->y.view()});
  };
}
const register_device_race raced_experts("experts", cuda::multiplied::experts, many_assignments);

const bool formats_registered = [] {
  for (const weight_format f : {weight_format::f32, weight_format::bf16, weight_format::int8}) {
    const auto add = [f](const char* what, void (*cases)(checker&, weight_format),
                         std::optional<cuda::multiplied> by,
                         std::optional<cuda::multiplied> folded_by = std::nullopt) {
      register_device_check((name_of(f) + what).c_str(), [f, cases](checker& c) { cases(c, f); },
                            by, folded_by);
    };
    add("moe", moe,
        f == weight_format::bf16 ? std::optional(cuda::multiplied::experts) : std::nullopt);
    add("linear", linear, cuda::products_of(f));
    add("confidence", confidence, cuda::products_of(f), cuda::multiplied::head);
    add("recording", recording, cuda::products_of(f));
  }
  return true;
}();
const register_device_check of_gates("bf16 gated_linear", gated_linear,
                                     cuda::products_of(weight_format::bf16),
                                     cuda::multiplied::gated);
const register_device_check of_norm("rms_norm", rms_norm), of_rope("head_norm_rope", rope),
    of_silu("silu_mul", silu), of_embed("embed", embed), of_gather("gather_rows", gather);

}  // namespace
}  // namespace unmask::device_checks
