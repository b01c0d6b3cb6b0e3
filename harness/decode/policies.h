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
#include "kernels/shared_vector.h"

namespace unmask {

// What a place does in a step composed by a scheduler.
enum class step_part : std::uint8_t {
  out,       // waits
  step,      // its next forward
  recompute  // its last rows once more, deciding nothing: it is kept in a frozen batch
};

// What one sequence does in this step. Positions are absolute, ranges half open.
struct sequence_step {
  bool active = false;
  phase what = phase::denoise;
  std::int32_t first = 0, last = 0;  // positions in play: rows are chosen from these
  std::int32_t candidate_first = 0, candidate_last = 0;  // where tokens may be decided
  std::int32_t quota = 0;      // tokens the schedule wants decided (policies may exceed or ignore)
  std::int32_t kv_length = 0;  // keys visible to this forward: slots [0, kv_length)
  std::int32_t block_first = 0, block_last = 0;  // the block being decoded
  std::int32_t step = 0;                         // steps made in this block before this one
  std::int32_t commit = 0;  // phase::commit: commit forwards the block has had before this one
  // Rows of a block without masks once more (step_part::recompute). Nothing that a later forward
  // reads may change: no state, no record, no K/V but of rows which that forward computes again.
  bool again = false;
};

// The same numbers where operations read them: [S] each, 0 for a sequence that takes no part.
struct step_arrays {
  std::int32_t* first = nullptr;
  std::int32_t* last = nullptr;
  std::int32_t* candidate_first = nullptr;
  std::int32_t* candidate_last = nullptr;
  std::int32_t* kv_length = nullptr;
  std::int32_t* quota = nullptr;
  std::int32_t* block_first = nullptr;
};

struct step_plan {
  std::vector<sequence_step> of;  // one per place in the batch
  step_arrays arrays;
};

// The row lists of a forward in backend memory, rebuilt every step without allocating.
struct row_lists {
  tensor begin, sequence, position, token;
  std::int32_t rows = 0;
  tensor slot;                // [rows] read when slots_differ
  bool slots_differ = false;  // a cache policy that compacts: slot[r] instead of position[r]
  row_set set(std::int32_t sequences) const {
    return {sequences,
            rows,
            begin.as<std::int32_t>(),
            sequence.as<std::int32_t>(),
            position.as<std::int32_t>(),
            slots_differ ? slot.as<std::int32_t>() : nullptr};
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
  tensor token, probability, margin, negative_entropy, score, accept;
  tensor committed;  // [S] tokens decided by this step
  std::int32_t count = 0;
  // Where the head writes. Only what the rule reads: the entropy costs a second pass over the
  // vocabulary, on a GPU a second product with the whole head.
  confidence_out judged() const {
    confidence_out out;
    out.token = token.as<std::int32_t>();
    out.probability = probability.as<float>();
    return out;
  }
  candidate_set set(std::int32_t sequences) const {
    return {sequences, count, begin.as<std::int32_t>(), position.as<std::int32_t>(),
            row.as<std::int32_t>()};
  }
};
// Room for the candidates of `sequences` places with `rows` rows in all.
candidate_lists make_candidate_lists(const ops& run, std::int32_t sequences, std::int64_t rows);

// What a scheduler may know about how a pace moves over the canvas.
struct pace_shape {
  // Positions decided and handed out together, aligned to absolute positions; 1: token by token;
  // 0: the whole answer at once.
  std::int32_t block = 0;
  // Positions beyond the last one used so far that one more block may touch; 0: any, so that the
  // whole canvas needs pages from the start.
  std::int32_t ahead = 0;
  bool commits = false;  // a decided block takes one more forward before the next one opens
  // Forwards of a turn on a batch that does not change (LMDeploy); 0: as many as a scheduler likes.
  std::int32_t turn = 0;
};

// How much of each sequence may enter this step: block, chunk, whole canvas, one token.
class pace_policy {
 public:
  virtual ~pace_policy() = default;
  virtual pace_shape shape(const model_config& model) const {
    (void)model;
    return {};
  }
  // True while the next forward of place s is (a part of) its prefill. Default: its first forward.
  virtual bool prefilling(const batch& b, std::int32_t s) const {
    return b.at(s).counters.forwards == 0;
  }
  // Rows of the next forward of a sequence that is prefilling. Default: the prompt.
  virtual std::int32_t prefill_rows(const batch& b, std::int32_t s) const {
    return b.at(s).prompt_length;
  }
  // Let a prompt enter in pieces of at most `rows` rows; 0: whole. False: this pace cannot.
  virtual bool limit_prefill(std::int32_t rows) {
    (void)rows;
    return false;
  }
  // Positions (prompt and canvas) this request will occupy.
  virtual std::int32_t canvas_length(const model_config& model,
                                     const sequence_request& request) const = 0;
  virtual void start(batch& b, std::int32_t s) = 0;  // a request took place s
  // Before the plans of a forward: who takes part [capacity]; null: everybody.
  virtual void begin(const batch& b, const step_part* parts) { (void)b, (void)parts; }
  virtual sequence_step plan(const batch& b, std::int32_t s) = 0;
  // After the decisions of a step; sets sequence::finished and output_end when the answer is done.
  virtual void observe(batch& b, std::int32_t s, const sequence_step& step,
                       std::int32_t committed) = 0;
  // Tokens per request that this pace chose for the last forward, whatever the rows then came to;
  // 0: it chooses none.
  virtual std::int32_t chosen_chunk() const { return 0; }
  // What the pace learnt from the steps it made, a JSON object for the row; empty: nothing.
  virtual std::string learnt() const { return {}; }
};

// Which positions are computed.
class row_policy {
 public:
  virtual ~row_policy() = default;
  // Default: every position in play.
  virtual void select(const batch& b, const step_plan& plan, row_lists& rows);
  // Whether narrow() is to be asked in this layer. Constant over a run.
  virtual bool narrows(std::int32_t layer) const {
    (void)layer;
    return false;
  }
  // May drop rows inside layer `layer`, after its K/V were written and before its attention; true
  // when `rows` shrank: kept [rows.rows] then lists the surviving row indices of before.
  virtual bool narrow(const batch& b, const step_plan& plan, std::int32_t layer,
                      const tensor_view& q, const tensor_view& k, row_lists& rows, tensor& kept) {
    (void)b, (void)plan, (void)layer, (void)q, (void)k, (void)rows, (void)kept;
    return false;
  }
  // True: feed_forward_rows() names the rows that write K/V and pass the feed-forward; the others
  // only attend, and keep the residual. Does not combine with narrow(). Constant over a run.
  virtual bool updates_part() const { return false; }
  // Asked once per forward, after select(): `updated` lists those rows and index [updated.rows]
  // holds where they stand in `rows`, ascending.
  virtual void feed_forward_rows(const batch& b, const step_plan& plan, const row_lists& rows,
                                 row_lists& updated, tensor& index) {
    (void)b, (void)plan, (void)rows, (void)updated, (void)index;
  }
  // True: which rows a forward has depends on activations, so that a loop without layers cannot
  // know them.
  virtual bool reads_activations() const { return false; }
  // What eviction decided for sequence s in this forward; for observers.
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
  // True: which keys a row sees depends on activations.
  virtual bool reads_activations() const { return false; }
  // True: select() asks for no operation and waits for none, and key_mass() is not wanted. Layers
  // can then be recorded (ops::record); select() is asked in every step all the same. A policy that
  // overrides select() says so itself.
  virtual bool names_arrays_only() const;
  // Where the attention of this layer adds the softmax mass of each key (ops::attention, key_mass;
  // zeroed by the policy, read by it in a later layer); no data: not wanted, nothing is spent.
  virtual tensor_view key_mass(const batch& b, const step_plan& plan, std::int32_t layer) {
    (void)b, (void)plan, (void)layer;
    return {};
  }
  // Keys one row at `position` sees under `keys`; for the accounting of attention work.
  virtual std::int64_t keys_of_row(const batch& b, const key_set& keys, std::int32_t s,
                                   std::int32_t position) const;
  // The same as a mean over the query heads, for keys that differ by head.
  virtual double mean_keys_of_row(const batch& b, const key_set& keys, std::int32_t s,
                                  std::int32_t position) const {
    return static_cast<double>(keys_of_row(b, keys, s, position));
  }
  // FLOPs that the last select() spent on sequence s to choose its keys.
  virtual double selection_flops(const batch& b, std::int32_t s) const {
    (void)b, (void)s;
    return 0;
  }

