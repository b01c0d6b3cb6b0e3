// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Linked with the kernels that say where they load and store, and with no others.
#include "kernels/cuda/device/traffic.h"

namespace unmask::cuda::emulator {
namespace {

[[maybe_unused]] const bool said = kernels_are_watched = true;

}  // namespace
}  // namespace unmask::cuda::emulator
