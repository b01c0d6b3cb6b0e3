// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A loaded model and workload, and what the kinds of points that are made of them share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/engine/clock.h"
#include "harness/measure/point.h"
#include "harness/model/chat_template.h"
#include "harness/model/tokenizer.h"
#include "harness/model/transformer.h"
#include "harness/model/weights.h"
#include "harness/workload/task.h"

namespace unmask {

// A checkpoint as read, and packed for one backend and format.
struct loaded_model {
  std::filesystem::path directory;  // of the checkpoint
  model_config config;
  std::optional<tokenizer> tokens;    // absent when only shapes were wanted
  std::optional<chat_template> chat;  // with the tokenizer
  model_weights weights;
  model_record record;
  run_keys run;                       // whose kernels run (backend_of)
  dtype kv_dtype = dtype::f32;        // of keys and values
  std::size_t kv_bytes_per_slot = 0;  // of the checkpoint's own shape, in that type
  std::shared_ptr<const transformer> packed;

  // Makes the transformer anew only when it must hold more rows than before.
  void make_room(std::int32_t rows);
};

class workload_pictures;  // pictures/shown.h
// What of a model this rank packs for a run.
model_share share_of_run(const run_keys& run);

struct loaded_workload {
  std::vector<task_item> items;            // of tasks
  std::vector<sequence_request> requests;  // in the order of the items or of the trace
  std::vector<double> arrivals;            // of a trace, seconds from 0
  workload_record record;
  std::shared_ptr<const workload_pictures> pictures;     // of the items; null: none shows one
  std::shared_ptr<loaded_model> rater;                   // workload_entry::rater
  std::vector<std::vector<std::int32_t>> rated_prompts;  // of each item, in the rater's tokens
  std::vector<double> rated_references;  // likelihood of each item's own answer; NaN: it has none
};

// The geometric mean of the probabilities of a text's tokens behind a prompt; NaN for a text without any.
double likelihood_of(loaded_model& rater, const std::vector<std::int32_t>& prompt,
                     const std::string& text);

// Several models in one process are kept apart by this key.
std::string model_key(const model_entry& entry, const run_settings& run);
std::shared_ptr<loaded_model> load_model(const model_entry& entry, const run_settings& run);
// The same for a planned point, after the device check of the kernels that its [run] asks for.
// Environment error that names the places looked in where there is no such model.
std::shared_ptr<loaded_model> load_model_of(const experiment_point& point);
// SHA-256 of a line of numbers for each prompt: its tokens, a blank behind each.
std::string hash_of_prompts(const std::vector<sequence_request>& requests);
std::shared_ptr<const loaded_workload> load_workload(const workload_entry& entry,
                                                     const run_settings& run,
                                                     const loaded_model& model);

// Tokens to generate: the workload's own, else the run's, else the item's.
std::int32_t generated_length(const workload_entry& entry, const run_settings& run,
                              const task_item& item);
// Each request has noise of its own, whatever the batch it is decoded in.
std::uint64_t request_seed(const run_settings& run, std::size_t request);

// Detokenise and score answers; answer i belongs to item item_of[i]. An answer that cannot be judged is
// undecided, with the reason as its note.
std::vector<scored_answer> score_answers(const loaded_model& model, const loaded_workload& workload,
                                         const std::vector<answer_record>& answers,
                                         const std::vector<std::size_t>& item_of,
                                         const token_rules& rules);

// Step times of one run of the program: a cell that was measured is not measured again.
using step_time_store = std::map<std::string, step_time>;

// Holds what a method that calibrates itself learnt for one point.
class point_calibration {
 public:
  // `key`: of the model as packed (model_key()); `store` may be shared by many points.
  point_calibration(const method_info& method, const model_config& model, parameter_map params,
                    std::int32_t requests, std::string key, std::shared_ptr<step_time_store> store);
  // Rows that the model must hold for the measurement; 0: nothing to measure.
  std::int32_t rows() const;
  // Once, before the first pass, outside every timer. `cost` given: its times instead of a clock's.
  void run(const transformer& packed, const cost_model* cost);
  // The parameters to run with.
  const parameters& settings() const { return settings_; }
  parameter_map filled() const { return found_ ? found_->settings : parameter_map{}; }
  // Takes what the method learnt from the steps of the last pass (pace_policy::learnt()).
  void keep(std::string learnt) { learnt_ = std::move(learnt); }
  std::string report() const;  // JSON object; empty: nothing was learnt
  // All of it as text, for another process that goes on with the same point; empty: nothing yet.
  std::string memory() const;
  void remember(const std::string& memory);

 private:
  recipe make(const parameter_map& given) const;
  step_time time_of(const transformer& packed, const parameter_map& given, std::int32_t requests);
  const method_info& method_;
  const model_config& model_;
  parameters settings_;
  std::int32_t requests_;
  std::string key_;
  std::shared_ptr<step_time_store> store_;
  std::optional<calibration> found_;
  bool done_ = false, modelled_ = false;
  std::string learnt_;
};

// A point that knows how many rows the model must hold for it before it is measured.
class sized_point : public prepared_point {
 public:
  sized_point(std::shared_ptr<const loaded_model> model,
              std::shared_ptr<const loaded_workload> workload)
      : model_(std::move(model)), workload_(std::move(workload)) {}
  virtual std::int32_t rows() const = 0;
  model_record model() const override { return model_->record; }
  workload_record workload() const override { return workload_->record; }
  std::map<std::string, std::string> samples(const std::vector<scored_answer>& scores,
                                             const std::string& run_id, const std::string& point_id,
                                             const std::string& date) const override;
  token_rules rules() const override { return rules_of(model_->config); }

 protected:
  const std::shared_ptr<const loaded_model> model_;
  const std::shared_ptr<const loaded_workload> workload_;
};

// The knobs of a method that these settings turn.
std::vector<active_knob> knobs_of(const method_info& method, const parameters& settings);

// A point of kind likelihood: the choice among each item's continuations.
std::unique_ptr<sized_point> make_likelihood_point(const experiment_point& point,
                                                   std::shared_ptr<const loaded_model> model,
                                                   std::shared_ptr<const loaded_workload> workload);
// A point of kind decode, and one of kind serve: requests through the batching engine.
std::unique_ptr<sized_point> make_decode_point(const experiment_point& point,
                                               std::shared_ptr<const loaded_model> model,
                                               std::shared_ptr<const loaded_workload> workload,
                                               std::shared_ptr<step_time_store> times);
// Usage error if a virtual clock names a GPU that cannot hold its share of the model.
void check_card(const experiment_point& point, const loaded_workload& workload);
std::unique_ptr<sized_point> make_serve_point(const experiment_point& point,
                                              std::shared_ptr<const loaded_model> model,
                                              std::shared_ptr<const loaded_workload> workload,
                                              std::shared_ptr<step_time_store> times);

}  // namespace unmask
