// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The program of a forward follows from what the policies declare, and from nothing else; and what of it is
// captured, from what comes again.
#include <gtest/gtest.h>

#include "harness/decode/captured_graphs.h"
#include "harness/decode/step_program.h"
#include "methods/parts/common.h"

namespace unmask {
namespace {

using enum step_action;

class cache_that_evicts final : public cache_policy {
 public:
  cache_that_evicts() : cache_policy({true}) {}
  kv_storage storage(std::int32_t, std::int32_t length) const override { return {length, length}; }
};

class everything_again final : public feature_policy {
 public:
  layer_refresh refresh(const batch&, std::int32_t, std::int32_t) const override { return {}; }
};

recipe plain() {
  recipe r;
  r.method = "toy";
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<append_cache>();
  return r;
}

std::vector<layer_action> actions_of(const step_program& p) {
  return {p.actions().begin(), p.actions().end()};
}

std::vector<std::size_t> sizes_of(const step_program& p) {
  std::vector<std::size_t> sizes;
  for (const auto& segment : p.segments()) sizes.push_back(segment.size());
  return sizes;
}

TEST(step_program, of_plain_policies_is_one_segment) {
  const recipe r = plain();
  const step_program p(r, 2, false, false);
  const std::vector<layer_action> want = {{embed, 0},   {project, 0}, {attend, 0}, {close, 0},
                                          {project, 1}, {attend, 1},  {close, 1},  {final_norm, 2}};
  EXPECT_EQ(actions_of(p), want);
  EXPECT_EQ(sizes_of(p), (std::vector<std::size_t>{8}));
  EXPECT_TRUE(p.is_capturable());
  EXPECT_EQ(needs_activations(r), nullptr);
}

// FOCUS: the K/V of layers 0 and 1 end a segment, and the next begins with the rows that are left.
TEST(step_program, is_cut_where_rows_narrow) {
  recipe r = plain();
  r.rows = std::make_unique<row_policy>(row_traits{.narrows_at = {0, 1}});
  const step_program p(r, 3, false, false);
  const std::vector<layer_action> want = {{embed, 0},  {project, 0}, {narrow, 0},    {gather, 0},
                                          {attend, 0}, {close, 0},   {project, 1},   {narrow, 1},
                                          {gather, 1}, {attend, 1},  {close, 1},     {project, 2},
                                          {attend, 2}, {close, 2},   {final_norm, 3}};
  EXPECT_EQ(actions_of(p), want);
  EXPECT_EQ(sizes_of(p), (std::vector<std::size_t>{2, 1, 4, 1, 7}));
  EXPECT_TRUE(p.is_capturable());
  EXPECT_STREQ(needs_activations(r), "its rows");
}

TEST(step_program, shows_chooses_and_keeps_in_every_layer_and_is_then_not_captured) {
  recipe r = plain();
  r.keys = std::make_unique<key_policy>(0, key_traits{true});
  r.cache = std::make_unique<cache_that_evicts>();
  const step_program p(r, 1, true, true);
  const std::vector<layer_action> want = {{embed, 0},  {project, 0}, {choose, 0}, {show, 0},
                                          {attend, 0}, {keep, 0},    {close, 0},  {final_norm, 1}};
  EXPECT_EQ(actions_of(p), want);
  EXPECT_EQ(sizes_of(p), (std::vector<std::size_t>{2, 1, 1, 1, 1, 2}));
  EXPECT_FALSE(p.is_capturable());
  EXPECT_STREQ(needs_activations(r), "its keys");
}

// A cache that evicts does so in some forwards: the others are captured.
TEST(step_program, of_a_forward_that_evicts_nothing_is_captured) {
  recipe r = plain();
  r.cache = std::make_unique<cache_that_evicts>();
  EXPECT_TRUE(step_program(r, 2, false, false).is_capturable());
  EXPECT_FALSE(step_program(r, 2, true, false).is_capturable());
  EXPECT_FALSE(step_program(r, 2, false, true).is_capturable());
}

TEST(step_program, leaves_whole_layers_to_stored_outputs) {
  recipe r = plain();
  r.features = std::make_unique<everything_again>();
  const step_program p(r, 3, false, false);
  const std::vector<layer_action> want = {{embed, 0},     {project, 0},       {attend, 0},
                                          {close, 0},     {feature_layer, 1}, {feature_layer, 2},
                                          {final_norm, 3}};
  EXPECT_EQ(actions_of(p), want);
  EXPECT_FALSE(p.is_capturable());
  EXPECT_STREQ(needs_activations(r), "the rows of its layers");
}

// Rows of which a part passes the feed-forward cannot be filled up with padding rows.
TEST(step_program, of_partial_rows_is_not_captured) {
  recipe r = plain();
  r.rows = std::make_unique<row_policy>(row_traits{.partial_rows = true});
  EXPECT_FALSE(step_program(r, 2, false, false).is_capturable());
  EXPECT_EQ(needs_activations(r), nullptr);
}

// Captures and runs nothing.
class capturing_backend final : public backend {
 public:
  capturing_backend() : backend(target::reference) {}
  std::string name() const override { return "capturing"; }
  tensor allocate(dtype, std::initializer_list<std::int64_t>, memory_use) const override {
    return {};
  }
  packed_handle pack(const tensor_view&, weight_format) const override { return {}; }
  std::unique_ptr<captured_graph> capture(const std::function<void()>&) const override {
    return std::make_unique<captured_graph>();
  }
  void replay(const captured_graph&) const override {}
};

// By hand: work runs, is captured when it comes again, and runs anew once an array has moved, though it
// has the same address by then.
TEST(captured_graphs, of_arrays_that_have_moved_are_forgotten) {
  const capturing_backend device;
  captured_graphs graphs(device);
  const std::vector<std::uint64_t> key = {3, 0x7000};
  std::vector<std::int64_t> replayed;
  for (int i = 0; i < 5; ++i) {
    if (i == 3) graphs.forget();
    graphs.run(key, [] {});
    replayed.push_back(graphs.counts().replayed);
  }
  EXPECT_EQ(replayed, (std::vector<std::int64_t>{0, 1, 2, 2, 3}));
  EXPECT_EQ(graphs.counts().direct, 2);
}

TEST(step_program, refuses_what_does_not_go_together) {
  recipe both = plain();
  both.rows = std::make_unique<row_policy>(row_traits{.narrows_at = {0}, .partial_rows = true});
  EXPECT_THROW(step_program(both, 2, false, false), std::logic_error);
  EXPECT_THROW(step_program(plain(), 2, true, false), std::logic_error);  // evicts, undeclared
  recipe stored = plain();
  stored.features = std::make_unique<everything_again>();
  stored.keys = std::make_unique<key_policy>(0, key_traits{true});
  EXPECT_THROW(step_program(stored, 2, false, false), std::logic_error);
}

}  // namespace
}  // namespace unmask
