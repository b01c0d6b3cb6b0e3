// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every operation the model core and the decoding methods are made of. One abstract class; the
// backends (reference: the definition of right; cpu: fast; cuda) implement it under the same names.
//
// Conventions
//   R       rows of this forward: the computed positions of all sequences, end to end (ragged).
//   S       sequences of the batch; `row_begin[s] .. row_begin[s+1]` are the rows of sequence s.
//   slot    index of one place in a sequence's KV cache; slot = absolute position unless a cache
//           policy compacts. Physical place: page_table[s][slot / page_size], slot % page_size.
//   Activations are float32. Results that only a product reads may have another type where an
//   operation says so (activation_type). Index arrays are int32. Flags are uint8 (0 or 1).
//   Everything is deterministic, and row r of a result never depends on which other rows are in
//   the batch: same input row, same output bits (batch invariance).
//   Ties: the lowest index wins, in arg-max, top-n and sorting alike.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/tensor.h"

namespace unmask {

// ---- operands ---------------------------------------------------------------------------------

// A weight matrix [out, in] in the backend's own layout. Made once by ops::pack, then read only.
class packed_matrix {
 public:
  virtual ~packed_matrix() = default;
  std::int64_t out_features = 0;
  std::int64_t in_features = 0;
  std::size_t bytes = 0;  // read by one use of the whole matrix
};
using packed_handle = std::shared_ptr<const packed_matrix>;

// How weights are stored after packing. Products are accumulated in float32, of int8 in int32: it
// quantises weights per output feature and activations per row, both symmetric (int8.h).
enum class weight_format : std::uint8_t { f32, bf16, int8 };

// Who touches an array. On one memory for both it makes no difference.
enum class memory_use : std::uint8_t {
  resident,  // operations; the host seldom: activations, caches, tables that change rarely
  exchanged  // both in every step: lists, progress, decisions, a few bytes per row
};

// Rows of one forward. All arrays live in the backend's memory.
struct row_set {
  std::int32_t sequences = 0;               // S
  std::int32_t rows = 0;                    // R
  const std::int32_t* row_begin = nullptr;  // [S+1]
  const std::int32_t* sequence = nullptr;  // [R] sequence of each row; negative: nobody's (padding)
  const std::int32_t* position = nullptr;  // [R] absolute position, ascending inside a sequence
  const std::int32_t* slot = nullptr;      // [R] KV slot each row writes; null: slot = position
};

inline constexpr int kv_page_size = 64;  // slots per page

// Keys and values of one layer: pages of kv_page_size slots, shared by all sequences.
struct paged_kv {
  tensor_view keys;    // [pages, kv_page_size, kv_heads, head_dim], after RoPE
  tensor_view values;  // same shape
  const std::int32_t* page_table = nullptr;  // [S, table_stride] physical page of a logical page
  std::int32_t table_stride = 0;
};

enum class mask_kind : std::uint8_t {
  full,         // every listed key
  causal,       // key position <= row position
  block_causal  // floor(key position / block) <= floor(row position / block)
};

// Attention that leaves out tiles of query block x key block, per head (SparseD). Positions and
// slots are cut into blocks of `size` from 0 on; a row of query block i in head h sees key block j
// when keep[s, h, i, j] is 1. A head that keeps nothing for a row gives zeros.
struct block_mask {
  const std::uint8_t* keep = nullptr;     // [S, heads, blocks, blocks] flags; null: no mask
  const std::uint8_t* applies = nullptr;  // [S] 0: sequence s attends densely
  std::int32_t blocks = 0;                // room along each block axis
  std::int32_t size = 0;                  // positions per block
};

// Which keys the rows of one layer attend to. Without a list, sequence s sees slots
// [0, kv_length[s]); with one, the slots key_slot[key_begin[s] .. key_begin[s+1]), any order.
// Masks other than full compare positions and need slot = position; so does a block mask, which
// goes with neither a list nor key_mass.
struct key_set {
  const std::int32_t* kv_length = nullptr;  // [S]
  const std::int32_t* key_begin = nullptr;  // [S+1] or null
  const std::int32_t* key_slot = nullptr;   // [key_begin[S]] or null
  mask_kind mask = mask_kind::full;
  std::int32_t block = 1;  // tokens per block of the block_causal mask
  block_mask tiles;
};

struct rope_params {
  std::int32_t rotary_dim = 0;  // leading dimensions of each head that rotate; the rest pass
  float theta = 10000.0F;  // pairs are (i, i + rotary_dim / 2), angle p * theta^(-2i/rotary_dim)
};

// Positions whose token may be decided now, all sequences end to end. A candidate at position p
// is predicted by the forward row `row` (the row of p, or of p - 1 when the model shifts logits).
struct candidate_set {
  std::int32_t sequences = 0;              // S
  std::int32_t count = 0;                  // C
  const std::int32_t* begin = nullptr;     // [S+1]
  const std::int32_t* position = nullptr;  // [C] ascending inside a sequence
  const std::int32_t* row = nullptr;       // [C] index into the rows of this forward
};

// What the LM head says about each candidate. Any pointer may be null when it is not wanted.
struct confidence_out {
  std::int32_t* token = nullptr;      // [C] arg-max of the (noised) logits
  float* probability = nullptr;       // [C] softmax(logits / temperature)[token]
  float* margin = nullptr;            // [C] best minus second best probability
  float* negative_entropy = nullptr;  // [C] sum_v p_v ln(p_v + 1e-10)
  float* top2_logit_gap = nullptr;    // [C] largest minus second largest logit
  float* residual = nullptr;          // [C] 1 - probability, exact where that rounds to 1
};

// Where random draws come from: candidate c of sequence s at position p uses the stream
// stream_key(seed[s], step[s], p) (random.h), so noise never depends on the batch.
struct noise_source {
  const std::uint64_t* seed = nullptr;  // [S]
  const std::int32_t* step = nullptr;   // [S] steps this sequence has made
};

struct confidence_params {
  float temperature = 1.0F;      // divides the logits inside the softmax only
  float gumbel_temperature = 0;  // > 0: arg-max of logit - t ln(-ln u), LLaDA's sampling
  noise_source noise;
  const std::int32_t* banned = nullptr;  // tokens whose logit counts as -infinity
  std::int32_t banned_count = 0;
  bool accumulate_double = false;  // softmax denominator in float64 (official LLaDA loops)
};

// Token sampling with full sorting, for Dream's and AR's stochastic decoding.
struct sample_params {
  float temperature = 0;   // 0: arg-max
  float top_p = 1.0F;      // drop tokens whose cumulative probability before them exceeds this
  std::int32_t top_k = 0;  // 0: all
  noise_source noise;
};

// How ops::freeze_two_centroids tells a settled token from an unsettled one. v is the token's own
// history row, high and boundary are the two centroids.
enum class freeze_rule : std::uint8_t {
  squared_euclidean,  // |v - high|^2 < |v - boundary|^2 (Ada-DLM eqs. 8-10)
  manhattan,          // |v - high|_1 < |v - boundary|_1
  cosine,             // cos(v, high) > cos(v, boundary); the cosine with a zero row is 0
  moving_average,  // mean(v) > (mean(high) + mean(boundary)) / 2, or > threshold when that is > 0
  threshold        // v[0] > threshold (Fast-dLLM)
};
// Cosines closer than this are equal: rows that are multiples of each other differ by rounding.
inline constexpr double cosine_tie = 1e-12;

struct freeze_params {
  freeze_rule rule = freeze_rule::squared_euclidean;
  bool clamp_weights = false;   // squared_euclidean: negative components of high - boundary count 0
  bool tier_mean = false;       // centroids: means of ranks 1..K and K+1..2K instead of one token
  bool all_when_short = false;  // at most K candidates: all freeze
  bool always_best = true;      // nothing froze: the candidate of highest confidence does
  bool rank_all = false;        // rank every position of the scope, decided ones with the row they
                                // froze with; needs first and last
  float threshold = 0;
  float floor = 0;                      // a confidence below it never freezes (always_best may)
  const std::int32_t* first = nullptr;  // [S] scope [first[s], last[s]): candidates outside are
  const std::int32_t* last = nullptr;   // [S] neither ranked nor accepted; null: every candidate
  const std::int32_t* limit = nullptr;  // [S] at most this many freeze, the most confident of them
};

// Token states of a cache that stores a decided token's K/V one forward late.
struct settle_params {
  std::uint8_t masked = 0, decoded = 1, cached = 2;
  bool delay = true;     // a decided token is computed once more, with its own id
  bool shifted = false;  // row p - 1 predicts position p
};

// Copies of the lists of a forward, for operations that are recorded once and repeated with other
// rows. Null: not wanted.
struct staged_rows {
  std::int32_t* row_begin = nullptr;  // [S+1]
  std::int32_t* sequence = nullptr;   // [padded] as the three below
  std::int32_t* position = nullptr;
  std::int32_t* slot = nullptr;
  std::int32_t* token = nullptr;
  std::int32_t* index = nullptr;
};

// Operations that were recorded (ops::record).
class recorded_work {
 public:
  virtual ~recorded_work() = default;
};

struct moe_router {
  std::int32_t experts = 0, experts_per_token = 0, groups = 1, groups_kept = 1;
  float scaling = 1.0F;
  bool sigmoid = true;    // score = sigmoid(logit), else softmax over all experts
  bool normalize = true;  // weights / (sum + 1e-20)
  tensor_view weight;     // [experts, D] float32
  tensor_view bias;       // [experts] float32 added for selection only; data null: none
  // [R] of the rows: those that are nobody's take no expert (-1, weight 0), so that padding reads
  // no expert's weights; null: every row takes some.
  const std::int32_t* sequence = nullptr;
};

struct moe_experts {
  std::vector<packed_handle> gate_up;  // per expert, [2 F, D]: gate rows then up rows
  std::vector<packed_handle> down;     // per expert, [D, F]
  std::int32_t hidden = 0;             // F
};

// Which masked rows survive an eviction (FOCUS section 4.2), per sequence over its candidates.
struct retain_params {
  const std::int32_t* target = nullptr;     // [S] tokens wanted; 0: everything is kept
  const std::int32_t* processed = nullptr;  // [S] one past the last position kept so far
  bool by_deviation = true;  // also all with score >= [mean +] deviation, when they are >= target
  bool add_mean = true;      // threshold mean + deviation; false: deviation alone
  std::int32_t ddof = 0;     // deviation divides by n - ddof
  bool keep_predecessors = true;  // the candidate directly before a chosen one stays
  bool adjacent_rows = false;     // "directly before" counts rows of the forward, not positions
  bool keep_unprocessed = true;   // candidates in [processed, last kept) stay: their K/V is missing
};

// When a decided token's K/V counts as final, judged on the states at the input of a forward.
enum class settle_rule : std::uint8_t {
  any_decoded,        // it was an input as a decided token
  contiguous_prefix,  // and everything before it in the block is decided
  right_neighbour,    // and the position after it in the block is decided (none after the last)
  whole_block         // and everything in the block is decided
};

// Chunks of a block: which undetermined positions of [first, last) enter this forward.
struct chunk_params {
  const std::int32_t* first = nullptr;  // [S]
  const std::int32_t* last = nullptr;   // [S] end of the positions in play; first: no rows
  const std::int32_t* size = nullptr;   // [S] most rows
  std::int32_t block = 1;               // tokens per block, counted from position 0
  bool pending_first = true;            // decided ones before masked ones; false: position order
  settle_rule rule = settle_rule::any_decoded;
  bool compact_slots = true;  // K/V of a block in the order of settling; false: slot = position
};

// ---- the operations ---------------------------------------------------------------------------

class ops {
 public:
  virtual ~ops() = default;
  virtual std::string name() const = 0;  // "reference", "cpu-avx512", "cpu-avx2", "cpu-portable"

