// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Packed files as data sets are published: gzip. Nothing is written to disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace unmask {

// True when the bytes begin as gzip files do.
bool is_gzip(std::string_view bytes);

// The content of a gzip file, all its members one after the other. Environment error that names
// `file` when it is damaged, cut short, or unpacks to more than limit bytes.
std::string gunzip(std::string_view bytes, const std::string& file, std::size_t limit);

// Whole content of a file, unpacked where it begins with gzip's two bytes. Environment error that
// names the file when it is missing, broken or larger than `limit` bytes unpacked.
std::string read_plain_or_gzip(const std::filesystem::path& path, std::size_t limit);

}  // namespace unmask
