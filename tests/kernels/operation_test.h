// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What every operation is held to, for a function that makes its operands: the CPU backend and the
// CUDA kernels against the reference, under every schedule of the emulator, with launches that wait
// and memory of the backend only, and each sequence alone with the bits it has in a batch.
#pragma once

#include <functional>
#include <type_traits>

#include "kernels/operation.h"
#include "tests/kernels/support.h"

namespace unmask::test {

// The arrays of one operation in one backend's memory. What out() gives is compared.
class operands {
 public:
  explicit operands(const ops& backend) : backend_(backend) {}

  // An input with these values.
  template <class T>
  T* in(const std::vector<T>& values) {
    T* to = room<T>(static_cast<std::int64_t>(values.size()));
    std::copy(values.begin(), values.end(), to);
    return to;
  }
  // A result with so many entries for each sequence of the batch, one after the other; poisoned.
  template <class T>
  T* out(const std::vector<std::int64_t>& counts) {
    std::int64_t all = 0;
    for (const std::int64_t n : counts) all += n;
    T* to = room<T>(all);
    std::memset(to, 0xA5, static_cast<std::size_t>(all) * sizeof(T));
    results_.push_back({reinterpret_cast<const unsigned char*>(to), sizeof(T),
                        std::is_floating_point_v<T>, counts});
    return to;
  }

  struct segment {
    std::vector<unsigned char> bytes;
    bool floats = false;
  };
  // The segment of the i-th sequence in every result, in the order of the calls of out().
  std::vector<segment> of(std::size_t i) const {
    std::vector<segment> all;
    for (const result& r : results_) {
      std::int64_t first = 0;
      for (std::size_t s = 0; s < i; ++s) first += r.counts[s];
      const auto width = static_cast<std::int64_t>(r.width);
      all.push_back({{r.start + first * width, r.start + (first + r.counts[i]) * width}, r.floats});
    }
    return all;
  }

 private:
  struct result {
    const unsigned char* start;
    std::size_t width;
    bool floats;
    std::vector<std::int64_t> counts;
  };
  template <class T>
  T* room(std::int64_t n) {
    kept_.push_back(backend_.allocate(dtype_of<T>::value, {std::max<std::int64_t>(n, 1)},
                                      memory_use::exchanged));
    return kept_.back().template as<T>();
  }
  const ops& backend_;
  std::vector<tensor> kept_;
  std::vector<result> results_;
};

// `tolerance` is for floats, relative above 1; 0 asks for the same bits.
inline void expect_same(const operands& got, std::size_t i, const operands& want, std::size_t j,
                        double tolerance) {
  const auto a = got.of(i), b = want.of(j);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t r = 0; r < a.size(); ++r) {
    ASSERT_EQ(a[r].bytes.size(), b[r].bytes.size()) << "result " << r;
    if (tolerance == 0 || !a[r].floats) {
      EXPECT_EQ(a[r].bytes, b[r].bytes) << "result " << r;
      continue;
    }
    for (std::size_t at = 0; at < a[r].bytes.size(); at += sizeof(float)) {
      float x = 0, y = 0;
      std::memcpy(&x, a[r].bytes.data() + at, sizeof x);
      std::memcpy(&y, b[r].bytes.data() + at, sizeof y);
      EXPECT_TRUE(close(x, y, tolerance)) << "result " << r << " at " << at / sizeof x;
    }
  }
}

// make(operands, sequences) returns the operation on a batch of the given sequences (numbers from 0
// on); what it makes for a sequence may depend on its number alone.
template <class Make>
void check_operation(const Make& make, double tolerance = 0) {
  const std::vector<int> batch{3, 0, 7, 1, 4, 12, 5};
  operands want(reference_ops());
  reference_ops().run(make(want, batch));
  const auto check = [&](const ops& backend) {
    operands together(backend);
    backend.run(make(together, batch));
    backend.synchronize();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      SCOPED_TRACE(backend.name() + ", sequence " + std::to_string(batch[i]));
      expect_same(together, i, want, i, tolerance);
      operands alone(backend);
      backend.run(make(alone, {batch[i]}));
      backend.synchronize();
      expect_same(alone, 0, together, i, 0);
    }
  };
  check(reference_ops());
  check(cpu_ops());
  const cuda::emulation before = cuda::current_emulation();
  for (int mode = 0; mode < 4; ++mode) {
    SCOPED_TRACE("schedule " + std::to_string(mode));
    cuda::set_emulation({schedule_of(mode), true, true});
    check(cuda_emulated_ops());
  }
  cuda::set_emulation(before);
}

}  // namespace unmask::test
