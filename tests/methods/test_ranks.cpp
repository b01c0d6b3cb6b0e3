// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Several ranks decode what one process does: every method, with threads for ranks.
#include <gtest/gtest.h>

#include <map>

#include "harness/base/ranks/group.h"
#include "harness/profile/phase_clock.h"
#include "kernels/moe.h"
#include "kernels/ranks.h"
#include "tests/methods/ranked_decoding.h"

namespace unmask {
namespace {

using namespace testing;

// Sums over heads are added in another order than within a process; the choices made of them are not
// others, so that what is computed stays the same bit for bit.
class ranked_setting : public ::testing::TestWithParam<setting> {};

TEST_P(ranked_setting, decodes_as_one_process_with_as_many_pieces) {
  const setting& p = GetParam();
  // Four ranks add in another order than a chain would; three groups of heads are too few for them.
  for (const int ranks : {2, 3, 4}) {
    if (ranks > six_heads(p.family).kv_heads) continue;
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const decoded want = decode(p, share_of(0, 1, ranks));
    const std::vector<decoded> got = decode_on(ranks, 0, p);
    for (const decoded& one : got) {
      EXPECT_EQ(one.tokens, want.tokens);
      EXPECT_EQ(one.bits, want.bits);
      expect_same_counts(one, want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(every, ranked_setting, ::testing::ValuesIn(all_settings()),
                         [](const auto& i) { return i.param.label; });

setting vanilla() {
  setting s{"vanilla", model_family::llada, {{"block_length", std::int64_t{8}}}};
  s.method = "vanilla";
  return s;
}

// An order of addition that is not the definition's shows from four parts on, in bits alone.
TEST(ranks, four_have_the_bits_of_four_pieces_however_these_are_dealt) {
  const setting p = vanilla();
  const decoded want = decode(p, share_of(0, 1, 4));
  for (const auto& [ranks, pieces] : std::vector<std::pair<int, int>>{{2, 4}, {4, 4}}) {
    for (const decoded& one : decode_on(ranks, pieces, p)) EXPECT_EQ(one.bits, want.bits);
  }
  const decoded whole = decode(p, {});
  EXPECT_EQ(whole.tokens, want.tokens);
  EXPECT_NE(whole.bits, want.bits) << "sums in pieces are other roundings";
  expect_same_counts(want, whole);
}

// Bits do not depend on how they travel: sums, heads, sums over heads, whole logits, and the clock of rank 0.
TEST(ranks, have_the_same_bits_by_tcp) {
  for (const char* label : {"block_dynamic", "focus", "optimus_moe", "dllm_cache_dream"}) {
    const setting p = named_setting(label);
    const model_config c = six_heads(p.family);
    SCOPED_TRACE(label);
    for (const int ranks : {2, 3, 4}) {
      if (ranks > c.kv_heads) continue;
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      const decoded want = decode_on(ranks, 0, c, p).front();
      for (const decoded& one : decode_on(ranks, 0, c, p, {}, test::transport_kind::tcp)) {
        EXPECT_EQ(one.tokens, want.tokens);
        EXPECT_EQ(one.bits, want.bits);
        expect_same_counts(one, want);
      }
    }
  }
  const setting p = vanilla();
  const decoded want = decode_on(4, 0, p).front();
  for (const decoded& one :
       decode_on(4, 0, six_heads(p.family), p, {}, test::transport_kind::tcp)) {
    EXPECT_EQ(one.bits, want.bits);
  }
}

// Two groups of heads on four pieces: each KV head is on two of them.
TEST(ranks, four_pieces_repeat_the_heads_of_two_groups) {
  for (const char* label :
       {"block_dynamic", "focus", "optimus_moe", "sparse_dream", "dllm_cache_dream"}) {
    const setting p = named_setting(label);
    model_config c = tiny_config(p.family);
    c.kv_heads = 2;
    SCOPED_TRACE(label);
    const decoded want = decode(c, p, share_of(0, 1, 4));
    for (const int ranks : {2, 4}) {
      for (const decoded& one : decode_on(ranks, 4, c, p)) {
        EXPECT_EQ(one.tokens, want.tokens);
        EXPECT_EQ(one.bits, want.bits) << ranks << " ranks";
        expect_same_counts(one, want);
      }
    }
  }
}

model_share experts_by_whole() {
  model_share like;
  like.whole_experts = true;
  return like;
}

// Whole experts on each rank in place of a part of every one: the same products, added in another order.
TEST(ranks, whole_experts_find_what_parts_of_all_find) {
  for (const char* label : {"optimus_moe", "llada2_blocks"}) {
    const setting p = named_setting(label);
    const model_config c = six_heads(p.family);
    SCOPED_TRACE(label);
    const decoded parts = decode(c, p, share_of(0, 1, 3));
    for (const auto& [ranks, pieces] : std::vector<std::pair<int, int>>{{2, 2}, {3, 3}, {3, 6}}) {
      const model_share like = experts_by_whole();
      const decoded want = decode(c, p, share_like(like, 0, 1, pieces));
      EXPECT_EQ(want.tokens, parts.tokens);
      EXPECT_NE(want.bits, parts.bits);
      for (const decoded& one : decode_on(ranks, pieces, c, p, like)) {
        EXPECT_EQ(one.tokens, want.tokens);
        EXPECT_EQ(one.bits, want.bits) << ranks << " ranks";
        expect_same_counts(one, parts);
      }
    }
  }
}

void refuse_sum(const backend&, const op::sum_ranks&) {
  throw std::logic_error("one rank has nothing to add");
}
void refuse_choice(const backend&, const op::moe_held&) {
  throw std::logic_error("one rank has all experts");
}

// What several ranks need costs one nothing: it runs none of their operations, whatever they would share.
TEST(ranks, one_alone_runs_none_of_their_operations) {
  const auto sum = replace_body<op::sum_ranks>(target::cpu, refuse_sum);
  const auto choice = replace_body<op::moe_held>(target::cpu, refuse_choice);
  for (const char* label : {"block_dynamic", "focus", "optimus_moe", "llada2_blocks"}) {
    const setting p = named_setting(label);
    model_share like = experts_by_whole();
    like.sums = dtype::bf16;
    const decoded whole = decode(p, {});
    EXPECT_EQ(decode(p, share_like(like, 0, 1, 1)).bits, whole.bits) << label;
    EXPECT_THROW(decode(p, share_of(0, 1, 2)), std::logic_error) << label;
  }
  replace_body<op::sum_ranks>(target::cpu, sum);
  replace_body<op::moe_held>(target::cpu, choice);
}

// Parts that travel as bfloat16 are rounded in one process, too.
TEST(ranks, halves_have_the_bits_of_as_many_rounded_pieces) {
  const setting p = vanilla();
  const model_config c = six_heads(p.family);
  model_share like;
  like.sums = dtype::bf16;
  for (const int ranks : {2, 3, 4}) {
    const decoded want = decode(c, p, share_like(like, 0, 1, ranks));
    EXPECT_NE(want.bits, decode(c, p, share_of(0, 1, ranks)).bits);
    for (const decoded& one : decode_on(ranks, 0, c, p, like)) EXPECT_EQ(one.bits, want.bits);
  }
}

// One move for each of two sums a layer, one for the head and one for what the ranks compare; 4 bytes for
// each element of a sum, and 48 for each row that the head reads.
TEST(ranks, move_what_the_formulas_say) {
  const setting p = vanilla();
  const auto body = [&](rank_group& group) {
    const decoded done = decode(p, share_of(group.rank(), 3, 0));
    const model_config c = six_heads(p.family);
    std::int64_t rows = 0, heads = 0, most = 0;
    for (const sequence_counters& n : done.counts)
      rows += n.rows, heads += n.head_rows, most = std::max(most, n.forwards);
    const auto layers = static_cast<std::uint64_t>(c.layers),
               steps = static_cast<std::uint64_t>(most);
    const std::uint64_t sums = 2 * (2 * layers * static_cast<std::uint64_t>(rows * c.hidden) * 4 +
                                    48 * static_cast<std::uint64_t>(heads));
    EXPECT_EQ(group.received(), sums + 2 * 8 * steps);
    EXPECT_EQ(group.traffic().bytes, sums);
    EXPECT_EQ(group.traffic().calls, (2 * layers + 1) * steps);
    EXPECT_GE(group.moves(), steps * (2 * layers + 2));  // and those that read the clock of rank 0
  };
  for (const test::transport_kind by : test::every_transport) {
    EXPECT_EQ(test::on_ranks(3, body, 60, by), std::vector<std::string>(3))
        << test::transport_name(by);
  }
}

model_share in_stretches(dtype sums = dtype::f32) {
  model_share like;
  like.sums = sums;
  like.two_shots = 0;
  return like;
}

// Parts of any length in two shots: the bits of one process, and so those of one shot.
TEST(ranks, stretches_have_the_bits_of_whole_parts) {
  const setting p = vanilla();
  const model_config c = six_heads(p.family);
  for (const dtype sums : {dtype::f32, dtype::bf16}) {
    const model_share like = in_stretches(sums);
    for (const int ranks : {2, 3, 4}) {
      const decoded want = decode(c, p, share_like(like, 0, 1, ranks));
      for (const decoded& one : decode_on(ranks, 0, c, p, like)) EXPECT_EQ(one.bits, want.bits);
    }
  }
}

// Two moves for each of two sums a layer: a third of the parts of two others, then their thirds of the sum,
// 2/3 x (4 + 4) bytes of an element.
TEST(ranks, move_what_the_formulas_say_of_stretches) {
  const setting p = vanilla();
  model_config c = six_heads(p.family);
  c.hidden = 48;  // a third of a row is a multiple of eight elements
  const auto threw = test::on_ranks(3, [&](rank_group& group) {
    const decoded done = decode(c, p, share_like(in_stretches(), group.rank(), 3, 0));
    std::int64_t rows = 0, heads = 0, most = 0;
    for (const sequence_counters& n : done.counts)
      rows += n.rows, heads += n.head_rows, most = std::max(most, n.forwards);
    const std::int64_t stretches = 2 * c.layers * rows * c.hidden / 3;
    const std::int64_t bytes = 2 * (stretches * (4 + 4) + 48 * heads);
    EXPECT_EQ(group.traffic().bytes, static_cast<std::uint64_t>(bytes));
    EXPECT_EQ(group.traffic().calls, static_cast<std::uint64_t>((4 * c.layers + 1) * most));
  });
  EXPECT_EQ(threw, std::vector<std::string>(3));
}

// Every sum is a phase of its layer with the bytes that it brings, and so is what the head sends and what
// ranks compare.
TEST(ranks, sums_are_a_phase_of_their_layer) {
  const setting p = vanilla();
  const auto threw = test::on_ranks(2, [&](rank_group& group) {
    phase_clock clock(std::size_t{1} << 20);
    {
      const listening here(&clock);
      decode(p, share_of(group.rank(), 2, 0));
    }
    const std::int64_t layers = six_heads(p.family).layers;
    std::map<profile_phase, phase_total> of;
    for (const phase_total& t : clock.totals()) of[t.phase] = t;
    const phase_total& sums = of[profile_phase::across_ranks];
    const std::int64_t steps = of[profile_phase::step].calls;
    EXPECT_EQ(sums.calls, steps * (2 * layers + 2));
    EXPECT_EQ(sums.bytes, static_cast<double>(group.traffic().bytes));
    EXPECT_LT(sums.seconds, of[profile_phase::step].seconds);
    std::map<std::int64_t, std::int64_t> calls;  // by layer; -1: the head's, and what is compared
    for (const phase_event& e : clock.events())
      calls[e.payload] += e.phase == profile_phase::across_ranks;
    EXPECT_EQ(calls[-1], 2 * steps);
    for (std::int64_t l = 0; l < layers; ++l) EXPECT_EQ(calls[l], 2 * steps) << l;
  });
  EXPECT_EQ(threw, std::vector<std::string>(2));
}

// By hand: the embedding and the final norm are whole on every rank; of three groups of heads rank 0 of two
// has one and rank 1 two, and each half of the feed-forward and of the head. The reference pads nothing.
TEST(ranks, weights_are_those_of_their_share) {
  model_config c = six_heads(model_family::sdar);
  c.hidden = c.vocabulary = c.head_dim = c.rope.rotary_dim = 64;
  c.feed_forward = 256;
  c.mask_id = 63;
  const std::int64_t d = c.hidden, dim = c.head_dim;
  const auto bytes = [&](std::int64_t heads, std::int64_t kv_heads, std::int64_t width,
                         std::int64_t tokens) {
    const std::int64_t layer =
        d * (heads + 2 * kv_heads) * dim + heads * dim * d + 3 * d * width + 2 * d + 2 * dim;
    return static_cast<std::size_t>(4 * ((c.vocabulary + tokens) * d + d + c.layers * layer));
  };
  const auto of = [&](const model_share& share) {
    return tiny_model(c, reference_backend(), 8, 7, dtype::f32, weight_format::f32, share)
        ->weight_bytes();
  };
  EXPECT_EQ(of({}), bytes(6, 3, 256, 64));
  EXPECT_EQ(of(share_of(0, 2, 0)), bytes(2, 1, 128, 32));
  EXPECT_EQ(of(share_of(1, 2, 0)), bytes(4, 2, 128, 32));
  EXPECT_EQ(of(share_of(0, 1, 2)), bytes(6, 3, 256, 64));
}

// A rank that decides otherwise is found before its rows are added to those of others.
TEST(ranks, that_decide_otherwise_are_named) {
  const setting p = vanilla();
  const auto threw = test::on_ranks(2, [&](rank_group& group) {
    const auto model = tiny_model(six_heads(p.family), cpu_backend(), 512, 7, dtype::f32,
                                  weight_format::f32, share_of(group.rank(), 2, 0));
    auto requests = tiny_requests(2, 24);
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].id = static_cast<std::int64_t>(i);
    if (group.rank() == 1) requests[1].prompt[2] = 7;
    decode_closed(*model, p.method, p.given, requests, 2);
  });
  EXPECT_EQ(threw, (std::vector<std::string>(
                       2,
                       "ranks 0 and 1 took different decisions in step 1 (request 1): the row is "
                       "void")));
}

TEST(ranks, refuse_a_model_that_cannot_be_dealt_to_them) {
  const setting p{"none", model_family::sdar, {}, "", layer_recording::repeated, "block_diffusion"};
  EXPECT_EQ(test::message_of([&] { decode(p, share_of(0, 4, 0)); }),
            "random-tiny: 6 heads in 3 groups cannot be dealt to 4 ranks: at most 3, or a multiple "
            "of it that divides the heads");
}

}  // namespace
}  // namespace unmask