  // Memory of this backend, 64-byte aligned and zero-filled. Not called inside a step.
  virtual tensor allocate(dtype type, std::initializer_list<std::int64_t> shape,
                          memory_use use = memory_use::resident) const = 0;
  // Weights [out, in] of any float dtype into the backend's layout.
  virtual packed_handle pack(const tensor_view& weight, weight_format format) const = 0;
  // A weight in host memory, such as the embedding table of a mapped file, where this backend's
  // operations can read it. The result lives as long as `weight` and *keep do.
  virtual tensor_view resident(const tensor_view& weight, std::shared_ptr<void>* keep) const {
    (void)keep;
    return weight;
  }
  // What rows that only products with such weights read are best stored as: the results of
  // rms_norm, attention and silu_mul, and the pair that silu_mul takes. Those operations, linear
  // and the routed ones take it beside float32.
  virtual dtype activation_type(weight_format format) const {
    (void)format;
    return dtype::f32;
  }
  // Whether the cache operations (kv_*, attention, key scores) take pages of this element type.
  virtual bool holds_kv(dtype type) const { return type == dtype::f32; }
  // Operations may return before their results are there. The host reads what an operation wrote,
  // and overwrites what one reads, only after this. Backends that compute at once need nothing.
  virtual void synchronize() const {}

