// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Pictures of golden data: prepared files, what the model's tower makes of them, and prompts that show
// them.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/model/vision/tower.h"
#include "tests/goldens/replay/replay.h"

namespace unmask {

// In recorded ids: a row of LLaDA-V's picture, which has no token.
inline constexpr std::int32_t recorded_picture_row = -200;

// What a recorded case shows: rows of the picture that its `image` names, or no data.
tensor pictures_of(const nlohmann::json& record, const golden_options& options,
                   const std::filesystem::path& model);
// Recorded ids with the rows of the picture as tokens -1, -2, ... (step_loop::admit).
std::vector<std::int32_t> with_picture_rows(std::vector<std::int32_t> ids);

// Towers, projectors and prompt rows of vision/*.json, for the pictures that prepared/ holds.
golden_summary replay_vision(const golden_options& options);

}  // namespace unmask
