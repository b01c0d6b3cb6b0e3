// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The reproduction kit from end to end, with one artifact of its own and an embedded model.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/harness/cli/program.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

class kit : public testing::Test {
 protected:
  kit() {
    fs::create_directories(root / "out");
    fs::create_directories(root / "experiments/data");
    const std::string source = UNMASK_SOURCE_DIR;
    write("experiments/focus/table_1.toml", R"(title = "One"
[artifact]
paper = "focus"
id = "table_1"
kind = "table"
title = "Tokens per step"
published = "../published/focus.toml"
[run]
warmup = 0
repetitions = 2
[[method]]
name = "vanilla"
label = "one"
[[method]]
name = "vanilla"
label = "two"
params.tokens_per_step = 2
[scale.tiny]
takes = "1 s"
[[scale.tiny.model]]
path = ")" + source + R"(/experiments/models/tiny-llada"
[[scale.tiny.workload]]
file = ")" + source + R"(/experiments/data/equation.jsonl"
limit = 5
[scale.full]
[[scale.full.model]]
path = "weights:No-Such-Model-8B"
[[scale.full.workload]]
benchmark = "gsm8k"
[layout]
columns = ["nfe"]
[[layout.columns]]
)");
    // `columns` twice is a mistake; the good file has one column with the paper's number beside it.
    broken = read("experiments/focus/table_1.toml");
    std::string good = broken;
    good.replace(good.find("columns = [\"nfe\"]\n"), 18, "");
    good += "metric = \"nfe\"\npublished = \"NFE\"\ndigits = 0\n";
    write("experiments/focus/table_1.toml", good);
    write("experiments/published/focus.toml",
          "paper = \"focus\"\ntitle = \"F\"\n[[value]]\nartifact = \"table_1\"\nrow = \"one\"\n"
          "column = \"NFE\"\nmetric = \"nfe\"\nvalue = 512\nunit = \"\"\nsource = \"Table 1\"\n");
    write("experiments/claims/focus.py", R"(
from unmask.claims import above, claim, no_precondition, ratio, within

FORWARDS = {"kind": "count", "quantity": "forwards", "artifacts": ("table_1",), "items": "all",
            "tasks": "all", "regime": no_precondition("forwards are counted on any task")}


@claim(place="Table 1", statement="Two tokens per step take half the forwards.",
       bound=within(0.4, 0.6, "us"), scales=("tiny", "full"), **FORWARDS)
def half(f):
    return ratio(f, "nfe", "two", "one")


@claim(place="nowhere", statement="Two tokens per step take more forwards.", bound=above(1, "us"),
       scales=("tiny",), **FORWARDS)
def wrong(f):
    return ratio(f, "nfe", "two", "one")
)");
  }

  void write(const std::string& name, const std::string& text) { write_file(root / name, text); }
  std::string read(const std::string& name) { return test::text_of(root / name); }
  // In the scratch directory; what was printed, both streams.
  int run(const std::string& arguments) {
    const test::outcome o = test::run_program(root.string(), arguments);
    said = o.text;
    return o.code;
  }
  bool says(const std::string& words) const { return said.find(words) != std::string::npos; }

  const scratch_folder scratch;
  const fs::path root = scratch.path();
  std::string said, broken;
};

TEST_F(kit, a_campaign_measures_tabulates_and_judges_and_continues) {
  EXPECT_EQ(run("run experiments -o out --experiments-dir experiments"), 4)
      << said;  // one claim is wrong
  EXPECT_TRUE(says("1 of 1 tables and figures measured")) << said;
  EXPECT_TRUE(
      says("1 SUPPORTED, 0 SUPPORTED WITH LIMITS, 0 SMALLER THAN PUBLISHED, 1 NOT SUPPORTED, "
           "0 CLOCK DIFFERS, 0 NOT APPLICABLE, 0 INCONCLUSIVE, 0 NOT RUN, of 2 claims"))
      << said;
  EXPECT_TRUE(says("0.500, n = 5 items")) << said;
  EXPECT_NE(read("out/claims.json").find("\"NOT SUPPORTED\""), std::string::npos);
  const std::string rows = read("out/focus/table_1/tiny/rows.jsonl");
  EXPECT_EQ(run("run experiments/focus -o out --experiments-dir experiments"), 4) << said;
  EXPECT_EQ(read("out/focus/table_1/tiny/rows.jsonl"), rows);  // nothing was measured again
  EXPECT_EQ(run("claims out --format json --experiments-dir experiments"), 4) << said;
  EXPECT_EQ(run("claims out --only focus/half --experiments-dir experiments"), 0) << said;
  EXPECT_EQ(run("table out/focus/table_1/tiny/rows.jsonl --view paper --artifact "
                "experiments/focus/table_1.toml --format csv"),
            0);
  EXPECT_TRUE(says("one,nfe,nfe,,tiny,")) << said;
  EXPECT_EQ(run("table out --view paper --experiments-dir experiments"), 0)
      << said;  // run.json names the artifact
  EXPECT_TRUE(says("| one | 512 |")) << said;
  EXPECT_EQ(run("table out --view paper --format latex -o paper.tex --experiments-dir experiments"),
            0)
      << said;
  EXPECT_NE(read("paper.tex").find("\\toprule"), std::string::npos);

  EXPECT_EQ(run("bundle out/focus/table_1/tiny -o run.tar"), 0) << said;
  // Two passes of milliseconds on a machine with other work: their speeds prove nothing.
  EXPECT_EQ(run("rerun run.tar -o again --no-progress --ignore-speed"), 0) << said;
  EXPECT_TRUE(says("tokens identical in 2; speeds were not compared")) << said;
  EXPECT_TRUE(says("REPEATED")) << said;
}

