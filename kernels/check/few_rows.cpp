// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of products of few rows into the residual stream, and their race.
#include "kernels/check/checker.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/few_rows_tiles.h"
#include "kernels/float16.h"
#include "kernels/model_core.h"

namespace unmask::device_checks {
namespace {

// One matrix, and few rows and more of them: tiles of 64 and of 192.
void added_products_of(checker& c, std::int64_t out, std::int64_t in) {
  const mirrored weight = c.reals({out, in}, 0.1F);
  const packed_handle here = c.reference().pack(weight.here, weight_format::bf16),
                      there = c.device().pack(weight.here, weight_format::bf16);
  for (const std::int64_t rows : {c.size(1, 32), c.size(65, 192)}) {
    const mirrored x = c.reals({rows, in}), y = c.reals({rows, out});
    c.both([&](const side& s) {
      s.with().run(op::linear{s(x), s.is_device() ? *there : *here, {}, s(y), true});
    });
    // As of the other products (layers.cpp): inputs are rounded to bfloat16.
    c.compare("linear", "bf16 of few rows " + c.text({rows, out, in}), y, 1e-2,
              1.36e-2 * 0.1 * std::sqrt(static_cast<double>(in)) + 1e-5);
  }
}

// k in four and in eight parts, where a newer kernel may be taken: as many columns as fill the card, the last tile
// is no whole one, and k ends within a step. A part has more steps than stages, so that each is filled again.
void added_products(checker& c) {
  const std::int64_t places = cuda::multiprocessors_of(c.device().where() == target::cuda);
  // The fewest tiles that take 85 % of the places, and at least `tiles`.
  const auto columns = [&](int parts, std::int64_t tiles) {
    tiles = std::max((places * 17 + 20 * parts - 1) / (20 * parts), tiles);
    return tiles * cuda::few_parts_columns(parts) - 8;
  };
  const auto refills = [](int parts) -> std::int64_t {
    return parts * (cuda::few_parts_stages(64, parts) + 1) * cuda::few_depth - 40;
  };
  // Less than half as many columns would make eight parts of k.
  const std::int64_t short_k = c.size(refills(4), 4096);
  added_products_of(c, columns(4, short_k / 2 / cuda::few_parts_columns(4) + 1), short_k);
  const std::int64_t of_long_k = columns(8, 1);
  added_products_of(c, of_long_k, std::max(refills(8), 2 * of_long_k + 24));
}

// What a layer of the 8B checkpoints adds to its residual stream, 192 rows: output, then down.
std::function<void()> added_by_a_layer(const backend& device) {
  constexpr std::int64_t rows = 192, width = 4096, hidden = 12288;
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(width * hidden));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = to_bf16(static_cast<float>(i * 2654435761U % 1024) / 512.0F - 1.0F);
  }
  struct operands {
    packed_handle output, down;
    tensor mixed, gated, stream;
  };
  const auto packed = [&](std::int64_t in) {
    return device.pack(make_view(numbers.data(), dtype::bf16, {width, in}), weight_format::bf16);
  };
  const auto all = std::make_shared<operands>(
      packed(width), packed(hidden), device.allocate(dtype::bf16, {rows, width}),
      device.allocate(dtype::bf16, {rows, hidden}), device.allocate(dtype::f32, {rows, width}));
  device.write(all->mixed.view().data, numbers.data(), all->mixed.bytes());
  device.write(all->gated.view().data, numbers.data(), all->gated.bytes());
  return [&device, all] {
    device.run(op::linear{all->mixed.view(), *all->output, {}, all->stream.view(), true});
    device.run(op::linear{all->gated.view(), *all->down, {}, all->stream.view(), true});
  };
}

const register_device_check of_few_rows("bf16 linear of few rows", added_products,
                                        cuda::products_of(weight_format::bf16),
                                        cuda::multiplied::few_rows);
const register_device_race raced_products("products of few rows", cuda::multiplied::few_rows,
                                          added_by_a_layer);

}  // namespace
}  // namespace unmask::device_checks
