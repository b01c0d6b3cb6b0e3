// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace unmask {

// True when the bytes begin as gzip files do.
bool is_gzip(std::string_view bytes);

// The content of a gzip file, all its members one after the other. Environment error that names
// `file` when it is damaged, cut short, or unpacks to more than limit bytes.
std::string gunzip(std::string_view bytes, const std::string& file, std::size_t limit);

}  // namespace unmask
