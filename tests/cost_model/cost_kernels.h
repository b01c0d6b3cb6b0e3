// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The cost of one launch of every kernel that a forward is made of. What a number stands for is
// said where it is used; the types of activations are those that transformer::make_activations and
// the operations store.
#pragma once

#include <vector>

#include "tests/cost_model/cost_model.h"

namespace unmask::cost {

// A launch before it is known how it is issued: `busy` is the time of its longest resource.
struct launch {
  double operations = 0, bytes = 0, busy = 0, limit = 0;
  const char* held_by = "memory";
};

// y [rows, columns] (+)= x [rows, depth] W^T by cuBLASLt, bfloat16; out_bytes of an element of y.
launch library_product(double rows, double columns, double depth, double out_bytes, bool accumulate,
                       const device_ceilings& d);
// y [rows, columns] = silu(x Wg^T) (x Wu^T) by few_rows_kernels.h, two matrices [columns, depth];
// rows at most cuda::few_most_rows.
launch few_rows_product(double rows, double columns, double depth, const device_ceilings& d);
// y [rows, columns] (+)= x [rows, depth] W^T by few_parts_kernels.h, float32 y; rows as above. It stands alone, as the
// product above does: what it saves if it starts before the launch before has ended is not in it.
launch few_parts_product(double rows, double columns, double depth, bool accumulate,
                         const device_ceilings& d);
// Seconds that a product of few rows saves if it starts early: its own start, and the gap before it.
double early_saving(const device_ceilings& d);
// Whether a newer kernel computes gate and up of `width` columns and gates them, or a product into the residual stream.
bool takes_gated(double rows, double width, const device_ceilings& d);
bool takes_parts(double rows, double columns, double depth, const device_ceilings& d);
// A kernel that streams: `bytes` of memory and `instructions` of warps.
launch streaming(double bytes, double instructions, const device_ceilings& d);
// How the parts of cut keys come together: by another launch; by blocks that draw tickets and merge parts
// themselves (attention_joined_kernels.h); in the shared memory of a cluster (attention_cluster_kernels.h).
enum class merging { after, within, cluster };
launch attention_tensor(double sequences, double rows, double keys, int heads, int kv_heads,
                        int head_dim, double* splits, const device_ceilings& d,
                        merging how = merging::after);
// By attention_refresh_kernels.h, which takes sequences of many rows.
launch attention_refresh(double sequences, double rows, double keys, int heads, int kv_heads,
                         int head_dim, double* splits, const device_ceilings& d);
// Keys and values that items of `tile_rows` rows read from device memory, `at_once` of them at work. Blocks at work
// read those of one head after the other (rows_fastest), or of all heads, of which L2 keeps a part.
double key_bytes(double sequences, double packed, double keys, int kv_heads, int head_dim,
                 double tile_rows, double at_once, bool rows_fastest, const device_ceilings& d);
// Whether clusters are taken where they may be.
bool takes_clusters(double sequences, double rows, double keys, int heads, int kv_heads,
                    int head_dim, const device_ceilings& d);
// Which kernel computes attention; newer: of those that no card has measured, as the operation chooses.
enum class attention_way { tensor, refresh, cluster, joined };
attention_way way_of_attention(bool newer, double sequences, double rows, double keys, int heads,
                               int kv_heads, int head_dim, const device_ceilings& d);
launch attention_by(attention_way way, double sequences, double rows, double keys, int heads,
                    int kv_heads, int head_dim, double* splits, const device_ceilings& d);
// What merges the parts of attention over cut keys; splits 1: nothing was cut.
launch attention_merge(double rows, double heads, double head_dim, double splits,
                       const device_ceilings& d);
// Norm and rotation of q and k, k and v into the cache.
launch rotation(double rows, double heads, double kv_heads, double head_dim,
                const device_ceilings& d);
// Clocks in which `blocks_each` blocks of a multiprocessor multiply a tile of 64 keys by wgmma, where a
// warp executes so many instructions for it.
struct group_clocks {
  double clocks = 0;
  const char* held_by = "";
};
group_clocks attention_group_clocks(double blocks_each, double tile_rows, double head_dim,
                                    double instructions, const device_ceilings& d);
// Of attention_tensor_kernel by wgmma, as Nsight Compute counted them for a refresh.
inline constexpr double tensor_instructions = 470;
// As they are in sm_90a's machine code (kernels/cuda/budget.json, "executed"), of a warp for 64 keys: of
// attention_cluster_kernel, whose warps copy twice as much for a tile of 64 rows, and of
// attention_refresh_kernel, in a tile with a new largest score. Of a lane for each logit, of head_fold_kernel and of
// head_product_kernel behind its products.
inline constexpr double cluster_instructions = 505, refresh_instructions = 248,
                        fold_instructions = 8.0, product_fold_instructions = 8.1;
// Of a warp per element of a rotation.
inline constexpr double rotate_instructions = 10;
// A part of the head: a chunk of `tokens` for `rows` candidates, `times` such (kernels/cuda/head_chunks.h).
struct head_part {
  double times, rows, tokens;
};
std::vector<head_part> head_parts(double candidates, double vocabulary, const device_ceilings& d);
// Folds logits [rows, tokens] of a chunk, that L2 holds: by head_chunk_kernel, newer by head_fold_kernel.
launch head_fold(double rows, double tokens, bool newer, const device_ceilings& d);
// Product and fold by head_product_kernels.h, which takes so many candidates; and what joins the states of its tiles.
bool takes_head_product(double candidates, const device_ceilings& d);
launch head_product(double candidates, double vocabulary, double width, const device_ceilings& d);
launch head_tiles_merge(double candidates, double vocabulary, const device_ceilings& d);
// Whether `rows` rows of `per_token` assignments, and one to each shared expert, are multiplied in tiles of 144
// assignments; newer, by moe_roles_kernels.h, whose launches have a name of their own.
bool takes_wide_tiles(double rows, double per_token, double experts, double shared,
                      const device_ceilings& d);
// The experts' product from `in` to `out` features: y [assignments, out] = x W_e^T, or with `gated`
// silu(x W_e^T) times a second such product, for the experts that `rows` rows of `per_token`
// assignments reach by chance, and for `shared` experts (0 or 1) that every row takes. x has one row a
// row if gated, else one an assignment. newer: of wide tiles by moe_roles_kernels.h.
launch grouped_tensor(double rows, double per_token, double experts, double shared, double out,
                      double in, bool gated, const device_ceilings& d, bool newer = false);

// Experts that somebody wants, of uniformly chosen ones.
double experts_hit(double rows, double per_token, double experts);

}  // namespace unmask::cost