  // Whether operations read resident memory faster than exchanged memory, so that lists which every
  // layer reads are worth a copy (stage_rows).
  virtual bool exchanged_is_slow() const { return false; }

  // -- recording --
  // A backend that can repeat a sequence of operations for less than issuing them takes again
  // records them once (a CUDA graph). What is repeated are the same operations on the same arrays
  // with the same numbers of rows, on whatever the arrays hold then: rows beyond those there are
  // must be nobody's (stage_rows). While recording, an operation may neither return a count nor
  // need memory that it did not need before; the body must have run as it is.
  // Rows that operations on `rows` rows should be recorded for; 0: recording them gains nothing, or
  // this backend records nothing.
  virtual std::int32_t recorded_rows(std::int32_t rows) const {
    (void)rows;
    return 0;
  }
  // Runs nothing. std::logic_error where the body waits.
  virtual std::unique_ptr<recorded_work> record(const std::function<void()>& body) const;
  virtual void repeat(const recorded_work& work) const;
  // to = the lists of `rows`, tokens and index (each [R]); entries R .. padded - 1 are nobody's:
  // sequence -1, position, slot, token and index 0. No array may be one of `rows`.
  virtual void stage_rows(const row_set& rows, const std::int32_t* token, const std::int32_t* index,
                          std::int32_t padded, const staged_rows& to) const;

