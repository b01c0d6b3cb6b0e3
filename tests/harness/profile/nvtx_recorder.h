// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Stands where Nsight would: linked into a test, it receives every NVTX call of the process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unmask {

struct nvtx_event {
  enum class kind : std::uint8_t { push, pop } what;
  std::string domain;
  std::string name;
  bool registered = false;  // the name came as a registered string
  std::string category;     // as the domain names it
  std::int64_t payload = 0;
};

// Everything recorded since the last call, oldest first.
std::vector<nvtx_event> take_nvtx_events();

// Strings the domain "unmask" registered so far, in order, repetitions included.
std::vector<std::string> registered_nvtx_strings();

}  // namespace unmask
