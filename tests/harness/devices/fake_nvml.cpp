// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Answers for one device, "0000:17:00.0", with values of its own; every other bus id is unknown.
// It leaves out nvmlDeviceGetCurrentClocksEventReasons, as old drivers do, and refuses MIG.
#include <cstring>

namespace {
constexpr int success = 0;
constexpr int not_supported = 3;
constexpr int not_found = 6;
int the_device;
}  // namespace

extern "C" {

int nvmlInit_v2() {
  return success;
}
int nvmlShutdown() {
  return success;
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::strncpy(version, "999.11.05", length);
  return success;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (std::strcmp(bus_id, "0000:17:00.0") != 0) return not_found;
  *device = &the_device;
  return success;
}

int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
  *mhz = clock == 1 ? 1755 : 2619;
  return device == &the_device ? success : not_found;
}

int nvmlDeviceGetMaxClockInfo(void*, int clock, unsigned* mhz) {
  *mhz = clock == 1 ? 1980 : 3201;
  return success;
}

int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 41;
  return success;
}

int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 650500;
  return success;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = 4;
  return success;
}

int nvmlDeviceGetMigMode(void*, unsigned*, unsigned*) {
  return not_supported;
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long spent = 1000;
  *millijoules = spent += 2500;
  return device == &the_device ? success : not_found;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 412000;
  return device == &the_device ? success : not_found;
}

}  // extern "C"
