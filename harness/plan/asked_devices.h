// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which devices an experiment asks for, and what they are on this machine.
#pragma once

#include <string>
#include <vector>

#include "harness/devices/device.h"
#include "harness/plan/spec.h"

namespace unmask {

// The devices an experiment asks for, in its order, none twice: --set before the sweep before [run].
std::vector<std::string> devices_of(const experiment_spec& spec);
// Those, chosen.
std::vector<chosen_device> choose_devices(const experiment_spec& spec);

}  // namespace unmask
