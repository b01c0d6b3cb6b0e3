// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the kernel tests share: random tensors, poisoned outputs, comparisons that a NaN fails.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/backend.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/emulation.h"
#include "kernels/sanitized.h"

namespace unmask::test {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float infinity = std::numeric_limits<float>::infinity();

// A tensor of the given shape whose rows lie `gap` elements further apart than they must; floats
// are NaN and integers -77 until written.
class grid {
 public:
  explicit grid(std::vector<std::int64_t> shape, std::int64_t gap = 0) {
    std::int64_t columns = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) columns *= shape[d];
    values_.assign(static_cast<std::size_t>(shape[0] * (columns + gap) + 1), nan);
    view_.data = values_.data();
    view_.rank = static_cast<int>(shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) view_.shape[d] = shape[d];
    view_.row_stride = columns + gap;
  }
  grid(const grid&) = delete;
  grid& operator=(const grid&) = delete;
  operator const tensor_view&() const { return view_; }
  const tensor_view& view() const { return view_; }
  float* row(std::int64_t r) const { return view_.row<float>(r); }
  float& at(std::int64_t r, std::int64_t c) const { return row(r)[c]; }
  std::int64_t rows() const { return view_.rows(); }
  std::int64_t columns() const { return view_.columns(); }
  // Normal numbers; the gap stays NaN, so that reading it shows.
  grid& randomize(std::mt19937& rng, float scale = 1.0F, float mean = 0.0F) {
    std::normal_distribution<float> normal(mean, scale);
    for (std::int64_t r = 0; r < rows(); ++r) {
      for (std::int64_t c = 0; c < columns(); ++c) at(r, c) = normal(rng);
    }
    return *this;
  }
  grid& copy(const grid& from) {
    for (std::int64_t r = 0; r < rows(); ++r) {
      for (std::int64_t c = 0; c < columns(); ++c) at(r, c) = from.at(r, c);
    }
    return *this;
  }

 private:
  std::vector<float> values_;
  tensor_view view_;
};

inline tensor_view view_of(std::vector<float>& v) {
  return make_view(v.data(), dtype::f32, {static_cast<std::int64_t>(v.size())});
}

inline std::vector<float> random_vector(std::mt19937& rng, std::int64_t n, float scale = 1.0F,
                                        float mean = 0.0F) {
  std::normal_distribution<float> normal(mean, scale);
  std::vector<float> v(static_cast<std::size_t>(n));
  for (float& x : v) x = normal(rng);
  return v;
}

// Fails on NaN: the comparison is true only when the difference is known to be small.
inline ::testing::AssertionResult close(double got, double want, double tolerance) {
  const double difference = std::fabs(got - want);
  if (!(difference <= tolerance * std::max(1.0, std::fabs(want)))) {
    return ::testing::AssertionFailure() << got << " instead of " << want;
  }
  return ::testing::AssertionSuccess();
}

// "row 3, head 1, element 17 of 40 x 4 x 64"; heads are named where a row has some.
inline std::string place_in(const grid& of, std::int64_t r, std::int64_t c) {
  const tensor_view& v = of.view();
  std::string text = "row " + std::to_string(r);
  if (v.rank == 3) {
    text += ", head " + std::to_string(c / v.shape[2]);
    c %= v.shape[2];
  }
  text += ", element " + std::to_string(c) + " of " + std::to_string(v.shape[0]);
  for (int d = 1; d < v.rank; ++d) {
    text += " x " + std::to_string(v.shape[static_cast<std::size_t>(d)]);
  }
  return text;
}

inline void expect_close(const grid& got, const grid& want, double tolerance,
                         const std::string& what = "") {
  for (std::int64_t r = 0; r < want.rows(); ++r) {
    for (std::int64_t c = 0; c < want.columns(); ++c) {
      ASSERT_TRUE(close(got.at(r, c), want.at(r, c), tolerance))
          << what << " at " << place_in(want, r, c);
    }
  }
}
inline void expect_close(const std::vector<float>& got, const std::vector<float>& want,
                         double tolerance, const std::string& what = "") {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(close(got[i], want[i], tolerance)) << what << " at " << i;
  }
}
inline bool same_bits(const float* a, const float* b, std::int64_t n) {
  return n == 0 || std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(float)) == 0;
}

// Runs the body for every instruction set of this processor, the best first.
inline void for_each_isa(const std::function<void(const backend&)>& body) {
  for (const cpu::isa set : cpu::supported_isas()) {
    SCOPED_TRACE(cpu::name_of(set));
    body(cpu::backend_with(set));
  }
}