  // -- model core --
  // out[r] = table[token[r]]; table [V, D] in f32, bf16 or f16; out [R, D].
  virtual void embed(const std::int32_t* token, const tensor_view& table,
                     const tensor_view& out) const = 0;
  // out = x / sqrt(mean(x^2) + eps) * weight, row-wise; x, out [R, D] (may alias), weight [D] f32.
  virtual void rms_norm(const tensor_view& x, const tensor_view& weight, float eps,
                        const tensor_view& out) const = 0;
  // y = x W^T (+ bias) or y += ...; x [R, K], y [R, N]; bias [N] f32 or data null.
  virtual void linear(const tensor_view& x, const packed_matrix& weight, const tensor_view& bias,
                      const tensor_view& y, bool accumulate) const = 0;
  // In place on q [R, heads, dim] or k [R, kv_heads, dim]: RMSNorm over dim when norm_weight has
  // data ([dim] f32), then rotate-half RoPE at position[r].
  virtual void head_norm_rope(const tensor_view& x, const tensor_view& norm_weight, float eps,
                              const rope_params& rope, const std::int32_t* position) const = 0;
  // Store k, v [R, kv_heads, dim] into the cache at each row's slot; rows that are nobody's store
  // nothing. Either may have no data: that side of the cache stays as it is.
  virtual void kv_write(const row_set& rows, const tensor_view& k, const tensor_view& v,
                        const paged_kv& cache) const = 0;
  // head_norm_rope on q and on k, then kv_write of k and v: what every layer does between its
  // projection and its attention. This body does them one after the other; a backend where one pass
  // over the rows costs less says so, and is then asked.
  virtual void rotate_and_store(const row_set& rows, const tensor_view& q, const tensor_view& k,
                                const tensor_view& v, const tensor_view& q_norm,
                                const tensor_view& k_norm, float eps, const rope_params& rope,
                                const paged_kv& cache) const;
  virtual bool rotates_and_stores_at_once() const { return false; }
  // The reverse: k, v = (or, with accumulate, +=) what lies at each row's slot. Either may have no
  // data.
  virtual void kv_read(const row_set& rows, const paged_kv& cache, const tensor_view& k,
                       const tensor_view& v, bool accumulate) const = 0;
  // out[r, h] = sum_j softmax_j(q[r, h] . k[j, h / group] * scale) v[j, h / group] over the keys of
  // the row's sequence that the mask admits. q, out [R, heads, dim]; GQA group = heads / kv_heads.
  // key_mass, when it has data: [total keys] += softmax weight of each listed key summed over the
  // sequence's rows and heads (index: sum of kv_length before s, plus slot; or list index).
  virtual void attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                         const key_set& keys, float scale, const tensor_view& out,
                         const tensor_view& key_mass) const = 0;
  // out[r, f] = silu(gate_up[r, f]) * gate_up[r, F + f]; gate_up [R, 2F], out [R, F].
  virtual void silu_mul(const tensor_view& gate_up, const tensor_view& out) const = 0;
  // Group-limited routing (LLaDA2.0): expert [R, k] int32, weight [R, k] f32, descending by
  // selection score, lowest expert first on ties; group score = sum of its two largest.
  virtual void moe_route(const tensor_view& x, const moe_router& router, const tensor_view& expert,
                         const tensor_view& weight) const = 0;
  // y[r] += sum_i weight[r, i] * down_e(silu(gate_e x) * up_e x), e = expert[r, i]; e < 0 adds
  // nothing.
  virtual void moe_feed_forward(const tensor_view& x, const tensor_view& expert,
                                const tensor_view& weight, const moe_experts& experts,
                                const tensor_view& y) const = 0;
  // LM head fused with arg-max and confidence; no [C, V] matrix is kept. x [R, D] final-norm
  // output, head [V, D]; reads only the candidates' rows.
  virtual void confidence(const tensor_view& x, const packed_matrix& head,
                          const candidate_set& candidates, const confidence_params& params,
                          const confidence_out& out) const = 0;
  // Whole logits of chosen rows: out[i] = x[row[i]] W^T, out [n, V]; for sampling and checks.
  virtual void logits(const tensor_view& x, const packed_matrix& head, const std::int32_t* row,
                      const tensor_view& out) const = 0;
  // Sample from logits [C, V] (overwritten), one row per candidate; probability is that of the
  // chosen token after temperature and filtering, negative_entropy of the same distribution.
  virtual void sample(const candidate_set& candidates, const tensor_view& logits,
                      const sample_params& params, const confidence_out& out) const = 0;

