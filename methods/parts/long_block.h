// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdint>
#include <string>

namespace unmask {

struct model_config;
struct sequence_request;

// Usage error for blocks that are longer than the response asked for and than those that the model was
// trained with: whole blocks would be decoded for a part of one.
void refuse_long_block(const std::string& method, const model_config& model,
                       const sequence_request& request, std::int32_t block);

}  // namespace unmask
