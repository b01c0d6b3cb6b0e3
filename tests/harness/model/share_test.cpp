// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/share.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "harness/base/run_keys.h"
#include "kernels/float16.h"
#include "tests/support.h"

namespace unmask {
namespace {

using test::message_of;
using range = std::pair<std::int64_t, std::int64_t>;

model_config of_heads(std::int32_t heads, std::int32_t kv_heads, std::int32_t width = 96) {
  model_config c;
  c.name = "tiny";
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = 4;
  c.hidden = 12;
  c.feed_forward = width;
  return c;
}

range heads(const model_config& c, const model_share& s) {
  return {heads_of(c, s).first, heads_of(c, s).last};
}
range kv_heads(const model_config& c, const model_share& s) {
  return {kv_heads_of(c, s).first, kv_heads_of(c, s).last};
}
range width(std::int64_t all, const model_share& s) {
  return {width_of(all, s).first, width_of(all, s).last};
}

// By hand: 6 heads in 3 groups to 2 ranks are 1 group and 2; 14 in 2 to 14 are one head each.
TEST(shares, deal_heads_with_their_groups) {
  const model_config six = of_heads(6, 3);
  EXPECT_EQ(heads(six, {0, 2, 2}), range(0, 2));
  EXPECT_EQ(heads(six, {1, 2, 2}), range(2, 6));
  EXPECT_EQ(kv_heads(six, {1, 2, 2}), range(1, 3));
  EXPECT_EQ(heads(six, {3, 6, 6}), range(3, 4));
  EXPECT_EQ(kv_heads(six, {3, 6, 6}), range(1, 2));
  const model_config fourteen = of_heads(14, 2);
  EXPECT_EQ(heads(fourteen, {9, 14, 14}), range(9, 10));
  EXPECT_EQ(kv_heads(fourteen, {9, 14, 14}), range(1, 2));
  // 4 pieces on 2 ranks, of 4 heads in 2 groups: each rank one group in two pieces.
  EXPECT_EQ(heads(of_heads(4, 2), {1, 2, 4}), range(2, 4));
  EXPECT_EQ(kv_heads(of_heads(4, 2), {1, 2, 4}), range(1, 2));
}

// The first of those that hold a KV head counts its values.
TEST(shares, count_values_that_several_hold_once) {
  std::vector<bool> counts;
  for (std::int32_t r = 0; r < 6; ++r) counts.push_back(counts_values(of_heads(6, 3), {r, 6, 6}));
  EXPECT_EQ(counts, (std::vector<bool>{true, false, true, false, true, false}));
  EXPECT_TRUE(counts_values(of_heads(6, 3), {1, 2, 2}));
}

// 96 = 12 units of 8 to 5; 20 = 5 units of 4 to 3; 24 to 4 in units of 4, since 3 of 8 are too few.
TEST(shares, deal_widths_in_units) {
  std::vector<std::int64_t> edges;
  for (std::int32_t r = 0; r < 5; ++r) edges.push_back(width(96, {r, 5, 5}).second);
  EXPECT_EQ(edges, (std::vector<std::int64_t>{16, 32, 56, 72, 96}));
  EXPECT_EQ(width(20, {1, 3, 3}), range(4, 12));
  EXPECT_EQ(width(24, {1, 4, 4}), range(4, 12));
  EXPECT_EQ(width(7, {2, 3, 3}), range(4, 7));
}

// 11 to 3; 151936 to 4 in units of 64, the last with what is left; below 1024 tokens a piece, none.
TEST(shares, deal_vocabularies) {
  const auto edges = [](std::int64_t vocabulary, std::int32_t pieces) {
    std::vector<std::int64_t> all;
    for (std::int32_t p = 0; p < pieces; ++p) {
      const cut_range of = tokens_of(vocabulary, {p, pieces, pieces});
      EXPECT_EQ(of.first, all.empty() ? 0 : all.back());
      all.push_back(of.last);
    }
    return all;
  };
  EXPECT_EQ(edges(11, 3), (std::vector<std::int64_t>{3, 7, 11}));
  EXPECT_EQ(edges(151936, 4), (std::vector<std::int64_t>{37952, 75968, 113920, 151936}));
  EXPECT_EQ(edges(4095, 4), (std::vector<std::int64_t>{1023, 2047, 3071, 4095}));
  EXPECT_EQ(edges(4097, 4), (std::vector<std::int64_t>{1024, 2048, 3072, 4097}));
}

struct dealt {
  std::int32_t heads, kv_heads;
  std::set<std::int32_t> pieces;  // up to 32 that it can be dealt to
};

// The published and the embedded models, by hand.
TEST(shares, know_what_can_be_dealt) {
  const std::vector<dealt> all = {
      {6, 3, {1, 2, 3, 6}},
      {6, 6, {1, 2, 3, 4, 5, 6}},
      {4, 4, {1, 2, 3, 4}},
      {14, 2, {1, 2, 14}},
      {4, 2, {1, 2, 4}},
      {28, 4, {1, 2, 3, 4, 28}},
      {16, 8, {1, 2, 3, 4, 5, 6, 7, 8, 16}},
      {32, 8, {1, 2, 3, 4, 5, 6, 7, 8, 16, 32}},
      {32, 4, {1, 2, 3, 4, 8, 16, 32}},
      {16, 4, {1, 2, 3, 4, 8, 16}},
  };
  for (const dealt& of : all) {
    std::set<std::int32_t> taken;
    for (std::int32_t p = 1; p <= 32; ++p) {
      const model_config c = of_heads(of.heads, of.kv_heads);
      if (message_of([&] { check_share(c, {0, p, p}, weight_format::f32); }).empty())
        taken.insert(p);
    }
    EXPECT_EQ(taken, of.pieces) << of.heads << "/" << of.kv_heads;
  }
}

TEST(shares, refuse_what_cannot_be_dealt_in_a_sentence) {
  EXPECT_EQ(message_of([] {
              check_share(of_heads(6, 3), {0, 4, 4}, weight_format::f32);
            }),
            "tiny: 6 heads in 3 groups cannot be dealt to 4 ranks: at most 3, or a multiple of it "
            "that divides the heads");
  EXPECT_EQ(message_of([] {
              check_share(of_heads(8, 8, 3), {0, 4, 4}, weight_format::f32);
            }),
            "tiny: a feed-forward of width 3 cannot be dealt to 4 pieces");
  EXPECT_EQ(message_of([] {
              model_config c = of_heads(8, 8);
              c.vocabulary = 3;
              check_share(c, {0, 4, 4}, weight_format::f32);
            }),
            "tiny: a vocabulary of 3 cannot be dealt to 4 pieces");
  EXPECT_EQ(
      message_of([] {
        check_share(of_heads(8, 8), {0, 2, 2}, weight_format::int8);
      }),
      "`format` int8 needs ranks = 1 and pieces = 0 or 1: a row of weights has one scale, and "
      "that of a piece would be another");
  EXPECT_EQ(message_of([] { check_share(of_heads(8, 8), {}, weight_format::int8); }), "");
  EXPECT_EQ(message_of([] { share_of(0, 2, 3); }),
            "`pieces` is 3 but must be `ranks`, 2, times 1, 2, 4, ...");
  EXPECT_EQ(message_of([] { share_of(0, 2, 6); }),
            "`pieces` is 6 but must be `ranks`, 2, times 1, 2, 4, ...");
  EXPECT_EQ(share_of(1, 2, 0).pieces, 2);
  EXPECT_EQ(share_of(1, 2, 8).first(), 4);
  EXPECT_EQ(share_of(0, 1, 3).pieces, 3) << "one process adds what three ranks would";
}

TEST(shares, of_a_run_have_its_keys) {
  run_keys run;
  run.ranks = 2;
  run.experts = "experts";
  EXPECT_TRUE(share_of(1, run).whole_experts);
  EXPECT_EQ(share_of(1, run).sums, dtype::f32);
  run.sums = "bf16";
  EXPECT_EQ(share_of(1, run).sums, dtype::bf16);
  EXPECT_EQ(share_of(1, run).two_shots, 524288);
  run.two_shots = 7;
  EXPECT_EQ(share_of(1, run).two_shots, 7);
  run.pieces = 4;
  EXPECT_EQ(
      message_of([&] { share_of(1, run); }),
      "`sums` bf16 needs pieces = 0 or as many as ranks, 2, not 4: what a rank adds of its own "
      "pieces is float32");
  run.ranks = 1;
  EXPECT_EQ(share_of(0, run).pieces, 4) << "one process rounds what four ranks would send";
}

// 7 experts to 3 pieces are 2, 2 and 3; a piece needs one.
TEST(shares, deal_whole_experts) {
  model_config c = of_heads(8, 8);
  c.moe = {7, 2, 1, 1, 24, 1, 1, 2.5F, true, true, true};
  model_share share;
  share.whole_experts = true;
  std::vector<range> held;
  for (std::int32_t p = 0; p < 3; ++p) {
    share.rank = p;
    share.ranks = share.pieces = 3;
    held.emplace_back(experts_of(c, share).first, experts_of(c, share).last);
  }
  EXPECT_EQ(held, (std::vector<range>{{0, 2}, {2, 4}, {4, 7}}));
  share.rank = 0;
  share.ranks = share.pieces = 8;
  EXPECT_EQ(message_of([&] { check_share(c, share, weight_format::f32); }),
            "tiny: 7 experts cannot be dealt to 8 pieces; experts = \"hidden\" shares the width of "
            "each");
  share.whole_experts = false;
  EXPECT_EQ(message_of([&] { check_share(c, share, weight_format::f32); }), "");
  EXPECT_EQ(experts_of(c, share).size(), 7);
}

// All tensors of a layer.
std::vector<tensor_view> tensors_of(const layer_weights& l) {
  std::vector<tensor_view> all = {l.attn_norm,   l.q,          l.k,          l.v,
                                  l.q_bias,      l.k_bias,     l.v_bias,     l.q_norm,
                                  l.k_norm,      l.attn_out,   l.ffn_norm,   l.router,
                                  l.router_bias, l.dense.gate, l.dense.up,   l.dense.down,
                                  l.shared.gate, l.shared.up,  l.shared.down};
  for (const feed_forward_weights& e : l.experts) {
    all.insert(all.end(), {e.gate, e.up, e.down});
  }
  return all;
}

// Element by element; returns their bytes.
std::size_t expect_same(const layer_weights& got, const layer_weights& want) {
  const std::vector<tensor_view> a = tensors_of(got), b = tensors_of(want);
  EXPECT_EQ(a.size(), b.size());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].elements(), b[i].elements()) << "tensor " << i;
    if (a[i].data == nullptr || a[i].elements() != b[i].elements()) continue;
    bytes += static_cast<std::size_t>(a[i].elements()) * size_of(a[i].type);
    std::int64_t differing = 0;
    for (std::int64_t r = 0; r < a[i].rows(); ++r) {
      for (std::int64_t k = 0; k < (a[i].rank == 1 ? 1 : a[i].shape[1]); ++k) {
        differing += float_at(a[i], r, k) != float_at(b[i], r, k);
      }
    }
    EXPECT_EQ(differing, 0) << "tensor " << i;
  }
  return bytes;
}

