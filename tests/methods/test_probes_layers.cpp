// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The layer observer and the probes of layers on real trajectories of small models: what must hold
// whatever the weights are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "methods/settings.h"
#include "tests/methods/probed.h"

namespace unmask {
namespace {

using enum model_family;

using nlohmann::json;
using namespace testing;

TEST(probes, kv_changes_above_the_first_layer_only) {
  const probed p = look({"kv_change"}, "vanilla", llada, blocks_of_8);
  const json& c = p.results.at("kv_change");
  for (const char* side : {"k", "v"}) {
    const auto layers = c.at("layers").at(side).get<std::vector<double>>();
    ASSERT_EQ(layers.size(), 3U);
    EXPECT_EQ(layers[0], 0);
    EXPECT_GT(layers[1], 0);
    EXPECT_GT(layers[2], 0);
    EXPECT_EQ(c.at("steps").at(side).size(), 7U);  // 0 -> 1 .. 6 -> 7
    for (const char* region : {"prompt", "before", "block", "after"}) {
      EXPECT_GT(c.at("regions").at(region).at(side), 0) << region;
    }
  }
  // Positions of each step: all outside the block, in every layer.
  std::int64_t outside = 0;
  for (const sequence_request& r : tiny_requests(3, 16)) {
    outside += 2 * (static_cast<std::int64_t>(r.prompt.size()) + 8);
  }
  EXPECT_EQ(c.at("steps").at("positions")[0], 3 * outside);
  // Rows that are not computed again leave nothing to compare: a cache of committed blocks.
  const probed cached = look({"kv_change"}, "block_diffusion", sdar, {});
  EXPECT_EQ(cached.results.at("kv_change").at("regions").at("before").at("positions"), 0);
}

// A window of rows that moves leaves steps in which nothing outside the block is computed anew.
TEST(probes, kv_changes_of_steps_that_compute_the_block_alone_are_none) {
  const probed p = look({"kv_change"}, "focus_dllm", llada, {{"block_length", 16}});
  const json& steps = p.results.at("kv_change").at("steps");
  const auto positions = steps.at("positions").get<std::vector<std::int64_t>>();
  ASSERT_EQ(steps.at("k").size(), positions.size());
  for (std::size_t t = 0; t < positions.size(); ++t) {
    EXPECT_EQ(steps.at("k")[t].is_null(), positions[t] == 0) << t;
    EXPECT_EQ(steps.at("v")[t].is_null(), positions[t] == 0) << t;
  }
}

TEST(probes, layers_of_rows_with_views_are_refused_by_the_name_of_the_method) {
  std::size_t refused = 0;
  for (const method_settings& w : all_method_settings()) {
    const setting& first = w.settings.front();
    const recipe made =
        test::recipe_of(w.method, tiny_config(first.family), first.given, first.preset);
    if (made.rows->traits().views == 0) continue;
    ++refused;
    test::expect_error(exit_code::usage, "cannot be looked at with " + w.method + ": its rows",
                       [&] { look({"kv_change"}, w.method, first.family, first.given); });
  }
  EXPECT_EQ(refused, 3U);
}

// The importance of n masked rows sums to n times the number of heads, in every layer.
TEST(probes, importance_sums_to_the_heads) {
  for (const model_family family : {llada, sdar}) {
    const bool blocks = family == sdar;
    const probed p =
        look({"importance"}, blocks ? "block_diffusion" : "vanilla", family, blocks_of_8);
    const json& i = p.results.at("importance");
    ASSERT_EQ(i.at("layers").size(), 3U);
    for (const json& l : i.at("layers")) {
      double sum = 0, n = 0;
      for (const char* kind : {"decodable", "not_decodable"}) {
        sum += l.at("masked").at(kind).get<double>() * l.at("tokens").at(kind).get<double>();
        n += l.at("tokens").at(kind).get<double>();
      }
      EXPECT_NEAR(sum / n, 4, 2e-3);  // heads; the row keeps five digits
      EXPECT_GT(l.at("with_decoded").at("decoded"), 0);
      const double auc = l.at("auc").get<double>();
      EXPECT_GE(auc, 0);
      EXPECT_LE(auc, 1);
    }
    EXPECT_TRUE(i.at("layers")[0].at("auc_delta").is_null());
    EXPECT_FALSE(i.at("layers")[1].at("auc_delta").is_null());
    // The differences of a step add up to nothing, so the others' mean follows from the decodable.
    const json& tokens = i.at("layers")[1].at("tokens");
    const double others = tokens.at("not_decodable").get<double>();
    EXPECT_NEAR(i.at("gamma_separation").get<double>(),
                i.at("gamma").get<double>() * (1 + tokens.at("decodable").get<double>() / others),
                1e-4);
    // For the same reason the others' mean is below 0 where that of the decodable is above it.
    EXPECT_LT(i.at("delta_mean_of_others").get<double>() * i.at("gamma").get<double>(), 0);
    EXPECT_GT(i.at("decided_mass"), 0);
    EXPECT_LT(i.at("decided_mass"), 1);
    EXPECT_GE(i.at("delta_skewness"), 0);
    EXPECT_GE(i.at("layer1_skewness"), 0);
    EXPECT_GE(i.at("eviction_error"), 0);
    EXPECT_LE(i.at("eviction_error"), 1);
    // Quintiles hold a fifth of the tokens each, as far as numbers divide.
    const auto yes = i.at("delta_percentiles").at("decodable").get<std::vector<std::int64_t>>();
    const auto no = i.at("delta_percentiles").at("not_decodable").get<std::vector<std::int64_t>>();
    std::int64_t total = 0;
    for (int b = 0; b < 5; ++b) total += yes[b] + no[b];
    for (int b = 0; b < 5; ++b) {
      EXPECT_NEAR(static_cast<double>(yes[b] + no[b]) / static_cast<double>(total), 0.2, 0.1);
    }
  }
}

// The attention probe with one sink beside the largest share of one key, found another way.
struct attention_checker : step_observer {
  attention_checker() {
    settings.names = {"attention"};
    settings.sink_share = 1e-9;  // one key
    settings.every = 1;
    mine = std::make_unique<probe_recorder>(settings, source, written);
  }
  virtual double largest_share(const layer_view& l) = 0;
  bool wants_layers() const override { return true; }
  void on_layer(const layer_view& l) override {
    held.push_back(largest_share(l));
    mine->on_layer(l);
  }
  void on_step(const step_view& s) override { mine->on_step(s); }

