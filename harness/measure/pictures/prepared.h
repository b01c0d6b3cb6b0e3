// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From a picture to the file that the Python package made of it for a model. Its name says by a hash
// what it was made of; its metadata say it in words, and what does not fit is refused.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/model/vision/picture_rows.h"
#include "harness/workload/task.h"
#include "kernels/tensor.h"

namespace unmask {

struct prepared_picture {
  picture_shape shape;
  tensor_view pixels;  // [views, side, side, 3] u8
  std::string preset;
  std::string pillow;                  // the version that resampled it
  std::shared_ptr<const void> memory;  // keeps what the view points into alive
};

// picture-HASH.safetensors of the picture with this SHA-256.
std::string prepared_file_name(const vision_config& config, const std::string& preset,
                               const std::string& picture_hash);

// Reads a prepared file. Environment error that names the file and the key for one of another model,
// preset, picture or rule, or whose sizes are not those that follow from the picture's.
prepared_picture read_prepared_picture(const std::filesystem::path& file,
                                       const vision_config& config, const std::string& preset,
                                       const std::string& picture_hash);

// The prepared file of each picture: looked for in the folders of $UNMASK_PICTURES, in pictures/ here
// and in $XDG_CACHE_HOME/unmask/pictures (~/.cache); else the package writes them there, all in one
// call. Environment error "NOT RUN: needs ..." if Python is missing; what the package says of a picture
// stands on standard error. An empty preset is the model's usual one; usage error for one that the model
// does not have.
std::vector<prepared_picture> prepare_pictures(const std::vector<task_picture>& pictures,
                                               const vision_config& config, std::string preset,
                                               const std::filesystem::path& model);
task_picture picture_in(const std::filesystem::path& file);  // environment error: there is none

}  // namespace unmask