 private:
  std::int32_t block_;
};

// What a sequence computes anew in one layer. A row that is not computed keeps its K/V, and the
// stored outputs of its attention block and of its feed-forward are added to the residual again.
struct layer_refresh {
  bool prompt = true;      // every row of the prompt
  bool response = true;    // every row of the canvas
  std::int32_t moved = 0;  // without `response`: the canvas rows whose V moved most
  bool probe = false;  // without `response`: V of every canvas row is computed, compared, stored
};

// For methods that keep outputs of layers between forwards (feature_layers.h carries them out).
class feature_policy {
 public:
  virtual ~feature_policy() = default;
  // Layers below this one, at least one, are always computed in full and store no outputs.
  virtual std::int32_t first_layer() const { return 1; }
  virtual layer_refresh refresh(const batch& b, std::int32_t layer, std::int32_t s) const = 0;
};

// One layer of a forward, after its attention: post-RoPE queries and keys, values, [R, heads, dim].
struct layer_rows {
  const batch& state;
  const step_plan& plan;
  std::int32_t layer = 0;
  row_set rows;
  tensor_view q, k, v;
};

// What is kept of K/V between forwards.
class cache_policy {
 public:
  virtual ~cache_policy() = default;
  // Slots that a sequence of `length` positions (prompt and canvas) takes.
  virtual kv_storage storage(const model_config& model, std::int32_t length) const = 0;
  // Before a forward: which storage each sequence uses; may set row slots (and slots_differ).
  virtual void prepare(const batch& b, const step_plan& plan, row_lists& rows, kv_cache& cache) {
    (void)b, (void)plan, (void)rows, (void)cache;
  }
  // Whether after_attention() is to be asked in the layers of this forward.
  virtual bool acts_after_attention(const step_plan& plan) const {
    (void)plan;
    return false;
  }
  // After the attention of a layer: keep a part of its K/V, for methods that evict.
  virtual void after_attention(const layer_rows& layer, kv_cache& cache) {
    (void)layer, (void)cache;
  }
  // Which layers are computed only in part; null: none. K/V of all layers must then be stored.
  virtual const feature_policy* features() const { return nullptr; }
  // For observers: positions of slots 0, 1, 2, ... of sequence s in a layer, as far as the policy
  // moved K/V there; the slots behind them, or all, hold what their rows wrote.
  virtual std::vector<std::int32_t> slot_positions(const step_plan& plan, std::int32_t layer,
                                                   std::int32_t s) const {
    (void)plan, (void)layer, (void)s;
    return {};
  }
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
  // Somebody else decided (trajectory.h): `accept` is filled. For policies that learn from what was
  // decided; scores mean nothing then.
  virtual void learn(const batch& b, const step_plan& plan, const candidate_lists& candidates) {
    (void)b, (void)plan, (void)candidates;
  }
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
