// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/profiled.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "harness/analysis/statistics.h"
#include "harness/base/error.h"
#include "harness/profile/cupti_counters.h"
#include "harness/profile/cupti_trace.h"
#include "harness/profile/nvml.h"

namespace unmask {
namespace {

// FILE, then FILE stem-2, -3, ... for the points that follow.
std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index) {
  if (index == 0) return file;
  return file.parent_path() /
         (file.stem().string() + fmt::format("-{}", index + 1) + file.extension().string());
}

// What the points of one run share.
struct profile_run {
  profile_settings settings;
  std::size_t traces = 0;
  std::map<std::pair<std::string, std::string>, machine_roofs> roofs;

  machine_roofs roofs_of(const std::string& device, const std::string& format) {
    const auto key = std::pair(device, format);
    const auto found = roofs.find(key);
    if (found != roofs.end()) return found->second;
    return roofs[key] = settings.roofs ? settings.roofs(device, format) : machine_roofs{};
  }
};

class profiled_point final : public prepared_point {
 public:
  profiled_point(std::unique_ptr<prepared_point> inner, const experiment_point& point,
                 std::shared_ptr<profile_run> run)
      : inner_(std::move(inner)),
        title_(point.model.name + " " + point.workload.name + " " + point.label +
               (point.variation.empty() ? "" : " " + point.variation)),
        device_(point.run.device),
        run_(std::move(run)) {}

  model_record model() const override { return inner_->model(); }
  workload_record workload() const override { return inner_->workload(); }
  token_rules rules() const override { return inner_->rules(); }
  std::vector<active_knob> knobs() const override { return inner_->knobs(); }
  parameter_map measured_settings() const override { return inner_->measured_settings(); }
  std::map<std::string, std::string> probe(const probe_settings& settings) override {
    return inner_->probe(settings);
  }
  std::vector<scored_answer> score(const pass_record& pass) override { return inner_->score(pass); }

  pass_record pass() override {
    const std::int64_t repetition = passes_++ - run_->settings.warmup;
    if (repetition < 0) return inner_->pass();
    const phase_range range(profile_phase::measure, repetition);
    pass_record done = inner_->pass();
    seconds_.push_back(done.seconds);
    if (answers_.empty()) answers_ = done.answers;
    return done;
  }

  std::string calibration_report() const override { return inner_->calibration_report(); }
  std::map<std::string, std::string> measured_reports() const override {
    std::map<std::string, std::string> reports = inner_->measured_reports();
    if (run_->settings.tool != profile_tool::nvtx) reports["phases"] = phases_json(observe());
    return reports;
  }

 private:
  phase_report observe() const {
    phase_report report;
    report.roofs = run_->roofs_of(device_, inner_->model().format);
    report.untraced_seconds = mean_of(seconds_);
    const bool wants_trace = !run_->settings.trace.empty();
    phase_clock clock(wants_trace ? run_->settings.most_events : 0);
    std::vector<device_slice> slices;
    std::optional<power_sampler> sampler;
    if (wants_trace) sampler.emplace(meter_of(device_));
    if (run_->settings.tool == profile_tool::cupti) {
      slices = observe_kernels(clock, report);
    } else {
      const bool emulated = device_ == "cuda-emulated";
      if (emulated) cuda::emulator::begin_counting();
      checked_pass(&clock);
      if (emulated) report.traffic = cuda::emulator::end_counting();
    }
    report.phases = clock.totals();
    report.seconds = clock.seconds();
    if (wants_trace) {
      report.events_left_out = clock.events_left_out();
      trace_samples power{"power, W", sampler->finish()};
      for (auto& [at, watts] : power.values) at -= clock.origin();
      write_trace(clock, slices, {power});
    }
    if (run_->settings.tool == profile_tool::cupti) observe_counters(report);
    return report;
  }

  // A pass with a listener decides what the timed passes decided, or its times mean nothing.
  void checked_pass(phase_listener* listener) const {
    pass_record done;
    {
      const listening while_here(listener);
      done = inner_->pass();
    }
    const auto same = [](const answer_record& a, const answer_record& b) {
      return a.tokens == b.tokens;
    };
    if (!std::ranges::equal(done.answers, answers_, same)) {
      throw environment_error("the profiled pass gave other tokens than the timed ones");
    }
  }

  std::vector<device_slice> observe_kernels(phase_clock& clock, phase_report& report) const {
    kernel_trace trace(&clock);
    checked_pass(&trace);
    const activity_records records = trace.finish();
    const kernel_table table = correlate(records);
    report.kernels = table.rows;
    report.kernels_problem = table.problem;
    report.device_busy = table.busy;
    report.device_span = table.span;
    report.device_unattributed = table.unattributed_seconds;
    return slices_of(records, trace.offset() - clock.origin());
  }

  // Counters are a luxury: when they are refused, FLOPs and bytes stay analytic, and the row says
  // why.
  void observe_counters(phase_report& report) const {
    std::map<profile_phase, phase_report::counted> found;
    try {
      for (const std::vector<std::string>* metrics : {&roofline_metrics(), &scalar_metrics()}) {
        range_counters counters(*metrics, run_->settings.most_ranges);
        checked_pass(&counters);
        const counter_table table = counters.finish();
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

  void write_trace(const phase_clock& clock, const std::vector<device_slice>& slices,
                   const std::vector<trace_samples>& samples) const {
    const std::filesystem::path file = numbered(run_->settings.trace, run_->traces++);
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file);
    write_chrome_trace(out, title_, clock.events(), slices, clock.steps(), samples);
    out.close();
    if (!out) throw environment_error("cannot write the trace " + file.string());
  }

  std::unique_ptr<prepared_point> inner_;
  std::string title_, device_;
  std::shared_ptr<profile_run> run_;
  std::int64_t passes_ = 0;
  std::vector<double> seconds_;
  std::vector<answer_record> answers_;
};

class profiling_executor final : public executor {
 public:
  profiling_executor(std::unique_ptr<executor> with, profile_settings settings)
      : with_(std::move(with)), run_(std::make_shared<profile_run>()) {
    run_->settings = std::move(settings);
  }
  method_catalogue methods() const override { return with_->methods(); }
  std::string environment() const override { return with_->environment(); }
  std::string source_hash() const override { return with_->source_hash(); }
  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    std::vector<preparation> prepared = with_->prepare(group);
    for (std::size_t i = 0; i < prepared.size(); ++i) {
      if (!prepared[i].point) continue;
      prepared[i].point =
          std::make_unique<profiled_point>(std::move(prepared[i].point), group[i], run_);
    }
    return prepared;
  }

 private:
  std::unique_ptr<executor> with_;
  std::shared_ptr<profile_run> run_;
};

}  // namespace

std::unique_ptr<executor> make_profiling_executor(std::unique_ptr<executor> with,
                                                  profile_settings settings) {
  return std::make_unique<profiling_executor>(std::move(with), std::move(settings));
}

}  // namespace unmask
