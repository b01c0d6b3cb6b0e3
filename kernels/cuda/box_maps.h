// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Maps of matrices whose boxes kernels copy (device/boxes.h).
#pragma once

#include <cstdint>

#include "kernels/cuda/device/boxes.h"

namespace unmask::cuda::UNMASK_TARGET {

// Whether the driver makes them. A runtime before 12.5 does not ask it.
bool has_box_maps();
// Of data [rows, columns] of bfloat16 in device memory, 16-byte aligned, end to end; columns a multiple of 8. A box
// has 64 columns and `box_rows` rows, at most 256. std::logic_error if the driver refuses that.
box_map box_map_of(const std::uint16_t* data, std::int64_t rows, std::int64_t columns,
                   int box_rows);

}  // namespace unmask::cuda::UNMASK_TARGET
