// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The registry of operations, and operations whose batch is a list of candidates under the rules
// that all are held to (operation_test.h).
#include <gtest/gtest-spi.h>

#include <set>

#include "kernels/decisions.h"
#include "methods/baselines/block_diffusion/kernels/acceptance.h"
#include "methods/baselines/vanilla/kernels/acceptance.h"
#include "tests/kernels/operation_test.h"

namespace unmask {
namespace op {

struct twice {
  using result = std::int32_t;
  std::int32_t x = 0;
};
struct nowhere {};

}  // namespace op
namespace {

std::int32_t twice(const op::twice& args) {
  return 2 * args.x;
}
const register_operations<twice> registered(target::reference);

TEST(operations, have_a_definition_and_a_kernel) {
  std::set<std::string> names;
  for (const operation_entry& o : registered_operations()) {
    if (o.name == "twice") continue;
    names.insert(o.name);
    EXPECT_TRUE(o.has[static_cast<std::size_t>(target::reference)]) << o.name;
    EXPECT_TRUE(o.has[static_cast<std::size_t>(target::cuda_emulated)]) << o.name;
  }
  for (const char* name : {"attention", "compact", "retain", "select_chunk", "mark_top"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

// The CPU backend falls back on the definition; a GPU cannot, and says what it lacks.
TEST(operations, without_a_body_are_refused_by_name) {
  EXPECT_EQ(reference_ops().run(op::twice{21}), 42);
  EXPECT_EQ(cpu_ops().run(op::twice{21}), 42);
  const auto refusal = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([] { cuda_emulated_ops().run(op::twice{21}); }),
            "backend cuda-emulated has no kernel for twice yet; use the cpu backend");
  EXPECT_NE(refusal([] { reference_ops().run(op::nowhere{}); }).find("nowhere"), std::string::npos);
}

TEST(operations, have_one_body_for_a_backend) {
  EXPECT_THROW(register_operations<twice>(target::reference), std::logic_error);
  EXPECT_TRUE(has_own<op::accept_top>(cpu_ops()));
  EXPECT_FALSE(has_own<op::commit>(cpu_ops()));
}

// Candidates with scores of many ties, of a sequence that only its number decides.
struct scored {
  candidate_set candidates;
  const float* score;
  const std::int32_t* quota;
  std::vector<std::int64_t> counts;
  noise_source noise;
  scored(test::operands& at, const std::vector<int>& sequences) {
    std::vector<std::int32_t> begin{0}, position, few, step;
    std::vector<float> scores;
    std::vector<std::uint64_t> seed;
    for (const int s : sequences) {
      std::mt19937 rng(static_cast<unsigned>(s));
      counts.push_back(s * 29 % 150);  // none, within a warp, within a word, longer
      for (std::int64_t c = 0; c < counts.back(); ++c) {
        position.push_back(static_cast<std::int32_t>(3 * c + s));
        const auto level = static_cast<float>(rng() % 12);
        scores.push_back(level == 0 ? test::nan : level == 1 ? -test::infinity : (level - 2) / 8);
      }
      begin.push_back(static_cast<std::int32_t>(position.size()));
      few.push_back(s % 4 * 5);
      seed.push_back(static_cast<std::uint64_t>(s) * 77 + 1);
      step.push_back(s);
    }
    candidates = {static_cast<std::int32_t>(sequences.size()), begin.back(), at.in(begin),
                  at.in(position), at.in(position)};
    score = at.in(scores);
    quota = at.in(few);
    noise = {at.in(seed), at.in(step)};
  }
};

TEST(operations, of_candidates_keep_the_rules) {
  using operands = test::operands;
  using batch = std::vector<int>;
  test::check_operation([](operands& at, const batch& sequences) {
    const scored s(at, sequences);
    return op::accept_top{s.candidates, s.score, s.quota, at.out<std::uint8_t>(s.counts)};
  });
  for (const bool strict : {false, true}) {
    test::check_operation([&](operands& at, const batch& sequences) {
      const scored s(at, sequences);
      return op::accept_threshold{s.candidates, s.score, 0.5F,
                                  strict,       !strict, at.out<std::uint8_t>(s.counts)};
    });
  }
  test::check_operation([](operands& at, const batch& sequences) {
    const scored s(at, sequences);
    return op::accept_factor{s.candidates, s.score, 1.0F, at.out<std::uint8_t>(s.counts)};
  });
  test::check_operation([](operands& at, const batch& sequences) {
    const scored s(at, sequences);
    return op::accept_sequential{s.candidates,
                                 at.in(std::vector<std::int32_t>(sequences.size(), 9)), 64, s.quota,
                                 at.out<std::uint8_t>(s.counts)};
  });
  test::check_operation([](operands& at, const batch& sequences) {
    const scored s(at, sequences);
    return op::uniform_scores{s.candidates, s.noise, at.out<float>(s.counts)};
  });
}

// The check itself fails where a result depends on the batch.
TEST(operations, that_depend_on_the_batch_are_found) {
  const auto whole_batch = [](test::operands& at, const std::vector<int>& sequences) {
    const scored s(at, sequences);
    auto* accept = at.out<std::uint8_t>(s.counts);
    candidate_set as_one = s.candidates;  // the quota of the first, for everybody
    as_one.sequences = 1;
    as_one.begin = at.in(std::vector<std::int32_t>{0, s.candidates.count});
    return op::accept_top{as_one, s.score, s.quota, accept};
  };
  ::testing::TestPartResultArray failures;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
    test::check_operation(whole_batch);
  }
  EXPECT_GT(failures.size(), 0);
}

}  // namespace
}  // namespace unmask
