// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// "Did you mean": names by edit distance, for every message about an unknown name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unmask::inline base {

// The `count` names nearest to `wrong` by edit distance without regard to case, best first.
std::vector<std::string> nearest_names(std::string_view wrong,
                                       const std::vector<std::string>& known,
                                       std::size_t count = 3);

// Words with something between.
std::string joined(const std::vector<std::string>& words, std::string_view between = ", ");

// The nearest names with commas between.
std::string nearest_list(std::string_view wrong, const std::vector<std::string>& known,
                         std::size_t count = 3);

// "unknown WHAT 'x'; did you mean 'y'?", or the full list when nothing is near.
std::string unknown_name(const std::string& what, const std::string& wrong,
                         const std::vector<std::string>& known);

}  // namespace unmask::base
