// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <cmath>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/experiment/artifact_files.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

class claims : public testing::Test {
 protected:
  claims() {
    write(scratch / "focus/table_5.toml", artifact_text);
    write(scratch / "focus/tiny/config.json", "{}");
  }

  // One claim of these lines, after what every claim needs.
  std::vector<paper_claim> parsed(const std::string& lines) const {
    return parse_claims(
        "paper = \"focus\"\n[[claim]]\nid = \"c\"\nstatement = \"s\"\nsource = \"Table 5\"\n"
        "artifact = \"../focus/table_5.toml\"\nscales = [\"tiny\"]\n" +
            lines,
        scratch / "claims/focus.toml");
  }
  claim_result checked(const std::string& lines, const std::vector<result_row>& rows) const {
    return check_claim(parsed(lines).front(), rows, "tiny");
  }

  scratch_directory scratch;
};

const std::string faster =
    "kind = \"ordering\"\nmetric = \"tokens_per_second\"\nrelation = \">\"\n"
    "left = { label = \"fast\" }\nright = { label = \"slow\" }\n";

TEST_F(claims, an_ordering_needs_an_interval_clear_of_one) {
  const claim_result clear =
      checked(faster, {row_of("fast", {1.0, 1.1, 0.9}), row_of("slow", {2.0, 2.1, 1.9})});
  EXPECT_EQ(clear.judged, verdict::reproduced) << clear.reason;
  ASSERT_TRUE(clear.measured && clear.measured->range);
  EXPECT_NEAR(clear.measured->value, 2.0, 0.05);
  EXPECT_EQ(clear.measured->n, 3u);
  EXPECT_TRUE(clear.tiny_models);
  EXPECT_TRUE(has(clear.reason, "tiny models")) << clear.reason;
  EXPECT_TRUE(has(clear.reason, "n = 3 repetitions")) << clear.reason;
  EXPECT_TRUE(has(clear.reason, "[")) << clear.reason;

  const claim_result noisy =
      checked(faster, {row_of("fast", {1.0, 3.0, 1.9}), row_of("slow", {2.0, 1.9, 2.1})});
  EXPECT_EQ(noisy.judged, verdict::ambiguous);
  EXPECT_EQ(noisy.undecided, 1u);
  EXPECT_TRUE(has(noisy.reason, "underpowered: 3 repetitions, interval [")) << noisy.reason;
  EXPECT_TRUE(has(noisy.reason, "NOISY: ")) << noisy.reason;  // known to a quarter at best

  const claim_result wrong =
      checked(faster, {row_of("fast", {2.0, 2.1, 1.9}), row_of("slow", {1.0, 1.1, 0.9})});
  EXPECT_EQ(wrong.judged, verdict::not_reproduced);
  EXPECT_EQ(wrong.failed, 1u);
}

TEST_F(claims, some_points_make_it_partly) {
  const std::vector<result_row> rows = {
      row_of("fast", {1.0, 1.01, 0.99}, 1), row_of("slow", {2.0, 2.01, 1.99}, 1),
      row_of("fast", {3.0, 3.01, 2.99}, 8), row_of("slow", {2.0, 2.01, 1.99}, 8)};
  const claim_result r = checked(faster, rows);
  EXPECT_EQ(r.judged, verdict::partly);
  EXPECT_EQ(r.held, 1u);
  EXPECT_EQ(r.failed, 1u);
  EXPECT_TRUE(has(r.reason, "1 of 2 points hold")) << r.reason;
  EXPECT_TRUE(has(r.reason, "batch 8")) << r.reason;  // the point that does not
  EXPECT_EQ(checked(faster + "aggregate = \"max\"\n", rows).judged, verdict::reproduced);
  EXPECT_EQ(checked(faster + "aggregate = \"min\"\n", rows).judged, verdict::not_reproduced);
}

TEST_F(claims, rows_that_differ_in_circumstances_are_no_pair) {
  const claim_result r =
      checked(faster, {row_of("fast", {1.0, 1.0}, 1), row_of("slow", {2.0, 2.0}, 8)});
  EXPECT_EQ(r.judged, verdict::not_run);
  EXPECT_TRUE(has(r.reason, "NOT RUN: no rows")) << r.reason;
  // A key that a selector fixes may differ.
  const std::string across =
      "kind = \"ordering\"\nmetric = \"tokens_per_second\"\nrelation = \">\"\n"
      "left = { label = \"fast\", batch_size = 1 }\nright = { label = \"slow\", batch_size = 8 }\n";
  EXPECT_EQ(
      checked(across, {row_of("fast", {1.0, 1.01}, 1), row_of("slow", {2.0, 2.01}, 8)}).judged,
      verdict::reproduced);
  // One that both fix alike may not: where a side has no row, there is no point.
  const std::string alike =
      "kind = \"ordering\"\nmetric = \"tokens_per_second\"\nrelation = \">\"\n"
      "left = { label = \"fast\", batch_size = [1, 8] }\n"
      "right = { label = \"slow\", batch_size = [1, 8] }\n";
  EXPECT_EQ(checked(alike, {row_of("fast", {1.0, 1.01}, 1), row_of("slow", {2.0, 2.01}, 8)}).judged,
            verdict::not_run);
}

TEST_F(claims, two_partners_are_a_mistake_of_the_claim) {
  result_row twin = row_of("slow", {2.0, 2.0});
  twin.point_id = "another";
  twin.variation = "steps=4";
  const std::string said = message_of([&] {
    checked(faster, {row_of("fast", {1.0, 1.0}), row_of("slow", {2.0, 2.0}), twin});
  });
  EXPECT_TRUE(has(said, "2 partners")) << said;
}

