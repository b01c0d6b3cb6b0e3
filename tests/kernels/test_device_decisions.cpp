// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The decisions of the CUDA kernels, emulated under every schedule, are the reference's bit by bit:
// sequences of 0 candidates, of a warp's 64 and one more, of thousands; ties, infinities, NaN.
#include <numeric>

#include "kernels/decisions.h"
#include "kernels/float16.h"
#include "kernels/rows.h"
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/baselines/block_diffusion/kernels/acceptance.h"
#include "methods/baselines/vanilla/kernels/acceptance.h"
#include "methods/focus/kernels/eviction.h"
#include "methods/optimus/kernels/chunk.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using bytes = std::vector<std::uint8_t>;
using indices = std::vector<std::int32_t>;

int draw(std::mt19937& rng, int low, int high) {  // both included
  return std::uniform_int_distribution<int>(low, high)(rng);
}

// Sequences of these lengths; positions ascend with gaps.
const std::vector<int> lengths{0, 1, 2, 31, 32, 33, 63, 64, 65, 200, 700, 0};

struct scene {
  test::candidates_fixture candidates;
  std::vector<float> score;
  indices last_position;
  scene(std::mt19937& rng, const std::vector<int>& sizes, bool ties, bool oddities = true) {
    for (const int n : sizes) {
      indices positions;
      int p = draw(rng, 0, 3);
      for (int i = 0; i < n; ++i, p += draw(rng, 1, 3)) positions.push_back(p);
      candidates.add(positions);
      last_position.push_back(p);
      for (int i = 0; i < n; ++i) {
        const int kind = draw(rng, 0, 40);
        float x = ties ? static_cast<float>(draw(rng, -3, 9)) / 8
                       : std::uniform_real_distribution<float>(-1, 1)(rng);
        if (oddities && kind == 0) x = -test::infinity;
        if (oddities && kind == 1) x = test::nan;
        if (oddities && kind == 2) x = -0.0F;
        score.push_back(x);
      }
    }
  }
  int sequences() const { return static_cast<int>(last_position.size()); }
  int longest() const { return *std::max_element(last_position.begin(), last_position.end()); }
  bytes poisoned() const { return bytes(score.size(), 9); }
};

tensor_view view_of(bytes& b, std::int64_t rows) {
  return make_view(b.data(), dtype::u8, {rows, static_cast<std::int64_t>(b.size()) / rows});
}
tensor_view view_of(indices& b, std::int64_t rows) {
  return make_view(b.data(), dtype::i32, {rows, static_cast<std::int64_t>(b.size()) / rows});
}

// accept of the reference and of the device, from the same input.
template <class F>
void same_decision(const scene& s, const ops& device, const F& decide, const std::string& what) {
  bytes want = s.poisoned(), got = s.poisoned();
  decide(reference_ops(), want.data());
  decide(device, got.data());
  device.synchronize();
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(int{got[i]}, int{want[i]}) << what << ", candidate " << i;
  }
}

TEST(device_decisions, acceptance_is_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(1);
    for (const bool ties : {true, false}) {
      const scene s(rng, lengths, ties);
      const candidate_set c = s.candidates.set();
      indices quota, block_begin;
      for (int q = 0; q < s.sequences(); ++q) {
        quota.push_back(draw(rng, -1, 80));
        block_begin.push_back(draw(rng, 0, 60));
      }
      quota[9] = 100, quota[10] = 701;
      same_decision(
          s, device,
          [&](const ops& b, std::uint8_t* a) {
            b.run(op::accept_top{c, s.score.data(), quota.data(), a});
          },
          "top");
      for (const bool strict : {false, true}) {
        for (const bool best : {false, true}) {
          for (const float threshold : {0.5F, 2.0F, -test::infinity}) {
            same_decision(
                s, device,
                [&](const ops& b, std::uint8_t* a) {
                  b.run(op::accept_threshold{c, s.score.data(), threshold, strict, best, a});
                },
                "threshold");
          }
        }
      }
      for (const float factor : {0.0F, 0.25F, 1.0F, 20.0F, 9.0F * 64}) {
        same_decision(
            s, device,
            [&](const ops& b, std::uint8_t* a) {
              b.run(op::accept_factor{c, s.score.data(), factor, a});
            },
            "factor");
      }
      for (const std::int32_t block : {1, 4, 32, 64, 300}) {
        same_decision(
            s, device,
            [&](const ops& b, std::uint8_t* a) {
              b.run(op::accept_sequential{c, block_begin.data(), block, quota.data(), a});
            },
            "sequential");
      }
    }
  });
}

