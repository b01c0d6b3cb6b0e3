// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the program asks the package to score, and what it makes of the answers. The package is a shell
// script here; tests/harness/python/benchmarks/score/test_program.py has the real one.
#include <gtest/gtest.h>

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/measure/official_scores.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

task_item item_of(const std::string& id, const std::string& scorer) {
  task_item item;
  item.id = id;
  item.family = "gsm8k";
  item.answer = "so #### 7";
  item.scorer = scorer;
  item.doc = R"({"question": "?", "answer": "so #### 7"})";
  return item;
}

scored_answer answer_of(const std::vector<task_item>& items, std::size_t place,
                        const std::string& text) {
  scored_answer a;
  a.id = items[place].id;
  a.item = place;
  a.text = text;
  return a;
}

// In place of Python: keeps what it was asked, says what the test wants.
class official_scores : public testing::Test {
 protected:
  void SetUp() override { ::setenv("UNMASK_PYTHON", (folder_.path() / "python").c_str(), 1); }
  void TearDown() override { ::unsetenv("UNMASK_PYTHON"); }

  void package_says(const std::string& scores, int status = 0) {
    const std::string kept = (folder_.path() / "asked").string();
    // Words: -P -B -m unmask score FOLDER --output FILE --quiet
    write_file(folder_.path() / "python", "#!/bin/sh\nrm -rf '" + kept + "'\ncp -r \"$6\" '" +
                                              kept + "'\ncat >\"$8\" <<'END'\n" + scores +
                                              "END\nexit " + std::to_string(status) + "\n");
    fs::permissions(folder_.path() / "python", fs::perms::owner_all);
  }
  std::string asked(const std::string& name) const {
    return read_file(folder_.path() / "asked" / name, 1 << 20);
  }

  const scratch_folder folder_;
  const std::vector<task_item> items_ = {item_of("a", "gsm8k_lm_eval"), item_of("b", "exact"),
                                         item_of("c", "gsm8k_lm_eval"),
                                         item_of("d", "gsm8k_lm_eval")};
  std::vector<scored_answer> answers_ = {answer_of(items_, 0, "#### 7"),
                                         answer_of(items_, 1, "so #### 7"),
                                         answer_of(items_, 2, "#### 8"), answer_of(items_, 3, "?")};
};

TEST_F(official_scores, asks_for_those_that_are_not_its_own) {
  package_says("");
  answers_[1].scored = true;
  answers_[1].value = 1;
  score_officially(answers_, items_);
  std::vector<std::string> ids;
  std::istringstream lines(asked("samples_gsm8k_answers.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto sample = nlohmann::json::parse(line);
    ids.push_back(sample.at("item"));
    EXPECT_EQ(sample.at("scorer"), "gsm8k_lm_eval");
    EXPECT_EQ(sample.at("doc").at("answer"), "so #### 7");
    EXPECT_EQ(sample.at("target"), "so #### 7");
  }
  EXPECT_EQ(ids, (std::vector<std::string>{"a", "c", "d"}));
  EXPECT_TRUE(answers_[1].scored);
  EXPECT_TRUE(answers_[1].libraries.empty());
}

TEST_F(official_scores, takes_each_score_by_its_item) {
  package_says(
      R"({"item": "d", "status": "undecided", "value": null, "note": "undecided: too deep", "libraries": {}})"
      "\n"
      R"({"item": "a", "status": "scored", "value": 1.0, "note": "", "extracted": "7",)"
      R"( "measures": {"strict-match": [1, 1]}, "libraries": {"lm-eval": "0.4.8"},)"
      R"( "filters": [{"filter": "strict-match", "text": "7", "metrics": {"exact_match": 1.0}}]})"
      "\n");
  score_officially(answers_, items_);
  EXPECT_TRUE(answers_[0].scored && answers_[0].exact);
  EXPECT_EQ(answers_[0].extracted, "7");
  EXPECT_EQ(answers_[0].libraries.at("lm-eval"), "0.4.8");
  ASSERT_EQ(answers_[0].measures.size(), 1u);
  EXPECT_EQ(answers_[0].measures[0].name, "strict-match");
  ASSERT_EQ(answers_[0].filters.size(), 1u);
  EXPECT_EQ(answers_[0].filters[0].metrics[0].second, "1.0");
  EXPECT_TRUE(answers_[3].undecided);
  EXPECT_EQ(answers_[3].note, "undecided: too deep");
  // No line for it: that item alone is undecided.
  EXPECT_TRUE(answers_[2].undecided);
  EXPECT_FALSE(answers_[2].scored);
}

TEST_F(official_scores, without_the_package_nothing_is_scored_and_each_says_so) {
  for (const bool there : {false, true}) {
    if (there) package_says("", 3);
    auto answers = answers_;
    score_officially(answers, items_);
    for (const std::size_t i : {0u, 2u, 3u}) {
      EXPECT_FALSE(answers[i].scored || answers[i].undecided);
      EXPECT_TRUE(answers[i].note.starts_with(scores_not_run)) << answers[i].note;
    }
    EXPECT_NE(answers[0].note.find(there ? "status 3" : "needs Python"), std::string::npos);
  }
}

}  // namespace
}  // namespace unmask
