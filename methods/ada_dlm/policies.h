// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM: freeze a token when the history of its confidence lies nearer to the best token's than
// to that of rank K + 1, over a cache that stores a frozen token's K/V one forward later.
#pragma once

#include <memory>
#include <vector>

#include "harness/decode/registry.h"
#include "kernels/shared_vector.h"
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/parts/common.h"

namespace unmask::ada_dlm {

struct settings {
  // decision
  freeze_params decision;         // scope and threshold filled in per step
  std::int32_t history = 3;       // m
  double k = 0.15;                // K as a share
  std::int32_t k_tokens = 0;      // K itself; 0: from the share
  std::string k_basis = "scope";  // of what: scope, active, sequence
  bool boundary_last = false;     // boundary prototype: last ranked instead of rank K + 1
  bool traces = false;            // prototypes: traces of the ranks instead of rows of tokens
  bool replicate_first = false;   // first history row: replicated instead of zeros
  bool limit_to_quota = false;
  float temperature = 0;
  bool double_confidence = false;
  bool remask_by_id = false;
  bool keep_mask_input = false;  // a frozen position goes on entering as the mask
  // pace
  bool block_scope = false;
  std::int32_t block_length = 32;
  bool running_history = false;  // positions right of the block are scored too
  std::int32_t steps = 100;      // cap T
  bool commit_at_cap = true;
  // cache
  bool delay = true;
  std::int32_t cache_steps = 0;  // refresh of all cached rows every so many steps; 0: never
  bool refresh_prompt = false;
  bool ffn_only = false;
};

// The freeze rule's parameters, for every recipe that decides by it; what they mean; which of them
// exclude each other (usage error that names `method`).
std::vector<parameter_spec> decision_parameters();
settings decision_settings(const parameters& p);
void check_decision(const std::string& method, const parameters& p);

// K of a scope with `length` positions, `active` of them masked, in a sequence of `sequence`
// positions: round(k * basis), at least 1 (Algorithm 1's clamp to active - 1 is the operation's).
std::int32_t boundary_rank(const settings& s, std::int32_t length, std::int32_t active,
                           std::int32_t sequence);

// What the policies of one recipe share: tensors by place, and what the pace planned this step.
struct shared_state {
  // The batch is first seen when the first request is admitted, before any step.
  void make_room(const batch& b, const settings& s);
  void forget(const batch& b, std::int32_t s);  // another request took place s
  // The step ranks positions [first, last) of s: in another scope than before traces begin with zeros.
  void enter_scope(const batch& b, std::int32_t s, std::int32_t first, std::int32_t last);
  // recipe_views::state_bytes.
  std::size_t bytes() const;

  // [S, L, m] confidences, newest first; 0: not scored. The threshold reads those of the step alone.
  tensor history;
  tensor traces;  // [S, 2, m] of ranks 1 and K + 1, newest first; empty: centroids are tokens
  bool remembers = true;  // some of the history is of earlier steps
  tensor flags;           // [S, L] 1: this position is computed in this step
  shared_vector<std::int32_t> scope_first, scope_last, rank;
  shared_vector<std::uint8_t> whole;  // every position in play is computed
};

// Steps until nothing is masked, at most T. Step 1 computes prompt and canvas, later ones the
// unsettled part of the canvas; a refresh computes the canvas again (and the prompt on request).
class pace final : public pace_policy {
 public:
  pace(settings s, std::shared_ptr<shared_state> shared)
      : pace_policy({.steps = s.steps}), settings_(std::move(s)), shared_(std::move(shared)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;

 private:
  struct progress {
    std::int32_t step = 0;
    std::int32_t scope_first = 0, scope_last = 0;
    std::int32_t idle_steps = 0;  // consecutive steps that decided nothing
  };
  void finish(batch& b, std::int32_t s);
  settings settings_;
  std::shared_ptr<shared_state> shared_;
  per_sequence<progress> progress_;
};

// Masked rows, rows frozen in the step before, and rows that predict a masked neighbour. ffn_only:
// the others enter too, but only attend.
class rows final : public row_policy {
 public:
  rows(settings s, std::shared_ptr<shared_state> shared)
      : row_policy({.partial_rows = s.ffn_only}),
        settings_(std::move(s)),
        shared_(std::move(shared)) {}
  void select(const batch& b, const step_choice& plan, row_lists& list) override;
  void feed_forward_rows(const batch& b, const step_choice& plan, const row_lists& list,
                         row_lists& updated, tensor& index) override;

 private:
  settings settings_;
  std::shared_ptr<shared_state> shared_;
  shared_vector<std::int32_t> first_, last_;
};

class unmask final : public unmask_policy {
 public:
  unmask(settings s, std::shared_ptr<shared_state> shared)
      : unmask_policy({.masks_by_id = s.remask_by_id, .holds = s.keep_mask_input}),
        settings_(std::move(s)),
        shared_(std::move(shared)) {}
  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override;
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override;

 private:
  settings settings_;
  std::shared_ptr<shared_state> shared_;
};

}  // namespace unmask::ada_dlm