TEST(device_decisions, five_thousand_candidates) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(2);
    const scene s(rng, {5000, 3}, true);
    for (const std::int32_t q : {1, 2048, 4999}) {
      const indices quota{q, q};
      same_decision(
          s, device,
          [&](const ops& b, std::uint8_t* a) {
            b.run(op::accept_top{s.candidates.set(), s.score.data(), quota.data(), a});
          },
          "top");
    }
  });
}

TEST(device_decisions, merged_flags) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(3);
    bytes a(777), b(777);
    for (auto& x : a) x = static_cast<std::uint8_t>(draw(rng, 0, 1));
    for (auto& x : b) x = static_cast<std::uint8_t>(draw(rng, 0, 1));
    for (const bool both : {false, true}) {
      bytes want = a, got = a;
      reference_ops().run(op::merge_accept{776, b.data(), both, want.data()});
      device.run(op::merge_accept{776, b.data(), both, got.data()});
      device.synchronize();
      EXPECT_EQ(got, want);
      EXPECT_EQ(got.back(), a.back());  // beyond the count
    }
  });
}

TEST(device_decisions, noise_is_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(4);
    const scene s(rng, {0, 5, 300}, false, false);
    const std::vector<std::uint64_t> seed{1, 99, 0xFFFFFFFFFFULL};
    const indices step{0, 7, 100000};
    const noise_source noise{seed.data(), step.data()};
    std::vector<float> want(s.score.size(), test::nan), got = want;
    reference_ops().run(op::uniform_scores{s.candidates.set(), noise, want.data()});
    device.run(op::uniform_scores{s.candidates.set(), noise, got.data()});
    device.synchronize();
    EXPECT_TRUE(test::same_bits(got.data(), want.data(), static_cast<std::int64_t>(want.size())));
    want = s.score;
    got = s.score;
    reference_ops().run(op::gumbel_scores{s.candidates.set(), noise, 0.3F, want.data()});
    device.run(op::gumbel_scores{s.candidates.set(), noise, 0.3F, got.data()});
    device.synchronize();
    test::expect_close(got, want, 1.2e-7, "gumbel");  // the last bit at most
  });
}

TEST(device_decisions, commit_and_history) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(5);
    const scene s(rng, lengths, true, false);
    const std::int64_t n = s.sequences(), length = s.longest() + 1;
    indices token;
    bytes accept;
    for (std::size_t i = 0; i < s.score.size(); ++i) {
      token.push_back(draw(rng, 0, 9));
      accept.push_back(static_cast<std::uint8_t>(draw(rng, 0, 1)));
    }
    for (const std::int32_t mask_id : {-1, 5}) {
      indices canvas[2], committed[2];
      bytes state[2];
      for (int i = 0; i < 2; ++i) {
        const ops& b = i == 0 ? reference_ops() : device;
        canvas[i].assign(static_cast<std::size_t>(n * length), 5);
        state[i].assign(static_cast<std::size_t>(n * length), 0);
        committed[i].assign(static_cast<std::size_t>(n), 3);
        b.run(op::commit{s.candidates.set(), token.data(), accept.data(), 2, mask_id,
                         view_of(canvas[i], n), view_of(state[i], n), committed[i].data()});
        b.synchronize();
      }
      EXPECT_EQ(canvas[0], canvas[1]);
      EXPECT_EQ(state[0], state[1]);
      EXPECT_EQ(committed[0], committed[1]);
    }
    for (const std::int64_t m : {1, 3}) {
      for (const bool replicate : {false, true}) {
        std::vector<float> want(static_cast<std::size_t>(n * length * m));
        for (float& x : want) x = static_cast<float>(draw(rng, 0, 2));
        std::vector<float> got = want;
        reference_ops().run(op::push_history{s.candidates.set(), s.score.data(), replicate,
                                             make_view(want.data(), dtype::f32, {n, length, m})});
        device.run(op::push_history{s.candidates.set(), s.score.data(), replicate,
                                    make_view(got.data(), dtype::f32, {n, length, m})});
        device.synchronize();
        EXPECT_EQ(got, want);
      }
    }
  });
}

