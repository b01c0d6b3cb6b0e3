// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The arrays of one operation in one backend's memory, made for the sequences of a batch and read
// back by sequence, whatever else is in the batch.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <type_traits>

#include "kernels/float16.h"
#include "tests/kernels/support.h"

namespace unmask::test {

using batch = std::vector<int>;            // the sequences of a batch, by number
using counts = std::vector<std::int64_t>;  // something of each of them
using shape = std::vector<std::int64_t>;   // of one row
using indices = std::vector<std::int32_t>;
using bytes = std::vector<std::uint8_t>;

// Random numbers for one array of a sequence.
inline std::mt19937 rng_of(int sequence, int array = 0) {
  return std::mt19937(static_cast<unsigned>(sequence * 131 + array));
}
inline int draw(std::mt19937& rng, int low, int high) {  // both included
  return std::uniform_int_distribution<int>(low, high)(rng);
}
// value(s) of each sequence; all of values(s), end to end.
template <class T, class F>
std::vector<T> each(const batch& b, const F& value) {
  std::vector<T> all;
  for (const int s : b) all.push_back(static_cast<T>(value(s)));
  return all;
}
template <class T, class F>
std::vector<T> joined(const batch& b, const F& values) {
  std::vector<T> all;
  for (const int s : b) {
    const std::vector<T> more = values(s);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}
inline std::int64_t total(const counts& n) {
  std::int64_t sum = 0;
  for (const std::int64_t x : n) sum += x;
  return sum;
}
// 0, n[0], n[0] + n[1], ...
inline indices begins_of(const counts& n) {
  indices begin{0};
  for (const std::int64_t x : n) begin.push_back(begin.back() + static_cast<std::int32_t>(x));
  return begin;
}

// n[i] * width normal numbers of each sequence.
inline std::vector<float> normal_values(const batch& b, const counts& n, std::int64_t width,
                                        int array, float scale = 1) {
  std::size_t i = 0;
  return joined<float>(b, [&](int s) {
    std::mt19937 rng = rng_of(s, array);
    return random_vector(rng, n[i++] * width, scale);
  });
}

// The arrays of one operation in one backend's memory. Results are compared by sequence.
class operands {
 public:
  explicit operands(const unmask::backend& backend) : backend_(backend) {}
  const unmask::backend& backend() const { return backend_; }

  // ---- inputs ----
  template <class T>
  T* in(const std::vector<T>& values) {
    note<T>(std::ssize(values));
    T* to = room<T>(static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), to);
    return to;
  }
  // Rows of this shape, `gap` elements further apart than they must; what lies between is poison.
  template <class T>
  tensor_view in(const std::vector<T>& values, const shape& row, std::int64_t gap = 0) {
    const std::int64_t width = elements(row);
    const auto rows = static_cast<std::int64_t>(values.size()) / width;
    note<T>(rows, row);
    const tensor_view v = view(room<T>(rows * (width + gap)), rows, row, gap);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(values.data() + r * width, width, v.row<T>(r));
    }
    return v;
  }
  // rows[i] rows of normal numbers for each sequence.
  tensor_view normal(const batch& b, const counts& rows, const shape& row, int array,
                     std::int64_t gap = 0, float scale = 1) {
    return in(normal_values(b, rows, elements(row), array, scale), row, gap);
  }
  // Normal numbers that all sequences share.
  tensor_view shared(const shape& all, int array, float scale = 1) {
    std::mt19937 rng = rng_of(-1, array);
    return in(random_vector(rng, elements(all), scale), {all.begin() + 1, all.end()});
  }
  const packed_matrix& pack(const tensor_view& weight, weight_format format) {
    return *keep(backend_.pack(weight, format));
  }
  // What the operation names by reference or pointer.
  template <class T>
  T& keep(T value) {
    auto kept = std::make_shared<T>(std::move(value));
    kept_.push_back(kept);
    return *kept;
  }
  // Keys and values of `pages` pages for each sequence, in shuffled places.
  paged_kv cache(const batch& b, int pages, std::int64_t kv_heads, std::int64_t dim, int array,
                 dtype type = dtype::f32, bool is_result = false);

