// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Energy, power, clock and throttling of a pass, as the drivers of its devices count them, and who used the
// processors meanwhile: of one process, or of all ranks.
#pragma once

#include <string>
#include <vector>

#include "harness/devices/nvml.h"
#include "harness/measure/record.h"

namespace unmask {

// Of the device with this name; one that reads nothing for a stand-in that computes on no device.
energy_meter meter_of(const std::string& device);

// Into the metrics of a pass; what a device does not say is absent.
void put_use(pass_record& pass, const device_use& use);

// One rank's, as it travels to rank 0, and those of all ranks in their order: use_of_all() of their devices.
// pass_record::unmetered names a rank whose energy is missing while another has one. Ranks on the machine of
// rank 0 are no other work of it: pass_record::use is that of all of them.
std::string told_use(const device_use& use, const machine_use& of_pass);
void put_use_of_ranks(pass_record& pass, const std::vector<std::string>& told);

}  // namespace unmask