// Every rule with every option, over scopes that cut sequences; means of tiers are summed in the
// reference's order, so that even they agree bit by bit.
TEST(device_decisions, two_centroids_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(6);
    for (int run = 0; run < 40; ++run) {
      const scene s(rng, run % 8 == 0 ? std::vector<int>{300, 0, 65} : std::vector<int>{12, 0, 40},
                    false);
      const std::int64_t length = s.longest() + 1, m = draw(rng, 1, 5);
      std::vector<float> history(static_cast<std::size_t>(3 * length * m));
      for (float& x : history) {
        x = run % 2 == 0 ? static_cast<float>(draw(rng, 1, 16)) / 16
                         : std::uniform_real_distribution<float>(0.01F, 1.0F)(rng);
        if (draw(rng, 0, 60) == 0) x = draw(rng, 0, 1) == 0 ? -test::infinity : test::nan;
      }
      const tensor_view view = make_view(history.data(), dtype::f32, {3, length, m});
      const indices rank{draw(rng, 1, 12), 2, run % 10 == 9 ? -1 : draw(rng, 0, 30)};
      const indices first{draw(rng, 0, 5), 0, 1}, limit{draw(rng, 0, 4), 1, 3};
      const indices last{s.last_position[0], 1, s.last_position[2] / 2 + 1};
      freeze_params params;
      params.rule = static_cast<freeze_rule>(run % 5);
      params.threshold = run % 3 == 0 || params.rule == freeze_rule::threshold ? 0.6F : 0.0F;
      params.clamp_weights = draw(rng, 0, 2) == 0;
      params.tier_mean = draw(rng, 0, 1) == 0;
      params.always_best = draw(rng, 0, 3) != 0;
      params.all_when_short = draw(rng, 0, 3) == 0;
      params.floor = draw(rng, 0, 3) == 0 ? 0.3F : 0.0F;
      if (draw(rng, 0, 1) == 0) {
        params.first = first.data();
        params.last = last.data();
        params.rank_all = draw(rng, 0, 1) == 0;
      }
      if (draw(rng, 0, 2) == 0) params.limit = limit.data();
      same_decision(
          s, device,
          [&](const ops& b, std::uint8_t* a) {
            b.run(op::accept_two_centroids{s.candidates.set(), view, rank.data(), params, a});
          },
          "run " + std::to_string(run));
    }
  });
}

TEST(device_decisions, retained_rows_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(7);
    for (int run = 0; run < 48; ++run) {
      scene s(rng, {0, 1, 2, draw(rng, 3, 31), 32, draw(rng, 33, 63), 64, 65, draw(rng, 66, 300)},
              run % 2 == 0, run % 8 == 0);
      for (std::size_t i = 0; i < s.candidates.row.size();
           ++i) {  // rows of a forward have gaps too
        s.candidates.row[i] = static_cast<std::int32_t>(2 * i) - draw(rng, 0, 1);
      }
      indices target, processed;
      for (int q = 0; q < s.sequences(); ++q) {
        const int n = s.candidates.begin[static_cast<std::size_t>(q) + 1] -
                      s.candidates.begin[static_cast<std::size_t>(q)];
        target.push_back(draw(rng, 0, n + 1));
        processed.push_back(draw(rng, 0, s.last_position[static_cast<std::size_t>(q)] + 1));
      }
      retain_params p;
      p.target = target.data();
      p.processed = processed.data();
      p.by_deviation = draw(rng, 0, 3) != 0;
      p.add_mean = draw(rng, 0, 1) == 0;
      p.ddof = draw(rng, 0, 2);
      p.keep_predecessors = draw(rng, 0, 1) == 0;
      p.adjacent_rows = draw(rng, 0, 1) == 0;
      p.keep_unprocessed = draw(rng, 0, 1) == 0;
      same_decision(
          s, device,
          [&](const ops& b, std::uint8_t* a) {
            b.run(op::retain{s.candidates.set(), s.score.data(), p, a});
          },
          "run " + std::to_string(run));
    }
  });
}

