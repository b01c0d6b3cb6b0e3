// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// CPython's random.Random as far as harnesses draw with it: the Mersenne Twister seeded by an
// integer (init_by_array of its 32-bit digits), getrandbits, _randbelow, sample and shuffle. Which
// examples stand in an lm-eval prompt depends on these streams number for number.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace unmask {

class python_random {
 public:
  explicit python_random(std::uint64_t seed);

  std::uint32_t bits(int count);     // getrandbits(count), 1 to 32
  std::size_t below(std::size_t n);  // _randbelow(n), 1 <= n < 2^32
  // sample(range(population), count): positions in the order drawn; count <= population.
  std::vector<std::size_t> sample(std::size_t population, std::size_t count);
  template <class item>
  void shuffle(std::vector<item>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::mt19937 twister_;
};

}  // namespace unmask
