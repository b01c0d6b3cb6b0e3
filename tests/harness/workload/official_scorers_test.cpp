// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <map>

#include "harness/base/json.h"
#include "harness/workload/scorers/choice.h"
#include "harness/workload/scorers/code_answer.h"
#include "harness/workload/scorers/gsm8k.h"
#include "harness/workload/scorers/ifeval.h"
#include "harness/workload/scorers/jieba.h"
#include "harness/workload/scorers/language.h"
#include "harness/workload/scorers/longbench.h"
#include "harness/workload/scorers/math_minerva.h"
#include "harness/workload/scorers/math_text.h"
#include "harness/workload/scorers/math_verify.h"
#include "harness/workload/scorers/replay.h"
#include "harness/workload/scorers/rouge.h"
#include "tests/harness/workload/support.h"

namespace unmask::test {
namespace {

using namespace scorers;

TEST(official_scorers, every_recorded_case_is_equal) {
  const auto results =
      replay_scorers(std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/evals");
  std::map<std::string, int> cases;
  for (const golden_result& file : results) {
    EXPECT_EQ(file.failed, 0) << file.file << ": "
                              << (file.first_failures.empty() ? "" : file.first_failures.front());
    cases[file.file] = file.passed;
  }
  const std::map<std::string, int> wanted = {{"scorers/choice_opencompass.jsonl.gz", 24},
                                             {"scorers/gsm8k_lm_eval.jsonl.gz", 30},
                                             {"scorers/gsm8k_opencompass.jsonl.gz", 23},
                                             {"scorers/humaneval.jsonl.gz", 31},
                                             {"scorers/ifeval_lm_eval.jsonl.gz", 193},
                                             {"scorers/likelihood_choice_lm_eval.jsonl.gz", 17},
                                             {"scorers/longbench.jsonl.gz", 191},
                                             {"scorers/math500_opencompass_verify.jsonl.gz", 29},
                                             {"scorers/math_equivalence.jsonl.gz", 25},
                                             {"scorers/math_minerva_lm_eval.jsonl.gz", 53},
                                             {"scorers/math_opencompass.jsonl.gz", 34},
                                             {"scorers/mbpp.jsonl.gz", 26},
                                             {"scorers/mmlu_generative_lm_eval.jsonl.gz", 20},
                                             {"scorers/rouge.jsonl.gz", 32},
                                             {"zh/jieba_cut.jsonl.gz", 44}};
  EXPECT_EQ(cases, wanted);
}

TEST(official_scorers, a_changed_case_is_found) {
  const scratch_folder changed;
  const auto& folder = changed.path();
  write_file(
      folder / "scorers/gsm8k_opencompass.jsonl",
      R"({"reference": "18", "response": "18", "official": {"extracted": "18", "correct": false}})"
      "\n");
  write_file(folder / "scorers/nobody_knows.jsonl", "{}\n");
  const auto results = replay_scorers(folder);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].failed, 1);
  EXPECT_NE(results[0].first_failures.at(0).find("correct is `true`, not `false`"),
            std::string::npos);
  EXPECT_EQ(results[1].failed, 1);
}

TEST(official_scorers, gsm8k) {
  const std::string target = "2 + 2 = 4\n#### 1,234";
  EXPECT_TRUE(gsm8k_strict("#### 1234.", target).right);
  EXPECT_FALSE(gsm8k_strict("####1234", target).right);
  EXPECT_EQ(gsm8k_strict("####  1234", target).text, "[invalid]");
  EXPECT_TRUE(gsm8k_strict("#### 1,234\n#### 5", target).right);
  EXPECT_FALSE(gsm8k_flexible("#### 1,234\n#### 5", target).right);
  EXPECT_TRUE(gsm8k_flexible("it costs $1234.", target).right);
  EXPECT_FALSE(gsm8k_flexible("\uFF11\uFF12\uFF13\uFF14", target).right);
  EXPECT_TRUE(gsm8k_cot_strict("The answer is 1234.", target).right);
  // Here \d is any script's digit and a comma ends the number.
  EXPECT_TRUE(gsm8k_opencompass("\uFF11\uFF18", "18").right);
  EXPECT_EQ(gsm8k_opencompass("70,000", "70000").text, "000");
  EXPECT_TRUE(gsm8k_opencompass("17 Question: 3", "17").right);
  EXPECT_TRUE(gsm8k_opencompass("18.0000001", "18").right);
  EXPECT_FALSE(gsm8k_opencompass("18", "18.5").right);  // int("18.5") raises
}

TEST(official_scorers, choices) {
  EXPECT_EQ(first_capital("é Éa"), "É");
  EXPECT_EQ(first_option("The answer is (C)", "ABCD"), "C");
  EXPECT_EQ(first_option("故选A只有选项B对", "ABCD"), "A");  // two patterns glued into one
  EXPECT_EQ(first_option("An answer", "ABCD"), "A");
  EXPECT_EQ(first_option("none", "ABCD"), "");
  EXPECT_TRUE(mmlu_generative(" b) \nA", "B").right);
  EXPECT_FALSE(mmlu_generative("\nB", "B").right);
  EXPECT_TRUE(mmlu_generative(std::string_view("B\0", 2), "B").right);  // numpy's strings end there
  const choice_verdict tie = likelihood_choice({-5, -5}, {"ab", "abcd"}, 1);
  EXPECT_FALSE(tie.acc);
  EXPECT_TRUE(tie.acc_norm);
  EXPECT_TRUE(likelihood_choice({-2, -3}, {"日本", "abcd"}, 1).acc_norm);  // characters
  expect_error(exit_code::usage, "2 choices", [] { likelihood_choice({-1}, {"a", "b"}, 0); });
}

TEST(official_scorers, math_as_text) {
  EXPECT_EQ(hendrycks_strip("k = .5"), "\\frac{1}{2}");
  EXPECT_THROW(hendrycks_strip("\\pi/2"), python_exception);
  EXPECT_FALSE(hendrycks_equal("\\pi/2", "\\frac{\\pi}{2}"));
  EXPECT_EQ(minerva_normal("\\left(1,2\\right)"), "\\le(1,2\\right)");
  EXPECT_EQ(minerva_answer("Final Answer: The final answer is $7$. "), "$7$");
  EXPECT_EQ(minerva_answer("7"), "[invalidanswer]");
  EXPECT_EQ(math_opencompass_answer("\\boxed{{5}}", 2), "5");
  EXPECT_EQ(math_opencompass_answer("So. The final answer is $5$. Yes", 1), "5");
  EXPECT_TRUE(math_opencompass_equal("2.0", "2", 2));
  EXPECT_FALSE(math_opencompass_equal("2.0", "2", 1));
}

TEST(official_scorers, math_as_mathematics) {
  const auto equal = [](const char* a, const char* b) { return minerva_equal(a, b); };
  for (const auto& [a, b] : std::initializer_list<std::pair<const char*, const char*>>{
           {"0.5", "\\frac{1}{2}"},
           {"x^2+1", "1+x^2"},
           {"\\sqrt{8}", "2\\sqrt{2}"},
           {"\\frac{1}{\\sqrt{2}}", "\\frac{\\sqrt{2}}{2}"},
           {"(x+1)^2", "x^2+2x+1"},
           {"1,-2", "1,5"},
           {"5-", "5"},
           {"x\\in[-2,7]", "x\\in[-2.0,7]"},
           {"2(3,4)", "2"},
           {"\\log_28", "3"},
           {"1,234", "1234"},
           {"\\frac{x^2-1}{x-1}", "x+1"},
           {"\\log_{2}8", "3"},
           {"3!", "3!"},
           {"\\sqrt[3]{-8}", "2\\sqrt[3]{-1}"},
           {"3:4", "\\frac{3}{4}"},
           {"abc", "cba"},
           {"[5]", "5"},
           {"2x3", "6"},
           {"f(x+x)", "f(2x)"},
           {"|x|", "|x|"},
           {"\\binom{5}{2}", "\\binom{5}{2}"},
           {"x 3.", "x"},
           {"1+2x3.", "2x+1"},
           {"1.5.", "1.5"},
           {"\\frac{14}{3}.", "\\frac{14}{3}"},
           {"1+(3.)", "1"},
           {"x^{3.}", "x"},
           {"12.", "1"},
           {"\\sin 1+12.", "1+\\sin 1"},
           {"\\sin 1.5.", "\\sin 1.5"},
           {"\\sin 1,000.", "\\sin 1"},
           {"123.", "2"},
           {"2^12.", "2"},
           {"1,000,000.", "1000"}}) {
    EXPECT_EQ(equal(a, b), decision::kept) << a << " and " << b;
  }
  for (const auto& [a, b] : std::initializer_list<std::pair<const char*, const char*>>{
           {"(1,2)", "(1,2)"},
           {"\\pi", "3.14159265358979"},
           {"x<5", "x<5"},
           {"\\infty", "\\infty"},
           {"42\\%", "42\\%"},
           {"", ""},
           {"5.", "5"},
           {"\\frac{14}{3}+0.", "\\frac{14}{3}"},
           {"0.", "0"},
           {".5", "0.5"},
           {"1+3.", "1"},
           {"1-0.", "1"},
           {"2*3.", "2"},
           {"2^3.", "2"},
           {"2x^3.", "2"},
           {"1+2^3.", "3"},
           {"1+3.=x", "1"},
           {"(1+3.)", "1"},
           {"2\\sin 3.", "2"},
           {"\\sin 12.", "\\sin 1"},
           {"\\sin 2 13.", "\\sin 2"},
           {"(12.)", "1"},
           {"x042", "x"},
           {"1+042", "1"},
           {"\\sqrt{x^2}", "x"},
           {"x(x+1)", "x^2+x"},
           {"\\frac{1}{0}", "0"},
           {"\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"},
           {"0.333", "\\frac{1}{3}"},
           {"5miles", "5"}}) {
    EXPECT_EQ(equal(a, b), decision::broken) << a << " and " << b;
  }
  for (const auto& [a, b] : std::initializer_list<std::pair<const char*, const char*>>{
           {"\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}"}, {"\\int x dx", "x"}}) {
    EXPECT_EQ(equal(a, b), decision::undecided) << a << " and " << b;
  }
}

decision verified(const char* answer, const char* gold) {
  return math_verify_opencompass("So $\\boxed{" + std::string(answer) + "}$.", gold).right;
}

// Verdicts of math-verify 0.5.2.
TEST(official_scorers, math_verify) {
  using pairs = std::initializer_list<std::pair<const char*, const char*>>;
  for (const auto& [a, b] :
       pairs{{"\\text{yes}", "yes"},
             {"\\text{BA}", "BA"},
             {"1,2", "(1,2)"},
             {"\\{2,1\\}", "1,2"},
             {"x=5", "5"},
             {"5", "x=5"},
             {"x=1,2", "1,2"},
             {"x<5", "5>x"},
             {"x<5", "x-5<0"},
             {"0.3333333", "\\frac{1}{3}"},
             {"50\\%", "0.5"},
             {"x=5,y=2", "5,2"},
             {"2x+y=3", "y=3-2x"},
             {"\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{bmatrix}1\\\\2\\end{bmatrix}"},
             {"1 \\pm \\sqrt{2}", "1+\\sqrt{2},1-\\sqrt{2}"},
             {"5", "5.0"},
             {"2^{0.5}", "\\sqrt{2}"},
             {"\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}"},
             {"\\sin(\\pi/6)", "0.5"},
             {"\\log_{2}{8}", "3"},
             {"1\\frac{1}{2}", "\\frac32"},
             {"90^\\circ", "90"},
             {"((3,4])", "(3,4]"},
             {"C", "\\text{(C)}"},
             {"(3,\\infty) \\cup (0,1)", "(0,1) \\cup (3,\\infty)"},
             {"\\(4\\)", "4"},
             {"63\\,", "63"},
             {"5\\,\\text{cm}", "5"},
             {"(50%)", "50%"},
             {"(3×4)", "3×4"},
             {"1,000", "1000"},
             {"2,\\;3", "2,3"},
             {"((0,9)\\cup(9,36))", "((0,9)\\cup(9,36))"},
             {"{3\\pm2}", "3\\pm2"},
             {"\\text{(E}", "\\text{(E)}"}}) {
    EXPECT_EQ(verified(a, b), decision::kept) << a << " for " << b;
  }
  for (const auto& [a, b] : pairs{{"11\\sqrt2", "11\\sqrt2"},
                                  {"(2,1)", "1,2"},
                                  {"x=5", "y=5"},
                                  {"1.4142", "\\sqrt{2}"},
                                  {"0.333", "\\frac{1}{3}"},
                                  {"5.0000001", "5"},
                                  {"[1,2]", "1,2"},
                                  {"(1,2]", "[1,2]"},
                                  {"A", "a"},
                                  {"3.14159", "\\pi"},
                                  {"(1,234)", "1234"},
                                  {"5.", "5"},
                                  {"AB", "\\text{BA}"},
                                  {"A=1,000", "1,000"},
                                  {"\\frac{1,000,000}{1}", "1,000,000"},
                                  {"(x \\in [-2,7])", "x \\in [-2,7]"},
                                  {"\\log_23", "\\log_2 3"},
                                  {"\\begin{pmatrix}1\\\\2\\end{pmatrix}", "(1,2)"}}) {
    EXPECT_EQ(verified(a, b), decision::broken) << a << " for " << b;
  }
  EXPECT_EQ(verified("x>1", "(1,\\infty)"), decision::undecided);
  EXPECT_EQ(math_verify_opencompass("The final answer is $7$. I hope", "7").right, decision::kept);
  EXPECT_EQ(math_verify_opencompass("$7$", "7").right, decision::broken);
  EXPECT_EQ(math_verify_opencompass("\\boxed{1} and \\boxed{2}", "1,2").right, decision::kept);
  EXPECT_EQ(math_verify_opencompass("\\boxed{7}", "").right, decision::broken);
  // Where one of several cannot be read, the first alone counts.
  const auto either = [](const char* answer) { return math_verify_opencompass(answer, "3").right; };
  EXPECT_EQ(either("$\\boxed{3}$ or $\\boxed{\\frac{}}$"), decision::kept);
  EXPECT_EQ(either("$\\boxed{\\frac{}}$ or $\\boxed{3}$"), decision::broken);
}

TEST(official_scorers, words_of_longbench) {
  EXPECT_DOUBLE_EQ(qa_f1("The cat sat, on a mat.", "cat on the mat"), 6.0 / 7);
  EXPECT_EQ(qa_f1("A.N. Other", "other"), 1);  // points go first: an is an article
  EXPECT_EQ(qa_f1("\u00c9t\u00e9", "\u00e9t\u00e9"), 1);
  EXPECT_DOUBLE_EQ(classification("Sports News", "Sports News", {"News", "Sports", "Sports News"}),
                   0.5);  // the walk skips the neighbour of what it removes
  EXPECT_EQ(count_score("\uFF11\uFF12", "12"), 0);  // found by \d, but other characters
  EXPECT_DOUBLE_EQ(retrieval("3 or 4", "Paragraph 3"), 0.5);
  EXPECT_DOUBLE_EQ(retrieval_zh("\u6bb5\u843d3", "\u6bb5\u843d3"), 1);
  EXPECT_DOUBLE_EQ(code_similarity("# no\ntide", "diet", code_ratio::difflib), 0.25);
  EXPECT_DOUBLE_EQ(code_similarity("# no\ntide", "diet"), 0.5);
  EXPECT_EQ(code_similarity("# only", ""), 1);
  EXPECT_EQ(longbench_score("trec", "\nCity\nDate", {"City"}, {"City", "Date"}), 1);
  // OpenCompass cuts the prediction again for the second reference.
  const std::string text =
      "她会突然很关心你在不在线，见面时又会故意装得无所谓(其实她很注意你的一举一动)，在线聊天的时候"
      "经常断断续续的，比如有的消息很久才回。";
  const auto of_two = [&](bool opencompass) {
    return longbench_score("dureader", text, {"x", text}, {}, code_ratio::levenshtein, opencompass);
  };
  EXPECT_NEAR(of_two(false), 0.999999995, 1e-9);
  EXPECT_NEAR(of_two(true), 0.9705882302941177, 1e-9);
  EXPECT_NEAR(rouge_longbench("a b. c", "c. a b"), 1, 1e-8);
  EXPECT_EQ(rouge_longbench("...", "a"), 0);
  std::string many;
  for (int i = 0; i < 1200; ++i) many += "w" + std::to_string(i) + " ";
  EXPECT_EQ(rouge_longbench(many, many), 0);  // deeper than Python's recursion goes
  EXPECT_EQ(jieba_cut("a b\r\n\u6bb5\u843d12"),
            (std::vector<std::string>{"a", " ", "b", "\r\n", "\u6bb5\u843d", "12"}));
}

TEST(official_scorers, rouge_of_two_packages) {
  const rouge_scores plain = rouge_score_package("The cats were running", "the cat runs", false);
  const rouge_scores stem = rouge_score_package("The cats were running", "the cat runs", true);
  EXPECT_DOUBLE_EQ(plain.rouge1.recall, 1.0 / 3);
  EXPECT_DOUBLE_EQ(stem.rouge1.recall, 1.0);
  EXPECT_DOUBLE_EQ(stem.rouge1.precision, 0.75);
  const rouge_package_scores twice = rouge_package("a a b", "a b b");
  EXPECT_NEAR(twice.rouge1.f, 1, 1e-8);  // distinct words
  EXPECT_EQ(rouge_package("", "a").error, "ValueError: Hypothesis is empty.");
}

decision instruction(const char* id, const char* kwargs, const char* response) {
  const std::string text =
      std::string(R"({"instruction_id_list": [")") + id + R"("], "kwargs": [)" + kwargs + "]}";
  const json_value check = parse_json(text, "check");
  return score_ifeval(json_reader(check, "check"), response).strict.at(0);
}

TEST(official_scorers, instructions) {
  EXPECT_EQ(instruction("punctuation:no_comma", "{}", "a, b"), decision::broken);
  EXPECT_EQ(instruction("punctuation:no_comma", "{}", " \n"), decision::broken);  // empty
  EXPECT_EQ(instruction("length_constraints:number_sentences",
                        R"({"num_sentences": 2, "relation": "at least"})", "One. Two."),
            decision::undecided);
  EXPECT_EQ(
      instruction("length_constraints:number_words", R"({"num_words": 3, "relation": "at least"})",
                  "na\u00efve d\u00e9j\u00e0-vu"),
      decision::kept);
  EXPECT_EQ(instruction("length_constraints:number_words", R"({"num_words": 0})", "a"),
            decision::undecided);  // a zero counts as missing, and the harness draws
  EXPECT_EQ(instruction("change_case:english_capital", "{}", "THIS IS AN ENGLISH SENTENCE FOR YOU"),
            decision::kept);
  EXPECT_EQ(instruction("language:response_language", R"({"language": "de"})",
                        "Das ist ein ganz gew\u00f6hnlicher deutscher Satz."),
            decision::kept);
  EXPECT_EQ(instruction("language:response_language", R"({"language": "de"})", "12345"),
            decision::kept);  // no features count as kept
  EXPECT_EQ(instruction("language:response_language", R"({"language": "de"})", "naar"),
            decision::broken);  // seeds differ on what it is, and none says German
  EXPECT_EQ(instruction("detectable_format:json_format", "{}", "```json\n{\"a\": NaN}\n```"),
            decision::kept);
  EXPECT_EQ(instruction("detectable_format:json_format", "{}", "{'a': 1}"), decision::broken);
  expect_error(exit_code::environment, "does not exist",
               [] { instruction("punctuation:no_dots", "{}", "a"); });
}

TEST(official_scorers, python_json) {
  for (const char* good :
       {"1", "-0.5e+3", "\"\\ud800\"", "[1, {\"a\": [], \"a\": null}]", "1e999"}) {
    EXPECT_TRUE(is_python_json(good)) << good;
  }
  for (const char* bad : {"", "01", "1.", "[1,]", "\"\n\"", "\"\\x\"", "nul", "1 2", "\uFEFF1"}) {
    EXPECT_FALSE(is_python_json(bad)) << bad;
  }
}

TEST(official_scorers, undecided_answers_are_not_scored) {
  const task_item item = item_of(
      "ifeval", "",
      R"({"instruction_id_list": ["length_constraints:number_sentences"], "kwargs": [{}]})");
  const score got = score_answer(item, "One. Two.");
  EXPECT_TRUE(got.undecided);
  EXPECT_FALSE(got.scored);
  EXPECT_FALSE(got.exact);
}

TEST(official_scorers, programs_in_answers) {
  EXPECT_EQ(humaneval_until_stop("  return 1\n\nprint(2)"), "  return 1\n");
  EXPECT_EQ(humaneval_first_block("t\n```python\n  a\n```\n```\nb\n```", false), "  a\n");
  EXPECT_EQ(humaneval_first_block("  a", true), "a");
  EXPECT_EQ(humaneval_before_fence("a```b"), "a");
  EXPECT_EQ(humaneval_last_block("```\na\n```\n```py\n b\n```"), "b\n");
  EXPECT_EQ(mbpp_until_done("a\n[DONE]\nb"), "a\n");
  EXPECT_EQ(mbpp_opencompass("[BEGIN] 'def f\\_g(): pass' [DONE]"), "def f_g(): pass");
}

}  // namespace
}  // namespace unmask::test
