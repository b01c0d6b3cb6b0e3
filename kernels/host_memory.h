// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/tensor.h"

namespace unmask {

// At least `bytes` bytes, zero-filled and 64-byte aligned; null when memory runs out. From 2 MiB on they lie on
// large pages if the system has any: a step walks through weights and caches in long strides, and with pages of
// 4 KiB it would wait for their addresses.
std::shared_ptr<void> host_block(std::size_t bytes);

// 64-byte aligned, zero-filled, with a few spare bytes behind so that a whole vector may be read
// at the end. Throws environment_error when memory runs out.
tensor allocate_host(dtype type, std::initializer_list<std::int64_t> shape);

}  // namespace unmask
