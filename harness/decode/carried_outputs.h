// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Block decoding of models whose row p predicts token p + 1. Methods compute the rows of a block, and
// of those only the ones they have not frozen; the row before a masked position may therefore lie
// outside the forward: in the block before, or among those frozen. Its output is then the one of the
// last forward that computed it with its decided token as input, as its cached K/V is.
#pragma once

#include <vector>

#include "harness/decode/policies.h"

namespace unmask {

class carried_outputs {
 public:
  // Room for `sequences` places of `max_length` positions; `rows`: the most of one forward.
  carried_outputs(const backend& backend, std::int32_t sequences, std::int32_t max_length,
                  std::int64_t rows, std::int64_t hidden);

  // Rows behind those of a forward that read() may need in its `final`.
  static std::int64_t room(std::int32_t sequences, std::int32_t max_length);

  void forget(std::int32_t place);

  // Reads the outputs of a forward. final [rows + room(), hidden] float32 holds the outputs of
  // `rows`, which are kept; outputs of earlier forwards that candidates are read from are appended.
  // Returns the rows that can predict: those computed now, and earlier ones of positions that are
  // decided. dry: no output is computed, so none is copied.
  row_set read(const batch& b, const step_choice& plan, const row_lists& rows, const tensor& final,
               bool dry);
  // Where row r of that set stands in `final`.
  std::int32_t place_of(std::int32_t r) const { return place_[static_cast<std::size_t>(r)]; }
  std::int32_t appended() const { return appended_; }

 private:
  void keep(const batch& b, const row_lists& rows, const tensor& final, bool dry);
  void list(const batch& b, const sequence_step& step, const row_lists& rows, std::int32_t s);

  const backend* backend_;
  std::int32_t max_length_;
  tensor outputs_;  // [sequences * max_length, hidden]
  shared_vector<std::int32_t> index_, source_, begin_, position_, sequence_;
  std::vector<std::uint8_t> exact_;  // [sequences * max_length] computed with a decided token
  std::vector<std::int32_t> place_;
  std::int32_t appended_ = 0;
};

}  // namespace unmask
