// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/constraints.h"

#include "tests/harness/workload/support.h"

namespace unmask::test {
namespace {

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
      {R"({"type": "items_start_with", "sep": ", ", "prefix": "l"})", "lake, owl", false}};
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

}  // namespace
}  // namespace unmask::test
