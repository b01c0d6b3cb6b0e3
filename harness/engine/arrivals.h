// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// When requests arrive. Every draw depends on the seed and the index of the request only, so a
// longer run begins with the arrivals of a shorter one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unmask {

// Times in seconds from 0, ascending; `rate` in requests per second, positive.
std::vector<double> poisson_arrivals(double rate, std::size_t count, std::uint64_t seed);
// Gaps from a gamma distribution with mean 1 / rate and coefficient of variation `cv`: 1 is
// Poisson, above 1 bursty, 0 evenly spaced.
std::vector<double> gamma_arrivals(double rate, double cv, std::size_t count, std::uint64_t seed);

// Draw `index` of a gamma distribution with this shape and mean 1.
double gamma_draw(double shape, std::uint64_t key, std::uint64_t index);
// Draws from the normal distribution with mean 0 and deviation 1.
double normal_draw(std::uint64_t key, std::uint64_t index);
// Draws from the log-normal distribution with this mean and deviation.
double lognormal_draw(double mean, double deviation, std::uint64_t key, std::uint64_t index);

}  // namespace unmask
