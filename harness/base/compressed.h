// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Packed files as datasets are published: gzip and zip. Nothing is written to disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace unmask {

// Whole content of a file, unpacked where it begins with gzip's two bytes. Environment error that
// names the file when it is missing, broken or larger than `limit` bytes unpacked.
std::string read_plain_or_gzip(const std::filesystem::path& path, std::size_t limit);

// The member of a zip archive whose path ends with `name` at a folder boundary; none without one.
// Environment error that names the archive when it is broken or the member too large.
std::optional<std::string> read_zip_member(const std::filesystem::path& archive,
                                           const std::string& name, std::size_t limit);

}  // namespace unmask