TEST_F(claims, counted_metrics_are_exact) {
  std::vector<result_row> rows = {row_of("fast", {1.0}), row_of("slow", {1.0})};
  rows[0].metrics["redundancy"].value = 3;
  const std::string fewer =
      "kind = \"ordering\"\nmetric = \"redundancy\"\nrelation = \"<\"\n"
      "left = { label = \"fast\" }\nright = { label = \"slow\" }\n";
  const claim_result r = checked(fewer, rows);
  EXPECT_EQ(r.judged, verdict::reproduced);
  EXPECT_TRUE(has(r.reason, "0.750, n = 10 items")) << r.reason;
  const std::string equal =
      "kind = \"equal\"\nmetric = \"redundancy\"\nleft = { label = \"fast\" }\n"
      "right = { label = \"slow\" }\n";
  EXPECT_EQ(checked(equal, rows).judged, verdict::not_reproduced);
  EXPECT_EQ(checked(equal + "tolerance = 0.25\n", rows).judged, verdict::reproduced);
}

TEST_F(claims, a_ratio_is_held_against_the_published_one) {
  const std::string ratio =
      "kind = \"ratio\"\nmetric = \"tokens_per_second\"\nleft = { label = \"fast\" }\n"
      "right = { label = \"slow\" }\npublished = { value = 2.2, unit = \"x\", source = \"T\" }\n";
  const std::vector<result_row> rows = {row_of("fast", {1.0, 1.01, 0.99}),
                                        row_of("slow", {2.0, 2.02, 1.98})};
  EXPECT_EQ(checked(ratio, rows).judged, verdict::reproduced);  // within 10 %
  EXPECT_EQ(checked(ratio + "tolerance = 0.05\n", rows).judged, verdict::not_reproduced);
  EXPECT_EQ(checked(ratio + "expected = 1.5\nrelation = \">=\"\n", rows).judged,
            verdict::reproduced);
  EXPECT_EQ(checked(ratio + "expected = 1.5\nrelation = \"<=\"\n", rows).judged,
            verdict::not_reproduced);
  // The paper's number is never ours.
  const claim_result r = checked(ratio, rows);
  EXPECT_NEAR(r.measured->value, 2.0, 1e-3);
  const auto json = nlohmann::json::parse(claims_json({{parsed(ratio).front(), r}}));
  EXPECT_NEAR(json[0]["measured"].get<double>(), 2.0, 1e-3);
  EXPECT_EQ(json[0]["published"]["value"], 2.2);
  EXPECT_EQ(json[0]["verdict"], "REPRODUCED");
  EXPECT_EQ(json[0]["tiny_models"], true);
}

TEST_F(claims, monotone_along_a_sweep) {
  const std::string growing =
      "kind = \"monotone\"\nmetric = \"tokens_per_second\"\nrelation = \"increasing\"\n"
      "along = \"batch_size\"\nleft = { label = \"fast\" }\n";
  std::vector<result_row> rows = {row_of("fast", {1.0, 1.01}, 16), row_of("fast", {4.0, 4.01}, 1),
                                  row_of("fast", {2.0, 2.01}, 4)};
  EXPECT_EQ(checked(growing, rows).judged, verdict::reproduced);
  rows.push_back(row_of("fast", {1.5, 1.51}, 32));
  const claim_result r = checked(growing, rows);
  EXPECT_EQ(r.judged, verdict::partly);
  EXPECT_EQ(r.held, 2u);
  EXPECT_TRUE(has(r.reason, "batch_size 16 to 32")) << r.reason;
}

TEST_F(claims, thresholds_and_scores) {
  std::vector<result_row> rows = {row_of("fast", {1.0, 1.0}), row_of("slow", {2.0, 2.0})};
  rows[0].score = score_record{0.9, 90, 100, 0.826, 0.945};
  rows[1].score = score_record{0.5, 50, 100, 0.404, 0.596};
  const std::string above =
      "kind = \"threshold\"\nmetric = \"score\"\nrelation = \">=\"\nvalue = 0.8\n"
      "left = { label = \"fast\" }\n";
  EXPECT_EQ(checked(above, rows).judged, verdict::reproduced);
  EXPECT_EQ(checked(above + "tolerance = 0.1\n", rows).judged, verdict::reproduced);
  const std::string higher =
      "kind = \"ordering\"\nmetric = \"score\"\nrelation = \">\"\nleft = { label = \"fast\" }\n"
      "right = { label = \"slow\" }\n";
  const claim_result r = checked(higher, rows);
  EXPECT_EQ(r.judged, verdict::reproduced) << r.reason;
  EXPECT_NEAR(r.measured->value, 0.4, 1e-12);
  // Synthetic weights have no score.
  for (result_row& row : rows) row.model.weights = "synthetic";
  EXPECT_EQ(checked(higher, rows).judged, verdict::not_run);
}

// Rows that kept their items, of which the first `right` are right.
result_row scored(const std::string& label, std::size_t right, std::size_t n,
                  std::int64_t batch = 1, const std::string& task = "word_problem") {
  result_row row = row_of(label, {1.0, 1.0}, batch, task);
  row.workload.items = static_cast<std::int64_t>(n);
  row.score = score_record{static_cast<double>(right) / static_cast<double>(n),
                           static_cast<std::int64_t>(right), static_cast<std::int64_t>(n), 0, 1};
  for (std::size_t i = 0; i < n; ++i) {
    row.items.id.push_back("item " + std::to_string(i));
    row.items.score.push_back(i < right ? 1 : 0);
  }
  return row;
}

