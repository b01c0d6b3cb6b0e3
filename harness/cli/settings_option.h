// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>
#include <vector>

#include "harness/decode/registry.h"

namespace unmask {

// "name=value" texts as typed values of the method's parameters; a name the method does not have
// is passed on as text, so that resolve_parameters answers with the nearest one.
parameter_map parse_settings(const method_info& method, const std::vector<std::string>& texts);

}  // namespace unmask
