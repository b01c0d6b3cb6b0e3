// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The work of one layer, phase by phase, for whoever listens (phases.h). FLOPs are those of the
// step loop's own account, split; bytes are the least traffic: weights once, every row read and
// written once, and of K/V what the busiest row of each sequence sees.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/model/transformer.h"
#include "kernels/backend.h"

namespace unmask {

// Counts of one layer of one forward, summed over the sequences of the batch.
struct layer_counts {
  double valued = 0;        // rows whose V was computed
  double projected = 0;     // rows whose Q and K were computed
  double written = 0;       // rows whose K/V were written
  double attending = 0;     // rows that passed attention and its projection
  double fed = 0;           // rows that passed the feed-forward
  double keys_seen = 0;     // summed over rows
  double busiest_keys = 0;  // of the row of each sequence that sees most
  double selection_flops = 0;
};

// Tells the listener of this thread, if there is one. kv_element: bytes of one cached number.
// stored_at_once: the projection wrote the cache too (op::rotate_and_store).
void report_layer(const transformer& model, std::int32_t layer, const layer_counts& counts,
                  std::size_t kv_element, bool stored_at_once);
void report_embed(const transformer& model, std::int64_t rows);
void report_final_norm(const transformer& model, std::int64_t rows);
void report_head(const transformer& model, std::int64_t candidates);

}  // namespace unmask
