// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a picture costs a model's tower: from shapes alone, so that no weights are read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/model/vision/picture_rows.h"

namespace unmask {

struct tower_work {
  struct product {
    std::int64_t rows = 0, in = 0, out = 0;
  };
  std::vector<product> products;  // one for each op::linear
  double attention = 0;           // FLOP of all layers: scores, and sums of values
  double flops() const;           // multiply-adds count twice
};

// Of a model with a tower; `width` is the language model's D.
tower_work work_of_tower(const vision_config& config, std::int32_t width,
                         const picture_shape& shape);

// "a picture of 640x480 pixels takes 2929 positions of a prompt and 3.37 TFLOP of the tower"; "" for a model
// without a tower.
std::string cost_of_a_picture(const vision_config& config, std::int32_t width);

}  // namespace unmask
