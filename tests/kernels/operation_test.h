// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What every operation is held to, for a function that makes its operands: the CPU backend with
// every instruction set and the CUDA kernels against the reference, under every schedule of the
// emulator, with launches that wait and memory of the backend only, nothing written beside a
// result, and each sequence alone with the bits it has in a batch.
//
//   const declared top([](operands& at, const batch& b) {
//     const scene s(at, b);
//     return op::accept_top{s.candidates, s.score, s.quota, at.out<std::uint8_t>(s.counts)};
//   });
//
// stands for all these tests of accept_top (test_operations.cpp runs what is declared). What the
// function makes for a sequence may depend on the number of the sequence alone.
#pragma once

#include <boost/core/demangle.hpp>
#include <functional>

#include "kernels/operation.h"
#include "tests/kernels/operands.h"

namespace unmask::test {

// Where an element of a result is, in words.
inline std::string place_of(const operands::element_kind& of, std::int64_t element,
                            std::int64_t elements) {
  std::string text = "candidate (row or entry) " + std::to_string(element / of.width) + " of " +
                     std::to_string(elements / of.width);
  if (of.width == 1) return text;
  const std::int64_t at = element % of.width;
  if (of.row.size() != 2) return text + ", element " + std::to_string(at);
  if (at >= of.row[0] * of.row[1]) return text + ", in the gap behind it";
  return text + ", head (or expert) " + std::to_string(at / of.row[1]) + " of " +
         std::to_string(of.row[0]) + ", element " + std::to_string(at % of.row[1]);
}

// The first element of a result that differs, in words; empty: none does. `tolerance` is for floats,
// relative above 1; 0 asks for the same bits.
inline std::string first_difference(const operands::segment& got, const operands::segment& want,
                                    double tolerance) {
  const operands::element_kind& of = want.of;
  if (got.bytes.size() != want.bytes.size()) {
    return std::to_string(got.bytes.size() / of.size) + " elements, not " +
           std::to_string(want.bytes.size() / of.size);
  }
  for (std::size_t at = 0; at < got.bytes.size(); at += of.size) {
    const unsigned char *a = got.bytes.data() + at, *b = want.bytes.data() + at;
    if (std::memcmp(a, b, of.size) == 0) continue;
    if (of.floats && of.size == sizeof(float)) {
      float x = 0, y = 0;
      std::memcpy(&x, a, sizeof x);
      std::memcpy(&y, b, sizeof y);
      if ((std::isnan(x) && std::isnan(y)) ||
          (tolerance > 0 && (x == y || close(x, y, tolerance)))) {
        continue;
      }
    }
    return place_of(of, static_cast<std::int64_t>(at / of.size),
                    static_cast<std::int64_t>(want.bytes.size() / of.size)) +
           ": " + of.text(a) + ", not " + of.text(b);
  }
  return "";
}

inline void expect_same(const operands& got, std::size_t i, const operands& want, std::size_t j,
                        double tolerance) {
  const auto a = got.of(i), b = want.of(j);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t r = 0; r < a.size(); ++r) {
    ASSERT_EQ(first_difference(a[r], b[r], tolerance), "")
        << "result " << r << " of the operation on " << got.shapes();
  }
}

// make(operands, sequences) returns the operation on a batch of the given sequences (numbers from 0
// on).
template <class Make>
void check_operation(const Make& make, double tolerance = 0) {
  const batch all{3, 0, 7, 1, 4, 12, 5};
  const auto run = [&](operands& at, const batch& b) {
    std::int32_t answer = 0;
    const auto args = make(at, b);
    if constexpr (std::is_void_v<decltype(at.backend().run(args))>) {
      at.backend().run(args);
    } else {
      answer = at.backend().run(args);
    }
    at.backend().synchronize();
    EXPECT_FALSE(at.ran_over()) << "something was written beyond the end of an array";
    return answer;
  };
  operands want(reference_backend());
  const std::int32_t answer = run(want, all);
  const auto check = [&](const backend& backend) {
    SCOPED_TRACE(backend.name());
    operands together(backend);
    EXPECT_EQ(run(together, all), answer);
    expect_same(together, all.size(), want, all.size(), tolerance);
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE("sequence " + std::to_string(all[i]));
      expect_same(together, i, want, i, tolerance);
      operands alone(backend);
      run(alone, {all[i]});
      expect_same(alone, 0, together, i, 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  };
  check(reference_backend());
  for_each_isa(check);
  for_each_device(check, {{}, true, true});
}

// Operands of one operation, declared where its shapes are known; an operation may have several.
struct declared_operation {
  std::string name;
  std::function<void()> check;
};
inline std::vector<declared_operation>& declared_operations() {
  static std::vector<declared_operation> all;
  return all;
}
class declared {
 public:
  template <class Make>
  explicit declared(const Make& make, double tolerance = 0) {
    using params = decltype(make(std::declval<operands&>(), batch{}));
    const std::string name = boost::core::demangle(typeid(params).name());
    declared_operations().push_back({name.substr(name.rfind(':') + 1),
                                     [make, tolerance] { check_operation(make, tolerance); }});
  }
};

// One declaration for each of these values.
template <class T, class F>
std::vector<declared> for_each_of(const std::vector<T>& values, const F& declare) {
  std::vector<declared> all;
  for (const T& value : values) all.push_back(declare(value));
  return all;
}

}  // namespace unmask::test
