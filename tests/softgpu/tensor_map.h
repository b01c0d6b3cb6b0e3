// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A tensor map: what cuTensorMapEncodeTiled writes into 128 bytes, in a form of this machine's own.
#pragma once

#include <cstdint>

namespace unmask::softgpu {

struct tensor_map {
  static constexpr std::uint32_t right_mark = 0x70616D74;
  static constexpr std::uint32_t most_dimensions = 5, bytes = 128;
  std::uint32_t mark = 0, check = 0;  // check: of all that follows
  std::uint64_t address = 0;
  std::uint64_t strides[4] = {};  // bytes, of dimensions from the second on
  std::uint32_t sizes[5] = {};    // elements
  std::uint16_t box[5] = {};      // elements that one copy takes
  std::uint8_t element = 0;       // bytes
  std::uint8_t rank = 0;
  std::uint8_t swizzle = 0;  // bytes of a row that chunks of 16 change places in; 0: none
  std::uint8_t nan = 0;      // what is outside is NaN, not zero
  std::uint32_t box_bytes() const;
  std::uint32_t sum() const;
};
static_assert(sizeof(tensor_map) <= tensor_map::bytes);

// Where the byte of a box at this shared address goes: bits 4 to 6 are changed by bits 7 to 9 (CUTLASS'
// Swizzle<1|2|3, 4, 3>).
std::uint32_t swizzled(std::uint32_t address, std::uint32_t swizzle);

}  // namespace unmask::softgpu
