// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the step loop is made of. step_loop.cpp plans and decides, step_forward.cpp runs the layers,
// step_counts.cpp counts; nothing else includes this.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "harness/decode/captured_graphs.h"
#include "harness/decode/carried_outputs.h"
#include "harness/decode/feature_layers.h"
#include "harness/decode/step_loop.h"
#include "harness/decode/step_program.h"
#include "harness/profile/phases.h"

namespace unmask {

class rank_group;

// Where the host waits for the backend: before every place that reads on the host what an operation wrote.
//   plan     bring_home(), for pace->start() of the requests that were admitted since the last step
//   forward  bring_home() after rows->select(): the rows are counted and copied
//   decide   synchronize() before a step observer; after commit() and settle(): tokens committed, states
// and in the policies that look at results themselves. bring_home() waits only if an operation wrote what
// the host sees. So pages that are handed out and memory that is cleared are waited for by nobody, and a step
// waits once, at its end. Operations that make lists wait on their own for what they read.

// Adds the life of this object to a sum. Two clock readings, some 50 ns: nothing beside a layer.
class stopwatch {
 public:
  explicit stopwatch(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~stopwatch() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  stopwatch& operator=(stopwatch&&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

// Pages of contexts that no backend cuts in pieces; a captured graph is for those or for all.
inline constexpr std::int32_t short_pages = 8;

// The rows that the operations of a layer run on, and where their activations lie.
struct layer_input {
  row_set set;
  const std::int32_t* token = nullptr;
  const transformer::activations* acts = nullptr;
};

struct step_loop::impl {
  const transformer& model;
  const unmask::backend& backend;
  recipe method;
  loop_limits limits;
  batch state;
  kv_cache cache;
  std::unique_ptr<feature_layers> features;  // null: every layer computes all its rows
  // narrow() gathers the surviving rows into the other one: on a GPU rows are copied in no order,
  // so never in place.
  std::array<transformer::activations, 2> acts;
  int active_buffer = 0;  // the one that holds the rows
  tensor final, kept;
  tensor pictures;  // [places * picture_rows, D] f32 rows that tokens below 0 stand for, or no data
  std::array<tensor, 3> axes;  // activations::axes, or no data
  tensor plan_memory;          // of plan.arrays
  row_lists rows, entered;
  // Methods that update part of the rows only: those rows, and room to gather them.
  bool partial;
  row_lists updated;
  tensor updated_index;
  transformer::activations part;
  candidate_lists found;
  // The tokens that each generated position of a place has had; kept for rules that replace.
  std::vector<std::map<std::int32_t, std::vector<std::int32_t>>> tokens_had;
  // Of each batch slot: forward passes in a row that unmasked none of their candidates.
  struct idle_forwards {
    std::int64_t forwards = 0, candidates = 0;
  };
  std::vector<idle_forwards> idle;
  std::optional<carried_outputs> carried;  // of a block-causal model with shifted logits
  step_choice plan;
  std::int32_t most_pages = 0;             // paged_kv::most_pages of this step: short_pages or 0
  std::vector<sequence_step> last_step;    // of each place, for recomputation
  const schedule_action* parts = nullptr;  // of the current step; null: all places step
  step_observer* observer = nullptr;
  std::vector<decision_event> decisions;  // of the last step; made for the observer alone
  std::int64_t step_index = 0;
  std::int64_t layer_now = -1;          // whose operations run; -1: none
  pass_totals totals;                   // so far, without what step_loop::totals() looks up
  std::optional<step_program> program;  // of the last forward
  bool program_evicts = false, program_shows = false;
  captured_graphs graphs;  // segments of the program
  row_lists staged;        // the rows as the layers of a segment read them, or those on a GPU
  tensor staged_kept;
  // Methods with views: where the keys of each begin [V+1], their slots, which grow with the longest
  // list, and the page table of each. V: of all places at most, so that recorded layers stay the same.
  std::int32_t most_views = 0;
  tensor view_key_begin, view_slots, view_tables;
  std::vector<layer_keys> keys_of;        // of each layer of the forward
  std::vector<double> choice_flops;       // [S] of what scored in the current layer
  std::vector<std::int32_t> layer_begin;  // [S+1] rows entering the current layer
  std::vector<std::pair<std::int32_t, std::vector<double>>> uncounted;  // layers, choice_flops

  impl(const transformer& m, recipe r, const loop_limits& l);

  void refuse_dry() const;
  void make_row_lists();
  // Returns what the first `length` positions of a sequence store, a chunk of its prompt or more.
  kv_storage storage(std::int32_t prompt, std::int32_t length) const {
    return method.cache->storage(std::min(prompt, length), length);
  }
  void check_pictures(const sequence_request& request, const tensor_view& shown) const;
  void show(std::int32_t s, const tensor_view& shown);
  void place_on_axes(std::int32_t s, const sequence_request& request);
  step_numbers numbers() const;
  bool make_plan();
  sequence_step recompute_step(std::int32_t s) const;
  std::pair<profile_phase, std::int32_t> kind_of_forward() const;

  // step_forward.cpp
  void forward();
  bool choose_rows();
  void make_view_lists();
  void list_views();
  void note_entered();
  void gather_tokens();
  const std::int32_t* own_tokens() const;  // null: no row has a token of its own
  void make_program(bool evicts);
  bool can_capture(profile_phase kind) const;
  void issue_at_once();
  void issue_captured();
  using segment = std::span<const layer_action>;
  void run_captured(const segment& actions, bool shrank, bool is_staged);
  void issue(const layer_action& action, const layer_input& in);
  void embed(const layer_input& in);
  void decide_on_host(const layer_action& action);
  bool narrow(std::int32_t layer);
  void gather_kept(const std::int32_t* index, std::int32_t count);
  void select_keys(std::int32_t layer);
  void project(std::int32_t layer, const layer_input& in);
  void attend(std::int32_t layer, const layer_input& in);
  void close_layer(std::int32_t layer, const layer_input& in);
  layer_rows rows_of_layer(std::int32_t layer) const;
  // The rows as the layers read them: the lists themselves, or copies of them with padding rows.
  layer_input input();
  layer_input staged_input(std::int32_t padded, bool gather, bool is_staged);
  bool stores_at_once() const { return !partial && has_own<op::rotate_and_store>(backend); }

  // step_counts.cpp
  // Rows that a layer computed, as the beginnings [S+1] of each sequence's rows in their lists.
  struct layer_work {
    row_set rows;                             // passed the attention
    const std::int32_t* valued = nullptr;     // rows whose V was computed
    const std::int32_t* projected = nullptr;  // whose Q and K were
    const std::int32_t* fed = nullptr;        // that passed the feed-forward
    const std::int32_t* written = nullptr;    // whose K/V were stored
    const std::int32_t* compared = nullptr;  // whose V was compared with the stored one; null: none
  };
  // Summed over the rows of a sequence, and of the row that sees most.
  struct row_keys {
    double sum = 0, busiest = 0;
    double hidden = 0;  // that the model's own mask shows
  };
  row_keys keys_seen(const row_set& set, const layer_keys& keys, std::int32_t s) const;
  row_keys keys_seen_by_views(std::int32_t s) const;
  bool is_late(std::int32_t s, std::int32_t layer) const;  // sequence_counters::late_layer_rows
  void count_forward();
  void count_layer(std::int32_t layer);
  void count_layer_in_time(std::int32_t layer);  // or note it for count_noted_layers()
  void count_noted_layers();                     // behind a wait
  void count_layer(std::int32_t layer, const layer_work& work, bool stored_at_once);

  // step_digest.cpp
  std::uint64_t digest_of(std::int32_t s) const;
  // One step of a rank, in which every sum over ranks is a phase.
  void step_of_rank(rank_group& ranks);
  // rank_failure that names the ranks, the step and the request if a step differs between them.
  void compare_ranks(rank_group& ranks) const;

  void decide();
  void list_decisions();
  void commit();
  step_outcome outcome_of(std::int32_t s) const;
  void refuse_idling(std::int32_t s, std::span<const std::int32_t> candidates,
                     const step_outcome& outcome);
  // Throws a logic_error that names the method when it made decisions that it did not announce or
  // that do not fit the canvas.
  void refuse_broken_decisions(std::int32_t s) const;
  std::int64_t count_flips(std::int32_t s);
  // Finds the candidates and returns how many rows of `final` they are read from.
  std::int32_t find_candidates();
  // The same of a rule that takes candidates without rows; returns their number.
  std::int32_t list_candidates(std::int32_t shift);
};

}  // namespace unmask
