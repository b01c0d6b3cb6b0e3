// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What kernels need whose warpgroups have different work, beside portable.h. Both namespaces offer:
// sync_named, arrive_named; give_registers, take_registers; store_matrix_x4_transposed; wgmma_place, place_of, same_in_warp,
// wgmma_64x128x16<adds>, wgmma_tile<adds>, wgmma_values, wgmma_end.
#pragma once

#include "kernels/cuda/device/portable.h"

#if defined(__CUDACC__)
#include "kernels/cuda/device/nvidia_warpgroups.h"
#else
#include "kernels/cuda/device/emulator_warpgroups.h"
#endif
