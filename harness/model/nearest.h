// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unmask {

// Of `names`, the up to `count` closest to `wanted` in edit distance, joined by ", ".
std::string nearest_names(std::string_view wanted, const std::vector<std::string>& names,
                          std::size_t count = 3);

}  // namespace unmask
