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
  std::int32_t candidate_first = 0, candidate_last = 0;  // where tokens may be unmasked
  std::int32_t quota = 0;  // tokens the schedule wants unmasked (policies may exceed or ignore it)
  std::int32_t kv_length = 0;  // keys visible to this forward pass: cache slots [0, kv_length)
  std::int32_t slots = 0;  // cache slots it touches, if rows of views have some after the positions
  std::int32_t block_first = 0, block_last = 0;  // the current block
  std::int32_t step = 0;                         // steps made in this block before this one
  // With forward_kind::commit: KV write passes that the block has had before this one.
  std::int32_t commit = 0;
  // A held batch repeats the last rows of this sequence (schedule_action::recompute). Nothing is
  // unmasked, and policies leave all state unchanged. KV may be written only if it stays the same,
  // or if the next forward pass writes it before it is read.
  bool recompute = false;
};

// Copies of the plan that the device can read: [S] each, one entry per batch slot; 0 if it is
// inactive.
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
  std::vector<sequence_step> of;  // one per batch slot
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
  tensor token;     // [rows] the row's token; -1: the sequence's
  // [rows] uint8: the row judges its position in these states (one_state()). It is not read with
  // row_traits::carries.
  tensor judges;
  tensor range;  // [V, ranges, 2] cache slots that its rows see, empty ranges included
};

// The row lists of a forward pass in backend memory. They are rebuilt every step without
// allocating. The tokens are the operations' own, and the host sees the others.
struct row_lists {
  tensor begin, sequence, position, token;
  std::int32_t rows = 0;
  tensor slot;                // [rows] read if slots_differ
  bool slots_differ = false;  // a cache policy compacts: slot[r] is used instead of position[r]
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

// Candidates of a step with what the head found for them and what became of them.
struct candidate_lists {
  tensor begin, position, row;
  tensor token, probability, margin, negative_entropy, score, accept;
  tensor outcome;  // [4, S] counts of this step: step_outcome, then refused decisions
  std::int32_t count = 0;
  // Returns where the head writes. It names only what the rule reads: the entropy costs a second
  // pass over the vocabulary, and on a GPU a second product with the whole head.
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
// Allocates room for the candidates of `sequences` batch slots with `rows` rows in all.
candidate_lists make_candidate_lists(const backend& backend, std::int32_t sequences,
                                     std::int64_t rows);

// What became of the candidates of one sequence in a step.
struct step_outcome {
  std::int32_t taken = 0;     // masks that got a token
  std::int32_t replaced = 0;  // unmasked positions that got another token
  std::int32_t reopened = 0;  // unmasked positions that are masks again
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
  // Forward passes after which the request ends, or over which the schedule spreads its tokens. As
  // many in a row may unmask nothing. 0: not known, and as many as there are positions may.
  std::int32_t steps = 0;
  // The most rows of one forward pass: row_copies per position, plus more_rows (row_traits::views).
  std::int32_t row_copies = 1, more_rows = 0;
  // What a request unmasks depends on the requests that run at the same time. On the real clock the
  // clock decides which those are, so that another repetition may give other tokens.
  bool by_load = false;
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
  // Returns how much of the `rest` of a prompt may enter at once.
  std::int32_t prefill_piece(std::int32_t rest) const {
    return prefill_limit_ > 0 && rest > prefill_limit_ ? prefill_limit_ : rest;
  }
  void choose_chunk(std::int32_t tokens) { chosen_chunk_ = tokens; }

