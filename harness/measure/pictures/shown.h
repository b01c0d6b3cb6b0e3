// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A picture before a model: the rows that stand in its prompt (prompt_maker::about_picture).
#pragma once

#include <filesystem>
#include <string>

#include "harness/measure/execute_parts.h"

namespace unmask {

struct shown_pictures {
  tensor rows;  // [n, D] f32 in the backend's memory (step_loop::admit); no data: no picture
  std::int32_t tower_runs = 0;
  double flops = 0;    // of the tower and the projector, multiply-adds count twice
  double seconds = 0;  // that they took
  std::int32_t count() const { return rows ? static_cast<std::int32_t>(rows.view().rows()) : 0; }
};

// Prepares the picture (prepared.h) and runs the model's tower. Environment error for a model
// that nothing here can show a picture, and for weights that are not a checkpoint's.
shown_pictures show_picture(const loaded_model& model, const std::filesystem::path& picture,
                            const std::string& preset);

}  // namespace unmask