  // -- rows --
  // to[i] = from[index[i]]; rows of any type and width. The two share no memory: on a GPU rows are
  // copied in no order.
  virtual void gather_rows(const tensor_view& from, const std::int32_t* index,
                           const tensor_view& to) const = 0;
  // to[index[i]] = from[i].
  virtual void scatter_rows(const tensor_view& from, const std::int32_t* index,
                            const tensor_view& to) const = 0;
  // Positions p in [first[s], last[s]) with flags[s, p] == want (flags without data: all of them),
  // ascending, end to end over the sequences: fills begin [S+1], position and sequence; returns the
  // total. flags [S, length] uint8.
  virtual std::int32_t compact(std::int32_t sequences, const tensor_view& flags, std::uint8_t want,
                               const std::int32_t* first, const std::int32_t* last,
                               std::int32_t* begin, std::int32_t* position,
                               std::int32_t* sequence) const = 0;
  // index[i] = the row of `rows` at the sequence and position of row i of `some`, each of which
  // must be there.
  virtual void find_rows(const row_set& rows, const row_set& some, std::int32_t* index) const = 0;
  // token[r] = canvas[sequence[r], position[r]], 0 where the row is nobody's; canvas [S, length]
  // int32.
  virtual void gather_tokens(const row_set& rows, const tensor_view& canvas,
                             std::int32_t* token) const = 0;
  // Candidates of this forward: positions p in [first[s], last[s]) with state[s, p] == want whose
  // predicting row, that of position p - shift, is in `rows`. Fills begin [S+1], position and row
  // (index into rows); returns the total. state [S, length] uint8.
  virtual std::int32_t find_candidates(const row_set& rows, const tensor_view& state,
                                       std::uint8_t want, const std::int32_t* first,
                                       const std::int32_t* last, std::int32_t shift,
                                       std::int32_t* begin, std::int32_t* position,
                                       std::int32_t* row) const = 0;

