// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/pictures/shown.h"

#include <algorithm>
#include <chrono>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/devices/device.h"
#include "harness/profile/phases.h"

namespace unmask {
namespace {

vision_config vision_of(const loaded_model& model) {
  // Of the checkpoint's own configuration: what runs without layers keeps another one.
  vision_config vision =
      read_vision_config(model.directory, read_model_config(model.directory).vocabulary);
  if (vision.kind == vision_kind::none) {
    throw environment_error(model.directory.string() +
                            ": nothing here can show this model a picture; LLaDA-V, Dimple and "
                            "SDAR-VL can be shown one");
  }
  return vision;
}

// Of a model that has a tower.
void require_tower(const vision_config& vision, const loaded_model& model) {
  if (vision.has_tower()) return;
  throw environment_error(model.directory.string() +
                          ": the encoder of its pictures is not read; a task gives the model a "
                          "picture as `codes`");
}

std::unique_ptr<picture_tower> tower_of(const loaded_model& model, const vision_config& vision) {
  if (model.record.weights != "checkpoint") {
    throw usage_error(model.record.name + ": pictures need the checkpoint's own weights");
  }
  const loaded_vision loaded = load_vision_weights(model.config, model.directory);
  return std::make_unique<picture_tower>(vision, loaded.weights, backend_of(model.run),
                                         std::vector{loaded.memory});
}

std::array<std::int32_t, 2> grid_of(const picture_shape& shape, const vision_config& vision) {
  return {shape.view_height / vision.cell(), shape.view_width / vision.cell()};
}

shown_pictures run_tower(const picture_tower& tower, const prepared_picture& picture) {
  shown_pictures shown;
  const auto start = std::chrono::steady_clock::now();
  shown.rows = tower(picture.pixels, picture.shape).rows;
  shown.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  shown.tower_runs = 1;
  shown.flops = tower.flops(picture.shape);
  return shown;
}

// The pictures of the user's own tasks.
std::vector<task_picture> shown_by(const workload_entry& w) {
  std::vector<task_picture> all;
  if (!w.trace_format.empty() || !w.benchmark.name.empty() || !is_file(w.file)) return all;
  for (const task_item& item : select(read_tasks(w.file.string()), w.items)) {
    all.insert(all.end(), item.pictures.begin(), item.pictures.end());
  }
  return all;
}

// And of a benchmark's prompts, which may be of one model.
std::vector<task_picture> shown_by(const workload_entry& w, const std::filesystem::path& model) {
  if (w.benchmark.name.empty()) return shown_by(w);
  std::vector<task_picture> all;
  for (const benchmark_item& item : chosen_tasks(w, model).items) {
    all.insert(all.end(), item.task.pictures.begin(), item.task.pictures.end());
  }
  return all;
}

// Whether the experiment asks this model about the workload.
bool asked(const workload_entry& w, const model_entry& model) {
  return w.models.empty() || std::ranges::any_of(w.models, [&](const std::string& wanted) {
           return wanted == model.name || wanted == model.role;
         });
}

}  // namespace

shown_pictures show_picture(const loaded_model& model, const std::filesystem::path& picture,
                            const std::string& preset) {
  const vision_config vision = vision_of(model);
  require_tower(vision, model);
  const auto ready = prepare_pictures({picture_in(picture)}, vision, preset, model.directory);
  shown_pictures shown = run_tower(*tower_of(model, vision), ready.front());
  shown.grid = grid_of(ready.front().shape, vision);
  return shown;
}

workload_pictures::workload_pictures(const loaded_model& model, const std::vector<task_item>& items,
                                     bool computes)
    : vision_(vision_of(model)) {
  const vision_config& vision = vision_;
  std::vector<task_picture> all;
  for (const task_item& item : items) {
    place_.push_back(all.size());
    all.insert(all.end(), item.pictures.begin(), item.pictures.end());
  }
  if (!all.empty()) {
    require_tower(vision, model);
    pictures_ = prepare_pictures(all, vision, "", model.directory);
  }
  for (const task_item& item : items) {
    std::int64_t rows = std::ssize(item.codes);
    if (!item.pictures.empty()) rows = count_rows(vision, pictures_[place_[rows_.size()]].shape);
    rows_.push_back(static_cast<std::int32_t>(rows));
  }
  if (computes && !all.empty()) tower_ = tower_of(model, vision);
}

workload_pictures::~workload_pictures() = default;

std::string workload_pictures::pillow() const {
  std::set<std::string> versions;
  for (const prepared_picture& picture : pictures_) versions.insert(picture.pillow);
  return fmt::format("{}", fmt::join(versions, ", "));
}

std::vector<std::array<std::int32_t, 2>> workload_pictures::grids(std::size_t item) const {
  const std::size_t end = item + 1 < place_.size() ? place_[item + 1] : pictures_.size();
  std::vector<std::array<std::int32_t, 2>> all;
  for (std::size_t p = place_[item]; p < end; ++p) {
    all.push_back(grid_of(pictures_[p].shape, vision_));
  }
  return all;
}

shown_pictures workload_pictures::show(std::size_t item) const {
  if (grids(item).empty()) return {};
  const phase_range range(profile_phase::vision, rows_[item]);
  return run_tower(*tower_, pictures_[place_[item]]);
}

std::vector<std::string> prepare_pictures(const experiment_spec& spec) {
  std::set<std::string> files;
  for (const workload_entry& w : spec.workloads) {
    // A model whose tasks show nothing is not opened here.
    if (w.benchmark.name.empty() && shown_by(w).empty()) continue;
    for (const model_entry& model : spec.models) {
      if (!asked(w, model) || !is_file(model.path / "config.json")) continue;  // loading says so
      const vision_config vision =
          read_vision_config(model.path, read_model_config(model.path).vocabulary);
      if (!vision.has_tower()) continue;
      const std::vector<task_picture> all = shown_by(w, model.path);
      if (all.empty()) continue;
      if (!spec.probe.names.empty()) {
        throw usage_error((w.file.empty() ? w.name : w.file.string()) + ": " + no_probes);
      }
      prepare_pictures(all, vision, "", model.path);
      for (const task_picture& picture : all) {
        files.insert(prepared_file_name(vision, vision.preset, picture.hash));
      }
    }
  }
  return {files.begin(), files.end()};
}

}  // namespace unmask
