// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

constexpr std::int64_t eight = 8;

const register_settings sparse_d(
    {.method = "sparse_d",
     .refused = {model_family::sdar},
     .settings = {{"sparse_d_llada",
                   model_family::llada,
                   {{"block_length", eight}, {"block_size", eight}, {"skip", 0.1}},
                   "",
                   layer_recording::never},
                  {"sparse_d_dream",
                   model_family::dream,
                   {{"block_size", std::int64_t{5}}, {"select", 0.2}},
                   "",
                   layer_recording::never}}});

}  // namespace
}  // namespace unmask
