// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/python_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <stdexcept>

namespace unmask {
namespace {

// The state that init_by_array makes of a key (Matsumoto and Nishimura, mt19937ar), in the form
// that the standard engine takes: a seed sequence that hands the words over as they are.
class array_seed {
 public:
  using result_type = std::uint32_t;
  explicit array_seed(const std::vector<std::uint32_t>& key) {
    state_[0] = 19650218U;
    for (std::uint32_t i = 1; i < state_.size(); ++i) {
      state_[i] = 1812433253U * mixed(state_[i - 1]) + i;
    }
    std::size_t i = 1, j = 0;
    const auto next = [&] {
      if (++i < state_.size()) return;
      state_[0] = state_.back();
      i = 1;
    };
    for (std::size_t k = std::max(state_.size(), key.size()); k > 0; --k) {
      state_[i] =
          (state_[i] ^ (mixed(state_[i - 1]) * 1664525U)) + key[j] + static_cast<std::uint32_t>(j);
      j = (j + 1) % key.size();
      next();
    }
    for (std::size_t k = state_.size() - 1; k > 0; --k) {
      state_[i] =
          (state_[i] ^ (mixed(state_[i - 1]) * 1566083941U)) - static_cast<std::uint32_t>(i);
      next();
    }
    state_[0] = 0x80000000U;
  }
  template <class iterator>
  void generate(iterator begin, iterator end) const {
    for (std::size_t i = 0; begin != end; ++begin, ++i) *begin = state_.at(i);
  }

 private:
  static std::uint32_t mixed(std::uint32_t word) { return word ^ (word >> 30); }
  std::array<std::uint32_t, 624> state_{};
};

std::mt19937 seeded(std::uint64_t seed) {
  std::vector<std::uint32_t> key{static_cast<std::uint32_t>(seed)};
  if (seed >> 32) key.push_back(static_cast<std::uint32_t>(seed >> 32));
  array_seed sequence(key);
  return std::mt19937(sequence);
}

}  // namespace

python_random::python_random(std::uint64_t seed) : twister_(seeded(seed)) {}

std::uint32_t python_random::bits(int count) {
  if (count < 1 || count > 32) throw std::logic_error("python_random::bits: 1 to 32");
  return static_cast<std::uint32_t>(twister_()) >> (32 - count);
}

std::size_t python_random::below(std::size_t n) {
  if (n == 0 || n >> 32) throw std::logic_error("python_random::below: 1 to 2^32 - 1");
  for (;;) {
    const std::size_t draw = bits(std::bit_width(n));
    if (draw < n) return draw;
  }
}

std::vector<std::size_t> python_random::sample(std::size_t population, std::size_t count) {
  if (count > population) throw std::logic_error("python_random::sample: larger than population");
  // Python keeps the smaller of two structures: a list of the population or a set of what is drawn.
  double most = 21;
  if (count > 5)
    most += std::pow(4, std::ceil(std::log(3.0 * static_cast<double>(count)) / std::log(4.0)));
  std::vector<std::size_t> drawn;
  if (static_cast<double>(population) <= most) {
    std::vector<std::size_t> pool(population);
    for (std::size_t i = 0; i < population; ++i) pool[i] = i;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = below(population - i);
      drawn.push_back(pool[at]);
      pool[at] = pool[population - i - 1];
    }
    return drawn;
  }
  std::set<std::size_t> seen;
  while (drawn.size() < count) {
    const std::size_t at = below(population);
    if (seen.insert(at).second) drawn.push_back(at);
  }
  return drawn;
}

}  // namespace unmask
