// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/model/transformer.h"

namespace unmask {

// One forward of `tokens` at positions 0, 1, 2, ... through the same step loop as decoding, and
// the logits of every row: [tokens.size(), V]. For checks of the model itself. Tokens below 0 are rows
// of `pictures` (step_loop::admit), whose places are `grids` (sequence_request).
tensor plain_forward(const transformer& model, const std::vector<std::int32_t>& tokens,
                     mask_kind mask, std::int32_t block, const tensor_view& pictures = {},
                     const std::vector<std::array<std::int32_t, 2>>& grids = {});

// The same for several sequences in one forward, and the logits of the rows asked for only:
// [rows.size(), V], rows counted over all sequences end to end, at least one. The model must have
// been made for all of their tokens (max_rows).
tensor forward_rows(const transformer& model,
                    const std::vector<std::vector<std::int32_t>>& sequences, mask_kind mask,
                    std::int32_t block, const std::vector<std::int32_t>& rows,
                    const tensor_view& pictures = {},
                    const std::vector<std::array<std::int32_t, 2>>& grids = {});

}  // namespace unmask
