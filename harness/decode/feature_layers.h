// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Layers that are computed for a part of their rows only. The residual stream x keeps all rows of
// the forward; a layer adds to each the output a of its attention block and the output f of its
// feed-forward, computed now for the chosen rows and stored from an earlier forward for the others:
//   V (and, for a row that is refreshed anyway, K) of the rows that the policy asks for
//   chosen = prompt or response refreshes, and the response rows whose new V moved most from V
//   a[chosen] = W_o attention(q[chosen], K, V);  x += a;  f[chosen] = FFN(x[chosen]);  x += f
// a and f lie in pages like K/V: one "head" as wide as the model, a as keys and f as values.
#pragma once

#include "harness/decode/batch.h"
#include "harness/decode/kv_cache.h"
#include "harness/decode/policies.h"
#include "harness/model/transformer.h"

namespace unmask {

// What one layer did, for the accounting.
struct feature_work {
  row_set rows;  // computed in full
  key_set keys;  // that they attended to
  // Per sequence: rows whose V was computed, and of those the rows whose V was compared.
  const std::int32_t* value_begin = nullptr;  // [S+1]
  const std::int32_t* probe_begin = nullptr;  // [S+1]
};

class feature_layers {
 public:
  feature_layers(const transformer& model, const feature_policy& policy, std::int32_t sequences,
                 std::int32_t max_length);

  std::int32_t first_layer() const { return policy_.settings().first_layer; }
  // Room for the outputs of sequence s. False when no page is free.
  bool reserve(std::int32_t s, std::int32_t length) { return outputs_.reserve(s, {length, 0}); }
  void release(std::int32_t s) { outputs_.release(s); }
  std::size_t peak_bytes() const { return outputs_.peak_bytes(); }

  // Layer `layer` of a forward. `rows` holds every position [0, length) of each active sequence, x
  // [rows, D] is their residual, `pages` the layer's K/V. Views in the answer hold until the next
  // call.
  feature_work forward(std::int32_t layer, const batch& b, const step_choice& plan,
                       const row_lists& rows, const tensor_view& x,
                       const transformer::activations& acts, const paged_kv& pages,
                       const key_policy& keys, const std::int32_t* kv_length);

 private:
  bool choose(std::int32_t layer, const batch& b, const step_choice& plan);
  void project(std::int32_t layer, const batch& b, const row_set& rows, const tensor_view& x,
               const transformer::activations& acts, const paged_kv& pages);

  const transformer& model_;
  const feature_policy& policy_;
  kv_cache outputs_;  // keys: a, values: f
  row_lists values_, probes_, chosen_;
  tensor flags_;         // [S, max_length] u8: 1 on chosen rows
  tensor chosen_begin_;  // [S+1] of chosen_, which only operations see
  tensor first_, value_first_, value_last_, probe_first_, length_, moved_;  // [S] i32
  tensor due_first_, due_last_;   // [S] positions that are computed whatever moved
  tensor index_;                  // [max_rows] i32
  tensor picked_, branch_;        // [max_rows, D]
  tensor new_value_, old_value_;  // [max_rows, kv_heads * head_dim]
  tensor distance_;               // [max_rows]
};

}  // namespace unmask
