// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The definition, in plain loops. The CPU backend uses it too, because it has no body of its own.
#include "tests/minimal_method/kernels/minimal_operation.h"

namespace unmask::reference {
namespace {

void accept_leftmost(const op::accept_leftmost& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const std::int32_t first = args.candidates.begin[s];
    for (std::int32_t c = first; c < args.candidates.begin[s + 1]; ++c) {
      args.accept[c] = c - first < args.quota[s] ? 1 : 0;
    }
  }
}

const register_operations<accept_leftmost> registered(target::reference);

}  // namespace
}  // namespace unmask::reference
