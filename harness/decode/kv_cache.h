// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Paged storage for keys and values: one pool of pages, each holding kv_page_size slots of ONE
// layer, and a page table per layer and sequence. A sequence has up to two kinds of storage:
//   layers   slots of its own in every layer: what a method keeps between forwards;
//   scratch  slots shared by all layers in turn, valid inside one layer of one forward only: what a
//            method needs that keeps nothing, or that keeps less than a full forward computes.
// Which kind a sequence's rows write and read is switched per forward, so sequences in different
// phases share one batch.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/model/config.h"
#include "kernels/backend.h"

namespace unmask {

// Slots a sequence takes.
struct kv_storage {
  std::int32_t layer_slots = 0;    // in every layer; 0: nothing outlives a layer
  std::int32_t scratch_slots = 0;  // shared by all layers
};

class kv_cache {
 public:
  // Tables for `sequences` places of at most `largest` slots each. `pages`: pages per stored layer
  // in the pool, for all places together; 0: enough for every place at `largest`. `type`: of the
  // stored elements, one that the backend holds (backend::holds_kv).
  kv_cache(const backend& backend, const model_config& model, const kv_storage& largest,
           std::int32_t sequences, std::int32_t pages, dtype type);

  // Give sequence s pages for `want`; keeps what it has. False when the pool has too few.
  bool reserve(std::int32_t s, const kv_storage& want);
  void release(std::int32_t s);
  // Slots that sequence s has pages for, in whichever storage has more.
  std::int32_t slots(std::int32_t s) const;
  // True when the empty pool could hold `want`.
  bool fits(const kv_storage& want) const;

  // From now on s uses its scratch (true) or its layers' own slots. A sequence that has only one
  // kind needs no call.
  void use_scratch(std::int32_t s, bool scratch);
  bool uses_scratch(std::int32_t s) const { return in_scratch_[static_cast<std::size_t>(s)]; }

  // What the operations of layer `index` see: each sequence's table of the kind it uses.
  paged_kv layer(std::int32_t index) const;
  // Layer `index` with every sequence's own slots, for a copy out of the scratch.
  paged_kv stored(std::int32_t index) const;
  // Tables of views: row v of `tables` [views, table_width()] int32 becomes the table of sequence[v],
  // and layer(index, tables) is layer(index) with one table for each of them.
  std::int64_t table_width() const { return std::int64_t{layers_} * stride_; }
  void gather_tables(const std::int32_t* sequence, std::int32_t views, const tensor& tables) const;
  paged_kv layer(std::int32_t index, const tensor& tables) const;

  // Pages in the unit that admission thinks in: one page of every stored layer (without stored
  // layers: one page).
  std::int32_t free_pages() const { return static_cast<std::int32_t>(free_.size()) / unit_; }
  std::int32_t pages() const { return pages_ / unit_; }
  std::size_t page_bytes() const;  // one page: keys and values of kv_page_size slots of one layer
  std::size_t bytes_in_use() const;
  std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  // [sequences, layers, stride] physical pages, the host's and what operations read.
  struct page_table {
    std::vector<std::int32_t> pages;
    tensor on_device;
  };
  std::int32_t* row(page_table& table, std::int32_t layer, std::int32_t s) const;
  std::int32_t* scratch_row(std::int32_t s) { return scratch_.data() + std::int64_t{s} * stride_; }
  paged_kv seen(const tensor& tables, std::int32_t layer) const;
  void publish(page_table& table, std::int32_t s);
  void show(std::int32_t s);

  std::int32_t layers_ = 0;  // of the model
  std::int32_t stride_ = 0;  // entries of a table row
  std::int32_t pages_ = 0;   // in the pool
  std::int32_t unit_ = 1;    // pool pages that make one page of every stored layer
  tensor keys_, values_;     // [pages, kv_page_size, kv_heads, head_dim]
  page_table stored_, active_;
  std::vector<std::int32_t> scratch_;  // [sequences, stride]
  std::vector<std::int32_t> free_;
  std::vector<kv_storage> held_;  // pages (not slots) held by each sequence
  std::vector<bool> in_scratch_;
  const backend& backend_;
  std::size_t peak_bytes_ = 0;
};

}  // namespace unmask
