// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>
#include <string_view>

#include "harness/model/config.h"

namespace unmask {

// read_model_config on texts in memory; generation may be empty (no such file). directory stands
// before the file names in messages and its last component becomes model_config::name.
model_config parse_model_config(std::string_view config, std::string_view generation,
                                const std::string& directory);

}  // namespace unmask
