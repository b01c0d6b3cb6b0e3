// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/policies.h"

#include <algorithm>
#include <array>
#include <typeinfo>

namespace unmask {

candidate_lists make_candidate_lists(const ops& run, std::int32_t sequences, std::int64_t rows) {
  const auto list = [&](dtype type, std::int64_t count) {
    return run.allocate(type, {count}, memory_use::exchanged);
  };
  candidate_lists c;
  c.begin = list(dtype::i32, sequences + 1);
  c.committed = list(dtype::i32, sequences);
  c.quota = list(dtype::i32, sequences);
  for (tensor* t : {&c.position, &c.row, &c.token}) *t = list(dtype::i32, rows);
  for (tensor* t : {&c.probability, &c.margin, &c.negative_entropy, &c.score}) {
    *t = list(dtype::f32, rows);
  }
  c.accept = list(dtype::u8, rows);
  return c;
}

void row_policy::select(const batch& b, const step_plan& plan, row_lists& rows) {
  // Host copies of two integers per sequence; the positions themselves are listed by the backend.
  first_.clear();
  last_.clear();
  for (const sequence_step& step : plan.of) {
    first_.push_back(step.active ? step.first : 0);
    last_.push_back(step.active ? step.last : 0);
  }
  rows.rows = b.backend().compact(b.capacity(), {}, 0, first_.data(), last_.data(),
                                  rows.begin.as<std::int32_t>(), rows.position.as<std::int32_t>(),
                                  rows.sequence.as<std::int32_t>());
}

bool key_policy::names_arrays_only() const {
  return typeid(*this) == typeid(key_policy);
}

key_set key_policy::select(const batch& b, const step_plan& plan, std::int32_t layer,
                           const tensor_view& q, const paged_kv& cache,
                           const std::int32_t* kv_length) {
  (void)plan, (void)layer, (void)q, (void)cache;
  key_set keys;
  keys.kv_length = kv_length;
  keys.mask = b.model().attention;
  keys.block = std::max(block_ > 0 ? block_ : b.model().block, 1);
  return keys;
}

std::int64_t key_policy::keys_of_row(const batch& b, const key_set& keys, std::int32_t s,
                                     std::int32_t position) const {
  (void)b;
  const std::int64_t listed =
      keys.key_begin ? keys.key_begin[s + 1] - keys.key_begin[s] : keys.kv_length[s];
  switch (keys.mask) {
    case mask_kind::full:
      return listed;
    case mask_kind::causal:
      return std::min<std::int64_t>(listed, position + 1);
    case mask_kind::block_causal:
      return std::min<std::int64_t>(listed, (position / keys.block + 1) * keys.block);
  }
  return listed;
}

}  // namespace unmask
