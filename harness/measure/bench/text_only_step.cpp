// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A step of text by a model with a picture tower: loaded as it is, loaded with pictures = "off", and in a loop
// with room for a picture that no request shows. Pairs of samples take turns, and their ratio has an interval.
// UNMASK_BENCH_MODEL names the model's folder instead of the embedded ones.
#include <linux/perf_event.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "harness/decode/step_loop.h"
#include "harness/measure/execute_parts.h"
#include "harness/plan/locate.h"
#include "kernels/bench/bench.h"

namespace unmask::bench {
namespace {

constexpr std::int32_t prompt_length = 64, response_length = 64, steps_of_sample = 4;

std::filesystem::path folder_of(std::int64_t model) {
  const char* given = std::getenv("UNMASK_BENCH_MODEL");
  if (given != nullptr) return given;
  return shipped_experiments() / "models" / (model == 0 ? "tiny-llada-v" : "tiny-dimple");
}

std::shared_ptr<loaded_model> load(const std::filesystem::path& folder, const char* pictures) {
  model_entry entry;
  entry.name = "model";
  entry.path = folder;
  entry.pictures = pictures;
  run_settings run;
  run.device = "cpu";
  std::shared_ptr<loaded_model> model = load_model(entry, run);
  model->make_room(prompt_length + response_length);
  return model;
}

// Vanilla decoding of one request of text, begun again when it is done. Each of its steps costs the same.
class decoding {
 public:
  decoding(std::shared_ptr<const loaded_model> model, std::int32_t picture_rows)
      : model_(std::move(model)), picture_rows_(picture_rows) {
    for (std::int32_t i = 0; i < prompt_length; ++i) request_.prompt.push_back(i * 13 % 97);
    request_.gen_length = response_length;
  }
  // Not timed: makes sure that a sample's steps are left.
  void prepare() {
    if (left_ >= steps_of_sample) return;
    const method_info& vanilla = method_registry::instance().find("vanilla");
    loop_ = std::make_unique<step_loop>(
        *model_->packed,
        method_registry::instance().make("vanilla", model_->config,
                                         parameters(vanilla.resolve("", {}))),
        loop_limits{1, prompt_length + response_length, 0, false, picture_rows_});
    loop_->admit(request_);
    left_ = response_length;
  }
  void sample() {
    for (int i = 0; i < steps_of_sample; ++i) loop_->step();
    left_ -= steps_of_sample;
  }

 private:
  std::shared_ptr<const loaded_model> model_;
  std::int32_t picture_rows_, left_ = 0;
  sequence_request request_;
  std::unique_ptr<step_loop> loop_;
};

// Median of the ratios of pairs, and its 95 % interval by order statistics, which assumes no distribution.
struct ratio {
  double middle = 0, low = 0, high = 0;
};
ratio ratio_of(std::vector<double> pairs) {
  std::ranges::sort(pairs);
  const auto n = static_cast<double>(pairs.size());
  const double spread = 0.98 * std::sqrt(n);
  const auto at = [&](double rank) {
    return pairs[static_cast<std::size_t>(std::clamp(std::round(rank), 0.0, n - 1))];
  };
  return {at((n - 1) / 2), at((n - 1) / 2 - spread), at((n - 1) / 2 + spread)};
}

// Counts the instructions of this thread outside the kernel, if the machine does.
class instruction_counter {
 public:
  instruction_counter() {
    perf_event_attr of{};
    of.size = sizeof of;
    of.type = PERF_TYPE_HARDWARE;
    of.config = PERF_COUNT_HW_INSTRUCTIONS;
    of.exclude_kernel = 1;
    of.exclude_hv = 1;
    file_ = static_cast<int>(::syscall(SYS_perf_event_open, &of, 0, -1, -1, 0));
  }
  ~instruction_counter() {
    if (file_ >= 0) ::close(file_);
  }
  instruction_counter(const instruction_counter&) = delete;
  instruction_counter& operator=(const instruction_counter&) = delete;
  std::optional<double> now() const {
    std::uint64_t count = 0;
    const auto whole = static_cast<ssize_t>(sizeof count);
    if (file_ < 0 || ::read(file_, &count, sizeof count) != whole) return std::nullopt;
    return static_cast<double>(count);
  }

 private:
  int file_ = -1;
};

// Of one sample on one thread, whose count does not depend on how long threads wait for each other.
std::optional<double> instructions_of(decoding& of) {
  const instruction_counter counter;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  std::vector<double> counts;
  for (int i = 0; i < 5; ++i) {
    of.prepare();
    const std::optional<double> before = counter.now();
    of.sample();
    const std::optional<double> behind = counter.now();
    if (before && behind) counts.push_back(*behind - *before);
  }
  omp_set_num_threads(threads);
  if (counts.empty()) return std::nullopt;
  return median(counts);
}

void tell(benchmark::State& state, const std::string& what, const ratio& r) {
  state.counters[what] = r.middle;
  state.counters[what + "_low"] = r.low;
  state.counters[what + "_high"] = r.high;
}

// Argument: model (0 tiny-llada-v, 1 tiny-dimple). Seconds of a step as the model is over those with
// pictures = "off"; the bar is that the whole interval is within 1 %.
void text_only_step(benchmark::State& state) {
  const std::filesystem::path folder = folder_of(state.range(0));
  if (!std::filesystem::exists(folder / "config.json")) {
    const std::string why = folder.string() + " has no config.json: make it with ./dev model " +
                            folder.filename().string();
    state.SkipWithError(why.c_str());
    return;
  }
  const auto seeing = load(folder, "refuse"), blind = load(folder, "off");
  std::vector<decoding> all;
  all.emplace_back(blind, 0);
  all.emplace_back(seeing, 0);
  all.emplace_back(seeing, 36);
  std::vector<std::vector<double>> seconds(all.size());
  for (decoding& one : all) {  // their first steps allocate
    one.prepare();
    one.sample();
  }
  bool forward = true;
  for (auto _ : state) {
    for (decoding& one : all) one.prepare();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t k = forward ? i : all.size() - 1 - i;
      seconds[k].push_back(seconds_of([&] { all[k].sample(); }));
    }
    forward = !forward;
    state.SetIterationTime(seconds[0].back());
  }
  const auto over_blind = [&](std::size_t which) {
    std::vector<double> pairs;
    for (std::size_t i = 0; i < seconds[which].size(); ++i) {
      pairs.push_back(seconds[which][i] / seconds[0][i]);
    }
    return ratio_of(pairs);
  };
  state.counters["step_us"] = 1e6 * median(seconds[0]) / steps_of_sample;
  tell(state, "seeing/off", over_blind(1));
  tell(state, "with_room/off", over_blind(2));
  const std::optional<double> off = instructions_of(all[0]), on = instructions_of(all[1]);
  if (off && on) state.counters["seeing/off_instructions"] = *on / *off;
}
BENCHMARK(text_only_step)
    ->ArgNames({"model"})
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->MinTime(5.0);
// As short as it can be: does it run?
BENCHMARK(text_only_step)
    ->ArgNames({"model"})
    ->Arg(0)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(8);

}  // namespace
}  // namespace unmask::bench