  // -- decisions: accept [C] uint8 is set to 0 or 1 for every candidate --
  // The quota[s] candidates of highest score (all when fewer).
  virtual void accept_top(const candidate_set& candidates, const float* score,
                          const std::int32_t* quota, std::uint8_t* accept) const = 0;
  // Every candidate with score >= threshold (strict: >) and, with always_best, the best one.
  virtual void accept_threshold(const candidate_set& candidates, const float* score,
                                float threshold, bool strict, bool always_best,
                                std::uint8_t* accept) const = 0;
  // Fast-dLLM's factor rule: sorted descending c_1.., thr_n = 1 - factor / (n + 1), thr_1 = -1;
  // accept the leading run that passes; when t == 0 or t == m - 1 one more.
  virtual void accept_factor(const candidate_set& candidates, const float* score, float factor,
                             std::uint8_t* accept) const = 0;
  // Positions first .. first + quota[s] - 1 (modulo the block) from the first candidate of the
  // block [block_begin[s], block_begin[s] + block), masked ones only (LMDeploy "sequential").
  virtual void accept_sequential(const candidate_set& candidates, const std::int32_t* block_begin,
                                 std::int32_t block, const std::int32_t* quota,
                                 std::uint8_t* accept) const = 0;
  // accept[i] = accept[i] and also[i], or accept[i] or also[i]. This body
  // serves backends whose memory the host can read; others override it.
  virtual void merge_accept(std::int32_t count, const std::uint8_t* also, bool both,
                            std::uint8_t* accept) const {
    for (std::int32_t i = 0; i < count; ++i) {
      accept[i] = both ? (accept[i] & also[i]) : (accept[i] | also[i]);
    }
  }
  // score[c] = uniform draw in (0, 1) (random remasking; Dream's "origin").
  virtual void uniform_scores(const candidate_set& candidates, const noise_source& noise,
                              float* score) const = 0;
  // score[c] = score[c] / temperature - ln(-ln u): its top-n is a draw without replacement from
  // softmax(score / temperature) (Dream's alg_temp).
  virtual void gumbel_scores(const candidate_set& candidates, const noise_source& noise,
                             float temperature, float* score) const = 0;
  // Write accepted tokens: canvas[s, position] = token, state[s, position] = decoded_state,
  // committed[s] += number accepted. canvas [S, length] int32, state [S, length] uint8. A token
  // equal to mask_id leaves its position masked and is not counted (loops that recognise a mask
  // by its id); mask_id -1: the state array alone decides.
  virtual void commit(const candidate_set& candidates, const std::int32_t* token,
                      const std::uint8_t* accept, std::uint8_t decoded_state, std::int32_t mask_id,
                      const tensor_view& canvas, const tensor_view& state,
                      std::int32_t* committed) const = 0;

  // -- freezing: decisions that look back over several steps --
  // history [S, length, m] float32, newest first: a candidate at position p of sequence s moves its
  // row one place back and puts score in front. replicate: a row whose newest entry is 0 (never
  // scored) is filled with score instead.
  virtual void push_history(const candidate_set& candidates, const float* score, bool replicate,
                            const tensor_view& history) const = 0;
  // Ada-DLM (eqs. 6-10, Algorithm 1) on the history that push_history keeps. Per sequence: rank the
  // candidates by newest confidence, descending; high is the row of rank 1, boundary that of rank
  // K + 1 with K = clamp(rank[s], 1, candidates - 1); accept what params.rule puts strictly nearer
  // to high. rank[s] < 0: every candidate of the scope is accepted. A newest confidence of
  // -infinity or NaN is not eligible.
  virtual void freeze_two_centroids(const candidate_set& candidates, const tensor_view& history,
                                    const std::int32_t* rank, const freeze_params& params,
                                    std::uint8_t* accept) const = 0;
  // The rows that such a cache computes next: for p in [first[s], last[s]) flags[s, p] = 1 where
  // the position is masked, or decided and not yet cached (delay), or predicts a masked position p
  // + 1 < last[s] (shifted), or whole[s] is set; 0 elsewhere. Then every decoded position of the
  // range becomes cached. state, flags [S, length] uint8.
  virtual void mark_unsettled(const tensor_view& state, const settle_params& params,
                              const std::int32_t* first, const std::int32_t* last,
                              const std::uint8_t* whole, const tensor_view& flags) const = 0;