  // ---- results ----
  // rows[i] rows of this shape for the i-th sequence, one after the other, and `more` that belong to
  // none; poisoned, or with the values that they hold before.
  template <class T>
  tensor_view out_rows(const counts& rows, const shape& row, std::int64_t gap = 0,
                       const std::vector<T>& before = {}, std::int64_t more = 0) {
    const std::int64_t width = elements(row), all = total(rows) + more;
    note<T>(all, row);
    const tensor_view v = view(room<T>(all * (width + gap)), all, row, gap);
    for (std::int64_t r = 0; r < (before.empty() ? 0 : all); ++r) {
      std::copy_n(before.data() + r * width, width, v.row<T>(r));
    }
    const T* start = v.as<T>();
    indices begin = begins_of(rows);
    begin.push_back(static_cast<std::int32_t>(all));
    const std::int64_t stride = width + gap;
    results_.push_back({[=](std::size_t i) {
                          return bytes_of(start + begin[i] * stride, start + begin[i + 1] * stride);
                        },
                        kind_of<T>(stride, row)});
    return v;
  }
  template <class T>
  T* out(const counts& n, std::int64_t more = 0) {
    return out_rows<T>(n, {}, 0, {}, more).template as<T>();
  }
  template <class T>
  T* inout(const counts& n, const std::vector<T>& before) {
    return out_rows<T>(n, {}, 0, before).template as<T>();
  }
  // n[i] indices for the i-th sequence, which are compared from base[i] on.
  std::int32_t* out_indices(const counts& n, const counts& base) {
    note<std::int32_t>(total(n));
    std::int32_t* start = room<std::int32_t>(total(n));
    const indices begin = begins_of(n);
    results_.push_back({[=](std::size_t i) {
                          return i < n.size()
                                     ? less(start + begin[i], start + begin[i + 1], base[i])
                                     : raw{};
                        },
                        kind_of<std::int32_t>()});
    return start;
  }
  // Lists whose lengths the operation finds: where each begins, and lists that begin there. Entries
  // of the i-th sequence are compared from base[i] on; `rest`: what no list reaches stays as it was.
  std::int32_t* begins(const batch& b) {
    sequences_ = b.size();
    note<std::int32_t>(std::ssize(b) + 1);
    begin_ = room<std::int32_t>(static_cast<std::int64_t>(b.size()) + 1);
    const std::int32_t* begin = begin_;
    const std::size_t n = b.size();
    results_.push_back({[=](std::size_t i) {
                          return i < n ? less(begin + i + 1, begin + i + 2, begin[i]) : raw{};
                        },
                        kind_of<std::int32_t>()});
    return begin_;
  }
  template <class T>
  T* list(std::int64_t most, const counts& base = {}, bool rest = true) {
    note<T>(most);
    T* start = room<T>(most);
    const std::int32_t* begin = begin_;
    const std::size_t n = sequences_;
    results_.push_back({[=](std::size_t i) {
                          if (i == n)
                            return rest ? bytes_of(start + begin[n], start + most) : raw{};
                          return less(start + begin[i], start + begin[i + 1],
                                      base.empty() ? 0 : base[i]);
                        },
                        kind_of<T>()});
    return start;
  }

  using raw = std::vector<unsigned char>;
  // The elements of a result: `width` of them are of one row, candidate or entry.
  struct element_kind {
    bool floats = false;
    std::size_t size = 1;
    std::int64_t width = 1;  // with the gap behind the row
    std::string (*text)(const unsigned char* element) = nullptr;
    shape row;  // dimensions of a row; two are heads, experts or the like, and the elements of each
  };
  struct segment {
    raw bytes;
    element_kind of;
  };
  // What the i-th sequence has in every result, in the order in which they were made; behind the
  // last sequence, what belongs to none.
  std::vector<segment> of(std::size_t i) const {
    std::vector<segment> all;
    for (const result& r : results_) all.push_back({r.of(i), r.elements});
    return all;
  }
  // Of the arrays in the order in which they were made: "float32 7 x 4 x 64, int32 8".
  const std::string& shapes() const { return shapes_; }
  // Whether an array was written beyond its end.
  bool ran_over() const {
    for (const guard& g : guards_) {
      for (const unsigned char* at = g.first; at < g.last; ++at) {
        if (*at != poison) return true;
      }
    }
    return false;
  }