const std::string as_good =
    "kind = \"ordering\"\nmetric = \"score\"\nrelation = \">=\"\ntolerance = 0.02\n"
    "left = { label = \"fast\" }\nright = { label = \"slow\" }\n";
const std::string better =
    "kind = \"ordering\"\nmetric = \"score\"\nrelation = \">\"\n"
    "left = { label = \"fast\" }\nright = { label = \"slow\" }\n";

TEST_F(claims, few_items_decide_nothing_either_way) {
  // Half a point on a dozen items: neither shown nor refuted.
  const claim_result same = checked(as_good, {scored("fast", 9, 12), scored("slow", 9, 12)});
  EXPECT_EQ(same.judged, verdict::ambiguous) << same.reason;
  EXPECT_TRUE(has(same.reason, "underpowered: 12 items, interval [")) << same.reason;
  EXPECT_TRUE(has(same.reason, "even 12 equal answers leave at least [-0.142, 0.142]"))
      << same.reason;
  const claim_result below = checked(better, {scored("fast", 8, 12), scored("slow", 9, 12)});
  EXPECT_EQ(below.judged, verdict::ambiguous) << below.reason;
  EXPECT_EQ(below.failed, 0u);
  EXPECT_FALSE(has(below.reason, "equal answers")) << below.reason;  // no tolerance to reach
  // What is clear is clear with a dozen too.
  EXPECT_EQ(checked(better, {scored("fast", 11, 12), scored("slow", 2, 12)}).judged,
            verdict::reproduced);
  EXPECT_EQ(checked(as_good, {scored("fast", 2, 12), scored("slow", 11, 12)}).judged,
            verdict::not_reproduced);
  EXPECT_EQ(checked(as_good, {scored("fast", 150, 200), scored("slow", 150, 200)}).judged,
            verdict::reproduced);
  EXPECT_EQ(exit_status_of({{parsed(better).front(), below}}), 0);
  EXPECT_TRUE(has(render(claims_table({{parsed(better).front(), below}}), table_format::md),
                  "1 AMBIGUOUS"));
}

TEST_F(claims, a_mean_is_no_surer_than_its_items) {
  const std::string mean = as_good + "aggregate = \"mean\"\n";
  // No spread between the points, yet six items each.
  const claim_result two =
      checked(mean, {scored("fast", 3, 6, 1, "list"), scored("slow", 3, 6, 1, "list"),
                     scored("fast", 3, 6, 1, "sum"), scored("slow", 3, 6, 1, "sum")});
  EXPECT_EQ(two.judged, verdict::ambiguous) << two.reason;
  EXPECT_EQ(two.measured->n, 12u);
  EXPECT_EQ(two.measured->unit_of_n, "items");
  EXPECT_TRUE(has(two.reason, "mean of 2 points from 0 to 0")) << two.reason;
  const claim_result one =
      checked(as_good, {scored("fast", 3, 6, 1, "list"), scored("slow", 3, 6, 1, "list")});
  EXPECT_LT(two.measured->range->high, one.measured->range->high);
  // The same items in another batch are no further evidence.
  const claim_result again =
      checked(mean, {scored("fast", 3, 6, 1, "list"), scored("slow", 3, 6, 1, "list"),
                     scored("fast", 3, 6, 8, "list"), scored("slow", 3, 6, 8, "list")});
  EXPECT_EQ(again.measured->n, 6u);
  EXPECT_NEAR(again.measured->range->high, one.measured->range->high, 1e-12);
  // Tasks that differ do not hide what is clear of each.
  const claim_result clear =
      checked(better + "aggregate = \"mean\"\n",
              {scored("fast", 40, 40, 1, "list"), scored("slow", 2, 40, 1, "list"),
               scored("fast", 30, 40, 1, "sum"), scored("slow", 10, 40, 1, "sum")});
  EXPECT_EQ(clear.judged, verdict::reproduced) << clear.reason;
  EXPECT_NEAR(clear.measured->value, 0.725, 1e-12);
}

// "Better" with an interval that holds nothing worth the name is refuted although its sign is open.
TEST_F(claims, no_difference_worth_the_name_is_not_reproduced) {
  const auto equal = [&](const std::string& more, std::size_t n) {
    return checked(better + more, {scored("fast", n / 2, n), scored("slow", n / 2, n)});
  };
  const claim_result few = equal("", 40), many = equal("", 1000);
  EXPECT_EQ(few.judged, verdict::ambiguous) << few.reason;
  EXPECT_TRUE(std::isfinite(few.evidence_factor) && few.evidence_factor > 1);
  EXPECT_EQ(many.judged, verdict::not_reproduced) << many.reason;
  EXPECT_TRUE(has(many.reason, "no difference of 0.02 or more")) << many.reason;
  // Half of a small published effect is what counts then; a claim may name its own.
  EXPECT_EQ(equal("published = { value = 0.1, unit = \"points\", source = \"T\" }\n", 1000).judged,
            verdict::ambiguous);
  EXPECT_EQ(equal("least = 0.2\n", 40).judged, verdict::not_reproduced);
  EXPECT_EQ(equal("least = 0\n", 1000).judged, verdict::ambiguous);
}

