// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <span>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/parallel.h"
#include "harness/model/share.h"
#include "kernels/float16.h"
#include "kernels/random.h"

namespace unmask {
namespace {

constexpr double deviation = 0.02;
constexpr std::size_t levels = 1 << 16;
constexpr std::size_t draws_per_call = 8;  // 16-bit draws in one Philox block

// The standard normal's quantile by bisection on erfc: slow and exact enough, 65,536 times.
double normal_quantile(double p) {
  double low = -9.0;
  double high = 9.0;
  for (int i = 0; i < 64; ++i) {
    const double middle = 0.5 * (low + high);
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

// Finite values below 65,520 in magnitude, rounded to nearest even.
std::uint16_t to_f16(float value) {
  const auto sign = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 31 << 15);
  const float size = std::fabs(value);
  if (size < 0x1p-14F) {  // subnormal: units of 2^-24
    return sign | static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24F));
  }
  const auto bits = std::bit_cast<std::uint32_t>(size);
  const std::uint32_t rounded = bits + 0xFFFU + ((bits >> 13) & 1U);
  return sign | static_cast<std::uint16_t>((rounded >> 13) - (112U << 10));
}

// Returns the lower half of the quantiles; the upper half are their negatives. Computed once in a
// process: it takes longer than filling the small models of the tests.
const std::vector<float>& lower_quantiles() {
  static const std::vector<float> lower = [] {
    std::vector<float> x(levels / 2);
    for_each_parallel(x.size(), [&](std::size_t i) {
      x[i] = static_cast<float>(deviation * normal_quantile((static_cast<double>(i) + 0.5) /
                                                            static_cast<double>(levels)));
    });
    return x;
  }();
  return lower;
}

// A draw is one of 65,536 equally likely quantiles, already in the type of the weights. One table
// look-up per value: an 8B model fills in seconds instead of minutes, and no value depends on how
// the machine computes a logarithm.
template <class Element>
std::vector<Element> quantile_table(Element (*convert)(float)) {
  const std::vector<float>& lower = lower_quantiles();
  std::vector<Element> table(levels);
  for (std::size_t i = 0; i < lower.size(); ++i) {
    table[i] = convert(lower[i]);
    table[levels - 1 - i] = convert(-lower[i]);
  }
  return table;
}

std::uint64_t hash_name(std::string_view name) {  // FNV-1a
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return hash;
}

// Elements [first, first + count) of a tensor's stream.
template <class Element>
void fill(Element* out, std::int64_t first, std::int64_t count, std::uint64_t key,
          const std::vector<Element>& table) {
  const std::int64_t end = first + count;
  for (std::int64_t i = first; i < end;) {
    const auto at = static_cast<std::uint64_t>(i);
    const philox4 r = philox4x32(key, 0, at / draws_per_call);
    for (std::size_t j = at % draws_per_call; j < draws_per_call && i < end; ++j, ++i) {
      *out++ = table[(r.x[j / 2] >> (16 * (j % 2))) & 0xFFFFU];
    }
  }
}

// What a share holds of a tensor of `width` columns.
template <class Element>
void fill(Element* out, const tensor_cut& held, std::int64_t width, std::uint64_t key,
          const std::vector<Element>& table) {
  constexpr std::int64_t part = 1 << 20;  // elements of one task; a multiple of draws_per_call
  const std::int64_t columns = held.columns.size(), first = held.rows.first * width;
  if (columns == width) {  // one stretch
    const std::int64_t count = held.rows.size() * width;
    for_each_parallel(static_cast<std::size_t>((count + part - 1) / part), [&](std::size_t p) {
      const std::int64_t begin = static_cast<std::int64_t>(p) * part;
      fill(out + begin, first + begin, std::min(part, count - begin), key, table);
    });
    return;
  }
  for_each_parallel(static_cast<std::size_t>(held.rows.size()), [&](std::size_t r) {
    const auto row = static_cast<std::int64_t>(r);
    fill(out + row * columns, first + row * width + held.columns.first, columns, key, table);
  });
}

template <class Element>
class generator {
 public:
  generator(const model_config& config, std::uint64_t seed, dtype type, const model_share& share,
            Element (*convert)(float))
      : config_(config),
        share_(share),
        seed_(seed),
        type_(type),
        table_(quantile_table(convert)),
        one_(convert(1.0F)) {}

  model_weights make() {
    model_weights w = collect_weights(
        config_, [&](const weight_name& name, std::initializer_list<std::int64_t> shape) {
          const std::span<const std::int64_t> sizes(shape.begin(), shape.size());
          const tensor_cut held = cut_of(name, sizes, config_, share_);
          const tensor_view view = shape.size() == 1
                                       ? allocate({held.rows.size()})
                                       : allocate({held.rows.size(), held.columns.size()});
          if (name.what.ends_with("_norm")) {
            std::fill_n(static_cast<Element*>(view.data), view.elements(), one_);
          } else {
            const std::string at =
                name.layer < 0 ? "" : "layers." + std::to_string(name.layer) + "." + name.part;
            fill(static_cast<Element*>(view.data), held, sizes.size() == 1 ? 1 : sizes[1],
                 stream_key(seed_, hash_name(at + name.what)), table_);
          }
          return view;
        });
    w.synthetic = true;
    w.held = share_;
    w.memory = std::move(memory_);
    w.bytes = bytes_;
    return w;
  }

 private:
  tensor_view allocate(std::initializer_list<std::int64_t> shape) {
    tensor_view view = make_view(nullptr, type_, shape);
    const std::size_t bytes = static_cast<std::size_t>(view.elements()) * sizeof(Element);
    constexpr std::align_val_t alignment{64};
    std::shared_ptr<void> memory;
    try {
      memory.reset(::operator new(bytes, alignment),
                   [](void* p) { ::operator delete(p, alignment); });
    } catch (const std::bad_alloc&) {
      throw environment_error("random weights need " +
                              std::to_string(config_.parameters() * std::int64_t{sizeof(Element)}) +
                              " bytes of memory, which this machine does not have free");
    }
    view.data = memory.get();
    memory_.push_back(std::move(memory));
    bytes_ += bytes;
    return view;
  }
  const model_config& config_;
  const model_share share_;
  std::uint64_t seed_;
  dtype type_;
  std::vector<Element> table_;
  Element one_;
  std::vector<std::shared_ptr<const void>> memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

model_weights random_weights(const model_config& config, std::uint64_t seed, dtype type,
                             const model_share& share) {
  switch (type) {
    case dtype::f32:
      return generator<float>(config, seed, type, share, [](float value) { return value; }).make();
    case dtype::bf16:
      return generator<std::uint16_t>(config, seed, type, share, to_bf16).make();
    case dtype::f16:
      return generator<std::uint16_t>(config, seed, type, share, to_f16).make();
    default:
      throw usage_error(std::string("random weights cannot be of type ") + name_of(type) +
                        "; use f32, bf16 or f16");
  }
}

}  // namespace unmask