// A rank draws what it holds of the numbers that one process draws, and has memory for no others.
TEST(shares, random_weights_are_those_of_the_whole) {
  model_config c = of_heads(8, 4, 72);
  c.layers = 2;
  c.vocabulary = 11;
  c.qkv_bias = true;
  for (const bool routed : {false, true, true}) {
    const bool whole_experts = c.moe.experts > 0;
    if (routed) c.moe = {8, 2, 1, 1, 24, 1, 1, 2.5F, true, true, true};
    const model_weights whole = random_weights(c, 5, dtype::bf16);
    for (const std::int32_t ranks : {1, 2, 3, 4, 8}) {
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE(std::to_string(rank) + " of " + std::to_string(ranks));
        model_share share = share_of(rank, ranks, 0);
        share.whole_experts = whole_experts;
        const model_weights part = random_weights(c, 5, dtype::bf16, share);
        const std::int64_t tokens = tokens_of(c.vocabulary, share).size();
        std::size_t bytes = 2 * static_cast<std::size_t>((c.vocabulary + tokens + 1) * c.hidden);
        for (std::size_t l = 0; l < whole.layers.size(); ++l) {
          bytes += expect_same(part.layers[l], cut(whole.layers[l], c, share));
          // What a rank holds is cut into its pieces as the whole is.
          for (const model_share& one : pieces_of(share)) {
            expect_same(cut(part.layers[l], c, one, part.held), cut(whole.layers[l], c, one));
          }
        }
        EXPECT_EQ(part.bytes, bytes);
      }
    }
  }
}