  // What the probe found, whose shares are those found here.
  json expect_agreement() {
    mine->finish();
    json found = computed(written).at("attention");
    const auto mass = found.at("sink_mass").get<std::vector<double>>();
    EXPECT_EQ(mass.size(), 3U);
    for (std::size_t l = 0; l < mass.size(); ++l) {
      double sum = 0;
      for (std::size_t i = l; i < held.size(); i += 3) sum += held[i];
      EXPECT_NEAR(mass[l], sum / (static_cast<double>(held.size()) / 3), 1e-4);
    }
    return found;
  }

  probe_settings settings;
  probe_source source;
  std::ostringstream written;
  std::unique_ptr<probe_recorder> mine;
  std::vector<double> held;  // by layer
};

// What the probe sums by itself is what op::attention reports.
TEST(probes, attention_agrees_with_the_kernel) {
  struct checker : attention_checker {
    double largest_share(const layer_view& l) override {
      const std::int32_t slots = l.keys.kv_length[0];
      std::vector<float> mass(static_cast<std::size_t>(slots), 0.0F);
      std::vector<float> out(static_cast<std::size_t>(l.q.rows() * l.q.columns()));
      const tensor_view q = l.q;
      l.state.backend().run(
          op::attention{l.rows, q, l.cache, l.keys, l.scale,
                        make_view(out.data(), dtype::f32, {q.rows(), q.shape[1], q.shape[2]}),
                        make_view(mass.data(), dtype::f32, {slots})});
      return *std::max_element(mass.begin(), mass.end()) /
             static_cast<double>(q.rows() * q.shape[1]);
    }
  };
  for (const model_family family : {llada, sdar, qwen3}) {
    checker both;
    const auto model = tiny_model(family, reference_backend());
    const char* method = family == llada  ? "vanilla"
                         : family == sdar ? "block_diffusion"
                                          : "autoregressive";
    decode_closed(*model, method, {}, tiny_requests(1, 32), 1, "", &both);
    const json a = both.expect_agreement();
    for (std::size_t x = 0; x < 3; ++x) EXPECT_EQ(a.at("layer_overlap")[x][x], 1);
    EXPECT_FALSE(a.at("maps").empty());
  }
}

TEST(probes, attention_with_every_key_a_sink) {
  probe_settings settings;
  settings.sink_share = 1;
  settings.every = 4;
  const probed p = look({"attention"}, "vanilla", llada, blocks_of_8, settings);
  const json& a = p.results.at("attention");
  EXPECT_EQ(a.at("looks"), 3 * 4);
  EXPECT_GT(a.at("keys_for_90_max"), 0);
  EXPECT_LE(a.at("keys_for_90_max"), 0.95);
  EXPECT_GT(a.at("first_token_mass"), 0);
  EXPECT_LT(a.at("first_token_mass"), 0.5);
  EXPECT_GT(a.at("outside_overlap_mean"), 0.1);  // by chance
  EXPECT_LE(a.at("outside_overlap_mean"), 1);
  for (std::size_t x = 0; x < 3; ++x) {
    EXPECT_NEAR(a.at("sink_mass")[x].get<double>(), 1, 1e-4);
    EXPECT_EQ(a.at("step_overlap")[x], 1);
    for (std::size_t y = 0; y < 3; ++y) EXPECT_EQ(a.at("layer_overlap")[x][y], 1);
  }
  // Each row of a map averages to 1 over all keys: cells hold means, so 1 / keys on average.
  for (const json& m : a.at("maps")) {
    double sum = 0;
    for (const double v : m.at("values").get<std::vector<double>>()) sum += v;
    EXPECT_NEAR(sum / m.at("values").size(), 1.0 / m.at("keys").get<double>(),
                0.3 / m.at("keys").get<double>());
  }
}

// A compacted cache holds other positions in its slots than their numbers: what the policy says
// about them is what lies there, in every layer and for every sequence of a ragged batch.
TEST(layer_observer, slot_positions_name_the_keys_that_were_kept) {
  struct checker : step_observer {
    // [layer][position]: key of the last full forward.
    std::vector<std::vector<std::vector<float>>> full =
        std::vector<std::vector<std::vector<float>>>(3);
    std::int64_t kept = 0, moved = 0;
    bool wants_layers() const override { return true; }
    void on_step(const step_view&) override {}
    void on_layer(const layer_view& l) override {
      const auto width = static_cast<std::size_t>(l.k.columns());
      auto& mine = full[static_cast<std::size_t>(l.layer)];
      if (l.plan.of.front().active && l.plan.of.front().step <= 1) {
        EXPECT_TRUE(l.slot_position.empty());
        mine.clear();
        for (std::int32_t r = 0; r < l.rows.row_begin[1]; ++r) {
          mine.emplace_back(l.k.row<float>(r), l.k.row<float>(r) + width);
        }
        return;
      }
      if (!l.plan.of.front().active) return;
      ASSERT_FALSE(l.slot_position.empty());
      for (std::size_t slot = 0; slot < l.slot_position.size(); ++slot, ++kept) {
        const auto at = static_cast<std::size_t>(l.slot_position[slot]);
        const std::int32_t page = l.cache.page_table[slot / kv_page_size];
        const float* key = l.cache.keys.row<float>(page) + slot % kv_page_size * width;
        ASSERT_TRUE(std::equal(key, key + width, mine.at(at).begin())) << l.layer << " " << slot;
        moved += at != slot;
      }
    }
  };
  for (const std::int32_t batch_size : {1, 3}) {
    for (const char* eviction : {"bidirectional", "prefix"}) {
      checker seen;
      const auto model = tiny_model(llada, reference_backend());
      decode_closed(*model, "sparse_dllm",
                    {{"block_length", 8}, {"eviction", std::string(eviction)}},
                    tiny_requests(3, 24), batch_size, "", &seen);
      EXPECT_GT(seen.kept, 100);
      EXPECT_GT(seen.moved, seen.kept / 2);
    }
  }
}

// With every key a sink, the sinks are the positions in view: of a compacted cache those that were
// kept and the block, of packed chunks those that rows have written.
TEST(probes, sinks_are_positions_whatever_the_slots) {
  probe_settings settings;
  settings.sink_share = 1;
  settings.every = 1;
  const tried runs[] = {{"sparse_dllm", llada, blocks_of_8}, {"optimus", sdar, {{"chunk", 3}}}};
  for (const auto& r : runs) {
    const probed p = look({"attention", "decode_trace"}, r.method, r.family, r.given, settings);
    const json& trace = p.results.at("decode_trace").at("decodes")[0].at("steps");
    int compared = 0;
    for (const json& m : p.results.at("attention").at("maps")) {
      // The rows of a forward are among the keys they see.
      const auto sinks = m.at("sinks").get<std::vector<std::int32_t>>();
      EXPECT_TRUE(std::is_sorted(sinks.begin(), sinks.end()));
      EXPECT_EQ(std::adjacent_find(sinks.begin(), sinks.end()), sinks.end()) << r.method;
      const json& rows = trace.at(m.at("step").get<std::size_t>()).at("rows");
      for (const json& range : rows) {
        for (std::int32_t row = range[0]; row < range[1].get<std::int32_t>(); ++row, ++compared) {
          EXPECT_TRUE(std::binary_search(sinks.begin(), sinks.end(), row))
              << r.method << " " << row;
        }
      }
      EXPECT_EQ(m.at("key_positions"), json({sinks.front(), sinks.back()}));
    }
    EXPECT_GT(compared, 20) << r.method;
  }
}

// Keys outside a head's pattern get no attention.
TEST(probes, attention_follows_a_pattern_of_tiles) {
  struct checker : attention_checker {
    // From the definition, with the tiles as a mask.
    double largest_share(const layer_view& l) override {
      const std::int64_t heads = l.q.shape[1], dim = l.q.shape[2];
      std::vector<double> mass(static_cast<std::size_t>(l.keys.kv_length[0]), 0.0);
      for (std::int32_t r = 0; r < l.rows.rows; ++r) {
        for (std::int64_t h = 0; h < heads; ++h) {
          std::vector<double> w(mass.size(), 0.0);
          double sum = 0;
          for (std::size_t j = 0; j < w.size(); ++j) {
            const block_mask& t = l.keys.tiles;
            const auto slot = static_cast<std::int32_t>(j);
            if (t.keep && t.applies[0] != 0 &&
                !t.keep[(h * t.blocks + l.rows.position[r] / t.size) * t.blocks + slot / t.size]) {
              ++hidden;
              continue;
            }
            const float* key = l.cache.keys.row<float>(l.cache.page_table[slot / kv_page_size]) +
                               (slot % kv_page_size * l.k.shape[1] + h) * dim;
            double dot = 0;
            for (std::int64_t d = 0; d < dim; ++d) {
              dot += double{l.q.row<float>(r)[h * dim + d]} * key[d];
            }
            sum += w[j] = std::exp(dot * l.scale);
          }
          for (std::size_t j = 0; j < w.size(); ++j) {
            mass[j] += w[j] / sum / static_cast<double>(heads * l.rows.rows);
          }
        }
      }
      return *std::max_element(mass.begin(), mass.end());
    }
    std::int64_t hidden = 0;
  } both;
  const auto model = tiny_model(llada, reference_backend());
  decode_closed(*model, "sparse_d",
                {{"block_length", 8}, {"block_size", 4}, {"skip", 0.1}, {"select", 0.2}},
                tiny_requests(1, 16), 1, "", &both);
  EXPECT_GT(both.hidden, 0);
  both.expect_agreement();
}

std::int64_t positions_in(const json& ranges) {
  std::int64_t n = 0;
  for (const json& r : ranges) n += r[1].get<std::int64_t>() - r[0].get<std::int64_t>();
  return n;
}

// What is written down adds up to what the loop counts, and replays to the tokens that came out.
TEST(probes, a_decode_trace_closes_with_the_loop) {
  const struct {
    const char* method;
    model_family family;
    parameter_map given;
    bool drops;
  } runs[] = {{"block_diffusion", sdar, {{"threshold", 0.5}}, false},
              {"delayed_cache", sdar, {{"threshold", 0.5}}, false},
              {"focus", sdar, {{"threshold", 0.5}, {"alpha", 1.0}}, true},
              {"autoregressive", qwen3, {}, false}};
  for (const auto& r : runs) {
    const probed p = look({"decode_trace"}, r.method, r.family, r.given);
    const json& trace = p.results.at("decode_trace");
    EXPECT_EQ(trace.at("text"), json::object());  // no tokenizer here
    ASSERT_EQ(trace.at("decodes").size(), p.run.answers.size());
    std::int64_t dropped = 0, cached = 0;
    for (std::size_t i = 0; i < p.run.answers.size(); ++i) {
      const json& d = trace.at("decodes")[i];
      const sequence_counters& counted = p.run.answers[i].counters;
      const std::size_t begin = d.at("prompt").size();
      EXPECT_EQ(d.at("prompt"), tiny_requests(3, 16)[i].prompt);
      std::vector<std::int32_t> canvas(d.at("length").get<std::size_t>(), -1);
      std::int64_t rows = 0, head = 0, committed = 0;
      for (const json& step : d.at("steps")) {
        if (step.at("phase") != "prefill") rows += positions_in(step.at("rows"));
        dropped += positions_in(step.at("dropped"));
        cached += positions_in(step.at("cached"));
        EXPECT_LE(positions_in(step.at("dropped")), positions_in(step.at("rows")));
        head += static_cast<std::int64_t>(step.at("position").size());
        EXPECT_EQ(step.at("token").size(), step.at("position").size());
        EXPECT_EQ(step.at("confidence").size(), step.at("position").size());
        EXPECT_GT(step.at("keys"), 0);
        EXPECT_EQ(positions_in(step.at("visible")), step.at("keys").get<std::int64_t>());
        for (const std::size_t c : step.at("accepted")) {
          const double confidence = step.at("confidence")[c];
          EXPECT_TRUE(confidence > 0 && confidence <= 1) << confidence;
          canvas[step.at("position")[c].get<std::size_t>()] = step.at("token")[c];
          ++committed;
        }
      }
      EXPECT_EQ(d.at("steps").size(), static_cast<std::size_t>(counted.forwards)) << r.method;
      EXPECT_EQ(rows, counted.decode_rows) << r.method;
      EXPECT_EQ(head, counted.head_rows) << r.method;
      EXPECT_EQ(committed, counted.committed) << r.method;
      const std::vector<std::int32_t>& output = p.run.answers[i].output;
      ASSERT_LE(begin + output.size(), canvas.size());
      EXPECT_TRUE(std::equal(output.begin(), output.end(),
                             canvas.begin() + static_cast<std::ptrdiff_t>(begin)))
          << r.method;
    }
    EXPECT_EQ(dropped > 0, r.drops) << r.method;
    EXPECT_EQ(cached > 0, r.family == sdar) << r.method;
  }
}

TEST(probes, a_decode_trace_keeps_four_requests_and_names_their_tokens) {
  probe_settings settings;
  settings.names = {"decode_trace"};
  const auto model = tiny_model(sdar, reference_backend());
  probe_source source;
  source.text = [](std::int32_t token) { return "<" + std::to_string(token) + ">"; };
  std::ostringstream written;
  probe_recorder recorder(settings, source, written);
  decode_closed(*model, "block_diffusion", {}, tiny_requests(6, 16), 1, "", &recorder);
  recorder.finish();
  const json trace = computed(written).at("decode_trace");
  EXPECT_EQ(trace.at("requests"), 6);
  ASSERT_EQ(trace.at("decodes").size(), 4u);
  for (const json& step : trace.at("decodes")[3].at("steps")) {
    for (const std::int32_t token : step.at("token")) {
      EXPECT_EQ(trace.at("text").at(std::to_string(token)), source.text(token));
    }
  }
}

}  // namespace
}  // namespace unmask
