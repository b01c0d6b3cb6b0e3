// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/group.h"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "harness/base/files.h"
#include "harness/base/ranks/memory.h"
#include "harness/base/ranks/shots.h"
#include "tests/rank_threads.h"
#include "tests/support.h"

namespace unmask {
namespace {

using test::transport_kind;

// What every transport does alike.
class rank_groups : public ::testing::TestWithParam<transport_kind> {
 protected:
  static std::vector<std::string> on_ranks(int count, const std::function<void(rank_group&)>& body,
                                           double patience = 60) {
    return test::on_ranks(count, body, patience, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(by, rank_groups, ::testing::ValuesIn(test::every_transport),
                         [](const auto& i) { return test::transport_name(i.param); });

std::vector<std::string> none(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

// Byte i of rank r is 7 r + i: what every rank must find, whatever the length, also of several areas.
TEST_P(rank_groups, gather_brings_the_bytes_of_all_in_their_order) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const auto threw = on_ranks(ranks, [&](rank_group& group) {
      EXPECT_EQ(group.size(), ranks);
      EXPECT_EQ(group.machines(), 1);
      EXPECT_EQ(group.transport(), GetParam() == transport_kind::memory ? "shared memory" : "TCP");
      for (const std::size_t n : {std::size_t{1}, std::size_t{8}, std::size_t{4097},
                                  (std::size_t{1} << 20) - 1, (std::size_t{5} << 18) + 3}) {
        const auto byte = [](int r, std::size_t i) {
          return static_cast<unsigned char>(7 * static_cast<std::size_t>(r) + i);
        };
        std::vector<unsigned char> mine(n), all(n * static_cast<std::size_t>(ranks));
        for (std::size_t i = 0; i < n; ++i) mine[i] = byte(group.rank(), i);
        group.gather(mine.data(), n, all.data());
        std::size_t wrong = 0;
        for (int r = 0; r < ranks; ++r) {
          for (std::size_t i = 0; i < n; ++i) {
            wrong += all[static_cast<std::size_t>(r) * n + i] == byte(r, i) ? 0 : 1;
          }
        }
        EXPECT_EQ(wrong, 0U) << ranks << " ranks, " << n << " bytes";
      }
      EXPECT_EQ(group.moves(), 6U);  // the last one took two
      EXPECT_EQ(group.received(),
                static_cast<std::uint64_t>(ranks - 1) *
                    (1 + 8 + 4097 + (std::uint64_t{1} << 20) - 1 + (std::uint64_t{5} << 18) + 3));
    });
    EXPECT_EQ(threw, none(ranks));
  }
}

// Byte i of rank r is 7 r + i again: each rank finds its stretch of all, whatever the length, also where a
// stretch goes over the end of an area, is shorter than others or empty.
TEST_P(rank_groups, deal_brings_a_stretch_of_the_bytes_of_all) {
  struct length {
    std::size_t bytes, stretch;
  };
  const std::vector<length> lengths = {
      {1, 1}, {10, 4}, {40, 8}, {4097, 1025}, {(std::size_t{5} << 18) + 3, std::size_t{3} << 17}};
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const auto threw = on_ranks(ranks, [&](rank_group& group) {
      std::uint64_t received = 0;
      for (const length& l : lengths) {
        const auto byte = [](int r, std::size_t i) {
          return static_cast<unsigned char>(7 * static_cast<std::size_t>(r) + i);
        };
        const std::size_t first = l.stretch * static_cast<std::size_t>(group.rank());
        const std::size_t end = std::min(l.bytes, first + l.stretch);
        std::vector<unsigned char> mine(l.bytes),
            all(l.stretch * static_cast<std::size_t>(ranks), 200);
        for (std::size_t i = 0; i < l.bytes; ++i) mine[i] = byte(group.rank(), i);
        group.deal(mine.data(), l.bytes, l.stretch, all.data());
        std::size_t wrong = 0;
        for (int r = 0; r < ranks; ++r) {
          for (std::size_t i = 0; i < l.stretch; ++i) {
            const unsigned char want = first + i < end ? byte(r, first + i) : 200;
            wrong += all[static_cast<std::size_t>(r) * l.stretch + i] == want ? 0 : 1;
          }
        }
        EXPECT_EQ(wrong, 0U) << ranks << " ranks, " << l.bytes << " bytes";
        received += first < end ? (end - first) * static_cast<std::size_t>(ranks - 1) : 0;
      }
      EXPECT_EQ(group.moves(), 6U);  // the last one took two
      EXPECT_EQ(group.received(), received);
      EXPECT_EQ(group.traffic().bytes, received);
      EXPECT_EQ(group.traffic().calls, lengths.size());
    });
    EXPECT_EQ(threw, none(ranks));
  }
}

// By hand: 100 numbers of 4 bytes are 400. Four ranks receive 3 x 400, or 3 stretches of 32 and then 3 sums
// of 32, 768; the last rank's stretch has 4. Of 2-byte numbers 600, or 3 x 32 x (2 + 4).
TEST(ranks, sums_take_two_shots_if_they_are_large_and_move_less) {
  const rank_sum floats{100, 4, 4}, halves{100, 2, 4};
  EXPECT_EQ(floats.stretch(), 32);
  EXPECT_EQ(floats.count(0), 32);
  EXPECT_EQ(floats.count(3), 4);
  EXPECT_EQ(floats.first(3), 96);
  EXPECT_EQ(bytes_in_one_shot(100, 4, 4), 1200);
  EXPECT_EQ(bytes_in_two_shots(4 * 32, 4, 4), 768);
  EXPECT_TRUE(floats.takes_two_shots(399));
  EXPECT_FALSE(floats.takes_two_shots(400));
  EXPECT_TRUE(halves.takes_two_shots(199));  // 576 bytes, not 600
  EXPECT_FALSE(halves.takes_two_shots(200));
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{1} << 40}) {
    EXPECT_FALSE((rank_sum{n, 4, 1}.takes_two_shots(0)));
    EXPECT_FALSE((rank_sum{n, 4, 2}.takes_two_shots(0)));
    EXPECT_FALSE((rank_sum{n, 2, 3}.takes_two_shots(0)));
    EXPECT_EQ((rank_sum{n, 4, 3}.takes_two_shots(0)), n > 1) << n;
    EXPECT_EQ((rank_sum{n, 2, 4}.takes_two_shots(0)), n > 1) << n;
  }
  // More ranks than stretches: the last ones have nothing to add.
  const rank_sum few{20, 4, 5};
  EXPECT_EQ(few.count(1), 8);
  EXPECT_EQ(few.count(2), 4);
  EXPECT_EQ(few.count(3), 0);
  EXPECT_EQ(few.count(4), 0);
}

TEST_P(rank_groups, take_numbers_and_texts_of_the_first_and_of_all) {
  const auto threw = on_ranks(3, [](rank_group& group) {
    EXPECT_EQ(group.from_first(0.5 + group.rank()), 0.5);
    EXPECT_EQ(group.from_first(std::string(group.rank() == 0 ? "plan" : "another")), "plan");
    EXPECT_EQ(group.from_first(std::string()), "");
    const std::vector<std::string> all =
        group.gather(std::string(static_cast<std::size_t>(2 * group.rank()), 'x'));
    EXPECT_EQ(all, (std::vector<std::string>{"", "xx", "xxxx"}));
  });
  EXPECT_EQ(threw, none(3));
}

// Length and bytes of a text come from another rank: no more memory is taken than a text may have.
TEST_P(rank_groups, refuse_texts_that_are_too_large) {
  const std::string large(rank_group::largest_text + 1, 'x');
  const auto of_all = on_ranks(
      2, [&](rank_group& group) { group.gather(group.rank() == 1 ? large : std::string("plan")); });
  const auto of_first = on_ranks(
      2, [&](rank_group& group) { group.from_first(group.rank() == 0 ? large : std::string()); });
  for (int r = 0; r < 2; ++r) {
    const auto at = static_cast<std::size_t>(r);
    EXPECT_EQ(of_all[at],
              "rank 1 has a text of 67108865 bytes for the others: at most 67108864 can be sent");
    EXPECT_EQ(of_first[at],
              "rank 0 has a text of 67108865 bytes for the others: at most 67108864 can be sent");
  }
}

// A thousand moves in a row: a rank that is ahead never overwrites what another still reads.
TEST_P(rank_groups, read_each_move_before_the_one_after_next_begins) {
  const auto threw = on_ranks(4, [](rank_group& group) {
    for (int i = 0; i < 1000; ++i) {
      const int mine = 1000 * group.rank() + i;
      std::array<int, 4> all{};
      group.gather(&mine, sizeof mine, all.data());
      ASSERT_EQ(all, (std::array<int, 4>{i, 1000 + i, 2000 + i, 3000 + i}));
    }
  });
  EXPECT_EQ(threw, none(4));
}

TEST_P(rank_groups, name_who_did_not_answer) {
  const auto threw = on_ranks(
      3,
      [](rank_group& group) {
        group.from_first(1.0);
        if (group.rank() == 1) return;  // it lives and does not come
        group.from_first(2.0);
      },
      0.2);
  const std::string words =
      "rank 1 did not answer within 0.2 s while ranks 0, 2 waited (UNMASK_RANKS_PATIENCE sets the "
      "seconds)";
  EXPECT_EQ(threw, (std::vector<std::string>{words, "", words}));
}

// Moves that devices make: told apart by how many a rank has queued.
TEST_P(rank_groups, name_whose_device_did_not_come_or_did_not_finish) {
  const auto threw = on_ranks(
      3,
      [](rank_group& group) {
        group.count_on_device(group.rank() == 1 ? 4 : 5, 100);
        group.gather(std::string());
        EXPECT_EQ(group.traffic().bytes, 100U);
        EXPECT_EQ(group.traffic().calls, group.rank() == 1 ? 4U : 5U);
        group.look_around(0.9);
        group.gather(std::string());
        if (group.rank() == 0) group.look_around(1);
        for (;;) group.look_around(0);
      },
      1);
  EXPECT_EQ(threw, std::vector<std::string>(
                       3,
                       "rank 1 did not come to move 5 of the devices within 1 s while ranks 0, 2 "
                       "waited (UNMASK_RANKS_PATIENCE sets the seconds)"));
  const auto late = on_ranks(
      2,
      [](rank_group& group) {
        group.count_on_device(7, 0);
        group.gather(std::string());
        group.look_around(1);
      },
      1);
  for (const std::string& said : late) {
    EXPECT_EQ(said,
              "move 7 of the devices did not end within 1 s, to which all ranks have come "
              "(UNMASK_RANKS_PATIENCE sets the seconds)");
  }
}

TEST_P(rank_groups, hear_who_failed_and_move_nothing_any_more) {
  const auto threw = on_ranks(2, [](rank_group& group) {
    if (group.rank() == 1) group.give_up("rank 1: no memory is left");
    EXPECT_THROW(group.from_first(1.0), rank_failure);
    EXPECT_EQ(group.failure(), "rank 1: no memory is left");
    group.from_first(1.0);
  });
  EXPECT_EQ(threw, (std::vector<std::string>(2, "rank 1: no memory is left")));
}

TEST_P(rank_groups, ask_who_watches_them_why_one_has_ended) {
  const auto threw = on_ranks(2, [](rank_group& group) {
    if (group.rank() == 1) return;
    group.watch([](int rank) { return rank == 1 ? std::string("rank 1 is gone") : std::string(); });
    group.from_first(1.0);
  });
  EXPECT_EQ(threw.front(), "rank 1 is gone");
}

TEST(ranks_by_memory, are_there_once) {
  const auto memory = rank_memory::create(2);
  const rank_group first(memory, 0);
  EXPECT_EQ(test::message_of([&] { rank_group again(memory, 0); }),
            "ranks: rank 0 of 2 is there already");
}

// A waiting rank sleeps in the kernel: a second of waiting takes next to no time of a core.
TEST_P(rank_groups, wait_without_work) {
  const auto used = [] {
    rusage of{};
    getrusage(RUSAGE_THREAD, &of);
    return static_cast<double>(of.ru_utime.tv_sec + of.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(of.ru_utime.tv_usec + of.ru_stime.tv_usec);
  };
  double worked = 1;
  on_ranks(2, [&](rank_group& group) {
    if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    const double before = used();
    group.from_first(1.0);
    if (group.rank() == 1) worked = used() - before;
  });
  EXPECT_LT(worked, 0.06);
}

TEST(ranks_by_memory, refuse_memory_that_is_none_of_theirs) {
  const scratch_folder folder;
  const std::string other = (folder.path() / "other").string();
  std::ofstream(other) << std::string(1 << 17, 'x');
  EXPECT_EQ(test::message_of([&] { rank_memory::open(other); }),
            "ranks: " + other + " is no memory of ranks of this program");
  EXPECT_EQ(test::message_of([&] { rank_memory::open(other + "-not"); }),
            "ranks: shared memory " + other + "-not is not there: No such file or directory");
  const auto memory = rank_memory::create(3);
  EXPECT_EQ(rank_memory::open(memory->file())->ranks(), 3);
}

TEST(ranks_by_memory, patience_is_a_number_of_seconds) {
  setenv("UNMASK_RANKS_PATIENCE", "soon", 1);
  const auto memory = rank_memory::create(1);
  EXPECT_EQ(test::message_of([&] { rank_group group(memory, 0); }),
            "UNMASK_RANKS_PATIENCE is 'soon' but must be a number of seconds from 0 (for ever) on");
  setenv("UNMASK_RANKS_PATIENCE", "2.5", 1);
  EXPECT_EQ(rank_group(rank_memory::create(1), 0).patience(), 2.5);
  unsetenv("UNMASK_RANKS_PATIENCE");
  EXPECT_EQ(ranks_patience(), 60);
  EXPECT_EQ(ranks_loading_patience(), 600);
  setenv("UNMASK_RANKS_LOADING_PATIENCE", "1200", 1);
  EXPECT_EQ(ranks_loading_patience(), 1200);
  unsetenv("UNMASK_RANKS_LOADING_PATIENCE");
}

}  // namespace
}  // namespace unmask
