// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/nvml.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace unmask {
namespace {

TEST(nvml, reads_each_value_in_its_unit) {
  const nvml_report report = query_nvml({"0000:17:00.0"}, FAKE_NVML);
  EXPECT_EQ(report.note, "");
  EXPECT_EQ(report.driver, "999.11.05");
  ASSERT_EQ(report.devices.size(), 1U);
  const gpu_telemetry& device = report.devices[0];
  EXPECT_EQ(device.sm_clock_mhz, 1755U);
  EXPECT_EQ(device.memory_clock_mhz, 2619U);
  EXPECT_EQ(device.max_sm_clock_mhz, 1980U);
  EXPECT_EQ(device.max_memory_clock_mhz, 3201U);
  EXPECT_EQ(device.temperature_c, 41U);
  EXPECT_EQ(device.power_limit_watts, 650.5);
  EXPECT_EQ(device.throttle_reasons, 4U) << "the older name must be tried";
  EXPECT_FALSE(device.mig.has_value()) << "a refusal is not \"off\"";
}

TEST(nvml, unknown_device_is_named_and_left_empty) {
  const nvml_report report = query_nvml({"0000:99:00.0", "0000:17:00.0"}, FAKE_NVML);
  EXPECT_NE(report.note.find("0000:99:00.0"), std::string::npos) << report.note;
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_FALSE(report.devices[0].sm_clock_mhz.has_value());
  EXPECT_TRUE(report.devices[1].sm_clock_mhz.has_value());
}

TEST(nvml, absent_library_is_one_sentence) {
  const nvml_report report = query_nvml({"0000:17:00.0"}, "libno-such-telemetry.so.1");
  EXPECT_NE(report.note.find("libno-such-telemetry.so.1"), std::string::npos) << report.note;
  EXPECT_EQ(report.driver, "");
  ASSERT_EQ(report.devices.size(), 1U);
  EXPECT_FALSE(report.devices[0].temperature_c.has_value());
}

// By hand: 40 + 2.5 J, 300 + 100 W, (1800 + 1200) / 2 MHz, and the one that was throttled longer.
TEST(energy, of_devices_together_is_a_sum) {
  const device_use first{40, {300, 1800, 0.25}}, second{2.5, {100, 1200, 0}};
  const device_use all = use_of_all({first, second});
  EXPECT_EQ(all.joules, 42.5);
  EXPECT_EQ(all.load.watts, 400);
  EXPECT_EQ(all.load.sm_clock_mhz, 1500);
  EXPECT_EQ(all.load.throttled_share, 0.25);
  EXPECT_EQ(use_of_all({second}).joules, 2.5);
  device_use without = first;
  without.joules.reset();
  const device_use part = use_of_all({second, without});
  EXPECT_FALSE(part.joules);
  EXPECT_EQ(part.load.watts, 400);
  EXPECT_FALSE(use_of_all({}).joules);
}

TEST(energy, is_read_in_joules_and_watts_and_absent_where_it_cannot_be) {
  const energy_meter meter("0000:17:00.0", FAKE_NVML);
  const auto before = meter.joules(), after = meter.joules();
  ASSERT_TRUE(before && after);
  EXPECT_DOUBLE_EQ(*after - *before, 2.5);
  EXPECT_EQ(meter.watts(), 412.0);
  for (const energy_meter& none : {energy_meter("0000:99:00.0", FAKE_NVML), energy_meter(""),
                                   energy_meter("0000:17:00.0", "libno-such-telemetry.so.1")}) {
    EXPECT_FALSE(none.joules().has_value());
    EXPECT_FALSE(none.watts().has_value());
    EXPECT_FALSE(none.sm_clock_mhz().has_value());
    EXPECT_FALSE(none.throttled().has_value());
    EXPECT_TRUE(power_sampler(none).finish().empty());
    const device_load load = load_sampler(none).finish();
    EXPECT_FALSE(load.watts || load.sm_clock_mhz || load.throttled_share);
  }
}

TEST(energy, power_is_sampled_in_the_background_until_it_is_finished) {
  power_sampler sampler(energy_meter("0000:17:00.0", FAKE_NVML), 0.001);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto values = sampler.finish();
  ASSERT_GE(values.size(), 2U);
  EXPECT_EQ(values.front().second, 412.0);
  EXPECT_LT(values.front().first, values.back().first);
}

// The stand-in's power, clock and the bit of its power cap (4); a span shorter than a period has a sample.
TEST(energy, load_is_the_mean_of_samples_and_a_short_span_has_one) {
  const energy_meter meter("0000:17:00.0", FAKE_NVML);
  EXPECT_EQ(meter.sm_clock_mhz(), 1755.0);
  EXPECT_EQ(meter.throttled(), true);
  load_sampler sampler(meter, 3600);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const device_load load = sampler.finish();
  EXPECT_EQ(load.watts, 412.0);
  EXPECT_EQ(load.sm_clock_mhz, 1755.0);
  EXPECT_EQ(load.throttled_share, 1.0);
}

}  // namespace
}  // namespace unmask