  // -- block diffusion: token states masked 0, decided 1, cached 2; [S, length] uint8 --
  // flags[s, p] = value for p in [first[s], last[s]).
  virtual void fill_flags(std::int32_t sequences, const std::int32_t* first,
                          const std::int32_t* last, std::uint8_t value,
                          const tensor_view& flags) const = 0;
  // flags[sequence[r], position[r]] = value for the rows with where[r] != 0 (where null: all) that
  // are somebody's.
  virtual void scatter_flags(const row_set& rows, const std::uint8_t* where, std::uint8_t value,
                             const tensor_view& flags) const = 0;
  // flags[s, p] = 1 where the K/V of p, computed from these states, is final: p in [first, last),
  // one block, is not masked and, with right_neighbour, p is the last or p + 1 is not masked.
  virtual void freeze(std::int32_t sequences, const tensor_view& state, const std::int32_t* first,
                      const std::int32_t* last, bool right_neighbour,
                      const tensor_view& flags) const = 0;
  // out[i] = a wa + b wb in float32 (b null: a wa); out may be a.
  virtual void combine_scores(std::int32_t count, const float* a, float wa, const float* b,
                              float wb, float* out) const = 0;
  // Round to bfloat16 (nearest, ties to even) in place.
  virtual void round_bf16(std::int32_t count, float* x) const = 0;
  // accept = the candidates that stay: top target by score or those beyond the deviation, then
  // predecessors, then unprocessed ones before the last kept; see retain_params.
  virtual void retain(const candidate_set& candidates, const float* score,
                      const retain_params& params, std::uint8_t* accept) const = 0;
  // Drop the rows of refused candidates: kept[i] = index of the i-th surviving row; begin [S+1],
  // sequence and position describe the survivors and may be the arrays of `rows`. Returns their
  // number.
  virtual std::int32_t drop_rows(const row_set& rows, const candidate_set& candidates,
                                 const std::uint8_t* accept, std::int32_t* begin,
                                 std::int32_t* sequence, std::int32_t* position,
                                 std::int32_t* kept) const = 0;
  // Rows of one forward out of the positions not cached, at most size[s] (chunk_params): begin
  // [S+1], sequence, position ascending; slot [R] where the row's K/V goes; settles [R] 1 where it
  // is final after this forward. Returns the total.
  virtual std::int32_t select_chunk(std::int32_t sequences, const tensor_view& state,
                                    const chunk_params& params, std::int32_t* begin,
                                    std::int32_t* sequence, std::int32_t* position,
                                    std::int32_t* slot, std::uint8_t* settles) const = 0;

