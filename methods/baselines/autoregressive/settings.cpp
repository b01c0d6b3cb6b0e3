// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

const register_settings autoregressive(
    {.method = "autoregressive",
     .refused = {model_family::sdar},
     .settings = {{"autoregressive", model_family::qwen3, {}},
                  {"autoregressive_sampled", model_family::qwen3, {{"temperature", 0.8}}}}});

}  // namespace
}  // namespace unmask
