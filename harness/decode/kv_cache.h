// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Paged storage for keys and values. All layers share one page table per sequence; a page holds
// kv_page_size slots of every stored layer. A method without a cache stores one layer only: the
// loop then reuses it as scratch for each layer in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/model/config.h"
#include "kernels/ops.h"

namespace unmask {

class kv_cache {
 public:
  // `stored_layers`: 1 (scratch) or the model's layer count.
  kv_cache(const ops& backend, const model_config& model, std::int32_t stored_layers,
           std::int32_t sequences, std::int32_t max_slots, std::int32_t pages);

  // Give sequence s pages for slots [0, slots); keeps what it has. False when no page is free.
  bool reserve(std::int32_t s, std::int32_t slots);
  void release(std::int32_t s);
  // Slots that sequence s has pages for.
  std::int32_t slots(std::int32_t s) const {
    return held_[static_cast<std::size_t>(s)] * kv_page_size;
  }
  std::int32_t pages() const { return pages_; }

  paged_kv layer(std::int32_t index) const;  // index modulo stored layers
  std::int32_t stored_layers() const { return static_cast<std::int32_t>(keys_.size()); }
  std::int32_t free_pages() const { return static_cast<std::int32_t>(free_.size()); }
  std::size_t page_bytes() const;  // of one page over all stored layers, keys and values
  std::size_t bytes_in_use() const;
  std::size_t peak_bytes() const { return peak_bytes_; }
  void reset_peak() { peak_bytes_ = bytes_in_use(); }

 private:
  std::vector<tensor> keys_, values_;
  tensor table_;  // [sequences, pages per sequence] int32
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> held_;  // pages held by each sequence
  std::int32_t pages_ = 0;
  std::size_t peak_bytes_ = 0;
};

}  // namespace unmask
