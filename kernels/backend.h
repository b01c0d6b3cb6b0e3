// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What operations act on, and the backend that runs them: memory, the order of work and its
// recording. The operations themselves are values (operation.h) in the headers beside this one and
// in the kernels/ folders of the methods; a backend is one of reference (the definition of right),
// cpu (fast), cuda and its emulation.
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

// A weight matrix [out, in] in the backend's own layout. Made once by backend::pack, then read only.
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
  resident,     // operations only (backend::write and read copy): activations, caches, large tables
  host_visible  // both: lists, progress, decisions, a few bytes per row
};

// Rows of one forward. All arrays live in the backend's memory.
struct row_set {
  std::int32_t sequences = 0;               // S
  std::int32_t rows = 0;                    // R
  const std::int32_t* row_begin = nullptr;  // [S+1]
  const std::int32_t* sequence = nullptr;   // [R] sequence of each row; negative: a padding row
  const std::int32_t* position = nullptr;   // [R] absolute position, ascending inside a sequence
  const std::int32_t* slot = nullptr;       // [R] KV slot each row writes; null: slot = position
};

inline constexpr int kv_page_size = 64;  // slots per page

// Keys and values of one layer: pages of kv_page_size slots, shared by all sequences.
struct paged_kv {
  tensor_view keys;    // [pages, kv_page_size, kv_heads, head_dim], after RoPE
  tensor_view values;  // same shape
  const std::int32_t* page_table = nullptr;  // [S, table_stride] physical page of a logical page
  std::int32_t table_stride = 0;
  std::int32_t most_pages = 0;  // of one sequence; 0: table_stride
};

enum class mask_kind : std::uint8_t {
  full,         // every listed key
  causal,       // key position <= row position
  block_causal  // floor(key position / block) <= floor(row position / block)
};

// Attention that leaves out tiles of query block x key block, per head. Positions and
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

// Positions whose token may be decided now, all sequences end to end. A candidate at position p
// is predicted by the forward row `row` (the row of p, or of p - 1 when the model shifts logits).
struct candidate_set {
  std::int32_t sequences = 0;              // S
  std::int32_t count = 0;                  // C
  const std::int32_t* begin = nullptr;     // [S+1]
  const std::int32_t* position = nullptr;  // [C] ascending inside a sequence
  const std::int32_t* row = nullptr;       // [C] index into the rows of this forward
};

// Where random draws come from: candidate c of sequence s at position p uses the stream
// stream_key(seed[s], step[s], p) (random.h), so noise never depends on the batch.
struct noise_source {
  const std::uint64_t* seed = nullptr;  // [S]
  const std::int32_t* step = nullptr;   // [S] steps this sequence has made
};

// Operations that were captured (backend::capture).
class captured_graph {
 public:
  virtual ~captured_graph() = default;
};

// ---- backends -----------------------------------------------------------------------------------

enum class target : std::uint8_t { reference, cpu, cuda, cuda_emulated };
inline constexpr std::size_t targets = 4;

class backend {
 public:
  explicit backend(target where) : where_(where) {}
  virtual ~backend() = default;

  // Runs an operation: run(op::accept_top{...}), defined in operation.h, which the header of every
  // operation includes. Returns what the operation returns.
  template <class P>
  auto run(const P& args) const;
  target where() const { return where_; }
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
  // Returns the preferred element type of activations next to matrix products, all except the
  // residual stream: the results of rms_norm, attention and silu_mul, the pair that silu_mul takes, Q, K and
  // V. The operations on those take it beside float32.
  virtual dtype activation_type(weight_format format) const {
    (void)format;
    return dtype::f32;
  }
  // Whether the cache operations (kv_*, attention, key scores) take pages of this element type.
  virtual bool holds_kv(dtype type) const { return type == dtype::f32; }
  // Operations may return before their results are there. The host reads what an operation wrote
  // only after this; what one reads it may overwrite at once. Backends that compute at once need
  // nothing.
  virtual void synchronize() const {}
  // synchronize() if operations wrote host-visible memory since the last wait. What else they do goes on.
  virtual void bring_home() const { synchronize(); }

  // Between the host's arrays and resident memory, in order with the operations. write() has read
  // `from` when it returns, read() waits; clear() fills with zeros.
  virtual void write(void* to, const void* from, std::size_t bytes) const;
  virtual void read(void* to, const void* from, std::size_t bytes) const;
  virtual void clear(void* to, std::size_t bytes) const;

  // Whether the host can read resident memory in place.
  bool shows_resident() const { return where_ == target::reference || where_ == target::cpu; }

  // -- captured graphs --
  // capture() records operations into a CUDA graph; replay() runs them again on the same arrays and
  // numbers of rows, on whatever the arrays hold then: rows beyond those there are must be padding
  // rows (stage_rows). During a capture an operation may neither return a count nor need memory
  // that it did not need before, so the body must have run uncaptured once.
  // Rows that operations on `rows` rows should be captured for; 0: capturing them gains nothing, or
  // this backend captures nothing.
  virtual std::int32_t graph_bucket(std::int32_t rows) const {
    (void)rows;
    return 0;
  }
  // Runs nothing. std::logic_error where the body waits.
  virtual std::unique_ptr<captured_graph> capture(const std::function<void()>& body) const;
  virtual void replay(const captured_graph& work) const;

 private:
  target where_;
};

// Backends. cpu_backend picks AVX-512, AVX2 or portable code at run time; UNMASK_CPU_ISA=avx512|avx2|
// portable overrides it (an unsupported choice is an environment error).
const backend& reference_backend();
const backend& cpu_backend();
// The first GPU; throws environment_error, "no GPU: ...", where there is none.
const backend& cuda_backend();
// The CUDA backend's own kernels, emulated on the CPU thread by thread: to test them where there is
// no GPU, thousands of times slower than cpu_backend.
const backend& cuda_emulated_backend();

}  // namespace unmask
