// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What is known of a position of the canvas, as all operations and policies read it.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace unmask {

enum token_state : std::uint8_t {
  state_masked = 0,
  state_decoded = 1,  // has its token; its K/V may still change
  state_cached = 2    // its K/V is final and kept
};

// Sets of states, as one bit each.
UNMASK_HOST_DEVICE constexpr std::uint8_t one_state(std::uint8_t state) {
  return static_cast<std::uint8_t>(1U << state);
}
UNMASK_HOST_DEVICE constexpr bool is_one_of(std::uint8_t state, std::uint8_t states) {
  return (states >> state & 1U) != 0;
}

}  // namespace unmask
