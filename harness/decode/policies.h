// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The five components of a decoding method, as interfaces.
//
// A method fills each component with one policy. The step loop (step_loop.cpp) calls the policies
// in this order and does all counting:
//
//   pace_policy    plan()     how far does each sequence go in this step?
//   row_policy     select()   which positions are computed?
//   key_policy     select()   which cached keys does each position attend to?
//   cache_policy   prepare()  which keys and values are stored, and where?
//   unmask_policy  decide()   which masked positions get their token?
//
// Most functions have a default: all positions in play, all keys, every key and value stored. A
// small method reuses four existing policies and writes only its unmask policy
// (tests/minimal_method).
//
// A policy declares optional abilities as data, in its traits. The loop calls an optional function
// only if its trait is set. It derives from the traits how a step is issued, counted and recorded
// as a CUDA graph (step_program.h). Example: a row policy that evicts rows inside layer 1 sets
// row_traits::narrows_at = {1} and implements narrow().
//
// Names used below:
//   s           batch slot of a sequence, 0 .. capacity - 1
//   position    index into prompt and response; ranges are half open
//   row         one position that is computed in this forward pass
//   candidate   a position whose token may change in this step
//   S, R, V     number of sequences, rows, views
//
// key_policy::select() launches nothing and waits for nothing. A policy that reads on the host what
// an operation wrote calls backend::synchronize() first.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/decode/batch.h"
#include "harness/decode/kv_cache.h"
#include "kernels/backend.h"
#include "kernels/head.h"
#include "kernels/shared_vector.h"

