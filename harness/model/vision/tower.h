// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From the pixels of a picture to rows that stand in a prompt where tokens stand.
#pragma once

#include <memory>
#include <vector>

#include "harness/model/vision/picture_rows.h"
#include "harness/model/vision/weights.h"
#include "kernels/backend.h"

namespace unmask {

class picture_tower {
 public:
  // Packs the weights in float32, whatever the language model's format is. `keep_alive`: what the
  // views of the weights point into.
  picture_tower(const vision_config& config, const vision_weights& weights,
                const unmask::backend& backend,
                std::vector<std::shared_ptr<const void>> keep_alive);
  ~picture_tower();

  struct features {
    tensor
        tower;  // [views * rows of a view, hidden]: behind the last layer; of qwen behind the merger
    tensor
        projected;  // [views * rows of a view + 1, D]; the last row is the newline, if there is one
    tensor rows;    // [n, D]: the picture's rows of a prompt
  };
  // `pixels` [views, height, width, 3] u8 in the host's memory, the whole picture first, then its tiles
  // row by row.
  features operator()(const tensor_view& pixels, const picture_shape& shape) const;

  // Of a picture: tower_work.h.
  double flops(const picture_shape& shape) const;

  class body;  // of one kind of tower: tower_body.h

 private:
  vision_config config_;
  std::int32_t width_;  // the language model's D
  std::unique_ptr<body> body_;
};

// What a byte of each channel is worth, [3, 256]: (byte / 255 - mean) / deviation, scaled by a product
// in double precision and normalised in single precision, as transformers does.
std::array<std::array<float, 256>, 3> byte_values(const vision_config& config);

}  // namespace unmask
