// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/policies.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "harness/base/error.h"

namespace unmask {

std::int32_t request_positions(const std::string& method, const sequence_request& request,
                               std::int32_t block) {
  if (request.gen_length <= 0) throw usage_error(method + ": gen_length must be positive");
  const std::int64_t positions =
      static_cast<std::int64_t>(request.prompt.size()) + std::int64_t{request.gen_length};
  const std::int64_t whole = (positions + block - 1) / block * block;
  if (whole > std::numeric_limits<std::int32_t>::max()) {
    throw usage_error(method + ": prompt and response take " + std::to_string(whole) +
                      " positions, more than any model was made for; take a smaller gen_length");
  }
  return static_cast<std::int32_t>(whole);
}

candidate_lists make_candidate_lists(const backend& backend, std::int32_t sequences,
                                     std::int64_t rows) {
  const auto list = [&](dtype type, std::int64_t count) {
    return backend.allocate(type, {count}, memory_use::host_visible);
  };
  candidate_lists c;
  // Neighbours share a copy on a GPU: the short lists lie between the long ones that the host makes, and then comes
  // what a rule finds.
  c.position = list(dtype::i32, rows);
  c.begin = list(dtype::i32, sequences + 1);
  c.row = list(dtype::i32, rows);
  c.outcome = list(dtype::i32, 4 * sequences);
  c.accept = list(dtype::u8, rows);
  c.token = list(dtype::i32, rows);
  for (tensor* t : {&c.probability, &c.score, &c.margin, &c.negative_entropy}) {
    *t = list(dtype::f32, rows);
  }
  return c;
}

// The ranges are the host's own, so it lists them itself, in memory that kernels read too: an
// operation would have to be waited for before the layers can be issued.
void row_policy::select(const batch& b, const step_choice& plan, row_lists& rows) {
  auto* begin = rows.begin.as<std::int32_t>();
  auto* position = rows.position.as<std::int32_t>();
  auto* sequence = rows.sequence.as<std::int32_t>();
  const std::int32_t *first = plan.arrays.first, *last = plan.arrays.last;
  const std::int64_t room = rows.position.view().rows();
  std::int32_t n = 0;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    begin[s] = n;
    const std::int32_t count = std::max(0, last[s] - first[s]);
    if (n + count > room) throw std::logic_error("row_policy: more rows than the lists hold");
    std::iota(position + n, position + n + count, first[s]);
    std::fill_n(sequence + n, count, s);
    n += count;
  }
  begin[b.capacity()] = n;
  rows.rows = n;
}

bool pace_policy::limit_prefill(std::int32_t rows) {
  const std::int32_t piece = shape_.prefill_piece;
  if (piece == 0) return false;
  prefill_limit_ = rows > 0 ? std::max(rows / piece, 1) * piece : 0;
  return true;
}

layer_keys key_policy::select(const batch& b, const step_choice& plan, std::int32_t layer,
                              const std::int32_t* kv_length) const {
  (void)plan, (void)layer;
  layer_keys keys;
  keys.set.kv_length = kv_length;
  keys.set.mask = b.model().attention;
  keys.set.block = std::max(block_ > 0 ? block_ : b.model().block, 1);
  return keys;
}

}  // namespace unmask