namespace unmask {

// Returns the positions that prompt and response of a request take, in whole blocks of `block`.
// Usage error that names the method if nothing is to be generated, or if the sum overflows.
std::int32_t request_positions(const std::string& method, const sequence_request& request,
                               std::int32_t block = 1);

// What a scheduler asks of a sequence in this step.
enum class schedule_action : std::uint8_t {
  out,       // does not take part
  step,      // runs its next forward pass
  recompute  // repeats its last rows; the batch is held, so nothing is unmasked
};

// What one sequence does in this step. Positions are absolute, ranges half open.
struct sequence_step {
  bool active = false;
  forward_kind what = forward_kind::denoise;
  std::int32_t first = 0, last = 0;  // positions in play: rows are chosen from these
  std::int32_t candidate_first = 0, candidate_last = 0;  // where tokens may be decided
  std::int32_t quota = 0;      // tokens the schedule wants decided (policies may exceed or ignore)
  std::int32_t kv_length = 0;  // keys visible to this forward: slots [0, kv_length)
  std::int32_t slots = 0;  // that it touches, where rows of views have some behind the positions
  std::int32_t block_first = 0, block_last = 0;  // the block being decoded
  std::int32_t step = 0;                         // steps made in this block before this one
  std::int32_t commit =
      0;  // forward_kind::commit: commit forwards the block has had before this one
  // A held batch repeats the last rows of this sequence (schedule_action::recompute). Nothing is
  // unmasked, and policies leave all state unchanged. KV may be written only if it stays the same,
  // or if the next forward pass writes it before it is read.
  bool recompute = false;
};

// Device-readable copies of the plan: [S] each, one entry per place; 0 for inactive places.
struct step_arrays {
  std::int32_t* first = nullptr;
  std::int32_t* last = nullptr;
  std::int32_t* candidate_first = nullptr;
  std::int32_t* candidate_last = nullptr;
  std::int32_t* kv_length = nullptr;
  std::int32_t* quota = nullptr;
  std::int32_t* block_first = nullptr;
};

struct step_choice {
  std::vector<sequence_step> of;  // one per place in the batch
  step_arrays arrays;
};

// A view is the rows of a sequence that attend to the same keys. Without row_traits::views each
// sequence is one view, and these lists are empty. With it, several rows of a sequence may have the
// same position. Each row has its own cache slot, may have its own token, and names what it judges.
struct row_views {
  static constexpr std::int32_t ranges = 3;
  std::int32_t count = 0;
  tensor begin;     // [V+1] rows of each view; positions ascend inside a view
  tensor sequence;  // [V] ascending
  tensor token;     // [rows] the row's token; -1: the canvas's
  // [rows] uint8: the row judges its position in these states (one_state()). Not read where
  // row_traits::carries holds.
  tensor judges;
  tensor range;  // [V, ranges, 2] slots that its rows see, empty ranges included
};

// The row lists of a forward in backend memory, rebuilt every step without allocating.
struct row_lists {
  tensor begin, sequence, position, token;
  std::int32_t rows = 0;
  tensor slot;                // [rows] read when slots_differ
  bool slots_differ = false;  // a cache policy that compacts: slot[r] instead of position[r]
  row_views views = {};
  row_set set(std::int32_t sequences) const {
    return {sequences,
            rows,
            begin.as<std::int32_t>(),
            sequence.as<std::int32_t>(),
            position.as<std::int32_t>(),
            slots_differ ? slot.as<std::int32_t>() : nullptr};
  }
};

// Candidates of a step with what the head said about them and what was decided.
struct candidate_lists {
  tensor begin, position, row;
  tensor token, probability, margin, negative_entropy, score, accept;
  tensor outcome;  // [4, S] numbers of decisions of this step: step_outcome, then those refused
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
candidate_lists make_candidate_lists(const backend& backend, std::int32_t sequences,
                                     std::int64_t rows);

// What became of the candidates of one sequence in a step.
struct step_outcome {
  std::int32_t taken = 0;     // masks that got a token
  std::int32_t replaced = 0;  // decided positions that got another one
  std::int32_t reopened = 0;  // decided positions that are masks again
  bool quiet() const { return taken == 0 && replaced == 0 && reopened == 0; }
};

// What a scheduler may know about how a pace moves over the response.
struct pace_shape {
  // Positions that are unmasked and handed to the client together, aligned to absolute positions.
  // 1: token by token. 0: the whole response.
  std::int32_t block = 0;
  // Positions after the last used one that the next block may touch. 0: any, so all pages are taken
  // at the start.
  std::int32_t ahead = 0;
  // The block needs one more forward pass, which writes its KV, before the next block opens.
  bool commits = false;
  // The most forward passes of a turn on a batch that does not change (LMDeploy); 0: no limit.
  std::int32_t turn = 0;
  // A prompt may enter in pieces of a multiple of this many rows; 0: it enters whole.
  std::int32_t prefill_piece = 0;
  // Forward passes after which the request ends, or over which the schedule spreads its tokens. As many in a
  // row may unmask nothing. 0: not known, and as many as there are positions may.
  std::int32_t steps = 0;
  // The most rows of one forward pass: row_copies per position, plus more_rows (row_traits::views).
  std::int32_t row_copies = 1, more_rows = 0;
};

// Plans how far each sequence goes in this step: a block, a chunk, the whole response, one token.
class pace_policy {
 public:
  explicit pace_policy(const pace_shape& shape = {}) : shape_(shape) {}
  virtual ~pace_policy() = default;
  const pace_shape& shape() const { return shape_; }
  // Lets a prompt enter in pieces of at most `rows` rows, but at least one piece; 0: whole.
  // Returns false if this pace takes only whole prompts.
  bool limit_prefill(std::int32_t rows);
  bool prefilling(const batch& b, std::int32_t s) const { return prefill_rows(b, s) > 0; }

