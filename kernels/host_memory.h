// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include "kernels/tensor.h"

namespace unmask {

// 64-byte aligned, zero-filled, with a few spare bytes behind so that a whole vector may be read
// at the end. Throws environment_error when memory runs out.
tensor allocate_host(dtype type, std::initializer_list<std::int64_t> shape);

}  // namespace unmask
