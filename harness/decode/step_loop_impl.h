// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the step loop is made of. step_loop.cpp plans and decides, step_forward.cpp runs the layers,
// step_counts.cpp counts; nothing else includes this.
#pragma once

#include <array>
#include <chrono>
#include <utility>

#include "harness/decode/feature_layers.h"
#include "harness/decode/recordings.h"
#include "harness/decode/step_loop.h"
#include "harness/profile/phases.h"

namespace unmask {

// Where the host waits for the backend. ops::synchronize() stands before every place that reads on
// the host what an operation wrote:
//   admit    after pace->start(): policies fill their arrays anew for the next request
//   forward  after rows->select(): the rows are counted and copied
//   forward  before a layer observer; for a step observer after gather_tokens(), to copy tokens
//   decide   before a step observer; after commit() and settle(): tokens committed, states
// and in the policies that look at results themselves. Counts that operations return (compact,
// find_candidates, drop_rows, select_chunk) wait on their own.

// Adds the life of this object to a sum. Two clock readings, some 50 ns: nothing beside a layer.
class stopwatch {
 public:
  explicit stopwatch(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~stopwatch() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

// The rows that the operations of a layer run on, and where their activations lie.
struct layer_input {
  row_set set;
  const std::int32_t* token = nullptr;
  const transformer::activations* acts = nullptr;
};

struct step_loop::impl {
  const transformer& model;
  const ops& run;
  recipe method;
  loop_limits limits;
  batch state;
  kv_cache cache;
  std::unique_ptr<feature_layers> features;  // null: every layer computes all its rows
  // narrow() gathers the surviving rows into the other one: on a GPU rows are copied in no order,
  // so never in place.
  std::array<transformer::activations, 2> acts;
  int now = 0;  // the one that holds the rows
  tensor final, kept;
  tensor plan_memory;  // of plan.arrays
  row_lists rows, entered;
  // Methods that update part of the rows only: those rows, and room to gather them.
  bool partial;
  row_lists updated;
  tensor updated_index;
  transformer::activations part;
  candidate_lists found;
  step_plan plan;
  std::vector<sequence_step> last_step;   // of each place, for recomputation
  std::vector<std::int64_t> rows_before;  // rows of each sequence entering the current layer
  const step_part* parts = nullptr;       // of the current step; null: all places step
  step_observer* observer = nullptr;
  std::int64_t step_index = 0;
  loop_seconds seconds;
  recordings recorded;  // stretches of layers
  row_lists staged;     // the rows as layers read them that are recorded, or on a GPU
  tensor staged_kept;
  std::vector<key_set> keys_of;  // of each layer of the forward

  impl(const transformer& m, recipe r, const loop_limits& l);

  void refuse_dry() const;
  bool make_plan();
  sequence_step once_more(std::int32_t s) const;
  std::pair<work_phase, std::int32_t> kind_of_forward() const;
  void forward();
  void choose_rows();
  void forward_layers(layer_input in);
  void forward_recorded();
  bool can_record(work_phase kind) const;
  // Layers that are recorded together: first .. end - 1 whole, but for the projection of the first
  // where it is `inside`, and the projection of layer `end`, or the final norm behind the last one.
  struct stretch {
    std::int32_t first = 0;
    bool inside = false;  // the K/V of layer `first` are written already
    bool gather = false;  // and its rows have shrunk
    std::int32_t end = 0;
  };
  std::int32_t end_of_stretch(std::int32_t first, bool inside) const;
  void run_stretch(const stretch& layers);
  void choose_keys(const stretch& layers, std::int32_t padded);
  void issue_stretch(const stretch& layers, const layer_input& in, const std::int32_t* index);
  bool narrow(std::int32_t layer);
  void gather_kept(const std::int32_t* index, std::int32_t count);
  void embed(const layer_input& in);
  void project(std::int32_t layer, const layer_input& in);
  void attend(std::int32_t layer, const layer_input& in, const key_set& keys);
  void close_layer(std::int32_t layer, const layer_input& in);
  void final_norm(const layer_input& in);
  // The rows as the layers read them: the lists themselves, or copies of them, padded.
  layer_input input();
  layer_input staged_input(std::int32_t padded, bool gather);
  bool stores_at_once() const { return !partial && run.rotates_and_stores_at_once(); }
  // Summed over the rows of a sequence, and of the row that sees most.
  struct row_keys {
    double sum = 0, busiest = 0;
    double hidden = 0;  // that the model's own mask shows
  };
  row_keys keys_seen(const row_set& set, const key_set& keys, std::int32_t s) const;
  bool is_late(std::int32_t s, std::int32_t layer) const;  // sequence_counters::late_layer_rows
  void count_forward(std::int32_t s, std::int64_t entering);
  void count_dry();
  void decide();
  void count_layer(std::int32_t layer, const key_set& keys, bool first_layer);
  void count_features(std::int32_t layer, const feature_work& work);
};

}  // namespace unmask