TEST_F(claims, one_timing_decides_nothing) {
  for (const double other : {1.05, 1.5, 4.0}) {
    const claim_result r = checked(faster, {row_of("fast", {1.0}), row_of("slow", {other})});
    EXPECT_EQ(r.judged, verdict::ambiguous) << r.reason;
    EXPECT_TRUE(has(r.reason, "timed once, which says nothing of a speed")) << r.reason;
    EXPECT_EQ(r.size, published_size::not_compared);
  }
}

// A share of the time is as sure as its repetitions, and more of them are what it may lack.
TEST_F(claims, a_share_of_the_time_needs_repetitions) {
  const std::string small =
      "kind = \"threshold\"\nmetric = \"rule_share\"\nrelation = \"<=\"\nvalue = 0.02\n"
      "left = { label = \"fast\" }\n";
  std::vector<result_row> rows = {row_of("fast", {1.0})};
  const auto of = [&](std::vector<double> shares) {
    rows[0].metrics["rule_share"] = {0.01, origin::measured, std::move(shares)};
    return checked(small, rows);
  };
  EXPECT_EQ(of({0.009, 0.01, 0.011}).judged, verdict::reproduced);
  const claim_result unsure = of({0.001, 0.01, 0.019});
  EXPECT_EQ(unsure.judged, verdict::ambiguous) << unsure.reason;
  // Student's t for 2 degrees of freedom, 4.3027, of a deviation of 0.009.
  EXPECT_NEAR(unsure.measured->range->high, 0.01 + 4.3027 * 0.009 / std::sqrt(3), 1e-6);
  EXPECT_TRUE(unsure.by_repetition && unsure.evidence_factor > 1);
  const claim_result once = of({});
  EXPECT_EQ(once.judged, verdict::ambiguous);
  EXPECT_TRUE(once.by_repetition && has(once.reason, "measured once")) << once.reason;
}

TEST_F(claims, the_best_of_several_points_is_corrected_for_their_number) {
  // One of two is ahead by just more than its own interval.
  const std::vector<result_row> rows = {
      row_of("fast", {1.0, 1.02, 0.98}, 1), row_of("slow", {1.2, 1.22, 1.18}, 1),
      row_of("fast", {1.0, 1.02, 0.98}, 8), row_of("slow", {1.0, 0.98, 1.02}, 8)};
  const claim_result each = checked(faster, rows),
                     best = checked(faster + "aggregate = \"max\"\n", rows);
  EXPECT_EQ(each.judged, verdict::partly) << each.reason;
  ASSERT_TRUE(best.measured->range);
  EXPECT_TRUE(has(best.reason, "the largest of 2 points, interval corrected")) << best.reason;
  const claim_result alone = checked(faster, {rows[0], rows[1]});
  EXPECT_LT(best.measured->range->low, alone.measured->range->low);
  EXPECT_GT(best.measured->range->high, alone.measured->range->high);
}

TEST_F(claims, outside_its_regime_a_claim_is_not_applicable) {
  const std::string claim = faster +
                            "[[claim.precondition]]\nsays = \"slow takes many forwards\"\n"
                            "metric = \"nfe\"\nwhere = { label = \"slow\" }\nrelation = \">=\"\n"
                            "value = 50\n";
  std::vector<result_row> rows = {
      row_of("fast", {1.0, 1.01, 0.99}, 1), row_of("slow", {2.0, 2.01, 1.99}, 1),
      row_of("fast", {3.0, 3.01, 2.99}, 8), row_of("slow", {2.0, 2.01, 1.99}, 8)};
  for (result_row& row : rows) row.metrics["nfe"] = {10, origin::counted};
  const claim_result none = checked(claim, rows);
  EXPECT_EQ(none.judged, verdict::not_applicable) << none.reason;
  EXPECT_TRUE(has(none.reason, "presumes that slow takes many forwards (nfe of slow is 10"))
      << none.reason;
  EXPECT_EQ(none.out_of_regime, 2u);
  EXPECT_EQ(exit_status_of({{parsed(claim).front(), none}}), 0);
  rows[1].metrics["nfe"].value = 60;  // at batch 1 it is as the claim presumes
  const claim_result one = checked(claim, rows);
  EXPECT_EQ(one.judged, verdict::reproduced) << one.reason;
  EXPECT_TRUE(has(one.reason, "1 more points are out of the claim's regime")) << one.reason;
  rows.erase(rows.begin() + 1);  // nobody tells
  EXPECT_EQ(checked(claim, rows).judged, verdict::not_applicable);
}

TEST_F(claims, the_published_size_is_compared_beside_the_direction) {
  const std::vector<result_row> rows = {row_of("fast", {1.0, 1.01, 0.99}),
                                        row_of("slow", {2.0, 2.02, 1.98})};
  const auto of = [&](const std::string& published) {
    return checked(faster + "published = { " + published + ", source = \"T\" }\n", rows);
  };
  EXPECT_EQ(of("value = 2.0, unit = \"x\"").size, published_size::inside);
  EXPECT_EQ(of("value = 3.5, unit = \"x\"").size, published_size::outside);
  EXPECT_EQ(of("value = 3.5, unit = \"x\", rounding = 1.5").size, published_size::inside);
  EXPECT_EQ(of("value = 3.5, unit = \"x\", rounding = 0.05").size, published_size::outside);
  EXPECT_EQ(of("value = 250, unit = \"%\", as = \"change\", rounding = 150").size,
            published_size::inside);
  EXPECT_TRUE(has(of("value = 3.5, unit = \"x\"").reason, "3.500, is outside the interval"));
  EXPECT_EQ(of("value = 100, unit = \"% faster\", as = \"change\"").size, published_size::inside);
  EXPECT_EQ(of("value = 100, unit = \"of something\"").size, published_size::not_compared);
  EXPECT_TRUE(has(message_of([&] { of("value = 1, as = \"rato\""); }), "did you mean 'ratio'"));
}

