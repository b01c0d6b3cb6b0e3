// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Pictures before a model: the rows that stand in its prompts (prompt_maker::about_picture).
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/measure/execute_parts.h"
#include "harness/measure/pictures/prepared.h"
#include "harness/model/vision/tower.h"
#include "harness/plan/spec.h"

namespace unmask {

struct shown_pictures {
  tensor rows;  // [n, D] f32 in the backend's memory (step_loop::admit); no data: no picture
  std::int32_t tower_runs = 0;
  double flops = 0;    // of the tower and the projector, multiply-adds count twice
  double seconds = 0;  // that they took
  std::array<std::int32_t, 2> grid =
      {};  // rows and columns (sequence_request::grids), if it has places
  std::int32_t count() const { return rows ? static_cast<std::int32_t>(rows.view().rows()) : 0; }
};

// Prepares the picture (prepared.h) and runs the model's tower. Environment error for a model
// that nothing here can show a picture, and for weights that are not a checkpoint's.
shown_pictures show_picture(const loaded_model& model, const std::filesystem::path& picture,
                            const std::string& preset);

// The pictures of a workload's items, prepared, and the tower that they are shown to.
class workload_pictures {
 public:
  // `computes`: the tower runs; else its rows are counted and no weights are read. The errors of
  // show_picture; the model must outlive this.
  workload_pictures(const loaded_model& model, const std::vector<task_item>& items, bool computes);
  ~workload_pictures();

  const std::vector<std::int32_t>& rows() const { return rows_; }  // of each item; 0: no picture
  // sequence_request::grids of an item.
  std::vector<std::array<std::int32_t, 2>> grids(std::size_t item) const;
  bool computes() const { return tower_ != nullptr; }
  bool holds_pictures() const { return !pictures_.empty(); }  // not codes alone
  // workload_record::picture_preset and pillow.
  std::string preset() const { return holds_pictures() ? pictures_.front().preset : ""; }
  std::string pillow() const;
  // Of the tower that they are shown to (unmask::tower_bytes); 0: there are none.
  double tower_bytes(std::int32_t width) const {
    return holds_pictures() ? unmask::tower_bytes(vision_, width) : 0;
  }
  // Runs the tower, in phase `vision`; nothing for an item without a picture.
  shown_pictures show(std::size_t item) const;

 private:
  std::vector<std::int32_t> rows_;
  std::vector<std::size_t> place_;  // of each item's picture
  std::vector<prepared_picture> pictures_;
  vision_config vision_;
  std::unique_ptr<picture_tower> tower_;
};

// Of tasks that show pictures.
inline constexpr const char* no_probes =
    "probes decode a request again, and its `images` would not be shown; leave out [probe]";

// Prepares every picture that the experiment shows a model of it, before any model is loaded. Returns the
// names of the prepared files, each once. Usage error if it asks for probes of them.
std::vector<std::string> prepare_pictures(const experiment_spec& spec);

}  // namespace unmask
