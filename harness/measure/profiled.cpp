// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/profiled.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/devices/device.h"
#include "harness/devices/machine_use.h"
#include "harness/devices/nvml.h"
#include "harness/profile/cupti_counters.h"
#include "harness/profile/cupti_trace.h"
#include "harness/rows/statistics.h"

namespace unmask {
namespace {

// Shorter spans say nothing of who had the processors.
constexpr double least_roof_seconds = 0.02;

// Shared by the points of one run.
class profiler {
 public:
  explicit profiler(profile_settings settings) : settings_(std::move(settings)) {}

  phase_report observe(prepared_point& ready, const experiment_point& point,
                       const measured_point& timed) {
    look here{ready, timed.passes.front().answers};
    phase_report report;
    const std::string format = ready.model().used.format;
    const device_roofs before = roofs_of(point.run, format);
    const bool disturbed_before = are_disturbed(point.run, format);
    std::vector<double> seconds;
    for (const pass_record& pass : timed.passes) seconds.push_back(pass.seconds);
    report.untraced_seconds = mean_of(seconds);
    const bool wants_trace = !settings_.trace.empty();
    phase_clock clock(wants_trace ? settings_.most_events : 0);
    std::vector<device_slice> slices;
    std::optional<power_sampler> sampler;
    const device* on = device_if_chosen(point.run.device);
    if (wants_trace) sampler.emplace(on ? on->energy() : energy_meter(""));
    if (settings_.tool == profile_tool::cupti) {
      slices = observe_kernels(here, clock, report);
    } else {
      const bool counts = on && on->counts_traffic;
      if (counts) cuda::emulator::begin_counting();
      here.checked_pass(&clock);
      report.other_ranks = ready.phases_of_other_ranks();
      if (counts) report.traffic = cuda::emulator::end_counting();
    }
    take_larger(before, measured_again(point.run, format), report);
    report.roofs_disturbed = disturbed_before && are_disturbed(point.run, format);
    report.phases = clock.totals();
    report.seconds = clock.seconds();
    if (wants_trace) {
      report.events_left_out = clock.events_left_out();
      trace_samples power{"power, W", sampler->finish()};
      for (auto& [at, watts] : power.values) at -= clock.origin();
      write_trace(point, clock, slices, {power});
    }
    if (settings_.tool == profile_tool::cupti && settings_.counters) observe_counters(here, report);
    return report;
  }

 private:
  struct look {
    prepared_point& ready;
    const std::vector<answer_record>& answers;  // of the timed passes

    // A pass with a listener decides what the timed passes decided, or its times mean nothing.
    void checked_pass(phase_listener* listener) const {
      pass_record done;
      {
        const listening while_here(listener);
        done = ready.pass();
      }
      const auto same = [](const answer_record& a, const answer_record& b) {
        return a.tokens == b.tokens;
      };
      if (!std::ranges::equal(done.answers, answers, same)) {
        throw environment_error("the profiled pass gave other tokens than the timed ones");
      }
    }
  };

  device_roofs roofs_of(const run_keys& run, const std::string& format) {
    const auto key = std::tuple(run.device, run.isa, format);
    const auto found = roofs_.find(key);
    if (found != roofs_.end()) return found->second;
    const machine_watch watch;
    const device_roofs measured = settings_.roofs ? settings_.roofs(run, format) : device_roofs{};
    const machine_use use = watch.stop();
    const device* on = device_if_chosen(run.device);
    // All threads of a CPU's roofs compute all the time, unless others have the processors.
    if (use.seconds > least_roof_seconds && (on == nullptr || !on->is_card) &&
        use.own_share() < least_own_share) {
      disturbed_.insert(key);
    } else {
      disturbed_.erase(key);
    }
    return roofs_[key] = measured;
  }
  bool are_disturbed(const run_keys& run, const std::string& format) const {
    return disturbed_.contains(std::tuple(run.device, run.isa, format));
  }

  // Those after a point are those before the next one.
  device_roofs measured_again(const run_keys& run, const std::string& format) {
    roofs_.erase(std::tuple(run.device, run.isa, format));
    return roofs_of(run, format);
  }

  // Other work makes a roof lower, never higher.
  static void take_larger(const device_roofs& before, const device_roofs& after,
                          phase_report& report) {
    report.roofs = before;
    for (const auto roof : {&device_roofs::flops_per_second, &device_roofs::bytes_per_second}) {
      const auto [low, high] = std::minmax(before.*roof, after.*roof);
      report.roofs.*roof = high;
      report.roofs_uncertain = report.roofs_uncertain || high > 1.1 * low;
    }
  }

  std::vector<device_slice> observe_kernels(const look& here, phase_clock& clock,
                                            phase_report& report) const {
    const auto trace = trace_kernels(&clock);
    here.checked_pass(trace.get());
    const activity_records records = trace->finish();
    const kernel_table table = correlate(records);
    report.kernels = table.rows;
    report.kernels_problem = table.problem;
    report.device_busy = table.busy;
    report.device_span = table.span;
    report.device_unattributed = table.unattributed_seconds;
    return slices_of(records, trace->offset() - clock.origin());
  }

  // Counters are a luxury: when they are refused, FLOPs and bytes stay analytic, and the row says
  // why.
  void observe_counters(const look& here, phase_report& report) const {
    std::map<profile_phase, phase_report::counted> found;
    try {
      for (const std::vector<std::string>* metrics : {&roofline_metrics(), &scalar_metrics()}) {
        const auto counters = count_ranges(*metrics, settings_.most_ranges);
        here.checked_pass(counters.get());
        const counter_table table = counters->finish();
        if (!table.problem.empty()) throw environment_error(table.problem);
        if (table.left_out > 0) {
          throw environment_error(
              fmt::format("the run has {} phases more than were counted; "
                          "profile fewer requests",
                          table.left_out));
        }
        report.chip = table.chip;
        for (const counted_phase& p : table.phases) {
          phase_report::counted& c = found[p.phase];
          c.phase = p.phase;
          c.bytes += p.bytes;
          c.flops += p.tensor_ops + p.scalar_ops;
        }
      }
      for (const auto& [phase, counted] : found) report.counters.push_back(counted);
    } catch (const error& refused) {
      report.counters_problem = refused.what();
    }
  }

  void write_trace(const experiment_point& point, const phase_clock& clock,
                   const std::vector<device_slice>& slices,
                   const std::vector<trace_samples>& samples) {
    const std::filesystem::path file = trace_of_point(settings_.trace, traces_++);
    std::ostringstream out;
    write_chrome_trace(out, title_of(point), clock.events(), slices, clock.steps(), samples);
    replace_file(file, out.str());
  }

  profile_settings settings_;
  std::size_t traces_ = 0;
  std::map<std::tuple<std::string, std::string, std::string>, device_roofs> roofs_;
  std::set<std::tuple<std::string, std::string, std::string>>
      disturbed_;  // measured beside other work
};

}  // namespace

std::filesystem::path trace_of_point(const std::filesystem::path& file, std::size_t index) {
  if (index == 0) return file;
  return file.parent_path() /
         (file.stem().string() + fmt::format("-{}", index + 1) + file.extension().string());
}

point_watcher make_profiler(profile_settings settings) {
  if (settings.tool == profile_tool::nvtx) return {};
  return [made = std::make_shared<profiler>(std::move(settings))](
             prepared_point& ready, const experiment_point& point, const measured_point& timed) {
    return std::map<std::string, std::string>{
        {"phases", phases_json(made->observe(ready, point, timed))}};
  };
}

}  // namespace unmask