// So it is with a checkpoint, whose q, k and v may be rows of one matrix; values of other ranks are
// theirs to look at.
TEST(shares, a_checkpoint_is_read_where_it_is_held) {
  const std::string models = UNMASK_SOURCE_DIR "/experiments/models/";
  for (const char* name : {"tiny-sdar", "tiny-llada2"}) {
    const model_config c = read_model_config(models + name);
    const model_weights whole = load_weights(c, models + name);
    for (std::int32_t rank = 0; rank < 3; ++rank) {
      const model_share share = share_of(rank, 3, 0);
      const model_weights part = load_weights(c, models + name, true, {}, share);
      for (std::size_t l = 0; l < whole.layers.size(); ++l) {
        expect_same(part.layers[l], cut(whole.layers[l], c, share));
      }
    }
  }
}

// Row or column by row or column: how often those of a tensor are held by the pieces.
std::vector<int> held_by_pieces(const weight_name& name, const std::vector<std::int64_t>& shape,
                                const model_config& c, const std::vector<model_share>& pieces) {
  bool columns = false;
  std::vector<tensor_cut> cuts;
  for (const model_share& one : pieces) {
    cuts.push_back(cut_of(name, shape, c, one));
    columns |= cuts.back().columns.size() < (shape.size() > 1 ? shape[1] : 1);
  }
  std::vector<int> held(static_cast<std::size_t>(columns ? shape[1] : shape[0]));
  for (const tensor_cut& cut : cuts) {
    const cut_range of = columns ? cut.columns : cut.rows;
    for (std::int64_t i = of.first; i < of.last; ++i) ++held[static_cast<std::size_t>(i)];
    const cut_range other = columns ? cut.rows : cut.columns;
    EXPECT_EQ(other.size(), columns ? shape[0] : shape.size() > 1 ? shape[1] : 1) << name.what;
  }
  return held;
}

