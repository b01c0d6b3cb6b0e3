// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstddef>
#include <functional>

namespace unmask {

// Calls work(0) .. work(count - 1), each once, on all cores, in no order. An exception of the
// lowest failing index is rethrown after all others ended.
void for_each_parallel(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace unmask
