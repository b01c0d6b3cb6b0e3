// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A loaded workload under one method and its settings, and the run of its requests through the
// batching engine. Points of kind decode and serve are made of it; they differ in their arrivals, and
// in what they tell of a pass.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/base/ranks/group.h"
#include "harness/engine/engine.h"
#include "harness/engine/trajectory.h"
#include "harness/measure/execute_parts.h"
#include "harness/measure/serve_metrics.h"

namespace unmask {

// How one run takes the requests up. Request i is the workload's, which are asked again and again.
struct engine_order {
  std::vector<request_order> arrivals;
  engine_settings settings;                // without a predictor: the clock's
  std::int32_t kv_pages = 0;               // 0: enough for every place
  std::int32_t prefill_chunk = 0;          // rows of one prompt per forward; 0: whole prompts
  std::shared_ptr<const cost_model> cost;  // of a virtual clock; null: the real one
  double overhead = 0;                     // seconds waited after every forward
  step_observer* observer = nullptr;       // may be null
  // Arrival i is of request first + i * every: of one of several engines.
  std::size_t first = 0, every = 1;
};

class loaded_point : public sized_point {
 public:
  // `shorten`: the end of the sentence that refuses a request which is longer than the model allows.
  loaded_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
               std::shared_ptr<const loaded_workload> workload,
               std::shared_ptr<step_time_store> times, const std::string& shorten);

  // Its caution also says what this method does unlike the one that the checkpoint was made for.
  model_record model() const override;
  std::vector<active_knob> knobs() const override;
  std::int32_t first_late_layer() const override;
  parameter_map measured_settings() const override { return calibration_.filled(); }
  std::string calibration_report() const override { return calibration_.report(); }
  pass_size size() const override;  // every request once
  void count_in(work_meter& meter) override { meter_ = &meter; }
  std::string memory() const override;  // JSON object with the calibration
  void remember(const std::string& memory) override;
  // Each item once, however often it was asked: the answers are the same. Nothing if the answers
  // are not the model's.
  std::vector<scored_answer> score(const pass_record& pass) override;

 protected:
  recipe make() const;
  served_run run(const engine_order& order);
  // The same; if it throws, `done` has the requests that were over by then.
  void run(const engine_order& order, served_run& done);
  // The answer to a request without times: each kind of point measures its own.
  answer_record answer_of(const request_record& request) const;
  // Adds how many answers ended because they repeated themselves, if [run] asks for such ends.
  void count_repetitions(const served_run& run, pass_record& pass) const;
  // Adds the rows of pictures, and what the tower did for them; nothing if the workload shows none.
  void count_pictures(const served_run& run, pass_record& pass) const;
  // Adds what several ranks took and held; nothing of one.
  void count_ranks(const served_run& run, pass_record& pass) const;
  // Adds the seconds that a rule took which is not compiled.
  void time_rule(const served_run& run, pass_record& pass) const;

  const method_info& method_;
  const std::int32_t places_;
  const std::uint64_t seed_;
  const bool dry_;  // no layer is computed
  point_calibration calibration_;
  std::vector<std::int32_t> lengths_;  // positions of each request of the workload
  std::int32_t longest_ = 1;

 private:
  // Gathers what every rank took and held; peak_kv_bytes becomes the sum.
  void sum_up_ranks(rank_group& ranks, const rank_traffic& before, served_run& done) const;
  recipe recipe_of_run() const;  // with decisions from elsewhere, if they are not the model's

  const bool impose_;
  const std::int32_t repeat_window_;  // of loop_runner
  bool ranks_ = false;                // imposes_ranks()
  trajectory_source source_;
  work_meter* meter_ = nullptr;  // null: nobody follows
};

}  // namespace unmask