  // -- selection, for the sparse and evicting methods --
  // Stable top-n of each segment [begin[s], begin[s+1]) of score, best first: index relative to
  // the segment into out[out_begin[s] ..], out_begin[s+1] - out_begin[s] = n of segment s.
  virtual void top_indices(std::int32_t segments, const std::int32_t* begin, const float* score,
                           const std::int32_t* out_begin, std::int32_t* out) const = 0;
  // Sliding max or mean over each segment, window `kernel` (odd), stride 1; out of range is
  // -infinity for max and left out of the count for mean.
  virtual void pool(std::int32_t segments, const std::int32_t* begin, const float* in,
                    std::int32_t kernel, bool maximum, float* out) const = 0;
  // Mean over the rows of each sequence: out[s, c]; x [R, C].
  virtual void mean_rows(const row_set& rows, const tensor_view& x,
                         const tensor_view& out) const = 0;
  // score[i] = mean over query heads of q[s, h] . key(slot, h / group); q [S, heads, dim], slots
  // listed by keys (Sparse-dLLM Alg. 1; Focus-dLLM eq. 7 with block means as keys).
  virtual void key_scores(const tensor_view& q, const paged_kv& cache, const key_set& keys,
                          float* score) const = 0;
  // Mean key of each block of `block` consecutive slots of [0, kv_length[s]): out [blocks,
  // kv_heads, dim]; block_begin [S+1] counts blocks (last block: mean of what is there). With
  // first_block [S] the blocks start at that one instead of 0, to refresh a few of many.
  virtual void block_mean_keys(std::int32_t sequences, const paged_kv& cache,
                               const std::int32_t* kv_length, std::int32_t block,
                               const std::int32_t* block_begin, const tensor_view& out,
                               const std::int32_t* first_block = nullptr) const = 0;
  // Keys and values of slots from_slot[begin[s] .. begin[s+1]) in `from` become slots 0, 1, 2, ...
  // of sequence s in `to`; sequences without entries are left alone. This body serves backends
  // whose memory the host can read; others override it.
  virtual void kv_copy(std::int32_t sequences, const std::int32_t* begin,
                       const std::int32_t* from_slot, const paged_kv& from,
                       const paged_kv& to) const;
  // FOCUS importance of masked rows (focus spec 3.3): per head and masked query, scores over the
  // masked keys of the same sequence, max-pool 3 along keys, softmax, summed over heads and
  // queries. index[begin[s] .. begin[s+1]) are the masked rows; out has one value per entry.
  virtual void importance(std::int32_t sequences, const std::int32_t* begin,
                          const std::int32_t* index, const tensor_view& q, const tensor_view& k,
                          float scale, float* out) const = 0;
  // Softmax mass of tiles (SparseD's pattern scores): out[s, h, i, j] = size^-2 sum over the rows r
  // of query block i and the slots k of key block j of softmax_k(q[r, h] . key[k, h / group] *
  // scale), the softmax over slots [first_slot[s], kv_length[s]); first_slot is a multiple of size.
  // Written: i, j of blocks that have a position below kv_length, j from first_slot on. Sequences
  // with kv_length 0 are left alone. out [S, heads, blocks, blocks].
  virtual void block_mass(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                          const std::int32_t* kv_length, const std::int32_t* first_slot,
                          std::int32_t size, float scale, const tensor_view& out) const = 0;
  // Per sequence s, head and query block i < used[s]: the count[s] largest mass[s, h, i, j] with j
  // in [first[s], used[s]) are chosen (all when fewer); keep[s, h, i, j] for j in [first[s],
  // limit[s]) = whether j was. mass f32, keep u8, both [S, heads, blocks, blocks].
  virtual void keep_top_blocks(const tensor_view& mass, const std::int32_t* used,
                               const std::int32_t* first, const std::int32_t* limit,
                               const std::int32_t* count, const tensor_view& keep) const = 0;
  // Keys that a row of query block i sees under the mask, mean over the heads: out[s, i], for the
  // sequences it applies to. keep u8 [S, heads, blocks, blocks], out f32 [S, blocks].
  virtual void block_mask_keys(const tensor_view& keep, const std::uint8_t* applies,
                               std::int32_t size, const std::int32_t* kv_length,
                               const tensor_view& out) const = 0;
  // flags[s, position[i]] = 1 for the count[s] entries of highest score among those of sequence s,
  // 0 for its others. Entries are rows of `some`, score [their number]; flags [S, length] uint8.
  virtual void mark_top(const row_set& some, const float* score, const std::int32_t* count,
                        const tensor_view& flags) const = 0;
  // Cosine distance of matching rows, 1 - sum(a b) / max(|a| |b|, 1e-8): out [R]; a, b [R, C]. Sums
  // and difference in float64: rows that are nearly alike keep their order, which a float32 cosine
  // near 1 loses.
  virtual void row_distance(const tensor_view& a, const tensor_view& b, float* out) const = 0;
};

// Backends. cpu_ops picks AVX-512, AVX2 or portable code at run time; UNMASK_CPU_ISA=avx512|avx2|
// portable overrides it (an unsupported choice is an environment error).
const ops& reference_ops();
const ops& cpu_ops();
// The first GPU; throws environment_error, "no GPU: ...", where there is none.
const ops& cuda_ops();
// The CUDA backend's own kernels, emulated on the CPU thread by thread: to test them where there is
// no GPU, thousands of times slower than cpu_ops.
const ops& cuda_emulated_ops();

}  // namespace unmask
