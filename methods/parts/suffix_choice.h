// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which masks behind a block exist while it is decoded.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/batch.h"

namespace unmask::dpad {

struct dropout_settings {
  std::string kind = "gaussian";  // gaussian, uniform, none
  std::int32_t window = 256;      // positions behind the block that may stay
  double sigma = 4, scale = 2;    // gaussian
  std::int32_t preserved = 0;     // uniform: how many of them stay
};

// Probability that the mask `distance` places behind a block stays: scale e^(-t^2 / 2) / sqrt(2 pi),
// t = sigma distance / (window - 1); 0 beyond the window. It may exceed 1.
float keep_probability(const dropout_settings& s, std::int32_t distance);

// Positions of [block_last, length) that stay, ascending. One draw in (0, 1) for each, by the
// request's seed, the block and the distance alone; a request's recorded draws stand in for them.
// gaussian: those with a draw below their probability. uniform: the `preserved` lowest draws of the
// window, or all positions where there are no more.
std::vector<std::int32_t> choose_suffix(const dropout_settings& s, const sequence_request& request,
                                        std::int32_t block, std::int32_t block_last,
                                        std::int32_t length);

}  // namespace unmask::dpad