// Only the candidate before a chosen one stays, not the one before that: a block reads all flags of
// its tile before it changes one.
TEST(device_decisions, predecessors_do_not_chain) {
  test::for_each_device([&](const ops& device) {
    for (const int n : {60, 64, 65, 300, 900}) {
      test::candidates_fixture c;
      indices positions(static_cast<std::size_t>(n));
      std::iota(positions.begin(), positions.end(), 0);
      c.add(positions);
      std::vector<float> score;
      bytes want, accept(static_cast<std::size_t>(n), 9);
      for (int i = 0; i < n; ++i) {
        score.push_back(i % 3 == 2 ? 1.0F : 0.0F);
        want.push_back(i % 3 != 0 ? 1 : 0);
      }
      if ((n - 1) % 3 == 1) want.back() = 0;  // nothing chosen after it
      const indices target{n / 3}, processed{0};
      retain_params p;
      p.target = target.data();
      p.processed = processed.data();
      p.by_deviation = p.keep_unprocessed = false;
      device.run(op::retain{c.set(), score.data(), p, accept.data()});
      device.synchronize();
      ASSERT_EQ(accept, want) << n;
    }
  });
}

// Rows of which some are candidates; candidates that are refused leave, in place.
TEST(device_decisions, dropped_rows_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(8);
    for (const std::vector<int>& sizes :
         {std::vector<int>{}, {0}, {0, 5, 0}, {64, 1, 300, 0}, {700, 2}}) {
      test::candidates_fixture c;
      c.row.clear();
      indices begin{0}, sequence, position;
      bytes accept;
      for (std::size_t s = 0; s < sizes.size(); ++s) {
        for (int p = 0; p < sizes[s]; ++p) {
          if (draw(rng, 0, 2) != 0) {
            c.position.push_back(p);
            c.row.push_back(static_cast<std::int32_t>(position.size()));
            accept.push_back(static_cast<std::uint8_t>(draw(rng, 0, 1)));
          }
          sequence.push_back(static_cast<std::int32_t>(s));
          position.push_back(p);
        }
        begin.push_back(static_cast<std::int32_t>(position.size()));
        c.begin.push_back(static_cast<std::int32_t>(c.position.size()));
      }
      const auto n = static_cast<std::int32_t>(sizes.size());
      const auto r = static_cast<std::int32_t>(position.size());
      const row_set rows{n, r, begin.data(), sequence.data(), position.data(), nullptr};
      indices b1(begin.size(), -7), s1(position.size(), -7), p1 = s1, k1 = s1, k2 = s1;
      const std::int32_t want = reference_ops().run(
          op::drop_rows{rows, c.set(), accept.data(), b1.data(), s1.data(), p1.data(), k1.data()});
      const std::int32_t got = device.run(op::drop_rows{
          rows, c.set(), accept.data(), begin.data(), sequence.data(), position.data(), k2.data()});
      ASSERT_EQ(got, want);
      EXPECT_EQ(begin, b1);
      for (auto* list : {&sequence, &position, &k2, &s1, &p1, &k1}) {
        list->resize(static_cast<std::size_t>(want));
      }
      EXPECT_EQ(sequence, s1);
      EXPECT_EQ(position, p1);
      EXPECT_EQ(k2, k1);
    }
  });
}

TEST(device_decisions, chunks_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(9);
    for (int run = 0; run < 32; ++run) {
      const int block = std::vector<int>{4, 8, 16, 32, 64}[static_cast<std::size_t>(run % 5)];
      const int sequences = run == 0 ? 0 : draw(rng, 1, 4);
      const int length = draw(rng, 1, 6) * block;
      bytes state(static_cast<std::size_t>(std::max(sequences, 1) * length));
      for (auto& x : state) x = static_cast<std::uint8_t>(draw(rng, 0, 2));
      indices first, last, size;
      for (int s = 0; s < sequences; ++s) {
        first.push_back(draw(rng, 0, length - 1));
        last.push_back(draw(rng, first.back(), length));
        size.push_back(draw(rng, -1, length));
      }
      const chunk_params p{first.data(),         last.data(),
                           size.data(),          block,
                           draw(rng, 0, 1) == 0, static_cast<settle_rule>(draw(rng, 0, 3)),
                           draw(rng, 0, 3) != 0};
      const auto room = state.size();
      indices out[2][4];
      bytes settles[2];
      std::int32_t total[2];
      for (int i = 0; i < 2; ++i) {
        const ops& b = i == 0 ? reference_ops() : device;
        out[i][0].assign(static_cast<std::size_t>(sequences) + 1, -7);
        for (int k = 1; k < 4; ++k) out[i][k].assign(room, -7);
        settles[i].assign(room, 9);
        total[i] = b.run(op::select_chunk{sequences, view_of(state, std::max(sequences, 1)), p,
                                          out[i][0].data(), out[i][1].data(), out[i][2].data(),
                                          out[i][3].data(), settles[i].data()});
      }
      ASSERT_EQ(total[1], total[0]);
      for (int k = 0; k < 4; ++k) EXPECT_EQ(out[1][k], out[0][k]) << "list " << k;
      EXPECT_EQ(settles[1], settles[0]);
    }
  });
}