  // Returns the positions (prompt and response) that this request will occupy.
  virtual std::int32_t canvas_length(const model_config& model,
                                     const sequence_request& request) const = 0;
  virtual void start(batch& b, std::int32_t s) = 0;  // a request took batch slot s
  // Returns the rows of the next forward pass of slot s if that is (a part of) its prefill, else 0.
  // Default: the prompt is its first forward pass.
  virtual std::int32_t prefill_rows(const batch& b, std::int32_t s) const {
    return b.at(s).counters.forwards == 0 ? b.at(s).prompt_length : 0;
  }
  // Is called before the plans of a forward pass. parts [capacity]: who takes part; null: all.
  virtual void begin(const batch& b, const schedule_action* parts) { (void)b, (void)parts; }
  virtual sequence_step plan(const batch& b, std::int32_t s) = 0;
  // Is called after a step; sets sequence::finished and output_end when the response is complete.
  virtual void observe(batch& b, std::int32_t s, const sequence_step& step,
                       const step_outcome& outcome) = 0;
  // Returns whether no later step changes a token of [first, last), so that the client may have
  // them. Default: none of them is a mask.
  virtual bool closed(const batch& b, std::int32_t s, std::int32_t first, std::int32_t last) const {
    return b.count(s, first, last, state_masked) == 0;
  }
  // Returns the tokens per request that this pace chose for the last forward pass; 0: it chooses
  // none. The number of rows may differ.
  std::int32_t chosen_chunk() const { return chosen_chunk_; }
  // Returns what the pace learnt from its steps, a JSON object for the row; empty: nothing.
  virtual std::string learnt() const { return {}; }

 protected:
  // As much of the `rest` of a prompt as may enter at once.
  std::int32_t prefill_piece(std::int32_t rest) const {
    return prefill_limit_ > 0 && rest > prefill_limit_ ? prefill_limit_ : rest;
  }
  void choose_chunk(std::int32_t tokens) { chosen_chunk_ = tokens; }

 private:
  pace_shape shape_;
  std::int32_t prefill_limit_ = 0;  // rows of one prefill forward; 0: the prompt
  std::int32_t chosen_chunk_ = 0;
};

// What a row policy does besides select().
struct row_traits {
  std::vector<std::int32_t> narrows_at;  // layers in which narrow() is asked, ascending
  // Share of the rows of a decode forward that is left behind the last of these layers, on average,
  // for predictions of cost.
  double keeps = 1;
  // First layer of sequence_counters::late_layer_rows, counted from 0: behind the last that narrows.
  // Of rows that stay together it is layer 2, as the published counts of both kinds have it.
  std::int32_t first_late_layer() const { return narrows_at.empty() ? 2 : narrows_at.back() + 1; }
  // feed_forward_rows() names the rows that write K/V and pass the feed-forward; the others only
  // attend, and keep the residual. Does not combine with narrowing.
  bool partial_rows = false;
  // Views that a sequence has at most, and one more for every so many positions (0: none);
  // select() lists them (row_views), key_policy::see() their keys. views 0: a sequence is one view,
  // which is not listed. Does not combine with the two above.
  std::int32_t views = 0, view_positions = 0;
  std::int32_t most_views(std::int32_t positions) const {
    return views + (view_positions > 0 ? positions / view_positions + 1 : 0);
  }
  // Where logits are shifted, the row before a candidate may lie in an earlier forward
  // (carried_outputs), as always under a model's own block-causal mask. No position has several rows.
  bool carries = false;
};

// Which positions are computed.
class row_policy {
 public:
  explicit row_policy(row_traits traits = {}) : traits_(std::move(traits)) {}
  virtual ~row_policy() = default;
  const row_traits& traits() const { return traits_; }
  // Default: every position in play.
  virtual void select(const batch& b, const step_choice& plan, row_lists& rows);
  // row_traits::narrows_at. May drop rows inside layer `layer`, after its K/V were written and
  // before its attention; true when `rows` shrank: kept [rows.rows] then lists the surviving row
  // indices of before.
  virtual bool narrow(const batch& b, const step_choice& plan, std::int32_t layer,
                      const tensor_view& q, const tensor_view& k, row_lists& rows, tensor& kept) {
    (void)b, (void)plan, (void)layer, (void)q, (void)k, (void)rows, (void)kept;
    return false;
  }
  // row_traits::partial_rows. Asked once per forward, after select(): `updated` lists those rows
  // and index [updated.rows] holds where they stand in `rows`, ascending.
  virtual void feed_forward_rows(const batch& b, const step_choice& plan, const row_lists& rows,
                                 row_lists& updated, tensor& index) {
    (void)b, (void)plan, (void)rows, (void)updated, (void)index;
  }

