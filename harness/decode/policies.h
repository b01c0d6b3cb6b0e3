// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The five slots of a decoding method. A recipe fills each with one policy; the step loop
// (step_loop.cpp) calls them in the order of the papers' pseudo-code and does all the counting.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/decode/batch.h"
#include "harness/decode/kv_cache.h"
#include "kernels/ops.h"

namespace unmask {

// What one sequence does in this step. Positions are absolute, ranges half open.
struct sequence_step {
  bool active = false;
  phase what = phase::denoise;
  std::int32_t first = 0, last = 0;  // positions in play: rows are chosen from these
  std::int32_t candidate_first = 0, candidate_last = 0;  // where tokens may be decided
  std::int32_t quota = 0;      // tokens the schedule wants decided (policies may exceed or ignore)
  std::int32_t kv_length = 0;  // keys visible to this forward: slots [0, kv_length)
};

struct step_plan {
  std::vector<sequence_step> of;  // one per place in the batch
};

// The row lists of a forward in backend memory, rebuilt every step without allocating.
struct row_lists {
  tensor begin, sequence, position, token;
  std::int32_t rows = 0;
  tensor slot;  // [R] KV slot of each row; a row policy that compacts allocates it, else empty
  row_set set(std::int32_t sequences) const {
    return {sequences,
            rows,
            begin.as<std::int32_t>(),
            sequence.as<std::int32_t>(),
            position.as<std::int32_t>(),
            slot ? slot.as<std::int32_t>() : nullptr};
  }
};

// How a policy that drops rows came to its choice in the last forward, for one sequence; for
// replay and probes.
struct eviction_view {
  bool evicting = false;           // more masked rows than the budget
  std::int32_t budget = 0;         // rows wanted, not limited by those there are
  double average = 0;              // tokens decided per step so far; 0: no step yet
  std::int32_t processed_end = 0;  // one past the last position that reached the last layer
  const float* score = nullptr;    // [count] of the masked rows in order, where it evicted
  std::int32_t count = 0;
};

// Candidates of a step with what the head said about them and what was decided.
struct candidate_lists {
  tensor begin, position, row;
  tensor token, probability, margin, negative_entropy, top2_gap, score, accept;
  tensor committed;  // [S] tokens decided by this step
  tensor quota;      // [S] the plan's quotas
  std::int32_t count = 0;
  candidate_set set(std::int32_t sequences) const {
    return {sequences, count, begin.as<std::int32_t>(), position.as<std::int32_t>(),
            row.as<std::int32_t>()};
  }
};

// How much of each sequence may enter this step: block, chunk, whole canvas, one token.
class pace_policy {
 public:
  virtual ~pace_policy() = default;
  // Positions (prompt and canvas) this request will occupy.
  virtual std::int32_t canvas_length(const model_config& model,
                                     const sequence_request& request) const = 0;
  virtual void start(batch& b, std::int32_t s) = 0;  // a request took place s
  virtual sequence_step plan(const batch& b, std::int32_t s) = 0;
  // After the decisions of a step; sets sequence::finished and output_end when the answer is done.
  virtual void observe(batch& b, std::int32_t s, const sequence_step& step,
                       std::int32_t committed) = 0;
};

// Which positions are computed.
class row_policy {
 public:
  virtual ~row_policy() = default;
  // Default: every position in play.
  virtual void select(const batch& b, const step_plan& plan, row_lists& rows);
  // May drop rows inside layer `layer`, after its K/V were written and before its attention; true
  // when `rows` shrank: kept [rows.rows] then lists the surviving row indices of before.
  virtual bool narrow(const batch& b, const step_plan& plan, std::int32_t layer,
                      const tensor_view& q, const tensor_view& k, row_lists& rows, tensor& kept) {
    (void)b, (void)plan, (void)layer, (void)q, (void)k, (void)rows, (void)kept;
    return false;
  }
  virtual eviction_view eviction(std::int32_t s) const {
    (void)s;
    return {};
  }
};

// Which cached slots each row attends to in a layer.
class key_policy {
 public:
  // `block`: tokens per block of a block-causal mask; 0: the model's trained length.
  explicit key_policy(std::int32_t block = 0) : block_(block) {}
  virtual ~key_policy() = default;
  // Default: slots [0, kv_length) under the model's own mask. kv_length [S] holds the plan's.
  virtual key_set select(const batch& b, const step_plan& plan, std::int32_t layer,
                         const tensor_view& q, const paged_kv& cache,
                         const std::int32_t* kv_length);
  // Keys one row at `position` sees under `keys`; for the accounting of attention work.
  virtual std::int64_t keys_of_row(const batch& b, const key_set& keys, std::int32_t s,
                                   std::int32_t position) const;

 private:
  std::int32_t block_;
};

// What is kept of K/V between forwards.
class cache_policy {
 public:
  virtual ~cache_policy() = default;
  // Layers whose K/V survive a forward; 1: scratch reused by every layer (nothing is cached).
  virtual std::int32_t stored_layers(const model_config& model) const = 0;
  // After the decisions of a step: mark what is now cached.
  virtual void settle(batch& b, const step_plan& plan) { (void)b, (void)plan; }
};

// Which candidates are decided.
class unmask_policy {
 public:
  virtual ~unmask_policy() = default;
  // Fill token and whatever scores decide() needs. `head_input` [R, D] is the final-norm output.
  virtual void judge(const batch& b, const step_plan& plan, const tensor_view& head_input,
                     const packed_matrix& head, candidate_lists& candidates) = 0;
  // Fill accept.
  virtual void decide(const batch& b, const step_plan& plan, candidate_lists& candidates) = 0;
  // True: a decided token equal to the mask id stays masked (official LLaDA and Dream loops).
  virtual bool masks_by_id() const { return false; }
};

struct recipe {
  std::string method;
  std::unique_ptr<pace_policy> pace;
  std::unique_ptr<row_policy> rows;
  std::unique_ptr<key_policy> keys;
  std::unique_ptr<cache_policy> cache;
  std::unique_ptr<unmask_policy> unmask;
};

}  // namespace unmask
