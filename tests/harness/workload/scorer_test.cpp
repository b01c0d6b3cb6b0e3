// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorer.h"

#include "harness/base/text.h"
#include "tests/harness/workload/support.h"

namespace unmask::test {
namespace {

TEST(scorers, every_reference_answer_is_right) {
  for (const char* family : families) {
    for (const task_item& item : read_tasks(shipped(family))) {
      const score got = score_answer(item, item.answer);
      const bool scored = item.scorer != "none";
      EXPECT_EQ(got.scored, scored) << item.id;
      EXPECT_EQ(got.value, scored ? 1.0 : 0.0) << item.id << ": " << got.note;
      EXPECT_EQ(got.exact, scored) << item.id;
      // White space around an answer is never an error.
      EXPECT_EQ(score_answer(item, " \n" + item.answer + "\n").exact, scored) << item.id;
    }
  }
}

// Ways to spoil a right answer; what is not spoiled for a scorer is left out below.
TEST(scorers, spoiled_reference_answers_are_wrong) {
  for (const char* family : families) {
    for (const task_item& item : read_tasks(shipped(family))) {
      if (item.scorer == "none") continue;
      EXPECT_FALSE(score_answer(item, "").exact) << item.id;
      EXPECT_FALSE(score_answer(item, "nonsense").exact) << item.id;
      if (item.scorer == "final_number") {
        EXPECT_EQ(score_answer(item, item.answer + "0").value, item.answer.ends_with(" 0"))
            << item.id;
        EXPECT_EQ(score_answer(item, py::replace_all(item.answer, "####", "")).value, 0) << item.id;
      } else if (item.scorer == "contains") {
        EXPECT_EQ(score_answer(item, py::replace_all(item.answer, "is ", "is 1")).value, 0)
            << item.id;
      } else {
        // Constraints say nothing about a word at the end of the last item.
        const bool loose = item.scorer == "constraints";
        EXPECT_TRUE(loose || !score_answer(item, item.answer + " word").exact) << item.id;
        EXPECT_FALSE(score_answer(item, "word " + item.answer).exact) << item.id;
      }
    }
  }
}

struct scored_case {
  const char* output;
  bool right;
};

void expect_all(const task_item& item, std::initializer_list<scored_case> cases) {
  for (const scored_case& c : cases) {
    const score got = score_answer(item, c.output);
    EXPECT_TRUE(got.scored);
    EXPECT_EQ(got.value, c.right ? 1.0 : 0.0) << item.scorer << " of \"" << c.output << "\"";
    EXPECT_EQ(got.exact, c.right);
    EXPECT_EQ(got.note.empty(), c.right) << got.note;
  }
}

TEST(scorers, final_number) {
  expect_all(item_of("final_number", "", R"({"value": 44})"),
             {{"#### 44", true},
              {"2*6=12 ####44", true},
              {"#### 044", true},
              {"#### 44 coins", true},
              {"#### 44.5", true},  // as the definition: only the leading integer counts
              {"#### 1 #### 44", true},
              {"####\n44", true},
              {"#### \xC2\xA0"
               "44",
               true},
              {"#### 44 #### 1", false},
              {"#### 45", false},
              {"#### 43", false},
              {"#### -44", false},
              {"#### +44", false},
              {"#### 4 4", false},
              {"#### $44", false},
              {"#### x44", false},
              {"### 44", false},
              {"44", false},
              {"####", false},
              {"#### 440000000000000000000000000000", false},
              {"", false}});
  expect_all(item_of("final_number", "", R"({"value": 0})"),
             {{"#### 0", true}, {"#### -0", true}, {"#### 000", true}, {"#### -", false}});
  expect_all(item_of("final_number", "", R"({"value": -7})"),
             {{"#### -7", true}, {"#### -07", true}, {"#### 7", false}, {"#### - 7", false}});
}

TEST(scorers, list_program) {
  const task_item item = item_of("list_program", "sort | take 2",
                                 R"({"inputs": [[3, 1, 2], [5]], "outputs": [[1, 2], [5]]})");
  expect_all(item, {{"sort | take 2", true},
                    {" sort|take 02 ", true},
                    {"negate | sort | reverse | negate | take 2", true},
                    {"square | square | square | square | square | square | count", false},
                    {"take 2 | sort", false},
                    {"sort | take 3", false},
                    {"sort | reverse | take 2", false},
                    {"sort | take 2 | sum", false},
                    {"sort | take 2 |", false},
                    {"sort take 2", false},
                    {"Sort | take 2", false},
                    {"", false}});
  // A one-item list is not a number.
  expect_all(item_of("list_program", "", R"({"inputs": [[5]], "outputs": [5]})"),
             {{"sum", true}, {"sort", false}});
}

TEST(scorers, exact_contains_and_none) {
  expect_all(item_of("exact", "Found: lake -> black ", "{}"), {{"Found: lake -> black", true},
                                                               {"\nFound: lake -> black", true},
                                                               {"Found: lake -> black.", false},
                                                               {"found: lake -> black", false},
                                                               {"Found: lake  -> black", false}});
  expect_all(item_of("contains", "", R"({"text": "807"})"), {{"The code is 807.", true},
                                                             {"a807b", true},
                                                             {"18070 807", true},
                                                             {"1807", false},
                                                             {"8070", false},
                                                             {"80 7", false},
                                                             {"", false}});
  EXPECT_FALSE(score_answer(item_of("none", "x", "{}"), "x").scored);
}

TEST(scorers, errors) {
  expect_error(exit_code::usage, "did you mean longbench?",
               [] { score_answer(item_of("longbenc", "", "{}"), ""); });
  expect_error(exit_code::environment, "task case, check: `value` is missing",
               [] { score_answer(item_of("final_number", "", "{}"), "#### 1"); });
  expect_error(exit_code::environment, "`text` is missing",
               [] { score_answer(item_of("contains", "", "{}"), ""); });
  expect_error(exit_code::environment, "not valid JSON",
               [] { score_answer(item_of("exact", "", "{"), ""); });
}

TEST(scorers, broken_utf8_is_wrong_but_not_fatal) {
  for (const char* family : families) {
    const task_item item = read_tasks(shipped(family)).front();
    for (const char* bytes : {"\xFF", "\xE2\x84", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80"}) {
      EXPECT_FALSE(score_answer(item, bytes).exact) << item.id;
    }
  }
}

}  // namespace
}  // namespace unmask::test
