// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any bytes as a .safetensors file: an environment error, or entries that lie inside the file.
#include <cstdint>
#include <cstdlib>

#include "harness/base/error.h"
#include "harness/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    for (const unmask::safetensors_entry& entry : unmask::parse_safetensors(bytes, "fuzz")) {
      if (entry.begin < 8 || entry.begin > entry.end || entry.end > size) std::abort();
      for (const std::int64_t n : entry.shape) {
        if (n < 0) std::abort();
      }
    }
  } catch (const unmask::error& problem) {
    if (problem.code() != unmask::exit_code::environment) std::abort();
  }
  return 0;
}
