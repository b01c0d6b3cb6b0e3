// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// An observer sees every layer where it asks for them, and changes no token.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using enum model_family;
using namespace testing;

const parameter_map in_blocks = {{"block_length", 8}};

TEST(layer_observer, sees_every_layer_in_order_and_only_when_it_asks) {
  struct watcher : step_observer {
    bool ask = false;
    int layers = 0, steps = 0;
    bool wants_layers() const override { return ask; }
    void on_layer(const layer_view& l) override {
      EXPECT_EQ(l.layer, layers++ % 3);
      EXPECT_EQ(l.q.rows(), l.rows.rows);
      EXPECT_EQ(l.k.rows(), l.rows.rows);
      EXPECT_EQ(l.v.rows(), l.rows.rows);
      // The rows' K/V lie in the cache already.
      for (std::int32_t r = 0; r < l.rows.rows; ++r) {
        const std::int32_t p = l.rows.position[r];
        const std::int32_t page = l.cache.page_table[p / kv_page_size];
        const std::int64_t at = (p % kv_page_size) * l.k.columns();
        for (std::int64_t d = 0; d < l.k.columns(); ++d) {
          ASSERT_EQ(l.cache.keys.row<float>(page)[at + d], l.k.row<float>(r)[d]);
          ASSERT_EQ(l.cache.values.row<float>(page)[at + d], l.v.row<float>(r)[d]);
        }
      }
    }
    void on_step(const step_view&) override { ++steps; }
  } seen, blind;
  seen.ask = true;
  const auto model = tiny_model(llada, reference_backend());
  const auto requests = tiny_requests(2, 16);
  const auto unwatched = decode_closed(*model, "vanilla", in_blocks, requests, 1);
  EXPECT_EQ(outputs(decode_closed(*model, "vanilla", in_blocks, requests, 1, "", &seen)),
            outputs(unwatched));
  decode_closed(*model, "vanilla", in_blocks, requests, 1, "", &blind);
  EXPECT_EQ(seen.steps, unwatched.steps);
  EXPECT_EQ(seen.layers, 3 * seen.steps);
  EXPECT_EQ(blind.layers, 0);
  EXPECT_EQ(blind.steps, seen.steps);
}

}  // namespace
}  // namespace unmask
