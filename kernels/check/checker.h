// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check: operations of a backend against the reference on fresh random inputs, at sizes
// small enough to be run wherever a program meets a GPU for the first time, or at those of real models.
// Cases lie beside the operations and register themselves; what they share is here: operands that
// exist twice, for the backend under test in its own memory and for the reference on the host, and the
// comparison of what both made of them. Nothing here expects that a GPU can read the host's memory, or
// the host the GPU's. Outputs are poisoned.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/ways.h"

namespace unmask::device_checks {

// Of values that are copied or chosen, not computed: any difference is wrong.
inline constexpr double no_difference = 1e-30;

struct case_result {
  std::string operation, what;
  double error = 0;     // in units of the tolerance: at most 1 is right; infinite for a NaN
  std::string problem;  // what was thrown instead of a result; empty: nothing
  bool right() const { return problem.empty() && error <= 1; }
};

// An operand in the reference's memory and in that of the backend.
struct mirrored {
  tensor here, there;
};

// Who runs an operation, and which of the two copies it takes.
class side {
 public:
  side(const backend& with, bool device) : with_(with), device_(device) {}
  const backend& with() const { return with_; }
  bool is_device() const { return device_; }
  const tensor& operator()(const mirrored& m) const { return device_ ? m.there : m.here; }
  template <class T = std::int32_t>
  T* at(const mirrored& m) const {
    return (*this)(m).template as<T>();
  }

 private:
  const backend& with_;
  bool device_;
};

class checker {
 public:
  // `tell` is called with the result of every case.
  checker(const backend& device, bool large, std::uint64_t seed,
          std::function<void(const case_result&)> tell)
      : device_(device), large_(large), seed_(seed), tell_(std::move(tell)) {}

  const backend& device() const { return device_; }
  const backend& reference() const { return reference_; }
  std::mt19937_64& random() { return random_; }
  std::int64_t size(std::int64_t small, std::int64_t large) const { return large_ ? large : small; }
  std::int32_t below(std::int64_t n) {
    return static_cast<std::int32_t>(
        std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_));
  }

  // ---- operands ----
  using shape = std::initializer_list<std::int64_t>;
  mirrored empty(dtype type, shape s) const {
    return {reference_.allocate(type, s), device_.allocate(type, s, use_of(type))};
  }
  // Lists, states and flags are the host's too, as in a decode: some operations run there.
  static memory_use use_of(dtype type) {
    return type == dtype::i32 || type == dtype::u8 ? memory_use::host_visible
                                                   : memory_use::resident;
  }
  mirrored reals(shape s, float scale = 1.0F) {
    mirrored m = empty(dtype::f32, s);
    std::normal_distribution<float> normal(0.0F, scale);
    for (std::int64_t i = 0; i < m.here.view().elements(); ++i)
      m.here.as<float>()[i] = normal(random_);
    send(m);
    return m;
  }
  // All bits set, NaN or a wild number, so that what is not written shows.
  mirrored poisoned(dtype type, shape s) const {
    mirrored m = empty(type, s);
    std::memset(m.here.view().data, 0xFF, m.here.bytes());
    send(m);
    return m;
  }
  mirrored poisoned(shape s) const { return poisoned(dtype::f32, s); }
  template <class T>
  mirrored values(dtype type, const std::vector<T>& v) const {
    mirrored m = empty(type, {std::max<std::int64_t>(std::ssize(v), 1)});
    std::copy(v.begin(), v.end(), m.here.as<T>());
    send(m);
    return m;
  }
  // Token states (masked 0, decided 1, cached 2) of some sequences.
  mirrored states(std::int64_t sequences, std::int64_t length) {
    const mirrored m = empty(dtype::u8, {sequences, length});
    for (std::int64_t i = 0; i < sequences * length; ++i) {
      m.here.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(below(3));
    }
    send(m);
    return m;
  }
  mirrored ints(const std::vector<std::int32_t>& v) const { return values(dtype::i32, v); }
  void send(const mirrored& m) const {
    if (use_of(m.here.view().type) == memory_use::host_visible) {
      device_.synchronize();
      std::memcpy(m.there.view().data, m.here.view().data, m.here.bytes());
    } else {
      put(device_, m.there.view().data, m.here.view().data, m.here.bytes());
    }
  }
  // What the backend holds.
  std::vector<std::byte> fetch(const mirrored& m) const {
    std::vector<std::byte> bytes(m.there.bytes());
    if (use_of(m.here.view().type) == memory_use::host_visible) {
      device_.synchronize();
      std::memcpy(bytes.data(), m.there.view().data, bytes.size());
    } else {
      get(device_, bytes.data(), m.there.view().data, bytes.size());
    }
    return bytes;
  }

