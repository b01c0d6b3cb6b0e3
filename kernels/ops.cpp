// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/ops.h"

#include <stdexcept>

namespace unmask {

std::unique_ptr<captured_graph> ops::capture(const std::function<void()>&) const {
  throw std::logic_error(name() + " records nothing");
}
void ops::replay(const captured_graph&) const {
  throw std::logic_error(name() + " records nothing");
}

}  // namespace unmask
