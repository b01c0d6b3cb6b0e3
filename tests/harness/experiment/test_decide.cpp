// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "harness/analysis/frame.h"
#include "harness/base/files.h"
#include "harness/experiment/artifact_files.h"
#include "harness/experiment/decide.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

// An artifact whose fast setting answers a tenth more items than its slow one; it has 400 items, of
// which it measures 10 unless told to measure more.
class deciding : public testing::Test {
 protected:
  deciding() {
    a.file = write(scratch / "table.toml", "title = \"t\"\n");
    a.header.paper = "focus";
    a.header.id = "table";
    artifact_scale tiny;
    tiny.entry.name = "tiny";
    a.scales = {tiny};
    items = {{a, "tiny"}};
    claim.paper = "focus";
    claim.id = "better";
    claim.artifacts = {a.file};
    claim.kind = claim_kind::ordering;
    claim.aggregate = claim_aggregate::mean;
    claim.relation = ">";
    claim.left.metric = claim.right.metric = "score";
    claim.left.keys = {{"label", {parameter_value("fast")}}};
    claim.right.keys = {{"label", {parameter_value("slow")}}};
  }

  int measure(const campaign_item& item, const std::filesystem::path& output) {
    asked.push_back({item.more_items, item.more_repetitions});
    if (fails) return 1;
    const auto n = std::min(there_are, static_cast<std::size_t>(10 * item.more_items));
    std::string text;
    for (const char* label : {"fast", "slow", "other"}) {
      if (!item.points.empty() && std::ranges::none_of(item.points, [&](const row_selector& by) {
            return by.matches(row_of(label, {1.0, 1.1}));
          })) {
        continue;
      }
      measured.push_back(label);
      result_row row = row_of(label, {1.0, 1.1});
      std::int64_t right = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const bool ok = i % 10 < (std::string(label) == "fast" ? 6 : 5);
        row.items.id.push_back("i" + std::to_string(i));
        row.items.score.push_back(ok ? 1.0 : 0.0);
        row.items.exact.push_back(ok);
        row.items.output_tokens.push_back(10);
        row.items.seconds.push_back({0.1, 0.1});
        row.items.answer_hash.push_back("");
        right += ok;
      }
      row.score = score_record{static_cast<double>(right) / static_cast<double>(n), right,
                               static_cast<std::int64_t>(n), 0, 1};
      text += to_json_line(row) + "\n";
    }
    write(output / "rows.jsonl", text);
    return 0;
  }

  std::vector<checked_claim> decided(double seconds) {
    const artifact_runner runner = [&](const campaign_item& i, const std::filesystem::path& o) {
      return measure(i, o);
    };
    const claim_judge judge = [&] {
      const frame rows = read_frame({evidence_for(claim, place)});
      return std::vector<checked_claim>{{claim, check_claim(claim, rows, "tiny")}};
    };
    run_campaign(items, scratch / "out", runner, progress);
    return decide(items, scratch / "out", seconds, runner, judge, progress);
  }

  scratch_directory scratch;
  const std::filesystem::path place = scratch / "out/focus/table/tiny";
  artifact_entry a;
  std::vector<campaign_item> items;
  paper_claim claim;
  std::size_t there_are = 400;
  bool fails = false;
  std::vector<std::pair<std::int64_t, std::int64_t>> asked;
  std::vector<std::string> measured;  // labels
  std::ostringstream progress;
};

TEST_F(deciding, an_artifact_is_timed_where_a_claim_about_it_reads_the_clock) {
  EXPECT_FALSE(is_timed(items[0], {claim}));
  claim.right.metric = "decode_tokens_per_second";
  EXPECT_TRUE(is_timed(items[0], {claim}));
  claim.artifacts = {write(scratch / "other.toml", "title = \"t\"\n")};
  EXPECT_FALSE(is_timed(items[0], {claim}));
}

TEST_F(deciding, goes_on_with_more_items_until_the_claim_is_decided) {
  const std::vector<checked_claim> claims = decided(3600);
  EXPECT_EQ(claims.front().result.judged, verdict::reproduced) << claims.front().result.reason;
  ASSERT_GE(asked.size(), 2u);
  for (std::size_t i = 1; i < asked.size(); ++i) {
    EXPECT_GE(asked[i].first, 2 * asked[i - 1].first);  // each round at least doubles
    EXPECT_LE(asked[i].first, 4 * asked[i - 1].first);
    EXPECT_EQ(asked[i].second, 1);  // scores do not need repetitions
  }
  // Only what the claim compares was measured again, beside the rows of all.
  EXPECT_EQ(std::ranges::count(measured, "other"), 1);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(measured, "fast")), asked.size());
  EXPECT_EQ(read_frame({place}).rows().size(), 3u);
  EXPECT_EQ(read_frame({evidence_for(claim, place)}).rows().size(), 2u);
  const evidence_log log = read_evidence(scratch / "out" / campaign_log);
  EXPECT_EQ(log.at("focus/table/tiny").items, 1);
  EXPECT_EQ(log.at("focus/table/tiny focus/better").items, asked.back().first);
  EXPECT_EQ(log.at("focus/table/tiny focus/better").rounds, asked.size() - 1);
}

