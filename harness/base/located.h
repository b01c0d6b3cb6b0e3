// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>

#include "harness/base/error.h"

namespace unmask {

// Does `work`, whose error becomes a usage error that begins with the place it is about.
template <class Work>
auto located(const std::string& where, const Work& work) {
  try {
    return work();
  } catch (const error& problem) {
    throw usage_error(where + ": " + problem.what());
  }
}

}  // namespace unmask
