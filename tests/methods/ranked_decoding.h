// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decodings by shares of a small model, with all that may be compared of them; ranks are threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "harness/model/share.h"
#include "methods/settings.h"
#include "tests/methods/tiny_models.h"
#include "tests/rank_threads.h"

namespace unmask::testing {

// Six heads, which two ranks share evenly and four do not.
inline model_config six_heads(model_family family) {
  model_config c = tiny_config(family);
  c.heads = 6;
  c.kv_heads = family == model_family::llada ? 6 : 3;
  c.hidden = 36;
  c.head_dim = 6;
  c.rope.rotary_dim = 6;
  return c;
}

// All bits of the residual stream that the head reads, over all steps.
class digest_of_steps final : public step_observer {
 public:
  void on_step(const step_view& step) override {
    for (std::int32_t r = 0; r < step.left.rows; ++r) {
      const float* row = step.head_input.row<float>(r);
      for (std::int64_t d = 0; d < step.head_input.columns(); ++d) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, row + d, sizeof bits);
        value_ = (value_ ^ bits) * 0x100000001B3U;
      }
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

struct decoded {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<sequence_counters> counts;
  std::uint64_t bits = 0;
  graph_counts graphs;
};

// What else than the share is another on a rank; nothing: all as it should be.
struct changes {
  std::function<void(model_weights&, int rank)> weights;
  std::function<void(std::vector<sequence_request>&, int rank)> requests;
  std::function<void(method_info&, parameter_map& given, int rank)> method;
};

// The weights are the same for all shares: they are drawn by the names of the tensors.
inline decoded decode(const model_config& config, const setting& p, const model_share& share,
                      const changes& other = {}, const backend& on = cpu_backend(),
                      std::int32_t tokens = 24, dtype kv_type = dtype::f32) {
  model_weights weights = tiny_weights(config, 7);
  std::vector<sequence_request> requests = tiny_requests(2, tokens);
  method_info method = method_registry::instance().find(p.method);
  parameter_map given = p.given;
  if (other.weights) other.weights(weights, share.rank);
  if (other.requests) other.requests(requests, share.rank);
  if (other.method) other.method(method, given, share.rank);
  const transformer model(config, weights, on, weight_format::f32, 512, kv_type, share);
  digest_of_steps watch;
  const parameters settings(method.resolve(p.preset, given));
  method.check(model.config(), settings);
  const closed_loop_result result = run_closed_loop(model, method, settings, requests, 2, &watch);
  decoded all{outputs(result), {}, watch.value(), result.graphs};
  for (const decoded_answer& a : result.answers) all.counts.push_back(a.counters);
  return all;
}
inline decoded decode(const setting& p, const model_share& share, const backend& on = cpu_backend(),
                      std::int32_t tokens = 24, dtype kv_type = dtype::f32) {
  return decode(six_heads(p.family), p, share, {}, on, tokens, kv_type);
}

inline void expect_same_counts(const decoded& got, const decoded& want) {
  ASSERT_EQ(got.counts.size(), want.counts.size());
  for (std::size_t i = 0; i < got.counts.size(); ++i) {
    for (const counter_spec& c : counter_list()) {
      const double n = c.of(want.counts[i]);
      // Keys that a method's heads see are a mean over them, in float32.
      EXPECT_NEAR(c.of(got.counts[i]), n, c.counted() ? 0 : 1e-6 * std::abs(n)) << c.metric;
    }
  }
}

// A share of so many ranks and pieces, besides what `like` says.
inline model_share share_like(const model_share& like, std::int64_t rank, std::int64_t ranks,
                              std::int64_t pieces) {
  model_share share = share_of(rank, ranks, pieces);
  share.whole_experts = like.whole_experts;
  share.sums = like.sums;
  share.two_shots = like.two_shots;
  return share;
}

// What each rank found, and what it threw; "": nothing.
struct ranked_result {
  std::vector<decoded> ranks;
  std::vector<std::string> threw;
};
inline ranked_result decode_ranks(int ranks, std::int32_t pieces, const model_config& config,
                                  const setting& p, const changes& other = {},
                                  const model_share& like = {},
                                  test::transport_kind by = test::transport_kind::memory) {
  ranked_result all{std::vector<decoded>(static_cast<std::size_t>(ranks)), {}};
  const auto body = [&](rank_group& group) {
    const model_share share = share_like(like, group.rank(), ranks, pieces);
    all.ranks[static_cast<std::size_t>(group.rank())] = decode(config, p, share, other);
  };
  all.threw = test::on_ranks(ranks, body, 60, by);
  return all;
}

// The same of ranks that throw nothing.
inline std::vector<decoded> decode_on(int ranks, std::int32_t pieces, const model_config& config,
                                      const setting& p, const model_share& like = {},
                                      test::transport_kind by = test::transport_kind::memory) {
  ranked_result all = decode_ranks(ranks, pieces, config, p, {}, like, by);
  EXPECT_EQ(all.threw, std::vector<std::string>(static_cast<std::size_t>(ranks))) << p.label;
  return std::move(all.ranks);
}
inline std::vector<decoded> decode_on(int ranks, std::int32_t pieces, const setting& p) {
  return decode_on(ranks, pieces, six_heads(p.family), p);
}

inline setting named_setting(const std::string& label) {
  for (const setting& s : all_settings()) {
    if (s.label == label) return s;
  }
  throw std::logic_error("no setting " + label);
}

}  // namespace unmask::testing
