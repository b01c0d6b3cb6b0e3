// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings multi_block(
    {.method = "multi_block",
     .refused = {qwen3},
     .settings = {{"multi_block_d2f",
                   llada,
                   {{"block_length", 8}, {"threshold", 0.3}},
                   "",
                   layer_recording::seldom},
                  {"multi_block_dream",
                   dream,
                   {{"block_length", 4}, {"threshold", 0.3}, {"add_block_threshold", 0.5}}},
                  {"multi_block_entropy",
                   dream,
                   {{"block_length", 8},
                    {"threshold", 0.35},
                    {"confidence", std::string("negative_entropy")},
                    {"activation_threshold", 0.5}},
                   "",
                   layer_recording::seldom},
                  {"multi_block_diffulex",
                   sdar,
                   {{"block_length", 4}, {"threshold", 0.3}, {"max_blocks", 4}}},
                  {"multi_block_single",
                   sdar,
                   {{"block_length", 8}, {"threshold", 0.3}, {"max_blocks", 1}}}}});

}  // namespace
}  // namespace unmask
