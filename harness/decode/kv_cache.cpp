// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/kv_cache.h"

#include <algorithm>

namespace unmask {

kv_cache::kv_cache(const ops& backend, const model_config& model, std::int32_t stored_layers,
                   std::int32_t sequences, std::int32_t max_slots, std::int32_t pages)
    : held_(static_cast<std::size_t>(sequences), 0), pages_(pages) {
  for (std::int32_t l = 0; l < stored_layers; ++l) {
    keys_.push_back(
        backend.allocate(dtype::f32, {pages, kv_page_size, model.kv_heads, model.head_dim}));
    values_.push_back(
        backend.allocate(dtype::f32, {pages, kv_page_size, model.kv_heads, model.head_dim}));
  }
  table_ = backend.allocate(dtype::i32, {sequences, (max_slots + kv_page_size - 1) / kv_page_size});
  // Handed out from the back: page 0 first.
  for (std::int32_t p = pages; p-- > 0;) free_.push_back(p);
}

bool kv_cache::reserve(std::int32_t s, std::int32_t slots) {
  std::int32_t& held = held_[static_cast<std::size_t>(s)];
  const std::int32_t wanted = (slots + kv_page_size - 1) / kv_page_size;
  if (wanted > table_.view().columns()) throw std::logic_error("kv_cache: sequence too long");
  if (wanted - held > free_pages()) return false;
  std::int32_t* row = table_.row<std::int32_t>(s);
  for (; held < wanted; ++held) {
    row[held] = free_.back();
    free_.pop_back();
  }
  peak_bytes_ = std::max(peak_bytes_, bytes_in_use());
  return true;
}

void kv_cache::release(std::int32_t s) {
  std::int32_t& held = held_[static_cast<std::size_t>(s)];
  const std::int32_t* row = table_.row<std::int32_t>(s);
  while (held > 0) free_.push_back(row[--held]);
}

paged_kv kv_cache::layer(std::int32_t index) const {
  const auto l = static_cast<std::size_t>(index) % keys_.size();
  return {keys_[l].view(), values_[l].view(), table_.as<std::int32_t>(),
          static_cast<std::int32_t>(table_.view().columns())};
}

std::size_t kv_cache::page_bytes() const {
  return pages_ == 0 ? 0
                     : 2 * keys_.size() * keys_.front().bytes() / static_cast<std::size_t>(pages_);
}

std::size_t kv_cache::bytes_in_use() const {
  return page_bytes() * static_cast<std::size_t>(pages_ - free_pages());
}

}  // namespace unmask
