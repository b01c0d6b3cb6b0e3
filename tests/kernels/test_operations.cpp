// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The registry of operations, and each operation under the rules that all are held to
// (operation_test.h).
#include <gtest/gtest-spi.h>

#include <algorithm>
#include <set>

#include "kernels/decisions.h"
#include "tests/kernels/scenes.h"
#include "tests/support.h"

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
  EXPECT_EQ(reference_backend().run(op::twice{21}), 42);
  EXPECT_EQ(cpu_backend().run(op::twice{21}), 42);
  EXPECT_EQ(test::message_of([] { cuda_emulated_backend().run(op::twice{21}); }),
            "backend cuda-emulated has no kernel for twice yet; use the cpu backend");
  EXPECT_NE(test::message_of([] { reference_backend().run(op::nowhere{}); }).find("nowhere"),
            std::string::npos);
}

TEST(operations, have_one_body_for_a_backend) {
  EXPECT_THROW(register_operations<twice>(target::reference), std::logic_error);
  EXPECT_TRUE(has_own<op::accept_top>(cpu_backend()));
  EXPECT_FALSE(has_own<op::commit>(cpu_backend()));
}

// What is declared in shapes_*.cpp and beside the operations of methods, operation by operation.
class operation : public ::testing::TestWithParam<std::string> {};
std::vector<std::string> names_of_declared() {
  std::set<std::string> names;
  for (const test::declared_operation& o : test::declared_operations()) names.insert(o.name);
  return {names.begin(), names.end()};
}
INSTANTIATE_TEST_SUITE_P(each, operation, ::testing::ValuesIn(names_of_declared()),
                         [](const auto& i) { return i.param; });

TEST_P(operation, keeps_the_rules_with_every_shape) {
  int shapes = 0;
  for (const test::declared_operation& o : test::declared_operations()) {
    if (o.name != GetParam()) continue;
    SCOPED_TRACE("shapes " + std::to_string(++shapes) + " that are declared for it");
    o.check();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(operations, have_shapes_to_be_tested_with) {
  std::vector<std::string> known;
  for (const operation_entry& o : registered_operations()) {
    if (o.name != "twice") known.push_back(o.name);
  }
  const std::vector<std::string> declared = names_of_declared();
  for (const std::string& name : known) {
    EXPECT_TRUE(std::ranges::find(declared, name) != declared.end())
        << name << " has no declared shapes: add them to its cases.cpp (methods/ADDING.md)";
  }
  for (const std::string& name : declared) {
    EXPECT_TRUE(std::ranges::find(known, name) != known.end())
        << name << " has declared shapes, and no operation has this name";
  }
}

// A list of int32, rows of flags, numbers: the second sequence differs in its third element.
TEST(operations, name_the_first_element_that_differs) {
  const auto told = [](const auto& make) {
    test::operands a(reference_backend()), b(reference_backend());
    make(a, 0), make(b, 1);
    EXPECT_EQ(test::first_difference(a.of(0)[0], b.of(0)[0], 0), "");
    return test::first_difference(a.of(1)[0], b.of(1)[0], 0);
  };
  EXPECT_EQ(told([](test::operands& at, int second) {
              at.inout<std::int32_t>({2, 4}, {1, 2, 3, 4, second == 0 ? 5 : -7, 6});
            }),
            "candidate (row or entry) 2 of 4: 5, not -7");
  EXPECT_EQ(told([](test::operands& at, int second) {
              const auto flag = static_cast<std::uint8_t>(second);
              at.out_rows<std::uint8_t>({1, 2}, {2}, 0, {1, 1, 0, 1, flag, 1});
            }),
            "candidate (row or entry) 1 of 2, element 0: 0, not 1");
  EXPECT_EQ(told([](test::operands& at, int second) {
              std::vector<float> rows(3 * 2 * 2, 1.0F);
              rows[10] = second == 0 ? 2.0F : 1.0F;
              at.out_rows<float>({1, 2}, {2, 2}, 1, rows);
            }),
            "candidate (row or entry) 1 of 2, head (or expert) 1 of 2, element 0: 2, not 1");
  EXPECT_EQ(told([](test::operands& at, int second) {
              at.inout<float>({1, 3}, {1, 2, 3, second == 0 ? 0.5F : 0.25F});
            }),
            "candidate (row or entry) 2 of 3: 0.5, not 0.25");
  EXPECT_EQ(told([](test::operands& at, int second) {
              at.inout<std::int32_t>({1, second}, std::vector<std::int32_t>(1U + second, 1));
            }),
            "0 elements, not 1");
}

// The check itself fails where a result depends on the batch.
TEST(operations, that_depend_on_the_batch_are_found) {
  const auto whole_batch = [](test::operands& at, const std::vector<int>& sequences) {
    const test::scene s(at, sequences);
    auto* accept = at.out<std::uint8_t>(s.n);
    candidate_set as_one = s.candidates;  // the quota of the first, for everybody
    as_one.sequences = 1;
    as_one.begin = at.in(std::vector<std::int32_t>{0, s.candidates.count});
    return op::accept_top{as_one, s.score, at.in(test::indices(sequences.size(), 5)), accept};
  };
  ::testing::TestPartResultArray failures;
  {
    ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
    test::check_operation(whole_batch);
  }
  ASSERT_GT(failures.size(), 0);
  // It says on which shapes: those of the batch, or of one sequence alone.
  std::string said;
  for (int i = 0; i < failures.size(); ++i) said += failures.GetTestPartResult(i).message();
  EXPECT_NE(said.find("of the operation on "), std::string::npos) << said;
  EXPECT_NE(said.find("int32 "), std::string::npos) << said;
}

}  // namespace
}  // namespace unmask
