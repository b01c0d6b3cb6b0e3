// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/kv_cache.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/rows.h"

namespace unmask {
namespace {

std::int32_t pages_for(std::int32_t slots) {
  return (slots + kv_page_size - 1) / kv_page_size;
}

}  // namespace

kv_cache::kv_cache(const backend& backend, const model_config& model, const kv_storage& largest,
                   std::int32_t sequences, std::int32_t pages, dtype type)
    : layers_(model.layers),
      stride_(std::max(pages_for(largest.layer_slots), pages_for(largest.scratch_slots))),
      held_(static_cast<std::size_t>(sequences)),
      in_scratch_(static_cast<std::size_t>(sequences), largest.layer_slots == 0),
      backend_(backend) {
  const std::int32_t scratch = sequences * pages_for(largest.scratch_slots);
  if (largest.layer_slots > 0) {
    const std::int32_t per_layer = pages > 0 ? pages : sequences * pages_for(largest.layer_slots);
    pages_ = layers_ * per_layer + scratch;
    unit_ = layers_;
  } else {
    pages_ = pages > 0 ? pages : scratch;
  }
  keys_ = backend.allocate(type, {pages_, kv_page_size, model.kv_heads, model.head_dim});
  values_ = backend.allocate(type, {pages_, kv_page_size, model.kv_heads, model.head_dim});
  for (page_table* table : {&stored_, &active_}) {
    table->on_device = backend.allocate(dtype::i32, {sequences, std::int64_t{layers_} * stride_});
    table->pages.assign(static_cast<std::size_t>(table->on_device.view().elements()), 0);
  }
  scratch_.assign(static_cast<std::size_t>(sequences) * static_cast<std::size_t>(stride_), 0);
  // Handed out from the back: page 0 first.
  for (std::int32_t p = pages_; p-- > 0;) free_.push_back(p);
}

std::int32_t* kv_cache::row(page_table& table, std::int32_t layer, std::int32_t s) const {
  return table.pages.data() + (std::int64_t{s} * layers_ + layer) * stride_;
}

// A sequence's rows of all layers lie side by side.
void kv_cache::publish(page_table& table, std::int32_t s) {
  const std::int64_t all = std::int64_t{layers_} * stride_;
  backend_.write(table.on_device.row<std::int32_t>(s), row(table, 0, s),
                 static_cast<std::size_t>(all) * sizeof(std::int32_t));
}

bool kv_cache::reserve(std::int32_t s, const kv_storage& want) {
  kv_storage& held = held_[static_cast<std::size_t>(s)];
  const std::int32_t layer_pages = std::max(held.layer_slots, pages_for(want.layer_slots));
  const std::int32_t scratch_pages = std::max(held.scratch_slots, pages_for(want.scratch_slots));
  if (layer_pages > stride_ || scratch_pages > stride_) {
    throw std::logic_error("kv_cache: sequence too long");
  }
  const std::int32_t more =
      layers_ * (layer_pages - held.layer_slots) + scratch_pages - held.scratch_slots;
  if (more > static_cast<std::int32_t>(free_.size())) return false;
  const auto take = [&] {
    const std::int32_t page = free_.back();
    free_.pop_back();
    return page;
  };
  if (more == 0) return true;
  for (std::int32_t l = 0; l < layers_; ++l) {
    for (std::int32_t p = held.layer_slots; p < layer_pages; ++p) row(stored_, l, s)[p] = take();
  }
  for (std::int32_t p = held.scratch_slots; p < scratch_pages; ++p) scratch_row(s)[p] = take();
  held = {layer_pages, scratch_pages};
  publish(stored_, s);
  show(s);
  peak_bytes_ = std::max(peak_bytes_, bytes_in_use());
  return true;
}

std::int32_t kv_cache::slots(std::int32_t s) const {
  const kv_storage& held = held_[static_cast<std::size_t>(s)];
  return kv_page_size * std::max(held.layer_slots, held.scratch_slots);
}

bool kv_cache::fits(const kv_storage& want) const {
  return layers_ * pages_for(want.layer_slots) + pages_for(want.scratch_slots) <= pages_;
}

void kv_cache::release(std::int32_t s) {
  kv_storage& held = held_[static_cast<std::size_t>(s)];
  // The reverse order of taking, so that a lone sequence finds the same pages again.
  for (std::int32_t p = held.scratch_slots; p-- > 0;) {
    free_.push_back(scratch_row(s)[p]);
  }
  for (std::int32_t l = layers_; l-- > 0;) {
    for (std::int32_t p = held.layer_slots; p-- > 0;) free_.push_back(row(stored_, l, s)[p]);
  }
  held = {};
}

void kv_cache::use_scratch(std::int32_t s, bool scratch) {
  if (in_scratch_[static_cast<std::size_t>(s)] == scratch) return;
  in_scratch_[static_cast<std::size_t>(s)] = scratch;
  show(s);
}

void kv_cache::show(std::int32_t s) {
  const bool scratch = in_scratch_[static_cast<std::size_t>(s)];
  for (std::int32_t l = 0; l < layers_; ++l) {
    const std::int32_t* from = scratch ? scratch_row(s) : row(stored_, l, s);
    std::copy_n(from, stride_, row(active_, l, s));
  }
  publish(active_, s);
}

paged_kv kv_cache::seen(const tensor& tables, std::int32_t layer) const {
  return {keys_.view(), values_.view(), tables.as<std::int32_t>() + std::int64_t{layer} * stride_,
          layers_ * stride_, stride_};
}
paged_kv kv_cache::layer(std::int32_t index) const {
  return seen(active_.on_device, index);
}
paged_kv kv_cache::layer(std::int32_t index, const tensor& tables) const {
  return seen(tables, index);
}
paged_kv kv_cache::stored(std::int32_t index) const {
  return seen(stored_.on_device, index);
}

void kv_cache::gather_tables(const std::int32_t* sequence, std::int32_t views,
                             const tensor& tables) const {
  backend_.run(op::gather_rows{active_.on_device, sequence, tables.view().first(views)});
}

std::size_t kv_cache::page_bytes() const {
  return pages_ == 0 ? 0 : (keys_.bytes() + values_.bytes()) / static_cast<std::size_t>(pages_);
}

std::size_t kv_cache::bytes_in_use() const {
  return page_bytes() * (static_cast<std::size_t>(pages_) - free_.size());
}

}  // namespace unmask
