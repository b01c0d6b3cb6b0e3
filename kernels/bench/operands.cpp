// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/operands.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/float16.h"
#include "kernels/random.h"

namespace unmask::bench {

tensor stored(const backend& on, std::initializer_list<std::int64_t> shape,
              const std::vector<float>& values, dtype type) {
  tensor t = on.allocate(type, shape);
  if (type == dtype::f32) {
    on.write(t.view().data, values.data(), t.bytes());
    return t;
  }
  std::vector<std::uint16_t> half(values.size());
  std::ranges::transform(values, half.begin(), [](float v) { return to_bf16(v); });
  on.write(t.view().data, half.data(), t.bytes());
  return t;
}

std::vector<float> drawn(std::int64_t count, float scale) {
  static std::uint64_t draws = 0;
  const std::uint64_t key = stream_key(7, ++draws);
  std::vector<float> values(static_cast<std::size_t>(count));
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; i += 4) {
    const philox4 r = philox4x32(key, 0, static_cast<std::uint64_t>(i));
    for (std::int64_t j = i; j < std::min(i + 4, count); ++j) {
      values[static_cast<std::size_t>(j)] =
          scale * (static_cast<float>(r.x[j - i]) * (2.0F / 4294967296.0F) - 1.0F);
    }
  }
  return values;
}

tensor filled(const backend& on, std::initializer_list<std::int64_t> shape, float scale,
              dtype type) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return stored(on, shape, drawn(count, scale), type);
}

tensor listed(const backend& on, const std::vector<std::int32_t>& values) {
  tensor t = on.allocate(dtype::i32, {static_cast<std::int64_t>(values.size())});
  on.write(t.view().data, values.data(), values.size() * sizeof(std::int32_t));
  return t;
}

std::vector<float> read(const backend& on, const tensor_view& t) {
  const auto count = static_cast<std::size_t>(t.elements());
  std::vector<float> values(count);
  if (t.type == dtype::f32) {
    on.read(values.data(), t.data, count * sizeof(float));
    return values;
  }
  std::vector<std::uint16_t> half(count);
  on.read(half.data(), t.data, count * sizeof(std::uint16_t));
  std::ranges::transform(half, values.begin(), [](std::uint16_t h) { return from_bf16(h); });
  return values;
}

void clear(const backend& on, const tensor_view& t) {
  on.clear(t.data, static_cast<std::size_t>(t.elements()) * size_of(t.type));
}

dense_rows rows_at_the_end(const backend& on, std::int64_t sequences, std::int64_t rows,
                           std::int64_t keys) {
  dense_rows d;
  d.pages = (keys + kv_page_size - 1) / kv_page_size;
  std::vector<std::int32_t> table(static_cast<std::size_t>(d.pages * sequences)), begin{0}, owner,
      place;
  std::iota(table.begin(), table.end(), 0);
  for (std::int64_t s = 0; s < sequences; ++s) {
    for (std::int64_t at = keys - rows; at < keys; ++at) {
      owner.push_back(static_cast<std::int32_t>(s));
      place.push_back(static_cast<std::int32_t>(at));
    }
    begin.push_back(static_cast<std::int32_t>(place.size()));
  }
  const std::vector<std::int32_t> lengths(static_cast<std::size_t>(sequences),
                                          static_cast<std::int32_t>(keys));
  const auto array = [&](const std::vector<std::int32_t>& v) {
    d.kept.push_back(listed(on, v));
    return d.kept.back().as<std::int32_t>();
  };
  d.rows = {static_cast<std::int32_t>(sequences),
            static_cast<std::int32_t>(place.size()),
            array(begin),
            array(owner),
            array(place),
            nullptr};
  d.seen.kv_length = array(lengths);
  d.page_table = array(table);
  return d;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return 1;
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return largest > 0 ? difference / largest : difference;
}

}  // namespace unmask::bench