// Of every family that is published or embedded, to as many pieces as it can be dealt to.
TEST(shares, of_every_family_cover_its_tensors) {
  for (const auto& [heads, kv_heads] : std::vector<std::pair<int, int>>{{6, 3},
                                                                        {6, 6},
                                                                        {4, 4},
                                                                        {14, 2},
                                                                        {4, 2},
                                                                        {32, 32},
                                                                        {28, 4},
                                                                        {16, 8},
                                                                        {32, 8},
                                                                        {32, 4},
                                                                        {16, 4},
                                                                        {64, 8}}) {
    model_config c = of_heads(heads, kv_heads, 100);
    c.moe = {16, 2, 1, 1, 40, 1, 1, 2.5F, true, true, true};
    const std::int64_t d = c.hidden, q = heads * c.head_dim, kv = kv_heads * c.head_dim;
    for (std::int32_t pieces = 1; pieces <= 8; ++pieces) {
      const model_share all{0, 1, pieces};
      if (!message_of([&] { check_share(c, all, weight_format::f32); }).empty()) continue;
      SCOPED_TRACE(std::to_string(heads) + "/" + std::to_string(kv_heads) + " to " +
                   std::to_string(pieces));
      const std::vector<model_share> each = pieces_of(all);
      const auto expect = [&](const weight_name& name, const std::vector<std::int64_t>& shape,
                              int times) {
        for (const int often : held_by_pieces(name, shape, c, each)) {
          ASSERT_EQ(often, times) << name.part << name.what;
        }
      };
      for (const char* what : {"q", "q_bias"}) expect({0, "", what}, {q, d}, 1);
      for (const char* what : {"k", "v", "k_bias", "v_bias"}) {
        expect({0, "", what}, {kv, d}, std::max(1, pieces / kv_heads));
      }
      expect({0, "", "attn_out"}, {d, q}, 1);
      for (const auto& [part, width] :
           std::map<std::string, std::int64_t>{{"", 100}, {"experts.3.", 40}, {"shared.", 40}}) {
        for (const char* what : {"gate", "up"}) expect({0, part, what}, {width, d}, 1);
        expect({0, part, "down"}, {d, width}, 1);
      }
      expect({0, "", "router"}, {16, d}, pieces);
      expect({-1, "", "embedding"}, {50, d}, pieces);
      expect({-1, "", "lm_head"}, {50, d}, 1);
      expect({0, "", "attn_norm"}, {d}, pieces);
      std::vector<model_share> by_experts = each;
      for (model_share& s : by_experts) s.whole_experts = true;
      for (const char* what : {"gate", "down"}) {
        for (int e = 0; e < 16; ++e) {
          const weight_name name{0, "experts." + std::to_string(e) + ".", what};
          std::int64_t held = 0;
          for (const model_share& s : by_experts) {
            held += cut_of(name, std::vector<std::int64_t>{40, d}, c, s).rows.size();
          }
          EXPECT_EQ(held, 40) << name.part << what;
        }
      }
    }
  }
}

