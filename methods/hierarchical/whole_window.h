// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The loop in which dInfer runs its decoders on a bidirectional model: block after block, every
// forward over prompt and canvas, until the block is clean; a stop id in it ends the answer.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/registry.h"

namespace unmask::dinfer {

// block_length, stop, early_stop.
std::vector<parameter_spec> loop_parameters();
// Usage errors for models that are not bidirectional or read shifted rows, and for unreadable stop
// ids.
void check(const std::string& method, const model_config& model, const parameters& p);
// The recipe without its rule.
recipe make_loop(const std::string& method, const model_config& model, const parameters& p);
// What the recorded runs of all decoders share.
parameter_map recorded_settings(const parameter_map& recorded);

}  // namespace unmask::dinfer