 private:
  row_traits traits_;
};

// One layer of a forward: post-RoPE queries and keys, values, [R, heads, dim].
struct layer_rows {
  const batch& state;
  const step_choice& plan;
  std::int32_t layer = 0;
  row_set rows;
  tensor_view q, k, v;
};

// What the attention of one layer sees.
struct layer_keys {
  // The host can read key_begin and, under a mask other than full, the list, which then ascends.
  key_set set;
  // Where the attention adds the softmax mass of each key (backend::attention, key_mass; the policy has
  // zeroed it and reads it in a later layer); no data: nothing is spent.
  tensor_view mass;
  // With set.tiles, [S, blocks] float32 that the host can read: keys that a row of each query block
  // sees, mean over the heads.
  tensor_view keys_of_blocks;
  // Lists are made by operations: how long they are is known after the step, and is counted then.
  // The rows of such a layer are those that entered.
  bool counted_later = false;
};

// What a key policy does besides select().
struct key_traits {
  // choose() is asked in every layer. Only then may select() answer otherwise than by the plan, and
  // use a mass or a block mask.
  bool chooses = false;
  // see() says what the views of the rows see; select() is not asked. Does not combine with choosing.
  bool by_view = false;
};

// Which cached slots each row attends to in a layer.
class key_policy {
 public:
  // `block`: tokens per block of a block-causal mask; 0: the model's trained length.
  explicit key_policy(std::int32_t block = 0, key_traits traits = {})
      : traits_(traits), block_(block) {}
  virtual ~key_policy() = default;
  const key_traits& traits() const { return traits_; }
  // key_traits::chooses. Scores what the cache holds and chooses from it, after the K/V of the
  // layer were written. What scores is run by batch::score().
  virtual void choose(const layer_rows& layer, const paged_kv& cache) { (void)layer, (void)cache; }
  // Names the arrays that say what is seen. It asks for no operation and waits for none, because
  // the layers that read them may be recorded; what the arrays hold may change with every step.
  // Default: slots [0, kv_length) under the model's own mask. kv_length [S] holds the plan's.
  virtual layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                            const std::int32_t* kv_length) const;
  // key_traits::by_view. Once per forward, behind select() of the rows: fills rows.views.range.
  virtual void see(const batch& b, const step_choice& plan, row_lists& rows) const {
    (void)b, (void)plan, (void)rows;
  }

 private:
  key_traits traits_;
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

// For methods that keep outputs of layers between forwards (feature_layers.h carries them out). K/V
// of all layers must then be stored.
class feature_policy {
 public:
  // Layers below this one, at least one, are always computed in full and store no outputs.
  explicit feature_policy(std::int32_t first_layer = 1) : first_layer_(first_layer) {}
  virtual ~feature_policy() = default;
  std::int32_t first_layer() const { return first_layer_; }
  virtual layer_refresh refresh(const batch& b, std::int32_t layer, std::int32_t s) const = 0;

