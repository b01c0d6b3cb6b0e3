// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/devices/first_use.h"
#include "harness/rows/glossary.h"
#include "harness/rows/row_fields.h"
#include "tests/harness/rows/rows.h"

namespace unmask {
namespace {

std::set<std::string> stored_verdicts(const std::string& of) {
  std::set<std::string> found;
  for (const glossary_term& t : glossary()) {
    if (t.section == "verdicts" && t.of == of) found.insert(t.stored);
  }
  return found;
}

TEST(glossary, has_a_word_for_every_verdict_of_a_row) {
  EXPECT_EQ(stored_verdicts("row"),
            (std::set<std::string>(std::begin(row_verdict_names), std::end(row_verdict_names))));
}

TEST(glossary, a_row_without_a_score_is_unscored_and_without_the_device_check_unchecked) {
  result_row row;
  row.verdict = row_verdict::not_verified;
  EXPECT_EQ(shown_verdict(row), "UNSCORED");
  row.model.checked = not_checked;
  EXPECT_EQ(shown_verdict(row), "UNCHECKED");
  row.verdict = row_verdict::failed;
  EXPECT_EQ(shown_verdict(row), "FAILED");
  row.verdict = row_verdict::not_supported;
  EXPECT_EQ(shown_verdict(row), "CANNOT DECODE");
  EXPECT_STREQ(name_of(row.verdict), "NOT_SUPPORTED");  // as it is stored
}

TEST(glossary, heads_columns_by_stored_name_or_word) {
  const text_table t = table_with({"model | >tpf | >nfe", "verdict"});
  ASSERT_EQ(t.columns.size(), 4U);
  EXPECT_EQ(t.columns[1].header, "tokens/forward (TPF)");
  EXPECT_TRUE(t.columns[1].right);
  EXPECT_EQ(t.columns[2].header, "forward passes (NFE)");
  EXPECT_EQ(t.columns[3].header, "verdict");
  EXPECT_THROW(heading_of("no such metric"), std::logic_error);
  EXPECT_THROW(shown_verdict("claim", "PERHAPS"), std::logic_error);
}

TEST(glossary, the_page_and_the_json_hold_every_term) {
  const std::string page = glossary_page();
  const auto json = nlohmann::json::parse(glossary_json());
  std::size_t terms = 0;
  for (const auto& [section, list] : json.items()) terms += list.size();
  EXPECT_EQ(terms, glossary().size());
  EXPECT_GT(terms, 200U);
  for (const glossary_term& t : glossary()) {
    EXPECT_NE(page.find("| **" + t.word + "** | " + t.meaning + " |"), std::string::npos) << t.word;
  }
}

}  // namespace
}  // namespace unmask
