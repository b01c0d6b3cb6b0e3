// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a recipe needs to run at Optimus' pace: its parameters, their checks, the shared state that
// they describe and the latency profile. `method` names who asks, in messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "methods/optimus/optimus_policies.h"

namespace unmask {

std::vector<parameter_spec> optimus_parameters();

// Throws usage_error.
void check_optimus(const std::string& method, const model_config& model, const parameters& p);

// lists_keys: see optimus_settings.
std::shared_ptr<optimus_state> optimus_state_of(const std::string& method,
                                                const model_config& model, const parameters& p,
                                                bool lists_keys);

// method_info::calibrate; `also`: further parameters that hold while steps are timed.
std::optional<calibration> calibrate_optimus(const model_config& model, const parameters& p,
                                             std::int32_t requests, const step_timer& timer,
                                             const parameter_map& also);

}  // namespace unmask