 private:
  std::int32_t first_layer_;
};

// What a cache policy does besides writing every row's K/V.
struct cache_traits {
  bool evicts = false;  // after_attention() is asked in the forwards for which prepare() says so
  // K/V of decided positions are kept while others of their block are still masks: no rule may
  // replace or reopen a token then.
  bool keeps_decided = false;
};

// What is kept of K/V between forwards.
class cache_policy {
 public:
  explicit cache_policy(cache_traits traits = {}) : traits_(traits) {}
  virtual ~cache_policy() = default;
  const cache_traits& traits() const { return traits_; }
  // Slots that the first `length` positions of a sequence take, the first `prompt` of which are its
  // prompt. No prompt of this length takes more than prompt = 0: a batch is made for that.
  virtual kv_storage storage(std::int32_t prompt, std::int32_t length) const = 0;
  // Before a forward: which storage each sequence uses; may set row slots (and slots_differ). True:
  // after_attention() is asked in the layers of this forward (cache_traits::evicts).
  virtual bool prepare(const batch& b, const step_choice& plan, row_lists& rows, kv_cache& cache) {
    (void)b, (void)plan, (void)rows, (void)cache;
    return false;
  }
  // cache_traits::evicts. After the attention of a layer: keeps a part of its K/V.
  virtual void after_attention(const layer_rows& layer, kv_cache& cache) {
    (void)layer, (void)cache;
  }
  // After the decisions of a step: mark what is now cached.
  virtual void settle(batch& b, const step_choice& plan) { (void)b, (void)plan; }

 private:
  cache_traits traits_;
};

// Which decisions the rule of an unmask policy makes beside keeping and taking (kernels/decisions.h).
// A rule that replaces or reopens gets the decided positions of the step's range as candidates too.
struct unmask_traits {
  // A decided token equal to the mask id stays masked (official LLaDA and Dream loops).
  bool masks_by_id = false;
  bool replaces = false;
  bool reopens = false;
  bool holds = false;
  // Masks of the step's range whose predicting row is not computed are candidates too, of row -1.
  bool without_rows = false;
  // Products of the candidates with the LM head beyond the first, which judge() makes: counted alike.
  std::int32_t more_heads = 0;
  std::int32_t heads() const { return 1 + more_heads; }
  bool revises() const { return replaces || reopens; }
};

// Which candidates are decided.
class unmask_policy {
 public:
  explicit unmask_policy(unmask_traits traits = {}) : traits_(traits) {}
  virtual ~unmask_policy() = default;
  const unmask_traits& traits() const { return traits_; }
  // Fill token and whatever scores decide() needs. `head_input` [R, D] is the final-norm output.
  virtual void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
                     const packed_matrix& head, candidate_lists& candidates) = 0;
  // Fill accept with decisions that the traits announce.
  virtual void decide(const batch& b, const step_choice& plan, candidate_lists& candidates) = 0;
  // Somebody else decided (trajectory.h): `accept` is filled. For policies that learn from what was
  // decided; scores mean nothing then.
  virtual void learn(const batch& b, const step_choice& plan, const candidate_lists& candidates) {
    (void)b, (void)plan, (void)candidates;
  }

 private:
  unmask_traits traits_;
};

// How a method came to its choice in the last forward, for one sequence: by names of its own, which
// the README of its folder explains.
struct method_report {
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<float>> arrays;
};

// What observers may ask about the last forward. Empty: the method has nothing to say. Valid as
// long as the policies.
struct recipe_views {
  std::map<std::string, std::function<method_report(std::int32_t s)>> reports;
  // Positions of slots 0, 1, 2, ... of sequence s in a layer, as far as the cache moved K/V there;
  // the slots behind them, or all, hold what their rows wrote.
  std::function<std::vector<std::int32_t>(const step_choice& plan, std::int32_t layer,
                                          std::int32_t s)>
      slot_positions;
  // Bytes allocated, for all places together, for what the decisions remember of a request from one
  // step to the next, K/V and layer outputs left out.
  std::function<std::size_t()> state_bytes;
};

struct recipe {
  std::string method;
  std::unique_ptr<pace_policy> pace;
  std::unique_ptr<row_policy> rows;
  std::unique_ptr<key_policy> keys;
  std::unique_ptr<cache_policy> cache;
  std::unique_ptr<unmask_policy> unmask;
  std::unique_ptr<feature_policy> features;  // null: every layer computes all its rows
  recipe_views views;
};

}  // namespace unmask