// Every backend that runs on the host. Not the emulator under the thread sanitizer, which follows
// the stacks of threads but not those of fibers; it has one thread anyway.
inline std::vector<const backend*> host_backends() {
  std::vector<const backend*> all{&reference_backend(), &cpu_backend()};
  if (!thread_sanitized) all.push_back(&cuda_emulated_backend());
  return all;
}

// Four schedules of the emulator that differ in all their choices.
inline cuda::emulator::schedule schedule_of(int mode) {
  return {(mode & 1) != 0, (mode & 2) != 0, mode == 3 ? 12345U : 0U, mode == 1 || mode == 2};
}

// Runs the body for the CUDA backend's kernels under every schedule of the emulator. With a GPU
// that reads ordinary host memory (the fixtures are std::vectors), also on that. Never under the
// thread sanitizer, as host_backends(). UNMASK_TEST_DEVICE=gpu: on the GPU alone; =emulated: under
// one schedule, to rehearse that.
inline void for_each_device(const std::function<void(const backend&)>& body,
                            cuda::emulation how = {}) {
  if (thread_sanitized) return;
  const char* asked = std::getenv("UNMASK_TEST_DEVICE");
  const std::string only = asked == nullptr ? "" : asked;
  if (only == "gpu" && cuda::gpu_reading_host_memory() == nullptr) {
    GTEST_SKIP() << "NOT RUN: needs a GPU that reads ordinary host memory";
  }
  const cuda::emulation before = cuda::current_emulation();
  for (int mode = 0; mode < (only == "gpu" ? 0 : only == "emulated" ? 1 : 4); ++mode) {
    how.order = schedule_of(mode);
    cuda::set_emulation(how);
    SCOPED_TRACE("emulated, schedule " + std::to_string(mode));
    body(cuda_emulated_backend());
    if (::testing::Test::HasFatalFailure()) break;
  }
  cuda::set_emulation(before);
  if (const backend* gpu = cuda::gpu_reading_host_memory()) {
    SCOPED_TRACE("cuda");
    body(*gpu);
  }
}

// The backend of the same device that takes these kernels.
inline const backend& with(const cuda::choices& choices, const backend& device) {
  return device.where() == target::cuda ? cuda_backend(choices) : cuda_emulated_backend(choices);
}

// Rows of a ragged batch: lengths[s] rows of sequence s at random ascending positions.
struct rows_fixture {
  std::vector<std::int32_t> begin{0}, sequence, position;
  row_set set;
  rows_fixture(std::mt19937& rng, const std::vector<std::int32_t>& lengths, std::int32_t limit) {
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(limit));
      for (std::int32_t p = 0; p < limit; ++p) all[static_cast<std::size_t>(p)] = p;
      std::shuffle(all.begin(), all.end(), rng);
      all.resize(static_cast<std::size_t>(lengths[s]));
      std::sort(all.begin(), all.end());
      for (const std::int32_t p : all) {
        sequence.push_back(static_cast<std::int32_t>(s));
        position.push_back(p);
      }
      begin.push_back(static_cast<std::int32_t>(position.size()));
    }
    set = {static_cast<std::int32_t>(lengths.size()),
           static_cast<std::int32_t>(position.size()),
           begin.data(),
           sequence.data(),
           position.data(),
           nullptr};
  }
};

// A cache of random keys and values with shuffled pages.
struct cache_fixture {
  grid keys, values;
  std::vector<std::int32_t> table;
  paged_kv kv;
  cache_fixture(std::mt19937& rng, std::int32_t sequences, std::int32_t pages_each,
                std::int64_t kv_heads, std::int64_t dim)
      : keys({std::int64_t{sequences} * pages_each + 2, kv_page_size, kv_heads, dim}),
        values({std::int64_t{sequences} * pages_each + 2, kv_page_size, kv_heads, dim}) {
    keys.randomize(rng);
    values.randomize(rng);
    for (std::int32_t p = 0; p < sequences * pages_each; ++p) table.push_back(p + 1);
    std::shuffle(table.begin(), table.end(), rng);
    kv = {keys, values, table.data(), pages_each};
  }
};

// Candidates owned by vectors.
struct candidates_fixture {
  std::vector<std::int32_t> begin{0}, position, row;
  void add(const std::vector<std::int32_t>& positions) {
    for (const std::int32_t p : positions) {
      row.push_back(static_cast<std::int32_t>(row.size()));
      position.push_back(p);
    }
    begin.push_back(static_cast<std::int32_t>(position.size()));
  }
  candidate_set set() const {
    return {static_cast<std::int32_t>(begin.size()) - 1, static_cast<std::int32_t>(row.size()),
            begin.data(), position.data(), row.data()};
  }
};

}  // namespace unmask::test
