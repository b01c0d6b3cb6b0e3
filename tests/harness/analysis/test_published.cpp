// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/analysis/published.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

const std::string head = "paper = \"focus\"\ntitle = \"FOCUS\"\narxiv = \"2601.00001\"\n";
const std::string value =
    "[[value]]\nartifact = \"table_5\"\nrow = \"DC\"\ncolumn = \"tok/s\"\nmetric = \"throughput\"\n"
    "value = 12\nunit = \"tok/s\"\nsource = \"Table 5, row DC\"\n";

published_paper parsed(const std::string& text) {
  return parse_published(text, "/x/focus.toml");
}

TEST(published, values_are_found_by_cell) {
  const published_paper paper =
      parsed(head + value + "[[inconsistency]]\nwhere = \"Table 5\"\nwhat = \"sums differ\"\n");
  ASSERT_EQ(paper.values.size(), 1u);
  ASSERT_NE(paper.find("table_5", "DC", "tok/s"), nullptr);
  EXPECT_EQ(paper.find("table_5", "DC", "tok/s")->value, 12);
  EXPECT_EQ(paper.find("table_5", "DC", "tok/s", "speedup"), nullptr);
  EXPECT_EQ(paper.find("table_6", "DC", "tok/s"), nullptr);
  ASSERT_EQ(paper.inconsistencies.size(), 1u);
  EXPECT_EQ(paper.inconsistencies[0].what, "sums differ");
}

TEST(published, several_metrics_in_a_cell_must_be_told_apart) {
  std::string other = value;
  other.replace(other.find("throughput"), 10, "speedup");
  const published_paper paper = parsed(head + value + other);
  EXPECT_NE(paper.find("table_5", "DC", "tok/s", "speedup"), nullptr);
  EXPECT_THROW(paper.find("table_5", "DC", "tok/s"), error);
}

TEST(published, mistakes_are_refused) {
  const auto without = [&](const std::string& line) {
    std::string text = value;
    const std::size_t at = text.find(line);
    return head + text.erase(at, text.find('\n', at) - at + 1);
  };
  const struct {
    std::string text, says;
  } cases[] = {{head + value + value, "twice"},
               {head + value + "colour = 3\n", "colour"},
               {without("source"), "`value.source`"},
               {without("unit"), "`unit`"},
               {without("value = 12"), "`value`"},
               {head + value + "[[valeu]]\n", "did you mean 'value'"},
               {"paper = \"optimus\"\ntitle = \"t\"\n", "name of the file"},
               {head + "[[inconsistency]]\nwhere = \"x\"\n", "inconsistency.what"},
               {head + "[[value]\n", "focus.toml:4"}};
  for (const auto& c : cases) {
    const std::string said = message_of([&] { parsed(c.text); });
    EXPECT_TRUE(has(said, c.says)) << c.says << ": " << said;
    EXPECT_TRUE(has(said, "focus.toml")) << said;
  }
  std::string text = head + value;
  text.replace(text.find("value = 12"), 10, "value = nan");
  EXPECT_TRUE(has(message_of([&] { parsed(text); }), "finite"));
  text = head + value;
  text.replace(text.find("value = 12"), 10, "value = \"12\"");
  EXPECT_TRUE(has(message_of([&] { parsed(text); }), "takes a number"));
  EXPECT_THROW(read_published("/no/such/focus.toml"), error);
}

}  // namespace
}  // namespace unmask
