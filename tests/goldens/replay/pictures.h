// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Pictures of golden data: prepared files, what the model's tower makes of them, and prompts that show
// them.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/model/vision/tower.h"
#include "tests/goldens/replay/replay.h"

namespace unmask {

// What a recorded case shows: rows of the picture that its `image` names, or of several `images`, and
// their places; no data where it shows none.
struct recorded_pictures {
  tensor rows;
  std::vector<std::array<std::int32_t, 2>> grids;
  tensor_view view() const { return rows ? rows.view() : tensor_view{}; }
  std::int32_t count() const { return rows ? static_cast<std::int32_t>(rows.view().rows()) : 0; }
};
recorded_pictures pictures_of(const nlohmann::json& record, const golden_options& options,
                              const std::filesystem::path& model);

// In recorded ids: a row of a picture. LLaDA-V has no token for it; tiny-dimple has.
std::int32_t recorded_picture_row(const nlohmann::json& record);
// Recorded ids with the rows of the pictures as tokens -1, -2, ... (step_loop::admit).
std::vector<std::int32_t> with_picture_rows(std::vector<std::int32_t> ids, std::int32_t recorded);

// Towers, projectors and prompt rows of vision/*.json. A picture whose prepared file is missing fails.
golden_summary replay_vision(const golden_options& options);

}  // namespace unmask
