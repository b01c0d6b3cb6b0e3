// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings minimal({.method = "minimal",
                                 .refused = {model_family::sdar},
                                 .settings = {
                                     {"minimal_blocks", model_family::llada, {{"block_length", 8}}},
                                     {"minimal_dream", model_family::dream, {}}}});

}  // namespace
}  // namespace unmask