TEST_F(claims, a_virtual_clock_reproduces_a_model) {
  std::vector<result_row> rows = {row_of("fast", {1.0, 1.01}), row_of("slow", {2.0, 2.01})};
  for (result_row& row : rows) {
    row.run.kind = "serve";
    row.run.serve["clock"] = std::string("virtual");
  }
  const claim_result r = checked(faster + "variant = \"T(b c)\"\n", rows);
  EXPECT_EQ(r.judged, verdict::reproduced_model) << r.reason;
  const std::vector<checked_claim> all = {{parsed(faster + "variant = \"T(b c)\"\n").front(), r}};
  EXPECT_TRUE(has(render(claims_table(all), table_format::md), "; of T(b c))"));
  EXPECT_TRUE(has(claims_json(all), "\"REPRODUCED (model)\""));
}

TEST_F(claims, pairs_are_pooled_over_points) {
  const std::string mean = better + "aggregate = \"mean\"\n";
  // Nine tasks of ten items; in each the left side has one more right than the right side.
  std::vector<result_row> rows;
  for (int task = 0; task < 9; ++task) {
    const std::string name = "task " + std::to_string(task);
    rows.push_back(scored("fast", 6, 10, 1, name));
    rows.push_back(scored("slow", 5, 10, 1, name));
  }
  const claim_result r = checked(mean, rows);
  EXPECT_EQ(r.judged, verdict::reproduced) << r.reason;
  EXPECT_EQ(r.measured->n, 90u);
  EXPECT_NEAR(r.measured->value, 0.1, 1e-12);
  EXPECT_TRUE(has(r.reason, "9 up, 0 down, McNemar p = 0.0039")) << r.reason;
  EXPECT_EQ(checked(better, rows).judged, verdict::ambiguous);  // no task alone can tell
}

TEST_F(claims, half_right_over_two_seeds_counts_for_neither_side) {
  // "fast" answers alike with both seeds, 30 of 60 items; "slow" answers ten of these with one seed
  // only and ten others with one seed only: no difference. Then it misses the first ten altogether.
  const std::string mean = better + "aggregate = \"mean\"\n";
  std::vector<result_row> rows;
  for (const std::int64_t seed : {0, 1}) {
    for (const char* label : {"fast", "slow"}) {
      rows.push_back(scored(label, 30, 60, 1));
      rows.back().run.seed = seed;
      rows.back().point_id += std::to_string(seed);
    }
    std::vector<double>& slow = rows.back().items.score;
    for (std::size_t i = 0; i < 10; ++i) {
      slow[i] = seed == 0 ? 1 : 0;
      slow[30 + i] = seed == 0 ? 1 : 0;
    }
  }
  claim_result r = checked(mean, rows);
  EXPECT_TRUE(has(r.reason, "10 up, 10 down")) << r.reason;
  EXPECT_NEAR(r.measured->range->low, -r.measured->range->high, 0.02) << r.reason;
  for (std::size_t i = 0; i < 10; ++i) rows[1].items.score[i] = 0;
  r = checked(mean, rows);
  EXPECT_TRUE(has(r.reason, "10 up, 10 down")) << r.reason;
  EXPECT_NEAR(r.measured->value, 5.0 / 60, 1e-12);
  EXPECT_GT(r.measured->range->high + r.measured->range->low, 0.05) << r.reason;
}

TEST_F(claims, graded_scores_are_judged_by_their_own_spread) {
  const std::string mean = better + "aggregate = \"mean\"\n";
  std::vector<result_row> rows;
  for (const char* story : {"short story", "long story"}) {
    for (const auto& [label, base] : {std::pair("fast", 0.4), std::pair("slow", 0.3)}) {
      rows.push_back(scored(label, 15, 15, 1, story));
      for (std::size_t i = 0; i < 15; ++i) {
        rows.back().items.score[i] = base + (base > 0.35 ? 0.01 * static_cast<double>(i % 5) : 0);
      }
    }
  }
  const claim_result r = checked(mean, rows);
  EXPECT_EQ(r.judged, verdict::reproduced) << r.reason;
  EXPECT_NEAR(r.measured->value, 0.12, 1e-12);
  EXPECT_LT(r.measured->range->high - r.measured->range->low, 0.02);
  // One score that is right or wrong, and shares of pairs widen the interval again.
  rows[0].items.score[0] = rows[1].items.score[0] = 1;
  const claim_result mixed = checked(mean, rows);
  EXPECT_TRUE(has(mixed.reason, "29 up, 0 down")) << mixed.reason;
  EXPECT_GT(mixed.measured->range->high - mixed.measured->range->low,
            1.2 * (r.measured->range->high - r.measured->range->low));
}

