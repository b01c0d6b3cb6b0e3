// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Files of a checkpoint: small ones read whole, large ones mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace unmask {

// Whole content of a regular file. Missing, unreadable or larger than limit bytes: environment
// error that names the file.
std::string read_file(const std::filesystem::path& path, std::size_t limit);

// A file mapped read-only; stays mapped while the pointer lives. Empty files map to an empty span.
class mapped_file {
 public:
  static std::shared_ptr<const mapped_file> open(const std::filesystem::path& path);
  ~mapped_file();
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  mapped_file() = default;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace unmask
