// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorer.h"
#include "harness/base/text.h"

#include "harness/workload/constraints.h"
#include "harness/workload/list_language.h"
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
        EXPECT_EQ(score_answer(item, replace_all(item.answer, "####", "")).value, 0) << item.id;
      } else if (item.scorer == "contains") {
        EXPECT_EQ(score_answer(item, replace_all(item.answer, "is ", "is 1")).value, 0) << item.id;
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

// By experiments/models/train/scorers.py.
TEST(scorers, rouge_l) {
  const auto value = [](const char* output, const char* answer) {
    return score_answer(item_of("rouge_l", answer, "{}"), output).value;
  };
  EXPECT_DOUBLE_EQ(value("The cat sat", "a cat sat down"), 4.0 / 7);
  EXPECT_EQ(value("\u212a2 \u0130x", "k2 i x"), 1);  // lower case beyond ASCII
  EXPECT_EQ(value("", "x"), 0);
  EXPECT_EQ(value("a b c d", "d c b a"), 0.25);
  EXPECT_EQ(value("Caf\u00e9 NOIR", "caf noir"), 1);
}

TEST(scorers, errors) {
  expect_error(exit_code::usage, "did you mean 'longbench'?",
               [] { score_answer(item_of("longbenc", "", "{}"), ""); });
  expect_error(exit_code::usage, "`ifeval` is no scorer of this program",
               [] { score_answer(item_of("ifeval", "", "{}"), ""); });
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

bool keeps(const std::string& rule, const std::string& output) {
  return score_answer(item_of("constraints", "", "{\"constraints\": [" + rule + "]}"), output)
      .exact;
}

struct rule_case {
  const char* rule;
  const char* output;
  bool kept;
};

TEST(constraints, every_rule) {
  const rule_case cases[] = {
      {R"({"type": "equals", "text": "a b"})", " a b\n", true},
      {R"({"type": "equals", "text": "a b"})", "a b c", false},
      {R"({"type": "starts_with", "text": "ab"})", "abc", true},
      {R"({"type": "starts_with", "text": "ab"})", "bab", false},
      {R"({"type": "ends_with", "text": "DONE"})", "red DONE", true},
      {R"({"type": "ends_with", "text": "DONE"})", "red DONE.", false},
      {R"({"type": "contains", "text": "red"})", "a red b", true},
      {R"({"type": "contains", "text": "red"})", "a Red b", false},
      {R"({"type": "not_contains", "text": "red"})", "blue", true},
      {R"({"type": "not_contains", "text": "red"})", "bored", false},
      {R"({"type": "repeat", "text": "aa", "count": 2})", "aaaaa", true},
      {R"({"type": "repeat", "text": "aa", "count": 4})", "aaaaa", false},
      {R"({"type": "repeat", "text": "b", "count": 0})", "aaaaa", true},
      {"{\"type\": \"word_count\", \"count\": 3}",
       "a  b\xC2\xA0"
       "c",
       true},
      {R"({"type": "word_count", "count": 0})", " ", true},
      {R"({"type": "all_upper"})", "LION LION", true},
      {R"({"type": "all_upper"})", "LION Lion", false},
      {R"({"type": "all_upper"})", "123", false},
      {R"({"type": "item_count", "sep": ", ", "strip": "", "count": 2})", "a, b", true},
      {R"({"type": "item_count", "sep": ", ", "strip": "", "count": 2})", "a,b", false},
      {R"({"type": "item_count", "sep": ", ", "count": 1})", "", true},
      {R"({"type": "item_count", "sep": ", ", "count": 2})", "a, b, c", false},
      {R"({"type": "items_in", "sep": ", ", "strip": " DONE", "set": ["a", "b"]})", "a, b DONE",
       true},
      {R"({"type": "items_in", "sep": ", ", "set": ["a", "b"]})", "a, b DONE", false},
      {R"({"type": "items_in", "sep": ", ", "set": ["a", "b"]})", "a, ", false},
      {R"({"type": "items_unique", "sep": "; "})", "a; b", true},
      {R"({"type": "items_unique", "sep": "; "})", "a; b; a", false},
      {R"({"type": "sorted", "sep": ", "})", "a, b, b", true},
      {R"({"type": "sorted", "sep": ", "})", "b, a", false},
      {R"({"type": "sorted", "sep": ", "})", "Z, a, \xC3\xA9", true},
      {R"({"type": "sorted", "sep": ", "})", "a, Z", false},
      {R"({"type": "items_start_with", "sep": ", ", "prefix": "l"})", "lake, lion", true},
      {R"({"type": "items_start_with", "sep": ", ", "prefix": "l"})", "lake, owl", false},
      {R"({"type": "one_of", "texts": ["a b", "b a"]})", "b a", true},
      {R"({"type": "one_of", "texts": ["a b", "b a"]})", "b", false},
      {R"({"type": "latin_square", "sep": ", ", "set": ["A", "B"]})", "B A, A B", true},
      {R"({"type": "latin_square", "sep": ", ", "set": ["A", "B"]})", "A B, A B", false},
      {R"({"type": "latin_square", "sep": ", ", "set": ["A", "B"]})", "A A, B B", false},
      {R"({"type": "latin_square", "sep": ", ", "set": ["A", "B"]})", "A B, B C", false},
      {R"({"type": "latin_square", "sep": ", ", "set": ["A", "B"]})", "A B", false},
      {R"({"type": "latin_square", "sep": ", ", "set": ["A", "B"]})", "A B, B A, A B", false},
      {R"({"type": "latin_square", "sep": ", ", "set": ["A", "B"]})", "A  B, B A", false}};
  for (const rule_case& c : cases) {
    EXPECT_EQ(keeps(c.rule, c.output), c.kept) << c.rule << " on " << c.output;
  }
}

TEST(constraints, all_rules_must_hold_and_the_note_names_the_broken_one) {
  const task_item item = item_of("constraints", "",
                                 R"({"constraints": [{"type": "contains", "text": "a"}, )"
                                 R"({"type": "ends_with", "text": "b"}]})");
  EXPECT_TRUE(score_answer(item, "ab").exact);
  EXPECT_EQ(score_answer(item, "ba").note, "breaks the constraint `ends_with`");
  EXPECT_TRUE(score_answer(item_of("constraints", "", R"({"constraints": []})"), "x").exact);
}

TEST(constraints, a_broken_rule_is_an_error) {
  const auto fails = [](const std::string& rule, const std::string& part) {
    expect_error(exit_code::environment, part, [&] { keeps(rule, "x"); });
  };
  fails(R"({"type": "sort", "sep": ","})", "`constraints[0].type` `sort` is no constraint");
  fails(R"({"type": "equals"})", "`constraints[0].text` is missing");
  fails(R"({"type": "sorted"})", "`constraints[0].sep` is missing");
  fails(R"({"type": "sorted", "sep": ""})", "must not be empty");
  fails(R"({"type": "repeat", "text": "", "count": 1})", "must not be empty");
  fails(R"({"type": "word_count", "count": -1})", "`constraints[0].count` is -1");
  fails("3", "must be an object");
}

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

// Sequences of four words: five of eight words, the last of which is the first again. Case and marks are no
// part of a word.
TEST(scorer, repeated_sequences_by_hand) {
  const auto of = [](const char* text) {
    const measure m = repeated_sequences("name", text);
    EXPECT_EQ(m.name, "name");
    return std::pair(m.sum, m.of);
  };
  EXPECT_EQ(of("a b c d a b c d"), std::pair(1.0, 5.0));
  EXPECT_EQ(of("Finn walked home. Finn rested. FINN walked, home: Finn"), std::pair(1.0, 6.0));
  EXPECT_EQ(of("a a a a a a"), std::pair(2.0, 3.0));
  EXPECT_EQ(of("one two three"), std::pair(0.0, 0.0));
  EXPECT_EQ(of(""), std::pair(0.0, 0.0));
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
