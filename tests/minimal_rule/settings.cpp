// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings rising(
    {.method = "rising",
     .refused = {model_family::llada},
     .settings = {
         {"rising_blocks", model_family::sdar, {{"rises", 1}, {"block_length", 8}}},
         {"rising_dual", model_family::llada, {{"base", "fast_dllm"}, {"block_length", 8}}}}});

}  // namespace
}  // namespace unmask
