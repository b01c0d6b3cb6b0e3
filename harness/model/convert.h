// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Copies of checkpoint tensors in the dtypes the backends take.
#pragma once

#include <vector>

#include "kernels/ops.h"

namespace unmask {

// A float32 copy of an f32, bf16 or f16 tensor of any rank.
tensor to_f32(const tensor_view& from, const ops& backend);

// The parts one below the other as float32: [n1 + n2 + ..., columns] (or [n1 + n2 + ...]).
tensor stack_rows(const std::vector<tensor_view>& parts, const ops& backend);

}  // namespace unmask