// Every element of a cut tensor is held by one piece, or of K and V by as many as share its head.
TEST(shares, hold_every_element) {
  for (const auto& [heads, kv_heads, pieces] :
       std::vector<std::array<std::int32_t, 3>>{{6, 3, 2}, {6, 3, 6}, {8, 4, 3}, {8, 2, 8}}) {
    model_config c = of_heads(heads, kv_heads, 20);
    c.layers = 1;
    c.vocabulary = 5;
    c.qkv_bias = true;
    const model_weights w = random_weights(c, 1, dtype::f32);
    const layer_weights& whole = w.layers[0];
    std::map<const void*, int> held;
    const auto hold = [&](const tensor_view& v) {
      const std::int64_t columns = v.rank == 1 ? 1 : v.shape[1];
      for (std::int64_t r = 0; r < v.rows(); ++r) {
        for (std::int64_t k = 0; k < columns; ++k) ++held[v.as<float>() + r * v.row_stride + k];
      }
    };
    for (const model_share& one : pieces_of({0, 1, pieces})) {
      const layer_weights l = cut(whole, c, one);
      for (const tensor_view& v : {l.q, l.k, l.v, l.q_bias, l.k_bias, l.v_bias, l.attn_out,
                                   l.dense.gate, l.dense.up, l.dense.down}) {
        hold(v);
      }
      EXPECT_EQ(l.attn_norm.data, whole.attn_norm.data);
    }
    const int times = std::max(1, pieces / kv_heads);
    const auto expect = [&](const tensor_view& v, int often, const char* what) {
      for (std::int64_t i = 0; i < v.elements(); ++i) {
        ASSERT_EQ(held[v.as<float>() + i], often) << what << " element " << i;
      }
    };
    for (const tensor_view& v : {whole.q, whole.q_bias, whole.attn_out, whole.dense.gate,
                                 whole.dense.up, whole.dense.down}) {
      expect(v, 1, "cut");
    }
    for (const tensor_view& v : {whole.k, whole.v, whole.k_bias, whole.v_bias}) {
      expect(v, times, "of a KV head");
    }
  }
}

}  // namespace
}  // namespace unmask
