// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SDAR-VL: transformers' LLaVA-OneVision around SDAR. Its tower is LLaDA-V's with all layers; tensors and
// keys have other names.
#pragma once

#include <string_view>

#include "harness/model/vision/config.h"

namespace unmask {

inline constexpr std::string_view sdar_vl_architecture = "LlavaOnevisionForConditionalGeneration";
inline constexpr const char* sdar_vl_family = "sdar-vl";

inline bool is_sdar_vl(const vision_config& config) {
  return config.family == sdar_vl_family;
}

// Its keys of config.json outside `text_config`; errors name the key.
vision_config read_sdar_vl(const json_reader& config);

}  // namespace unmask