  // ---- running and comparing ----
  // The same work on the backend and on the reference.
  void both(const std::function<void(const side&)>& work) const {
    work(side(device_, true));
    device_.synchronize();
    work(side(reference_, false));
  }
  // Largest |got - want| over absolute + relative |want|; infinite for a NaN or a missing value.
  void compare(const char* operation, const std::string& what, const mirrored& m, double relative,
               double absolute) {
    const std::vector<std::byte> bytes = fetch(m);
    const auto* got = reinterpret_cast<const float*>(bytes.data());
    double worst = 0;
    for (std::int64_t i = 0; i < m.here.view().elements(); ++i) {
      const double w = m.here.as<float>()[i], g = got[i];
      const double error = std::fabs(g - w) / (absolute + relative * std::fabs(w));
      worst = error == error ? std::max(worst, error) : std::numeric_limits<double>::infinity();
    }
    report(operation, what, worst);
  }
  // By the size of a typical element, as single ones may cancel, and of the element where it is
  // rounded last.
  void compare_typical(const char* operation, const std::string& what, const mirrored& m,
                       double share, double relative = 0) {
    double squares = 0;
    const std::int64_t n = m.here.view().elements();
    for (std::int64_t i = 0; i < n; ++i) {
      squares += double{m.here.as<float>()[i]} * m.here.as<float>()[i];
    }
    compare(operation, what, m, relative, share * std::sqrt(squares / static_cast<double>(n)));
  }
  void same(const char* operation, const std::string& what, const mirrored& m) {
    const std::vector<std::byte> bytes = fetch(m);
    const bool equal = std::memcmp(bytes.data(), m.here.view().data, bytes.size()) == 0;
    report(operation, what, equal ? 0 : std::numeric_limits<double>::infinity());
  }
  void report(const char* operation, const std::string& what, double error) {
    tell_({operation, what, error, ""});
  }
  // Runs cases whose inputs depend on the seed and on their name alone. What they throw is a result.
  void run(const std::string& name, const std::function<void(checker&)>& cases) {
    std::vector<std::uint64_t> from(name.begin(), name.end());
    from.push_back(seed_);
    std::seed_seq seeds(from.begin(), from.end());
    random_.seed(seeds);
    try {
      cases(*this);
      device_.synchronize();
    } catch (const std::exception& failure) {
      tell_({name, "", std::numeric_limits<double>::infinity(), failure.what()});
    }
  }

  static std::string text(shape s) {
    std::string joined;
    for (const std::int64_t n : s) {
      if (!joined.empty()) joined += 'x';
      joined += std::to_string(n);
    }
    return joined;
  }

 private:
  template <class Backend>
  static void put(const Backend& b, void* to, const void* from, std::size_t bytes) {
    if constexpr (requires { b.write(to, from, bytes); }) {
      b.write(to, from, bytes);
    } else {
      b.synchronize();
      std::memcpy(to, from, bytes);
    }
  }
  template <class Backend>
  static void get(const Backend& b, void* to, const void* from, std::size_t bytes) {
    b.synchronize();
    if constexpr (requires { b.read(to, from, bytes); }) {
      b.read(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }

  const backend& device_;
  const backend& reference_ = reference_backend();
  bool large_;
  std::uint64_t seed_;
  std::function<void(const case_result&)> tell_;
  std::mt19937_64 random_;
};

// Rows of several sequences at ascending positions over a cache of shuffled pages.
struct ragged {
  std::vector<std::int32_t> length;  // keys of each sequence
  std::int32_t sequences = 0, rows = 0, stride = 0;
  std::vector<std::int32_t> begins, owners, places;
  mirrored begin, owner, place, lengths, pages;

  // Rows from the keys of each sequence, `gap` positions apart at most.
  ragged(checker& c, std::vector<std::int32_t> keys, std::int64_t gap);
  row_set set(const side& s) const {
    return {sequences, rows, s.at(begin), s.at(owner), s.at(place), nullptr};
  }
  paged_kv cache(const side& s, const mirrored& k, const mirrored& v) const {
    return {s(k), s(v), s.at(pages), stride};
  }
  std::int64_t all_pages() const { return std::int64_t{stride} * sequences; }
};

// Cases of some operations, and what multiplies in them where there are several ways to.
struct device_check {
  std::string operations;
  std::function<void(checker&)> cases;
  std::optional<cuda::multiplied> by;
  std::optional<cuda::multiplied> folded_by = std::nullopt;  // what comes behind the product
};
// Every one of this program, by name.
std::vector<device_check> registered_device_checks();
// const register_device_check registered("select_chunk", chunks);
struct register_device_check {
  register_device_check(const char* operations, std::function<void(checker&)> cases,
                        std::optional<cuda::multiplied> by = std::nullopt,
                        std::optional<cuda::multiplied> folded_by = std::nullopt);
};

// Work of a size at which a newer kernel and the one before it are told apart. prepare() gives the work
// on a backend's own operands, all of them zero: what a number is changes no time.
struct device_race {
  std::string name;
  cuda::multiplied of;
  std::function<std::function<void()>(const backend&)> prepare;
};
std::vector<device_race> registered_device_races();
struct register_device_race {
  register_device_race(const char* name, cuda::multiplied of,
                       std::function<std::function<void()>(const backend&)> prepare);
};

}  // namespace unmask::device_checks
