// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the fuzz targets share: an input as a file, for readers that take a path, and the promise that
// every reader makes: it reads the text, or throws an error of the program with a sentence.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harness/base/error.h"

namespace unmask::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

// A file in memory with these bytes, as long as it lives.
class input_file {
 public:
  explicit input_file(std::string_view text) : descriptor_(memfd_create("input", 0)) {
    require(descriptor_ >= 0);
    require(::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  ~input_file() { ::close(descriptor_); }
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Runs read(); any exception but an error of the program, with a sentence, ends the process.
template <class F>
void reads_or_refuses(const F& read) {
  try {
    read();
  } catch (const error& problem) {
    require(problem.what() != nullptr && *problem.what() != '\0');
    require(std::string_view(problem.what()).find("json.exception") == std::string_view::npos);
    require(problem.code() == exit_code::environment || problem.code() == exit_code::usage);
  }
}

}  // namespace unmask::fuzz
