// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Reader of .safetensors files: 8 bytes little-endian header length, a JSON header, raw tensors.
// The file is mapped, never copied; views stay valid while the safetensors_file lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/files.h"
#include "kernels/tensor.h"

namespace unmask {

inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;  // bytes, as the format says

struct safetensors_entry {
  std::string name;
  std::string type;  // as written: "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the file
  std::uint64_t end = 0;
};

// All tensors of the file whose bytes are given, sorted by name, after every check: length fields
// inside the file, valid header, known types, shape * size = bytes, tensors that tile the data
// without overlap, hole or rest. `file` names the file in errors (environment errors).
std::vector<safetensors_entry> parse_safetensors(std::span<const std::byte> bytes,
                                                 const std::string& file);

class safetensors_file {
 public:
  explicit safetensors_file(const std::filesystem::path& path);

  const std::string& path() const { return path_; }
  const std::vector<safetensors_entry>& entries() const { return entries_; }
  const safetensors_entry* find(std::string_view name) const;  // null when absent

  std::span<const std::byte> bytes_of(const safetensors_entry& entry) const;

  // View into the mapping; read only. The fourth dimension of the view is the product of all from the
  // fourth on: the entry has them apart. A tensor of another type than F32, F16, BF16 and U8, without
  // a dimension, or not aligned for its type is an environment error.
  tensor_view view(const safetensors_entry& entry) const;
  // The same of a tensor that must be there.
  tensor_view view(std::string_view name) const;

 private:
  std::string path_;
  std::shared_ptr<const mapped_file> mapping_;
  std::vector<safetensors_entry> entries_;
};

}  // namespace unmask