 private:
  static constexpr unsigned char poison = 0xA5;
  static constexpr std::size_t guard_bytes = 64;
  struct result {
    std::function<raw(std::size_t i)> of;
    element_kind elements;
  };
  template <class T>
  static element_kind kind_of(std::int64_t width = 1, const shape& row = {}) {
    return {std::is_floating_point_v<T>, sizeof(T), width,
            [](const unsigned char* element) {
              T value;
              std::memcpy(&value, element, sizeof value);
              std::ostringstream text;
              text << +value;
              return text.str();
            },
            row};
  }
  template <class T>
  void note(std::int64_t rows, const shape& row = {}) {
    if (!shapes_.empty()) shapes_ += ", ";
    shapes_ += std::is_floating_point_v<T> ? "float" : "int";
    shapes_ += std::to_string(8 * sizeof(T)) + " " + std::to_string(rows);
    for (const std::int64_t d : row) shapes_ += " x " + std::to_string(d);
  }
  struct guard {
    const unsigned char *first, *last;
  };
  template <class T>
  static raw bytes_of(const T* first, const T* last) {
    return {reinterpret_cast<const unsigned char*>(first),
            reinterpret_cast<const unsigned char*>(last)};
  }
  template <class T>
  static raw less(const T* first, const T* last, std::int64_t base) {
    std::vector<T> own(first, last);
    for (T& x : own) x = static_cast<T>(x - base);
    return bytes_of(own.data(), own.data() + own.size());
  }
  static std::int64_t elements(const shape& row) {
    std::int64_t n = 1;
    for (const std::int64_t d : row) n *= d;
    return n;
  }
  template <class T>
  static tensor_view view(T* data, std::int64_t rows, const shape& row, std::int64_t gap) {
    tensor_view v;
    v.data = data;
    v.type = dtype_of<T>::value;
    v.rank = static_cast<int>(row.size()) + 1;
    v.shape[0] = rows;
    std::copy(row.begin(), row.end(), v.shape.begin() + 1);
    v.row_stride = elements(row) + gap;
    return v;
  }
  unsigned char* room(std::int64_t size) {
    const tensor memory = backend_.allocate(
        dtype::u8, {size + static_cast<std::int64_t>(guard_bytes)}, memory_use::host_visible);
    auto* first = memory.as<std::uint8_t>();
    std::memset(first, poison, memory.bytes());
    guards_.push_back({first + size, first + memory.bytes()});
    kept_.push_back(std::make_shared<tensor>(memory));
    return first;
  }
  template <class T>
  T* room(std::int64_t n) {
    T* first = reinterpret_cast<T*>(room(n * static_cast<std::int64_t>(sizeof(T))));
    if constexpr (std::is_floating_point_v<T>) std::fill_n(first, n, nan);
    return first;
  }

  const unmask::backend& backend_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<guard> guards_;
  std::vector<result> results_;
  std::string shapes_;
  std::int32_t* begin_ = nullptr;  // of the lists that come next
  std::size_t sequences_ = 0;
};

inline paged_kv operands::cache(const batch& b, int pages, std::int64_t kv_heads, std::int64_t dim,
                                int array, dtype type, bool is_result) {
  const auto each_of = static_cast<std::size_t>(pages);
  const std::int64_t width = kv_page_size * kv_heads * dim;
  std::vector<std::int32_t> place(b.size() * each_of);
  for (std::size_t i = 0; i < place.size(); ++i) place[i] = static_cast<std::int32_t>(i) + 1;
  std::mt19937 shuffle(static_cast<unsigned>(array));
  std::shuffle(place.begin(), place.end(), shuffle);
  // A backend that stores no bfloat16 holds the same rounded numbers as float32.
  const bool half = type == dtype::bf16 && backend_.holds_kv(dtype::bf16);
  const std::int64_t all = static_cast<std::int64_t>(place.size()) + 1;
  const std::size_t size = half ? sizeof(std::uint16_t) : sizeof(float);
  const std::int64_t page_bytes = width * static_cast<std::int64_t>(size);
  const std::size_t sequences = b.size();
  note<float>(all, {kv_page_size, kv_heads, dim});
  paged_kv kv;
  for (tensor_view* side : {&kv.keys, &kv.values}) {
    unsigned char* data = room(all * page_bytes);
    for (std::size_t i = 0; i < b.size(); ++i) {
      std::mt19937 rng = rng_of(b[i], array + (side == &kv.values ? 1 : 0));
      for (std::size_t p = 0; p < each_of; ++p) {
        std::vector<float> values = random_vector(rng, width);
        unsigned char* to = data + place[i * each_of + p] * page_bytes;
        for (std::int64_t x = 0; x < width; ++x) {
          float& value = values[static_cast<std::size_t>(x)];
          const std::uint16_t rounded = to_bf16(value);
          if (half) std::memcpy(to + x * 2, &rounded, 2);
          if (type == dtype::bf16) value = from_bf16(rounded);
        }
        if (!half) std::memcpy(to, values.data(), static_cast<std::size_t>(page_bytes));
      }
    }
    *side = make_view(data, half ? dtype::bf16 : dtype::f32, {all, kv_page_size, kv_heads, dim});
    if (!is_result) continue;
    results_.push_back({[=](std::size_t i) {
                          // Behind the last sequence stands page 0, which belongs to none; poison
                          // of another type is another number.
                          if (i == sequences && type == dtype::bf16) return raw{};
                          std::vector<float> own;
                          for (std::size_t p = 0; p < (i == sequences ? 1 : each_of); ++p) {
                            const std::int32_t page = i == sequences ? 0 : place[i * each_of + p];
                            for (std::int64_t x = page * width; x < (page + 1) * width; ++x) {
                              own.push_back(
                                  half ? from_bf16(reinterpret_cast<std::uint16_t*>(data)[x])
                                       : reinterpret_cast<float*>(data)[x]);
                            }
                          }
                          return bytes_of(own.data(), own.data() + own.size());
                        },
                        kind_of<float>(kv_heads * dim, {kv_heads, dim})});
  }
  kv.page_table = in(place);
  kv.table_stride = pages;
  return kv;
}

}  // namespace unmask::test
