// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/pictures/shown.h"

#include <chrono>

#include "harness/base/error.h"
#include "harness/devices/device.h"
#include "harness/measure/pictures/prepared.h"
#include "harness/model/vision/tower.h"

namespace unmask {
shown_pictures show_picture(const loaded_model& model, const std::filesystem::path& picture,
                            const std::string& preset) {
  const vision_config vision = read_vision_config(model.directory, model.config.vocabulary);
  if (vision.kind == vision_kind::none) {
    throw environment_error(
        model.directory.string() +
        ": nothing here can show this model a picture; LLaDA-V can be shown one");
  }
  if (model.record.weights != "checkpoint") {
    throw usage_error("--image needs the checkpoint's own weights");
  }
  const prepared_picture ready = prepare_picture(picture, vision, preset, model.directory);
  const loaded_vision loaded = load_vision_weights(model.config, model.directory);
  const picture_tower tower(vision, loaded.weights, backend_of(model.run), {loaded.memory});
  shown_pictures shown;
  const auto start = std::chrono::steady_clock::now();
  shown.rows = tower(ready.pixels, ready.shape).rows;
  shown.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  shown.tower_runs = 1;
  shown.flops = tower.flops(ready.shape.views());
  return shown;
}

}  // namespace unmask