 private:
  pace_shape shape_;
  std::int32_t prefill_limit_ = 0;  // rows of one prefill pass; 0: the whole prompt
  std::int32_t chosen_chunk_ = 0;
};

// What a row policy does besides select().
struct row_traits {
  std::vector<std::int32_t> narrows_at;  // layers in which narrow() is called, ascending
  // The mean share of the rows of a decode pass that is left after the last of these layers.
  // Forecasts of cost use it.
  double keeps = 1;
  // Returns the first layer of sequence_counters::late_layer_rows, counted from 0: the one after
  // the last that narrows. If nothing narrows it is layer 2, as in the published counts of both
  // kinds.
  std::int32_t first_late_layer() const { return narrows_at.empty() ? 2 : narrows_at.back() + 1; }
  // feed_forward_rows() names the rows that write KV and pass the feed-forward. The other rows only
  // attend, and keep the residual. It does not combine with narrowing.
  bool partial_rows = false;
  // The most views of a sequence, and one more for every so many positions (0: no more). select()
  // lists the views (row_views), and key_policy::see() their keys. views 0: a sequence is one view,
  // which is not listed. Views do not combine with narrowing or partial_rows.
  std::int32_t views = 0, view_positions = 0;
  std::int32_t most_views(std::int32_t positions) const {
    return views + (view_positions > 0 ? positions / view_positions + 1 : 0);
  }
  // If logits are shifted, the row before a candidate may be one of an earlier forward pass
  // (carried_outputs). Under a model's own block-causal mask this is always so. No position has
  // several rows then.
  bool carries = false;
};

// Chooses which positions are computed.
class row_policy {
 public:
  explicit row_policy(row_traits traits = {}) : traits_(std::move(traits)) {}
  virtual ~row_policy() = default;
  const row_traits& traits() const { return traits_; }
  // Lists the rows of a forward pass. Default: every position in play.
  virtual void select(const batch& b, const step_choice& plan, row_lists& rows);
  // Called for row_traits::narrows_at. May evict rows inside layer `layer`, after its KV was
  // written and before its attention. Returns whether `rows` shrank; kept [rows.rows] then lists
  // the former indices of the rows that stay.
  virtual bool narrow(const batch& b, const step_choice& plan, std::int32_t layer,
                      const tensor_view& q, const tensor_view& k, row_lists& rows, tensor& kept) {
    (void)b, (void)plan, (void)layer, (void)q, (void)k, (void)rows, (void)kept;
    return false;
  }
  // Called with row_traits::partial_rows, once per forward pass after select(). `updated` lists
  // those rows, and index [updated.rows] their indices in `rows`, ascending.
  virtual void feed_forward_rows(const batch& b, const step_choice& plan, const row_lists& rows,
                                 row_lists& updated, tensor& index) {
    (void)b, (void)plan, (void)rows, (void)updated, (void)index;
  }

 private:
  row_traits traits_;
};

// One layer of a forward pass: queries and keys after RoPE, and values, [R, heads, dim].
struct layer_rows {
  const batch& state;
  const step_choice& plan;
  std::int32_t layer = 0;
  row_set rows;
  tensor_view q, k, v;
};

// What the attention of one layer sees.
struct layer_keys {
  // The host can read key_begin. Under a mask other than full it can also read the list, which
  // ascends.
  key_set set;
  // The attention adds the softmax mass of each key here (backend::attention, key_mass). The policy
  // zeroes it before and reads it in a later layer. Without data nothing is spent.
  tensor_view mass;
  // With set.tiles, [S, blocks] float32 that the host can read: the keys that a row of each query
  // block sees, mean over the heads.
  tensor_view keys_of_blocks;
  // Operations make the lists, so their lengths are known and counted only after the step. The rows
  // of such a layer are those that entered it.
  bool counted_later = false;
};

// What a key policy does besides select().
struct key_traits {
  // choose() is called in every layer. Only then may select() return anything but what follows from
  // the plan, and use a mass or a block mask.
  bool chooses = false;
  // see() lists the keys of each view, and select() is not called. It does not combine with
  // choosing.
  bool by_view = false;
};

// Chooses which cache slots each row attends to in a layer.
class key_policy {
 public:
  // `block`: tokens per block of a block-causal mask; 0: the model's trained length.
  explicit key_policy(std::int32_t block = 0, key_traits traits = {})
      : traits_(traits), block_(block) {}
  virtual ~key_policy() = default;
  const key_traits& traits() const { return traits_; }
  // Called with key_traits::chooses. Scores what the cache holds and chooses from it, after the KV
  // of the layer was written. Operations that score are run by batch::score().
  virtual void choose(const layer_rows& layer, const paged_kv& cache) { (void)layer, (void)cache; }
  // Names the arrays that list the keys. It launches no operation and waits for none, because the
  // layers that read the arrays may be recorded. Their content may change with every step.
  // Default: cache slots [0, kv_length) under the model's own mask. kv_length [S] holds the plan's.
  virtual layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                            const std::int32_t* kv_length) const;
  // Called with key_traits::by_view, once per forward pass after select() of the rows. Fills
  // rows.views.range.
  virtual void see(const batch& b, const step_choice& plan, row_lists& rows) const {
    (void)b, (void)plan, (void)rows;
  }

 private:
  key_traits traits_;
  std::int32_t block_;
};

// What a sequence computes anew in one layer. A row that is not computed keeps its KV. The stored
// outputs of its attention block and of its feed-forward are added to the residual again.
struct layer_refresh {
  bool prompt = true;      // every position of the prompt
  bool response = true;    // every position of the response
  std::int32_t moved = 0;  // without `response`: its positions whose V moved most, so many
  bool probe = false;      // without `response`: V of all its positions is computed and compared
};

struct feature_settings {
  std::int32_t first_layer = 1;  // layers below it are always computed in full and store no outputs
  float same = 0;                // op::row_distance of a probe
  bool stores_all = true;  // a probe stores V of every position; false: of those that moved most
};

// Keeps outputs of layers between forward passes (feature_layers.h carries it out). The KV of all
// layers must then be stored.
class feature_policy {
 public:
  explicit feature_policy(const feature_settings& s = {}) : settings_(s) {}
  virtual ~feature_policy() = default;
  const feature_settings& settings() const { return settings_; }
  virtual layer_refresh refresh(const batch& b, std::int32_t layer, std::int32_t s) const = 0;

