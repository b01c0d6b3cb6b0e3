// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/list_language.h"

#include "tests/harness/workload/support.h"

namespace unmask::test {
namespace {

using numbers = std::vector<std::int64_t>;

TEST(list_language, every_operation) {
  const numbers input = {3, -2, 7, 3, 0};
  const std::pair<const char*, numbers> lists[] = {{"sort", {-2, 0, 3, 3, 7}},
                                                   {"reverse", {0, 3, 7, -2, 3}},
                                                   {"double", {6, -4, 14, 6, 0}},
                                                   {"square", {9, 4, 49, 9, 0}},
                                                   {"negate", {-3, 2, -7, -3, 0}},
                                                   {"unique", {3, -2, 7, 0}},
                                                   {"evens", {-2, 0}},
                                                   {"odds", {3, 7, 3}},
                                                   {"take 2", {3, -2}},
                                                   {"take 0", {}},
                                                   {"take 99", input},
                                                   {"take 99999999999999999999999", input},
                                                   {"drop 2", {7, 3, 0}},
                                                   {"drop 99999999999999999999999", {}},
                                                   {"add 010", {13, 8, 17, 13, 10}},
                                                   {"above 0", {3, 7, 3}},
                                                   {"negate | odds | take 1", {-3}}};
  for (const auto& [program, expected] : lists) {
    EXPECT_EQ(run_list_program(program, input), (list_result{true, expected, ""})) << program;
  }
  const std::pair<const char*, std::int64_t> reducers[] = {
      {"sum", 11},         {"max", 7},          {"min", -2},        {"count", 5},
      {"take 0 | max", 0}, {"take 0 | min", 0}, {"take 0 | sum", 0}};
  for (const auto& [program, expected] : reducers) {
    EXPECT_EQ(run_list_program(program, input), (list_result{false, {expected}, ""})) << program;
  }
}

TEST(list_language, refuses_what_is_no_program) {
  for (const char* program :
       {"", " ", "|", "sort |", "| sort", "sort || sort", "foo", "take", "take 1 2", "take -1",
        "take x", "take 1.5", "sort 1", "sum 1", "sum | sort",
        "sort\xC2\xA0"
        "x",
        "take \xD9\xA1"}) {
    EXPECT_FALSE(run_list_program(program, {1, 2}).problem.empty()) << program;
  }
  EXPECT_TRUE(run_list_program("sort\xC2\xA0|\ttake\xE3\x80\x80"
                               "1",
                               {2, 1})
                  .problem.empty());
}

TEST(list_language, numbers_grow_past_64_bits_on_the_way) {
  std::string program = "square";
  for (int i = 0; i < 9; ++i) program += " | square";
  EXPECT_EQ(run_list_program(program + " | count", {20, 3}), (list_result{false, {2}, ""}));
  EXPECT_EQ(run_list_program(program + " | odds | count", {20, 3}), (list_result{false, {1}, ""}));
  EXPECT_EQ(run_list_program(program + " | negate | above 0", {20}), (list_result{true, {}, ""}));
  EXPECT_FALSE(run_list_program(program, {20}).problem.empty());  // the result does not fit
  EXPECT_EQ(run_list_program(program, {1, 0}), (list_result{true, {1, 0}, ""}));
}

TEST(list_language, hostile_programs_end_quickly) {
  std::string squares = "square";
  for (int i = 0; i < 500; ++i) squares += " | square";
  EXPECT_FALSE(run_list_program(squares, numbers(1000, 7)).problem.empty());
  std::string sorts = "sort";
  for (int i = 0; i < 2000; ++i) sorts += "|sort";
  EXPECT_FALSE(run_list_program(sorts, {1}).problem.empty());
  EXPECT_FALSE(run_list_program("add " + std::string(100000, '9'), {1}).problem.empty());
}

TEST(list_language, a_broken_check_is_an_error) {
  const auto fails = [](const char* check, const char* part) {
    expect_error(exit_code::environment, part,
                 [&] { score_answer(item_of("list_program", "", check), "sort"); });
  };
  fails(R"({"outputs": []})", "`inputs` is missing");
  fails(R"({"inputs": [[1]], "outputs": []})", "`outputs` must be an array");
  fails(R"({"inputs": [["a"]], "outputs": [[1]]})", "`inputs` must hold integers");
  fails(R"({"inputs": [[1]], "outputs": ["a"]})", "`outputs` must hold integers");
}

}  // namespace
}  // namespace unmask::test
