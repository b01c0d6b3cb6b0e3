// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>

namespace unmask::cuda {

// The file and version of cuBLASLt; "none" where it is not found.
std::string product_library();

}  // namespace unmask::cuda
