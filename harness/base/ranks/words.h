// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Seconds and numbers in what ranks say, for the files of this folder.
#pragma once

#include <cstdio>
#include <ctime>
#include <string>

namespace unmask {

inline constexpr double seconds_of_slice = 0.05;  // who waits looks around so often

inline double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline std::string short_text(double number) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.4g", number))};
}

}  // namespace unmask
