// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD's keys: dense attention while the answer is noise, then a fixed pattern of tiles per
// head.
#pragma once

#include <vector>

#include "harness/decode/registry.h"

namespace unmask {

// Steps 0 .. end = int(T skip) + 1 of a sequence see every key. At step `end` each layer scores the
// tiles of `block_size` x `block_size` positions by their softmax mass, per head, and keeps for
// each query block
//   of the prompt's key blocks: those among the max(1, int(nb select) + 1) best of all nb blocks;
//   of the blocks from `last` on: the max(1, int((nb - last) select) + 1) best, by a softmax over
//   these keys alone;
// where `last` is the first block that lies wholly in the answer (else the last block). Later steps
// attend to the kept tiles only. The pattern is never recomputed.
class pattern_keys final : public key_policy {
 public:
  struct settings {
    double skip = 0.2;             // share of the steps that stay dense
    double select = 0.3;           // share of key blocks that are kept
    std::int32_t block_size = 32;  // positions
    float pattern_scale = 1;       // multiplies the logits that score the tiles
  };
  pattern_keys(const settings& s, parameters schedule)
      : key_policy(0, {true}), settings_(s), schedule_(std::move(schedule)) {}

  void choose(const layer_rows& layer, const paged_kv& cache) override;
  layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                    const std::int32_t* kv_length) const override;

  // First key block of the answer: the first that starts at or after length - gen_length, else the
  // last block. A block across the border counts as prompt.
  static std::int32_t first_answer_block(std::int32_t length, std::int32_t gen_length,
                                         std::int32_t block_size);
  // Blocks kept of n: int(n select) + 1, at most all of them.
  static std::int32_t kept_blocks(std::int32_t n, double select);

 private:
  void allocate(const batch& b, std::int64_t heads);
  void make_pattern(const layer_rows& layer, const paged_kv& cache);

  settings settings_;
  parameters schedule_;              // of the whole-canvas recipe: how many steps a request plans
  bool sparse_ = false;              // a sequence of this step attends to kept tiles only
  std::int32_t blocks_ = 0;          // room for blocks per sequence
  std::vector<tensor> keep_, keys_;  // per layer [S, heads, blocks, blocks] u8, [S, blocks] f32
  tensor applies_;                   // [S] u8
  tensor mass_;                      // [S, heads, blocks, blocks] f32, of one layer
  row_lists rows_;                   // of the sequences whose pattern is made
  // What is made for each sequence in this step, [S] i32; nothing: length and blocks are 0.
  struct {
    tensor length, blocks, zero, last, last_slot, count, last_count;
  } make_;
  tensor made_;  // [S] u8: 1 where a pattern is made
};

}  // namespace unmask
