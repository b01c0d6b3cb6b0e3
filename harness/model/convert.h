// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Copies of checkpoint tensors in the dtypes the backends take.
#pragma once

#include <vector>

#include "kernels/backend.h"

namespace unmask {

// A float32 copy of an f32, bf16 or f16 tensor of any rank; or one rounded to bf16.
tensor to_f32(const tensor_view& from, const backend& backend, dtype rounded = dtype::f32);

// The parts one below the other in host memory, in their own type where it is one and the same,
// else as float32: [n1 + n2 + ..., columns] (or [n1 + n2 + ...]). For packing.
tensor stack_rows(const std::vector<tensor_view>& parts);

}  // namespace unmask
