// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ragged attention over a paged key-value cache on the CPU; see op::attention for the meaning.
#pragma once

#include "kernels/backend.h"

namespace unmask::cpu {

struct attention_kernels;

// q, out [R, heads, dim] f32 (any row_stride; may alias when there is no key_mass), cache [pages,
// kv_page_size, kv_heads, dim] f32, dim >= 1. key_mass [total keys] f32 is added to, or has null
// data. A row that no key is admitted to gets zeros. Keys are taken in list order, in blocks
// anchored at the first key of the sequence, so a row's bits depend on that row and its keys only.
// Under a block mask a tile of work is one head and one query block: it reads the keys of the
// blocks that this head keeps there, and no others.
void attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
               const key_set& keys, float scale, const tensor_view& out,
               const tensor_view& key_mass, const attention_kernels& kernels);

}  // namespace unmask::cpu