TEST_F(deciding, rows_of_more_evidence_judge_a_claim_when_all_of_them_are_there) {
  decided(0);
  const std::string rows = read_file(place / "rows.jsonl", 1 << 20);
  write(place / "more/items4_repetitions1/rows.jsonl", rows.substr(0, rows.find('\n') + 1));
  EXPECT_EQ(evidence_for(claim, place), place);  // "slow" is not there yet
  write(place / "more/items4_repetitions1/rows.jsonl", rows);
  EXPECT_EQ(evidence_for(claim, place), place / "more/items4_repetitions1");
  write(place / "more/items16_repetitions1/rows.jsonl", rows);
  EXPECT_EQ(evidence_for(claim, place), place / "more/items16_repetitions1");
  paper_claim of_times = claim;
  of_times.left.metric = of_times.right.metric = "tokens_per_second";
  EXPECT_EQ(evidence_for(of_times, place), place);  // more items, measured beside other work
  write(place / "more/items1_repetitions4/rows.jsonl", rows);
  EXPECT_EQ(evidence_for(of_times, place), place / "more/items1_repetitions4");
  EXPECT_EQ(evidence_for(claim, place), place / "more/items16_repetitions1");
}

TEST_F(deciding, claims_about_one_artifact_share_a_round_and_a_claim_pays_for_its_points) {
  campaign_item first = items.front();
  measure(first, place);  // three rows of as many seconds
  write(scratch / "out/campaign.jsonl",
        R"({"paper":"focus","id":"table","scale":"tiny","status":"measured","seconds":300})");
  checked_claim one{claim, {}};
  one.result.judged = verdict::ambiguous;
  one.result.scale = "tiny";
  one.result.evidence_factor = 3;
  checked_claim two = one;
  two.claim.id = "worse";
  two.claim.right.keys = {{"label", {parameter_value("other")}}};
  checked_claim three = two;
  three.claim.id = "nearly";
  three.result.evidence_factor = 1.4;  // needs twice as much, not four times
  const evidence_log log = evidence_of({one, two, three}, items, scratch / "out");
  EXPECT_DOUBLE_EQ(log.at("focus/table/tiny focus/better").seconds, 200);
  const std::vector<decide_step> round = next_round({one, two, three}, items, log, 1e6, {});
  ASSERT_EQ(round.size(), 2u);
  EXPECT_EQ(round[0].item.more_items, 2);
  EXPECT_EQ(round[0].item.claims, std::vector<std::string>{"focus/nearly"});
  EXPECT_EQ(round[1].item.claims, (std::vector<std::string>{"focus/better", "focus/worse"}));
  EXPECT_EQ(round[1].item.points.size(), 4u);
}

TEST_F(deciding, gives_a_claim_up_whose_items_are_used_up) {
  there_are = 20;
  const std::vector<checked_claim> claims = decided(3600);
  EXPECT_EQ(claims.front().result.judged, verdict::ambiguous);
  EXPECT_TRUE(has(claims.front().result.reason, "all 20 items there are were used"))
      << claims.front().result.reason;
  EXPECT_LE(asked.size(), 3u);
}

TEST_F(deciding, without_a_budget_says_what_a_decision_would_cost) {
  const std::vector<checked_claim> claims = decided(0);
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(claims.front().result.judged, verdict::ambiguous);
  EXPECT_TRUE(has(claims.front().result.reason, "times as many items would decide it, about"))
      << claims.front().result.reason;
}

TEST_F(deciding, a_round_that_fails_loses_nothing) {
  decided(0);
  fails = true;
  campaign_item more = items.front();
  more.more_items = 4;
  more.points = points_of(claim);
  more.claims = {"focus/better"};
  const artifact_runner runner = [&](const campaign_item& i, const std::filesystem::path& o) {
    return measure(i, o);
  };
  run_campaign({more}, scratch / "out", runner, progress);
  EXPECT_EQ(read_frame({place}).rows().size(), 3u);
  EXPECT_EQ(read_evidence(scratch / "out" / campaign_log).at("focus/table/tiny").items, 1);
}

TEST_F(deciding, a_value_on_its_bound_is_left_alone) {
  checked_claim open{claim, {}};
  open.result.judged = verdict::ambiguous;
  open.result.scale = "tiny";
  open.result.evidence_factor = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(next_round({open}, items, {}, 3600, {}).empty());
  open.result.evidence_factor = 3;
  EXPECT_EQ(next_round({open}, items, {}, 3600, {}).size(), 1u);
  checked_claim elsewhere = open;
  elsewhere.result.scale = "full";  // judged by rows that this campaign does not make
  EXPECT_TRUE(next_round({elsewhere}, items, {}, 3600, {}).empty());
  EXPECT_TRUE(next_round({open}, items, {}, 3600, {{"focus/better", "given up"}}).empty());
  const evidence_log dear = {{"focus/table/tiny", {1, 1, 0, 1000}}};
  EXPECT_TRUE(next_round({open}, items, dear, 3600, {}).empty());  // 4000 s
  EXPECT_EQ(next_round({open}, items, dear, 4000, {}).front().seconds, 4000);
}

TEST(evidence, a_distance_of_half_an_arm_needs_four_times_as_much) {
  region above;
  above.low = 0;
  EXPECT_DOUBLE_EQ(evidence_to_decide(1, {-1, 3}, above), 4);
  EXPECT_DOUBLE_EQ(evidence_to_decide(-1, {-3, 1}, above), 4);
  EXPECT_DOUBLE_EQ(evidence_to_decide(1, {0.5, 1.5}, above), 1);
  EXPECT_TRUE(std::isinf(evidence_to_decide(0, {-1, 1}, above)));
  EXPECT_DOUBLE_EQ(evidence_to_decide(1, {-1, 3}, {0, 2}), 4);  // within, both ends crossed
}

}  // namespace
}  // namespace unmask
