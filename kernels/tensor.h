// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Views and owners of device memory. A backend (reference, cpu, cuda) allocates; everyone else
// passes views. All tensors are row-major and contiguous unless row_stride says otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>

#include "harness/base/error.h"

namespace unmask {

enum class dtype : std::uint8_t { f32, bf16, f16, i32, u8, u64 };

std::size_t size_of(dtype type);  // bytes of one element
const char* name_of(dtype type);  // "f32", "bf16", ...

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr dtype value = dtype::f32;
};
template <>
struct dtype_of<std::int32_t> {
  static constexpr dtype value = dtype::i32;
};
template <>
struct dtype_of<std::uint8_t> {
  static constexpr dtype value = dtype::u8;
};
template <>
struct dtype_of<std::uint64_t> {
  static constexpr dtype value = dtype::u64;
};

// Non-owning view of up to four dimensions.
struct tensor_view {
  void* data = nullptr;
  dtype type = dtype::f32;
  int rank = 0;
  std::array<std::int64_t, 4> shape{};
  std::int64_t row_stride = 0;  // elements from row i to row i+1 of dimension 0

  std::int64_t rows() const { return rank > 0 ? shape[0] : 0; }
  // Elements of one row: the product of all dimensions but the first.
  std::int64_t columns() const;
  std::int64_t elements() const { return rows() * columns(); }
  bool contiguous() const { return row_stride == columns(); }
  // The first n rows; rows [begin, begin + n).
  tensor_view first(std::int64_t n) const { return slice(0, n); }
  tensor_view slice(std::int64_t begin, std::int64_t n) const;

  // Typed pointer; throws when the element type differs (a programming error).
  template <class T>
  T* as() const {
    if (type != dtype_of<T>::value) throw std::logic_error("tensor_view: wrong element type");
    return static_cast<T*>(data);
  }
  template <class T>
  T* row(std::int64_t i) const {
    return as<T>() + i * row_stride;
  }
};

tensor_view make_view(void* data, dtype type, std::initializer_list<std::int64_t> shape);

// Owner of one allocation; shares it when copied.
class tensor {
 public:
  tensor() = default;
  tensor(std::shared_ptr<void> memory, dtype type, std::initializer_list<std::int64_t> shape)
      : memory_(std::move(memory)), view_(make_view(memory_.get(), type, shape)) {}

  const tensor_view& view() const { return view_; }
  operator const tensor_view&() const { return view_; }
  template <class T>
  T* as() const {
    return view_.as<T>();
  }
  template <class T>
  T* row(std::int64_t i) const {
    return view_.row<T>(i);
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(view_.elements()) * size_of(view_.type);
  }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  std::shared_ptr<void> memory_;
  tensor_view view_;
};

}  // namespace unmask