TEST_F(kit, what_is_missing_is_said_before_anything_runs) {
  EXPECT_EQ(run("run experiments/focus/table_1.toml --scale full"), 3);
  EXPECT_TRUE(says("NOT RUN: needs\n- weights No-Such-Model-8B (")) << said;
  EXPECT_TRUE(says("\n- benchmark gsm8k (")) << said;
  EXPECT_EQ(run("run experiments/focus/table_1.toml --scale full --dry-run"), 0);
  EXPECT_TRUE(says("2 points")) << said;
  EXPECT_EQ(run("list experiments --experiments-dir experiments"), 0);
  EXPECT_TRUE(says("tiny   runs here (1 s)")) << said;
  EXPECT_EQ(run("run experiments --scale full --experiments-dir experiments"), 0) << said;
  EXPECT_TRUE(says("1 NOT RUN") || says("2 NOT RUN")) << said;
  EXPECT_TRUE(says("0 of 1 tables and figures measured")) << said;
  EXPECT_FALSE(fs::exists(root / "runs/focus/table_1/full/rows.jsonl"));
}

TEST_F(kit, paired_runs_are_judged) {
  EXPECT_EQ(run("run experiments/focus/table_1.toml --paired --base one --no-progress -o abl"), 0)
      << said;
  EXPECT_TRUE(says("| two | one |")) << said;
  EXPECT_FALSE(says("(unpaired)")) << said;
  EXPECT_NE(read("abl/rows.jsonl").find("\"items\":{"), std::string::npos);
  EXPECT_EQ(run("table abl/rows.jsonl --view paired --base one --format json"), 0);
  EXPECT_TRUE(says("\"speed_verdict\"")) << said;
  EXPECT_EQ(run("crossover abl/rows.jsonl --base one"), 0) << said;
  EXPECT_TRUE(says("1 cells;")) << said;
  EXPECT_EQ(run("compare abl abl"), 0) << said;
  EXPECT_TRUE(says("REPEATED")) << said;
  EXPECT_TRUE(says("speed ratios between methods within their intervals")) << said;
  EXPECT_EQ(run("compare abl abl --ignore-speed"), 0) << said;
  EXPECT_TRUE(says("speeds were not compared")) << said;
}

TEST_F(kit, mistakes_are_usage_errors_that_name_the_place) {
  const std::pair<const char*, const char*> cases[] = {
      {"claims out --only optimis --experiments-dir experiments", "focus"},
      {"claims out --format mdd", "'md'"},
      {"run experiments --only focus/table_2", "table_1"},
      {"run experiments/data", "holds no paper tables or figures"},
      {"table x.jsonl --view papr", "'paper'"},
      {"table x.jsonl --artifact y.toml", "--view paper"},
      {"list clams", "'claims'"},
      {"bundle somewhere", "-o FILE.tar"},
      {"crossover", "rows"},
      {"crossover x.jsonl --score-within 2", "0 to 1"},
      {"compare abl", "two runs"},
      {"run experiments/focus/table_1.toml --scale tinny", "'tiny'"}};
  for (const auto& [arguments, part] : cases) {
    EXPECT_EQ(run(arguments), 2) << arguments << said;
    EXPECT_TRUE(says(part)) << arguments << ": " << said;
  }
  EXPECT_EQ(run("claims nowhere --experiments-dir experiments"), 3) << said;
  EXPECT_EQ(run("rerun none.tar"), 3) << said;
  EXPECT_EQ(run("bundle none -o x.tar"), 3) << said;
  write("experiments/focus/table_1.toml", broken);
  EXPECT_EQ(run("list experiments --experiments-dir experiments"), 2);
  EXPECT_TRUE(says("BROKEN")) << said;
}

}  // namespace
}  // namespace unmask
