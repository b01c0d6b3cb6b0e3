// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings eb_sampler(
    {.method = "eb_sampler",
     .refused = {sdar, qwen3},
     .settings = {
         {"eb_canvas", llada, {{"gamma", 3.0}}},
         {"eb_margin", llada, {{"gamma", 4.0}, {"order", "margin"}, {"block_length", 8}}},
         {"eb_dual",
          llada,
          {{"gamma", 4.0}, {"rule", "sum_before"}, {"block_length", 8}, {"cache", "dual"}}},
         {"eb_dream_prefix",
          dream,
          {{"gamma", 4.0}, {"order", "confidence"}, {"block_length", 8}, {"cache", "prefix"}}},
         {"eb_dream", dream, {{"gamma", 3.0}, {"min_tokens", 2}}}}});

}  // namespace
}  // namespace unmask
