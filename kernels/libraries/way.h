// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a module offers that computes an operation by another library (README.md). A module is a shared library of its
// own. The program opens it by name, if it is there, and is built without it and without its library.
#pragma once

#include <cstdint>

namespace unmask::libraries {

inline constexpr std::int32_t interface_number = 1;  // changes with anything in this file
inline constexpr const char* entry_name = "unmask_library_way";

// All arrays are in device memory, each row behind the one before.
//
// out[r, h] = sum_j softmax_j(q[r, h] . keys[s, j, h / group] * scale) values[s, j, h / group]: rows of sequence s see its
// first `keys` keys. All bfloat16.
struct attention_shape {
  std::int64_t sequences, rows, keys, heads, kv_heads, dim;  // rows and keys of each sequence
  std::int64_t key_rows;  // room for keys of a sequence, at least `keys`
  float scale;
};
struct attention_operands {
  const void* q;       // [sequences * rows, heads, dim]
  const void* keys;    // [sequences, key_rows, kv_heads, dim]
  const void* values;  // as keys
  void* out;           // as q
};

// y[r] += sum_i share[r, i] * down_e(silu(gate_e x[r]) * up_e x[r]), e = expert[r, i]; e < 0 adds nothing.
struct experts_shape {
  std::int64_t rows, width, hidden, experts, per_row;
};
struct experts_operands {
  const void* x;               // [rows, width] bfloat16
  const std::int32_t* expert;  // [rows, per_row]
  const float* share;          // [rows, per_row]
  const void* gate_up;         // [experts, 2 hidden, width] bfloat16: gate rows, then up rows
  const void* down;            // [experts, width, hidden] bfloat16
  float* y;                    // [rows, width]
};

// The answer of a module's function unmask_library_way(). Nothing here throws. A function that returns int returns 0, or
// another number and leaves a sentence in problem().
struct library_way {
  std::int32_t interface_of_module;  // interface_number of its build; the first field for ever
  const char* (*version)();          // "cuDNN 9.13.0 by its frontend 1.32.0"
  const char* (*problem)();          // of the last call that failed
  // Plans calls of one shape on the GPU of this thread; null: problem(). A null function: it has no such operation.
  void* (*prepare_attention)(const attention_shape*);
  void* (*prepare_experts)(const experts_shape*);
  // Queues a call on a stream of the module.
  int (*attend)(void* plan, const attention_operands*);
  int (*feed_forward)(void* plan, const experts_operands*);
  int (*wait)();  // until all calls have ended
  void (*release)(void* plan);
};

}  // namespace unmask::libraries

extern "C" {
const unmask::libraries::library_way* unmask_library_way();
}
