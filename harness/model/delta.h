// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

namespace unmask {

// What the folder of an opt-in model holds in place of its weights, until `./dev model` makes them.
constexpr const char* delta_file = "delta.safetensors";

}  // namespace unmask