 private:
  feature_settings settings_;
};

// What a cache policy does besides writing every row's KV.
struct cache_traits {
  bool evicts =
      false;  // after_attention() is called in forward passes for which prepare() returns true
  // KV of unmasked positions is kept while other positions of their block are still masks. No rule
  // may edit or remask a token then.
  bool keeps_decided = false;
};

// Chooses which KV is kept between forward passes.
class cache_policy {
 public:
  explicit cache_policy(cache_traits traits = {}) : traits_(traits) {}
  virtual ~cache_policy() = default;
  const cache_traits& traits() const { return traits_; }
  // Returns the cache slots that the first `length` positions of a sequence take. The first
  // `prompt` of them are its prompt. No prompt takes more than prompt = 0, for which a batch is
  // made.
  virtual kv_storage storage(std::int32_t prompt, std::int32_t length) const = 0;
  // Called before a forward pass. Chooses which storage each sequence uses, and may set row slots
  // (and slots_differ). Returns whether after_attention() is called in the layers of this forward
  // pass (cache_traits::evicts).
  virtual bool prepare(const batch& b, const step_choice& plan, row_lists& rows, kv_cache& cache) {
    (void)b, (void)plan, (void)rows, (void)cache;
    return false;
  }
  // Called with cache_traits::evicts, after the attention of a layer. Keeps a part of its KV.
  virtual void after_attention(const layer_rows& layer, kv_cache& cache) {
    (void)layer, (void)cache;
  }
  // Called after the unmasking of a step. Marks what is cached now.
  virtual void settle(batch& b, const step_choice& plan) { (void)b, (void)plan; }

 private:
  cache_traits traits_;
};

// Which decisions the rule of an unmask policy makes besides keeping and taking
// (kernels/decisions.h). A rule that edits or remasks gets the unmasked positions of the step's
// range as candidates too.
struct unmask_traits {
  // A position that is unmasked with the mask id stays masked (official LLaDA and Dream loops).
  bool masks_by_id = false;
  bool replaces = false;  // edits: an unmasked position gets another token
  bool reopens = false;   // remasks: an unmasked position becomes a mask again
  bool holds = false;     // a mask gets its token, but the sequence keeps the mask
  // Masks of the step's range are candidates too if the row that predicts them is not computed.
  // Their row is -1.
  bool without_rows = false;
  // Products of the candidates with the LM head beyond the first, which judge() makes: counted alike.
  std::int32_t more_heads = 0;
  std::int32_t heads() const { return 1 + more_heads; }
  bool revises() const { return replaces || reopens; }
};

// Chooses which candidates get their token.
class unmask_policy {
 public:
  explicit unmask_policy(unmask_traits traits = {}) : traits_(traits) {}
  virtual ~unmask_policy() = default;
  const unmask_traits& traits() const { return traits_; }
  // Fills token and the scores that decide() needs. `head_input` [R, D] is the output of the final
  // norm.
  virtual void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
                     const packed_matrix& head, candidate_lists& candidates) = 0;
  // Fills accept with decisions that the traits announce.
  virtual void decide(const batch& b, const step_choice& plan, candidate_lists& candidates) = 0;
  // Called instead of decide() if a recording decided (trajectory.h) and filled `accept`. For
  // policies that learn from what was unmasked. The scores mean nothing then.
  virtual void learn(const batch& b, const step_choice& plan, const candidate_lists& candidates) {
    (void)b, (void)plan, (void)candidates;
  }

 private:
  unmask_traits traits_;
};

// How a method came to its choice in the last forward pass, for one sequence. The README of its
// folder explains the names.
struct method_report {
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<float>> arrays;
};

// What observers may ask about the last forward pass. A function that is empty is not offered. They
// are valid as long as the policies.
struct recipe_views {
  std::map<std::string, std::function<method_report(std::int32_t s)>> reports;
  // Returns the positions of cache slots 0, 1, 2, ... of sequence s in a layer, as far as the cache
  // moved KV there. All other slots hold what their rows wrote.
  std::function<std::vector<std::int32_t>(const step_choice& plan, std::int32_t layer,
                                          std::int32_t s)>
      slot_positions;
  // Returns the bytes allocated, for all batch slots together, for what the unmask policy remembers
  // of a request from step to step, without KV and layer outputs.
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
