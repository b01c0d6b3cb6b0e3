// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/probe_settings.h"

namespace unmask {

const std::vector<std::string>& probe_names() {
  static const std::vector<std::string> names = {"attention",    "confidence",  "contradiction",
                                                 "decode_trace", "decoding",    "importance",
                                                 "kv_change",    "peak_oracle", "stagnation"};
  return names;
}

}  // namespace unmask
