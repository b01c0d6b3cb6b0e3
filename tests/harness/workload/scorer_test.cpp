// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorer.h"

#include "harness/base/text.h"
#include "harness/workload/longbench.h"
#include "harness/workload/rouge.h"
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

TEST(scorers, final_number_with_commas) {
  expect_all(item_of("final_number", "", R"({"value": 2125, "commas": true})"),
             {{"#### 2,125", true},
              {"#### $2,125.", true},
              {"#### 2125 dollars", true},
              {"#### 2", false},
              {"#### 2,125.50", false},
              {"#### 2,126", false}});
  expect_all(item_of("final_number", "", R"({"value": 2125})"), {{"#### 2,125", false}});
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

TEST(scorers, rouge_l) {
  EXPECT_EQ(rouge_l("The lion slept.", "the LION, slept"), 1.0);
  EXPECT_EQ(rouge_l("", "a"), 0.0);
  EXPECT_EQ(rouge_l("a", ""), 0.0);
  EXPECT_EQ(rouge_l("", ""), 0.0);
  EXPECT_EQ(rouge_l("b", "a"), 0.0);
  // Values of the Python definition.
  EXPECT_EQ(rouge_l("a b c d", "a c e"), 0.5714285714285715);
  EXPECT_EQ(rouge_l("the mill was cold today", "the mill was strange and bright"),
            0.5454545454545454);
  EXPECT_EQ(rouge_l("c b a", "a b c"), 1.0 / 3);
  EXPECT_EQ(rouge_l("\xE2\x84\xAA"
                    "ey",
                    "key"),
            1.0);                                     // Kelvin sign
  EXPECT_EQ(rouge_l("\xC4\xB0s", "i s"), 1.0);        // dotted capital I
  EXPECT_EQ(rouge_l("caf\xC3\xA9 x", "caf x"), 1.0);  // other letters separate
  EXPECT_LT(score_answer(item_of("rouge_l", "a b", "{}"), "a b c").value, 1.0);
}

TEST(longbench, words_shared_with_an_answer) {
  // cat, sat, on, mat against cat, on, mat.
  EXPECT_DOUBLE_EQ(qa_f1("The cat sat, on a mat.", "cat on the mat"), 6.0 / 7);
  EXPECT_DOUBLE_EQ(qa_f1("no no yes", "no yes yes"),
                   2.0 / 3);                   // words count as often as they occur
  EXPECT_EQ(qa_f1("A.N. Other", "other"), 1);  // points go first: an is an article
  EXPECT_EQ(qa_f1("it's", "its"), 1);
  EXPECT_EQ(qa_f1("well-known", "wellknown"), 1);
  EXPECT_EQ(qa_f1("there", "re"), 0);  // articles are whole words
  EXPECT_EQ(qa_f1("end\u2014the x", "end\u2014 x"), 1);
  EXPECT_EQ(qa_f1("a", "the"), 0);
  EXPECT_EQ(qa_f1("", "x"), 0);
  const task_item item = item_of("qa_f1", "b c", R"({"answers":["b c","b c d e"]})");
  EXPECT_DOUBLE_EQ(score_answer(item, "b x d e").value, 0.75);  // the better reference
  EXPECT_TRUE(score_answer(item, "C b\n").exact);
  EXPECT_DOUBLE_EQ(score_answer(item, "\n\nb\nc").value, 1);
  const task_item cut = item_of("qa_f1", "b c", R"({"answers":["b c"],"first_line":true})");
  EXPECT_DOUBLE_EQ(score_answer(cut, "\n\nb\nc").value, 2.0 / 3);
  expect_error(exit_code::environment, "`answers`",
               [] { score_answer(item_of("qa_f1", "x", "{}"), "x"); });
}

TEST(longbench, one_class_and_no_other) {
  const std::vector<std::string> classes = {"Date", "City", "Sports News", "News"};
  EXPECT_EQ(class_score("It is a City.", "City", classes), 1);
  EXPECT_EQ(class_score("City or Date", "City", classes), 0.5);
  EXPECT_EQ(class_score("Date", "City", classes), 0);
  EXPECT_EQ(class_score("city", "City", classes), 0);
  EXPECT_EQ(class_score("Sports News", "Sports News", classes), 1);  // News is a part of it
  EXPECT_EQ(class_score("Sports News", "News", classes), 0.5);
  // As published: the walk skips the neighbour of what it removes.
  EXPECT_EQ(class_score("Sports News", "Sports News", {"News", "Sports", "Sports News"}), 0.5);
  const task_item item = item_of("classification", "City",
                                 R"({"all_classes":["Date","City"],"answers":["City"],)"
                                 R"("first_line":true})");
  EXPECT_TRUE(score_answer(item, "\nCity\nDate").exact);
  EXPECT_EQ(score_answer(item, "Date\nCity").value, 0);
  expect_error(exit_code::environment, "`all_classes`",
               [] { score_answer(item_of("classification", "x", R"({"answers":["x"]})"), "x"); });
}

TEST(longbench, similarity_of_a_line_of_code) {
  // "x = " matches: 2 x 4 of 5 + 5 characters.
  EXPECT_DOUBLE_EQ(code_similarity("```python\n# set x\nx = 1\ny = 2", "x = 2"), 0.8);
  EXPECT_DOUBLE_EQ(code_similarity("// no\nabxcd", "abcd"), 0.89);  // 8 / 9 in whole percent
  // Blocks are taken longest first, the first in the output: order matters.
  EXPECT_DOUBLE_EQ(code_similarity("tide", "diet"), 0.25);
  EXPECT_DOUBLE_EQ(code_similarity("diet", "tide"), 0.5);
  EXPECT_DOUBLE_EQ(code_similarity("bcdabc", "abcd"), 0.6);
  EXPECT_EQ(code_similarity("", "x"), 0);
  EXPECT_EQ(code_similarity("# only a comment", "x"), 0);
  EXPECT_EQ(code_similarity("\n\nreturn 1", "return 1"), 1);
  EXPECT_EQ(code_similarity(" return 1", "return 1"), 0.94);     // 16 / 17
  EXPECT_DOUBLE_EQ(code_similarity("\u00e9x", "\u00e9y"), 0.5);  // characters, not bytes
  // From 200 characters on a and b are popular: they extend the block xyz and start none.
  std::string line;
  for (int i = 0; i < 99; ++i) line += "ab";
  EXPECT_DOUBLE_EQ(code_similarity("abxyz", line + "xyz"), 0.05);  // 10 / 206
  std::string late = "xyz";
  for (int i = 0; i < 20; ++i) late += "ab";
  EXPECT_DOUBLE_EQ(code_similarity(late, line + "xyz"), 0.02);  // 6 / 244
  const task_item item = item_of("code_similarity", "x = 2", R"({"answers":["x = 2"]})");
  EXPECT_DOUBLE_EQ(score_answer(item, "x = 1\nx = 2").value, 0.8);
  EXPECT_TRUE(score_answer(item, "x = 2").exact);
}

TEST(scorers, boxed) {
  expect_all(item_of("boxed", "", R"({"value": "\\frac{1}{2}"})"),
             {{"so $\\boxed{\\frac12}$", true},
              {"\\boxed{1/2}", true},
              {"\\boxed{0.5}", true},
              {"\\boxed{x = \\dfrac{1}{2}}", true},
              {"\\boxed{3} \\boxed{ 1/2 }", true},
              {"\\fbox{1/2}", true},
              {"\\boxed{1/2} \\boxed{", true},
              {"\\boxed{1/2} \\boxed{3}", false},
              {"\\boxed{2/1}", false},
              {"1/2", false},
              {"\\boxed", false}});
  expect_all(item_of("boxed", "", R"({"value": "10"})"), {{"\\boxed{10\\text{ cm}}", true},
                                                          {"\\boxed{\\$10}", true},
                                                          {"\\boxed{10^\\circ}", true},
                                                          {"\\boxed{10\\%}", true},
                                                          {"\\boxed{-10}", false}});
}

// LongBench's passage_count and passage_retrieval_en.
TEST(scorers, share_of_number) {
  EXPECT_EQ(share_of_number("Paragraph 12", "Paragraph 12"), 1);
  EXPECT_EQ(share_of_number("12", "Paragraph 12"), 1);
  EXPECT_DOUBLE_EQ(share_of_number("of 12, 7 and 12: 7", "12"), 0.5);
  EXPECT_EQ(share_of_number("Paragraph 112", "Paragraph 12"), 0);  // whole numbers
  EXPECT_EQ(share_of_number("012", "12"), 0);                      // digit by digit
  EXPECT_EQ(share_of_number("twelve", "12"), 0);
  EXPECT_EQ(share_of_number("", "12"), 0);
  const task_item item = item_of("share_of_number", "", R"({"answers":["Paragraph 3"]})");
  EXPECT_TRUE(score_answer(item, "Paragraph 3").exact);
  EXPECT_FALSE(score_answer(item, "Paragraphs 3 and 4").exact);
  EXPECT_DOUBLE_EQ(score_answer(item, "Paragraphs 3 and 4").value, 0.5);
}

TEST(scorers, errors) {
  expect_error(exit_code::usage, "did you mean rouge_l?",
               [] { score_answer(item_of("rouge", "", "{}"), ""); });
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