TEST_F(claims, shares_of_items_have_an_interval_over_items) {
  std::vector<result_row> rows = {row_of("fast", {1.0})};
  const std::string quarter =
      "kind = \"threshold\"\nmetric = \"probes.stagnation.share\"\nrelation = \">=\"\n"
      "value = 0.15\nleft = { label = \"fast\" }\n";
  rows[0].probes["stagnation"] = R"({"share":0.25})";
  const claim_result sample = checked(quarter, rows);
  EXPECT_EQ(sample.judged, verdict::ambiguous) << sample.reason;
  EXPECT_TRUE(has(sample.reason, "of a sample of items, no interval")) << sample.reason;
  std::string items;
  for (int i = 0; i < 40; ++i) items += std::string(i ? "," : "") + (i % 2 ? "[2,10]" : "[3,10]");
  rows[0].probes["stagnation"] = R"({"share":0.25,"share_items":[)" + items + "]}";
  const claim_result r = checked(quarter, rows);
  EXPECT_EQ(r.judged, verdict::reproduced) << r.reason;
  EXPECT_EQ(r.measured->n, 40u);
  EXPECT_GT(r.measured->range->low, 0.22);
  EXPECT_LT(r.measured->range->high, 0.28);
}

TEST_F(claims, rows_of_several_artifacts_are_pooled) {
  std::string second = artifact_text;
  second.replace(second.find("table_5"), 7, "table_6");
  write(scratch / "focus/table_6.toml", second);
  const std::string text =
      "paper = \"focus\"\n[[claim]]\nid = \"c\"\nstatement = \"s\"\nsource = \"Table 5\"\n"
      "artifacts = [\"../focus/table_5.toml\", \"../focus/table_6.toml\"]\nscales = [\"tiny\"]\n" +
      faster;
  const auto all = parse_claims(text, scratch / "claims/focus.toml");
  ASSERT_EQ(all.front().artifacts.size(), 2u);
  machine_view machine;
  machine.has_weights = machine.has_dataset =
      machine.has_trace = [](const std::string&) { return true; };
  const auto results = scratch / "results";
  write(results / "focus/table_5/tiny/rows.jsonl", to_json_line(row_of("fast", {1.0, 1.1})) + "\n");
  EXPECT_TRUE(has(check_claims(all, results, "tiny", machine)[0].result.reason, "table_6"));
  write(results / "focus/table_6/tiny/rows.jsonl", to_json_line(row_of("slow", {3.0, 3.1})) + "\n");
  const claim_result r = check_claims(all, results, "tiny", machine)[0].result;
  EXPECT_EQ(r.held, 1u) << r.reason;
}

// Both sides met the same requests seed by seed: how seeds differ is no doubt about the ratio.
TEST_F(claims, a_capacity_found_per_seed_is_compared_seed_by_seed) {
  const std::string capacity =
      "kind = \"ordering\"\nmetric = \"slo_capacity_requests_per_second\"\nrelation = \">\"\n"
      "left = { label = \"fast\" }\nright = { label = \"slow\" }\n";
  std::vector<result_row> rows = {row_of("fast", {1.0}), row_of("slow", {1.0})};
  rows[0].metrics["slo_capacity_requests_per_second"] = {5.0, origin::synthetic, {4.4, 5.5, 5.1}};
  rows[1].metrics["slo_capacity_requests_per_second"] = {4.6, origin::synthetic, {4.0, 5.1, 4.7}};
  const claim_result paired = checked(capacity, rows);
  EXPECT_EQ(paired.judged, verdict::reproduced) << paired.reason;
  EXPECT_NE(paired.reason.find("seed"), std::string::npos) << paired.reason;
  // One seed more on one side: two samples, whose spread is then a doubt.
  rows[1].metrics["slo_capacity_requests_per_second"].samples.push_back(4.6);
  EXPECT_EQ(checked(capacity, rows).judged, verdict::ambiguous);
}

TEST_F(claims, two_values_of_one_row_are_compared) {
  const std::string growth =
      "kind = \"ordering\"\nrelation = \">\"\nleft = { label = \"fast\", metric = \"rows\" }\n"
      "right = { label = \"fast\", metric = \"decode_rows\" }\n";
  std::vector<result_row> rows = {row_of("fast", {1.0}), row_of("slow", {1.0})};
  rows[0].metrics["rows"] = {20, origin::counted};
  rows[0].metrics["decode_rows"] = {10, origin::counted};
  EXPECT_EQ(checked(growth, rows).judged, verdict::reproduced);
  rows[0].metrics["decode_rows"] = {30, origin::counted};
  EXPECT_EQ(checked(growth, rows).judged, verdict::not_reproduced);
}

// A share that a probe found in some items has an interval over them, or none; it is never exact.
TEST_F(claims, shares_of_probes_are_of_samples) {
  const std::string least =
      "kind = \"threshold\"\nmetric = \"probes.p.share\"\nrelation = \">=\"\nvalue = 0.15\n"
      "left = { label = \"fast\" }\n";
  std::vector<result_row> rows = {row_of("fast", {1.0})};
  rows[0].probes["p"] = R"({"share": 0.25, "share_ci95": [0.1, 0.4]})";
  const claim_result unsure = checked(least, rows);
  EXPECT_EQ(unsure.judged, verdict::ambiguous) << unsure.reason;
  ASSERT_TRUE(unsure.measured && unsure.measured->range);
  EXPECT_EQ(unsure.measured->range->low, 0.1);
  rows[0].probes["p"] = R"({"share": 0.25, "share_ci95": [0.2, 0.3]})";
  EXPECT_EQ(checked(least, rows).judged, verdict::reproduced);
  rows[0].probes["p"] = R"({"share": 0.25})";
  EXPECT_FALSE(checked(least, rows).measured->range);
}