TEST(device_decisions, flags_are_the_references) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(10);
    for (int run = 0; run < 12; ++run) {
      const int length = run % 3 == 0 ? 5000 : draw(rng, 1, 200), sequences = draw(rng, 1, 3);
      const auto cells = static_cast<std::size_t>(sequences * length);
      bytes state(cells), whole;
      for (auto& x : state) x = static_cast<std::uint8_t>(draw(rng, 0, 2));
      indices first, last;
      for (int s = 0; s < sequences; ++s) {
        first.push_back(draw(rng, 0, length));
        last.push_back(draw(rng, first.back(), length));
        whole.push_back(static_cast<std::uint8_t>(draw(rng, 0, 4) == 0));
      }
      delayed_cache_params settle;
      settle.delay = draw(rng, 0, 1) == 0;
      settle.shifted = draw(rng, 0, 1) == 0;
      std::vector<int> sizes;
      for (int s = 0; s < sequences; ++s) sizes.push_back(draw(rng, 0, length));
      const test::rows_fixture rows(rng, indices(sizes.begin(), sizes.end()), length);
      bytes where(static_cast<std::size_t>(rows.set.rows) + 1);
      for (auto& x : where) x = static_cast<std::uint8_t>(draw(rng, 0, 2));
      bytes flags[2], states[2];
      for (int i = 0; i < 2; ++i) {
        const ops& b = i == 0 ? reference_ops() : device;
        flags[i].assign(cells, 9);
        states[i] = state;
        const tensor_view f = view_of(flags[i], sequences), t = view_of(states[i], sequences);
        b.run(op::scatter_flags{rows.set, where.data(), 4, f});
        b.run(op::fill_flags{sequences, first.data(), last.data(), 7, f});
        b.run(op::mark_kv_final{sequences, t, first.data(), last.data(), run % 2 == 0, f});
        b.synchronize();
      }
      ASSERT_EQ(flags[1], flags[0]) << "run " << run;
      for (int i = 0; i < 2; ++i) {
        const ops& b = i == 0 ? reference_ops() : device;
        const tensor_view f = view_of(flags[i], sequences), t = view_of(states[i], sequences);
        b.run(op::advance_delayed_cache{t, settle, first.data(), last.data(), whole.data(), f});
        b.run(op::scatter_flags{rows.set, nullptr, 3, f});
        b.synchronize();
      }
      ASSERT_EQ(flags[1], flags[0]) << "run " << run;
      ASSERT_EQ(states[1], states[0]) << "run " << run;
    }
  });
}

TEST(device_decisions, scores_are_combined_and_rounded_as_in_the_reference) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(11);
    std::vector<float> a = test::random_vector(rng, 1001), b = test::random_vector(rng, 1001);
    a[3] = test::infinity;
    for (const bool two : {true, false}) {
      std::vector<float> want(1001, test::nan), got = want;
      const float* second = two ? b.data() : nullptr;
      reference_ops().run(op::combine_scores{1001, a.data(), 0.37F, second, -1.3F, want.data()});
      device.run(op::combine_scores{1001, a.data(), 0.37F, second, -1.3F, got.data()});
      device.synchronize();
      EXPECT_TRUE(test::same_bits(got.data(), want.data(), 1001));
      std::vector<float> own = a;  // out may be a
      device.run(op::combine_scores{1001, own.data(), 0.37F, second, -1.3F, own.data()});
      device.synchronize();
      EXPECT_TRUE(test::same_bits(own.data(), want.data(), 1001));
    }
    std::vector<float> want = a, got = a;
    reference_ops().run(op::round_bf16{1001, want.data()});
    device.run(op::round_bf16{1001, got.data()});
    device.synchronize();
    EXPECT_TRUE(test::same_bits(got.data(), want.data(), 1001));
  });
}

}  // namespace
}  // namespace unmask
