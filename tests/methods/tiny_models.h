// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Small models with random weights, one per family, made in memory: tests of the methods need no
// checkpoint. Sizes divide nothing on purpose.
#pragma once

#include <memory>
#include <utility>

#include "harness/decode/registry.h"
#include "harness/engine/closed_loop.h"
#include "harness/model/transformer.h"
#include "harness/model/weights.h"
#include "kernels/random.h"
#include "tests/registered.h"
#include "tests/support.h"

namespace unmask::testing {

// Puts a test's own body in the place of an operation's and returns the one that was there.
template <class P>
typename detail::bodies<P>::body replace_body(target where, typename detail::bodies<P>::body with) {
  return std::exchange(detail::bodies<P>::of[static_cast<std::size_t>(where)], with);
}

inline model_config tiny_config(model_family family) {
  model_config c;
  c.family = family;
  c.name = "random-tiny";
  c.layers = 3;
  c.hidden = 40;
  c.heads = 4;
  c.kv_heads = family == model_family::llada ? 4 : 2;
  c.head_dim = 10;
  c.feed_forward = 72;
  c.vocabulary = 61;
  c.max_positions = 512;
  c.rope = {10, 10000.0F};
  c.mask_id = 59;
  c.eos_id = 60;
  c.stop_ids = {60};
  switch (family) {
    case model_family::llada:
      break;
    case model_family::dream:
      c.qkv_bias = true;
      c.shifted_logits = true;
      break;
    case model_family::sdar:
      c.qk_norm = true;
      c.attention = mask_kind::block_causal;
      c.block = 8;
      break;
    case model_family::qwen3:
      c.qk_norm = true;
      c.attention = mask_kind::causal;
      c.shifted_logits = true;
      c.mask_id = -1;
      break;
    case model_family::llada2_moe:
      c.attention = mask_kind::block_causal;
      c.block = 8;
      c.qk_norm = true;
      c.rope.rotary_dim = 6;
      c.moe = {8, 2, 4, 2, 24, 1, 1, 2.5F, true, true, true};
      break;
    case model_family::qwen2:
      c.qkv_bias = true;
      [[fallthrough]];
    case model_family::llama:
      c.attention = mask_kind::block_causal;
      c.block = 8;
      c.shifted_logits = true;
      break;
  }
  return c;
}

inline model_weights tiny_weights(const model_config& c, std::uint64_t seed) {
  // N(0, 0.02) weights make every logit alike; the scaled copy below spreads the confidences.
  model_weights w = random_weights(c, seed, dtype::f32);
  const auto scale = [](const tensor_view& t, float by) {
    for (std::int64_t i = 0; i < t.elements(); ++i) static_cast<float*>(t.data)[i] *= by;
  };
  scale(w.embedding, 40);
  scale(w.lm_head, 25);
  for (layer_weights& l : w.layers) {
    for (const tensor_view& t : {l.q, l.k, l.v, l.attn_out}) scale(t, 8);
    for (const tensor_view& t : {l.dense.gate, l.dense.up, l.dense.down}) {
      if (t.data) scale(t, 8);
    }
  }
  return w;
}
inline std::unique_ptr<transformer> tiny_model(const model_config& c, const backend& backend,
                                               std::int32_t max_rows, std::uint64_t seed,
                                               dtype kv_type,
                                               weight_format format = weight_format::f32,
                                               const model_share& share = {}) {
  return std::make_unique<transformer>(c, tiny_weights(c, seed), backend, format, max_rows, kv_type,
                                       share);
}
inline std::unique_ptr<transformer> tiny_model(model_family family, const backend& backend,
                                               std::int32_t max_rows = 2048, std::uint64_t seed = 7,
                                               dtype kv_type = dtype::f32) {
  return tiny_model(tiny_config(family), backend, max_rows, seed, kv_type);
}

// The sentence with which a method refuses a setting, a usage error; "" when it takes it.
inline std::string refusal_of(const std::string& method, const model_config& c,
                              const parameter_map& given) {
  const test::failure ended = test::failure_of([&] { test::recipe_of(method, c, given); });
  EXPECT_TRUE(ended.code == exit_code::usage || ended.sentence.empty()) << ended.sentence;
  return ended.sentence;
}

// Prompts of ragged lengths, tokens below the special ids.
inline std::vector<sequence_request> tiny_requests(int count, std::int32_t gen_length,
                                                   std::uint64_t seed = 3) {
  std::vector<sequence_request> requests;
  for (int i = 0; i < count; ++i) {
    sequence_request r;
    const auto key = stream_key(seed, static_cast<std::uint64_t>(i));
    const int length = 5 + static_cast<int>(uniform_open(key, 1000) * 37);
    for (int p = 0; p < length; ++p) {
      r.prompt.push_back(
          static_cast<std::int32_t>(uniform_open(key, static_cast<std::uint64_t>(p)) * 58));
    }
    r.gen_length = gen_length;
    r.seed = key;
    requests.push_back(std::move(r));
  }
  return requests;
}

inline closed_loop_result decode_closed(const transformer& model, const std::string& method,
                                        const parameter_map& given,
                                        const std::vector<sequence_request>& requests,
                                        std::int32_t batch_size, const std::string& preset = "",
                                        step_observer* observer = nullptr) {
  const method_info& info = method_registry::instance().find(method);
  const parameters settings = test::resolved(method, given, preset);
  info.check(model.config(), settings);
  return run_closed_loop(model, info, settings, requests, batch_size, observer);
}

inline std::vector<std::vector<std::int32_t>> outputs(const closed_loop_result& r) {
  std::vector<std::vector<std::int32_t>> all;
  for (const decoded_answer& a : r.answers) all.push_back(a.output);
  return all;
}

// A count of all answers, by default the rows that entered layer 0.
inline std::int64_t rows_of(const closed_loop_result& r,
                            std::int64_t sequence_counters::*count = &sequence_counters::rows) {
  std::int64_t n = 0;
  for (const decoded_answer& a : r.answers) n += a.counters.*count;
  return n;
}

// The settings `base` with those of `more` set or replaced.
inline parameter_map with(parameter_map base, const parameter_map& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

}  // namespace unmask::testing