TEST_F(claims, about_needs_the_whole_interval) {
  const std::string about =
      "kind = \"ratio\"\nmetric = \"tokens_per_second\"\nleft = { label = \"fast\" }\n"
      "right = { label = \"slow\" }\nexpected = 2.0\n";
  const std::vector<result_row> rows = {row_of("fast", {1.0, 1.2, 0.8}),
                                        row_of("slow", {2.0, 1.9, 2.1})};
  EXPECT_EQ(checked(about, rows).judged, verdict::ambiguous);
  EXPECT_EQ(checked(about + "tolerance = 5.0\n", rows).judged, verdict::reproduced);
}

TEST_F(claims, failed_rows_are_no_evidence) {
  result_row broken = row_of("slow", {2.0, 2.0});
  broken.verdict = verdict_kind::failed;
  broken.reason = "out of memory";
  const claim_result r = checked(faster, {row_of("fast", {1.0, 1.0}), broken});
  EXPECT_EQ(r.judged, verdict::not_run);
  EXPECT_TRUE(has(r.reason, "out of memory")) << r.reason;
}

// What belongs to one value of a list lies in a list of the same shape beside it.
TEST_F(claims, values_of_lists_have_their_own_intervals_and_items) {
  std::vector<result_row> rows = {row_of("fast", {1.0})};
  const auto level = [&](const std::string& probe) {
    rows[0].probes["p"] = probe;
    return checked(
        "kind = \"threshold\"\nmetric = \"probes.p.a.k[1]\"\nrelation = \">=\"\nvalue = 0.15\n"
        "left = { label = \"fast\" }\n",
        rows);
  };
  EXPECT_EQ(level(R"({"a": {"k": [0, 0.3], "k_ci95": [[0, 0], [0.1, 0.4]]}})").judged,
            verdict::ambiguous);
  EXPECT_EQ(level(R"({"a": {"k": [0, 0.3], "k_ci95": [[0, 0], [0.2, 0.4]]}})").judged,
            verdict::reproduced);
  // Two values of the same items, drawn together: every draw lies between the items' own ratios.
  rows[0].probes["p"] = R"({"k": [1.55, 1], "k_items": [[[3, 2], [3, 2], [3, 2], [6.6, 4]],
                                                      [[1, 1], [1, 1], [1, 1], [2, 2]]]})";
  const claim_result r = checked(
      "kind = \"ordering\"\nrelation = \">\"\nleft = { label = \"fast\", metric = "
      "\"probes.p.k[0]\" }\nright = { label = \"fast\", metric = \"probes.p.k[1]\" }\n",
      rows);
  EXPECT_EQ(r.judged, verdict::reproduced) << r.reason;
  EXPECT_NEAR(r.measured->value, 1.56, 1e-9);  // 15.6 / 10 over 5 / 5
  EXPECT_NEAR(r.measured->range->low, 1.5, 1e-9);
  EXPECT_GT(r.measured->range->high, 1.56);
  EXPECT_LT(r.measured->range->high, 1.65);
}

TEST_F(claims, probes_are_reached_by_path) {
  std::vector<result_row> rows = {row_of("fast", {1.0})};
  rows[0].probes["importance"] = R"({"auc":[0.6,0.9],"by":{"layer":{"mean":3}}})";
  EXPECT_EQ(value_in(rows[0], "probes.importance.auc[1]")->value, 0.9);
  EXPECT_EQ(value_in(rows[0], "probes.importance.by.layer.mean")->value, 3);
  rows[0].calibration = R"({"mape":0.04,"knots":[11,55]})";
  EXPECT_EQ(value_in(rows[0], "calibration.mape")->value, 0.04);
  EXPECT_EQ(value_in(rows[0], "calibration.knots[1]")->value, 55);
  EXPECT_EQ(value_in(rows[0], "probes.calibration.mape")->value, 0.04);  // before schema 1.3
  EXPECT_FALSE(value_in(row_of("slow", {1.0}), "calibration.mape"));
  EXPECT_FALSE(value_in(rows[0], "probes.importance.auc[2]"));
  EXPECT_FALSE(value_in(rows[0], "probes.importance.auc"));
  EXPECT_FALSE(value_in(rows[0], "probes.nothing.auc"));
  EXPECT_EQ(checked("kind = \"threshold\"\nmetric = \"probes.importance.auc[1]\"\n"
                    "relation = \">\"\nvalue = 0.8\nleft = { label = \"fast\" }\n",
                    rows)
                .judged,
            verdict::ambiguous);  // of a sample of items, without an interval
}

