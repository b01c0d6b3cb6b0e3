// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What is known of a position of the canvas, as all operations and policies read it.
#pragma once

#include <cstdint>

namespace unmask {

enum token_state : std::uint8_t {
  state_masked = 0,
  state_decoded = 1,  // has its token; its K/V may still change
  state_cached = 2    // its K/V is final and kept
};

}  // namespace unmask
