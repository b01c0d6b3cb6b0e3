// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/ops.h"

#include <stdexcept>

namespace unmask {

std::unique_ptr<recorded_work> ops::record(const std::function<void()>&) const {
  throw std::logic_error(name() + " records nothing");
}
void ops::repeat(const recorded_work&) const {
  throw std::logic_error(name() + " records nothing");
}

}  // namespace unmask