TEST_F(claims, mistakes_are_refused_with_their_place) {
  const struct {
    std::string lines, says;
  } cases[] = {
      {faster + "relaton = 3\n", "relation"},
      {"kind = \"odering\"\n", "did you mean 'ordering'"},
      {"metric = \"nfe\"\n", "needs `kind`"},
      {"kind = \"ordering\"\nmetric = \"nfe\"\nleft = { lable = \"x\" }\n", "did you mean 'label'"},
      {"kind = \"ordering\"\nmetric = \"nfe\"\nleft = { label = \"x\" }\nrelation = \">\"\n",
       "needs `right`"},
      {"kind = \"ordering\"\nmetric = \"nfe\"\nleft = {}\nright = {}\nrelation = \"=>\"\n",
       "relation of this kind"},
      {"kind = \"ordering\"\nleft = {}\nright = {}\nrelation = \">\"\n", "needs `metric`"},
      {"kind = \"ratio\"\nmetric = \"nfe\"\nleft = {}\nright = {}\n", "needs `expected`"},
      {"kind = \"ratio\"\nmetric = \"score\"\nleft = {}\nright = {}\nexpected = 1\n",
       "ratio of scores"},
      {"kind = \"monotone\"\nmetric = \"nfe\"\nleft = {}\nrelation = \"increasing\"\n",
       "needs `along`"},
      {"kind = \"threshold\"\nmetric = \"nfe\"\nleft = {}\nrelation = \">\"\n", "needs `value`"},
      {faster + "value = 3\n", "only kind \"threshold\""},
      {faster + "published = { value = 3 }\n", "published.source"},
  };
  for (const auto& c : cases) {
    const std::string said = message_of([&] { parsed(c.lines); });
    EXPECT_TRUE(has(said, c.says)) << c.says << ": " << said;
    EXPECT_TRUE(has(said, "focus.toml:")) << said;
  }
  const auto file = scratch / "claims/focus.toml";
  const std::string claim =
      "[[claim]]\nid = \"c\"\nstatement = \"s\"\nsource = \"t\"\nartifact = "
      "\"../focus/table_5.toml\"\n"
      "scales = [\"tiny\"]\n" +
      faster;
  EXPECT_TRUE(
      has(message_of([&] { parse_claims("paper = \"focus\"\n" + claim + claim, file); }), "twice"));
  std::string text = "paper = \"focus\"\n" + claim;
  text.replace(text.find("\"tiny\"]"), 6, "\"tinny\"");
  EXPECT_TRUE(has(message_of([&] { parse_claims(text, file); }), "did you mean 'tiny'"));
  text = "paper = \"focus\"\n" + claim;
  text.replace(text.find("table_5.toml"), 7, "table_6");
  EXPECT_TRUE(has(message_of([&] { parse_claims(text, file); }), "does not exist"));
}

TEST_F(claims, one_that_does_not_hold_says_whether_its_controls_do) {
  const std::string control =
      "[[control]]\nid = \"k\"\nstatement = \"The cache alone is faster than nothing.\"\n"
      "source = \"ours\"\nartifact = \"../focus/table_5.toml\"\nscales = [\"tiny\"]\n"
      "kind = \"ordering\"\nmetric = \"tokens_per_second\"\nrelation = \">\"\n"
      "left = { label = \"cache\" }\nright = { label = \"slow\" }\n";
  const std::string names = faster + "controls = [\"k\"]\n";
  const auto results = scratch / "results";
  std::string rows;
  for (const auto& [label, second] : {std::pair("fast", 3.0), {"slow", 2.0}, {"cache", 1.0}}) {
    rows += to_json_line(row_of(label, {second, second * 1.01, second * 0.99})) + "\n";
  }
  write(results / "focus/table_5/tiny/rows.jsonl", rows);
  const auto reason = [&](const std::string& lines) {
    return check_claims(parsed(lines), results, "tiny", machine_view())[0].result.reason;
  };
  EXPECT_TRUE(has(reason(faster), "; no control"));
  const std::string with = reason(names + control);
  EXPECT_TRUE(has(with, "; control: The cache alone is faster than nothing: REPRODUCED, 2, n = 3"))
      << with;
  EXPECT_TRUE(has(message_of([&] { parsed(names); }), "'k'"));
  EXPECT_TRUE(has(message_of([&] { parsed(faster + control); }), "a control that no claim names"));
}

TEST_F(claims, what_was_not_measured_says_what_it_needs) {
  machine_view machine;
  machine.has_weights = machine.has_dataset =
      machine.has_trace = [](const std::string&) { return false; };
  std::vector<paper_claim> all = parsed(faster);
  all.push_back(all.front());
  all.back().scales = {"full"};
  const auto results = scratch / "results";
  auto checked = check_claims(all, results, "tiny", machine);
  EXPECT_TRUE(has(checked[0].result.reason, "NOT RUN: no rows in")) << checked[0].result.reason;
  EXPECT_TRUE(has(checked[1].result.reason, "only at full")) << checked[1].result.reason;
  EXPECT_TRUE(has(checked[1].result.reason, "weights:GSAI-ML/LLaDA-8B"));
  EXPECT_EQ(exit_status_of(checked), 0);  // nothing was refuted
  checked = check_claims({all.back()}, results, "full", machine);
  EXPECT_TRUE(has(checked[0].result.reason, "NOT RUN: needs memory_gb:64"));

  write(results / "focus/table_5/tiny/rows.jsonl", to_json_line(row_of("fast", {2.0, 2.1})) + "\n" +
                                                       to_json_line(row_of("slow", {1.0, 1.1})) +
                                                       "\n");
  checked = check_claims(all, results, "tiny", machine);
  EXPECT_EQ(checked[0].result.judged, verdict::not_reproduced);
  EXPECT_EQ(exit_status_of(checked), 4);
  const std::string table = render(claims_table(checked), table_format::md);
  EXPECT_TRUE(has(table, "1 NOT REPRODUCED, 0 NOT APPLICABLE, 1 NOT RUN, of 2 claims")) << table;

  // Rows of another scale judge the claims that are for that scale only.
  std::filesystem::copy(results / "focus/table_5/tiny", results / "focus/table_5/full");
  checked = check_claims(all, results, "tiny", machine);
  EXPECT_EQ(checked[0].result.scale, "tiny");
  EXPECT_EQ(checked[1].result.scale, "full");
  EXPECT_EQ(checked[1].result.judged, verdict::not_reproduced);
}

}  // namespace
}  // namespace unmask
