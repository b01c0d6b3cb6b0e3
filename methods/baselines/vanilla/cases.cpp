// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Vanilla's thresholds and schedules at the ends of their knobs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/methods/limits.h"

namespace unmask {
namespace {

using namespace testing;

const parameter_map blocks = {{"block_length", 8}};

TEST(limits, vanilla_threshold_above_one_is_one_token_per_step) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(3, 16);
  const auto schedule = decode_closed(*model, "vanilla", {{"block_length", 8}}, requests, 1);
  const auto open =
      decode_closed(*model, "vanilla", {{"block_length", 8}, {"threshold", 1.5}}, requests, 1);
  EXPECT_EQ(outputs(schedule), outputs(open));
  EXPECT_EQ(schedule.steps, open.steps);
  EXPECT_EQ(schedule.steps, 3 * 16);
}

TEST(limits, vanilla_threshold_zero_point_nothing_takes_a_block_at_once) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(2, 16);
  const auto r =
      decode_closed(*model, "vanilla", {{"block_length", 8}, {"threshold", 1e-9}}, requests, 1);
  // Two blocks, one step each; a position decided as the mask id may ask for more.
  for (const decoded_answer& a : r.answers) EXPECT_GE(a.counters.forwards, 2);
  EXPECT_LT(r.steps, 2 * 16);
}

// Dream's quota: the published example 32 tokens in 32 steps gives 0, 1, ..., 1, 2.
TEST(limits, dream_schedule_decides_nothing_first_and_two_last) {
  const auto model = tiny_model(model_family::dream, reference_backend());
  std::vector<int> committed;
  struct recorder : step_observer {
    std::vector<int>& to;
    explicit recorder(std::vector<int>& t) : to(t) {}
    void on_step(const step_view& s) override {
      int n = 0;
      for (int c = 0; c < s.candidates.count; ++c) n += s.candidates.accept.as<std::uint8_t>()[c];
      to.push_back(n);
    }
  } watcher(committed);
  decode_closed(*model, "vanilla", {}, tiny_requests(1, 32), 1, "", &watcher);
  ASSERT_EQ(committed.size(), 32U);
  EXPECT_EQ(committed.front(), 0);
  EXPECT_EQ(committed.back(), 2);
  for (std::size_t i = 1; i + 1 < committed.size(); ++i) EXPECT_EQ(committed[i], 1) << i;
}

// On a model for which a token that it writes in a first block ends the answer.
TEST(limits_full, vanilla_that_stops_gives_the_same_answer_in_fewer_forwards) {
  const auto requests = tiny_requests(12, 48);
  const auto usual = tiny_model(model_family::llada, cpu_backend());
  const std::int32_t stop = outputs(decode_closed(*usual, "vanilla", blocks, requests, 1))[0][2];
  model_config c = tiny_config(model_family::llada);
  c.eos_id = stop;
  c.stop_ids = {stop};
  const auto model = tiny_model(c, cpu_backend(), 2048, 7, dtype::f32);
  const auto whole = decode_closed(*model, "vanilla", blocks, requests, 1);
  const auto stops =
      decode_closed(*model, "vanilla", with(blocks, {{"early_stop", true}}), requests, 1);
  const auto padded = outputs(whole), stopping = outputs(stops);
  int stopped = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::vector<std::int32_t>&a = padded[i], &b = stopping[i];
    const auto end = std::find(a.begin(), a.end(), stop) - a.begin();
    const bool ends_early = end < static_cast<std::ptrdiff_t>(a.size()) - 8;
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + end, b.begin()));
    const auto full = whole.answers[i].counters.forwards,
               fewer = stops.answers[i].counters.forwards;
    EXPECT_EQ(fewer, ends_early ? (end / 8 + 1) * 8 : full);
    stopped += ends_early;
  }
  EXPECT_GT(stopped, 0) << "no answer of this model ends before its canvas does";
}

// The answer ends before the first place of a sequence, and what is decided up to there stays.
TEST(limits, vanilla_ends_before_a_stop_sequence) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(1, 24);
  const auto whole = decode_closed(*model, "vanilla", blocks, requests, 1);
  const std::vector<std::int32_t> answer = outputs(whole)[0];
  const std::string pair = std::to_string(answer[4]) + "," + std::to_string(answer[5]);
  const auto stopped =
      decode_closed(*model, "vanilla", with(blocks, {{"stop_sequences", pair}}), requests, 1);
  std::size_t end = 0;
  while (answer[end] != answer[4] || answer[end + 1] != answer[5]) ++end;
  EXPECT_EQ(outputs(stopped)[0], std::vector(answer.begin(), answer.begin() + std::ptrdiff_t(end)));
  EXPECT_LE(stopped.steps, 8);  // no second block
}

TEST(limits, stop_sequences_that_are_none_are_refused) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  for (const char* text : {"a", "1,", ",1", ";1", "1;;2", "-1", "1.5", "1 2", "99999999999"}) {
    test::expect_error(exit_code::usage, "stop_sequences is '" + std::string(text) + "'", [&] {
      decode_closed(*model, "vanilla", {{"stop_sequences", std::string(text)}},
                    tiny_requests(1, 32), 1);
    });
  }
  const auto dream = tiny_model(model_family::dream, cpu_backend());
  test::expect_error(exit_code::usage, "Dream's schedule does not have", [&] {
    decode_closed(*dream, "vanilla", {{"stop_sequences", std::string("1")}}, tiny_requests(1, 8),
                  1);
  });
}

// top_p leaves the best token alone, so that all confidences are 1 and ties go to the first position.
TEST(limits, dream_ranks_by_what_top_p_leaves_at_temperature_zero) {
  const auto model = tiny_model(model_family::dream, cpu_backend());
  struct recorder : step_observer {
    std::vector<std::int32_t> order;
    void on_step(const step_view& s) override {
      for (int c = 0; c < s.candidates.count; ++c) {
        if (s.candidates.accept.as<std::uint8_t>()[c] != 0) {
          order.push_back(s.candidates.position.as<std::int32_t>()[c]);
        }
      }
    }
  } filtered, whole;
  const parameter_map ranking = {{"alg", std::string("maskgit_plus")}};
  decode_closed(*model, "vanilla", with(ranking, {{"top_p", 1e-6}}), tiny_requests(1, 16), 1, "",
                &filtered);
  decode_closed(*model, "vanilla", ranking, tiny_requests(1, 16), 1, "", &whole);
  EXPECT_EQ(filtered.order.size(), 16U);
  EXPECT_TRUE(std::ranges::is_sorted(filtered.order));
  EXPECT_FALSE(std::ranges::is_sorted(whole.order));
  // Dimple's use_original_confidence: the order is that of the logits as they are.
  recorder original;
  decode_closed(*model, "vanilla", with(ranking, {{"top_p", 1e-6}, {"original_confidence", true}}),
                tiny_requests(1, 16), 1, "", &original);
  EXPECT_EQ(original.order, whole.order);
}

TEST(limits, tokens_of_a_prior_stay_and_are_not_unmasked) {
  const auto model = tiny_model(model_family::dream, cpu_backend());
  for (const char* schedule : {"dream", "dimple"}) {
    const parameter_map settings = {{"schedule", std::string(schedule)},
                                    {"alg", std::string("maskgit_plus")},
                                    {"prior", std::string("0:3,6:5")}};
    const auto r = decode_closed(*model, "vanilla", settings, tiny_requests(1, 8), 1);
    EXPECT_EQ(outputs(r)[0][0], 3);
    EXPECT_EQ(outputs(r)[0][6], 5);
    EXPECT_EQ(r.answers[0].counters.committed, 6);
  }
}

TEST(limits, a_prior_that_is_none_is_refused) {
  const auto dream = tiny_model(model_family::dream, cpu_backend());
  const std::string mask = std::to_string(dream->config().mask_id);
  const auto refuses = [&](const transformer& model, const std::string& prior,
                           const std::string& words) {
    test::expect_error(exit_code::usage, words, [&] {
      decode_closed(model, "vanilla", {{"prior", prior}}, tiny_requests(1, 8), 1);
    });
  };
  for (const char* text : {"a", "1", "1:", ":1", "1:2,", "1:2;3:4", "-1:2", "1:-2", "1.5:2"}) {
    refuses(*dream, text, "prior is '" + std::string(text) + "' but must hold places and tokens");
  }
  refuses(*dream, "1:2,1:3", "names place 1 twice");
  refuses(*dream, "1:" + mask, "token " + mask + " is the mask or outside the vocabulary");
  refuses(*dream, "1:9999999", "token 9999999 is the mask or outside the vocabulary");
  refuses(*dream, "8:2", "prior names place 8 of a response of 8 tokens");
  refuses(*tiny_model(model_family::llada, cpu_backend()), "1:2",
          "prior is of Dream's and Dimple's loops");
}

}  // namespace
}  // namespace unmask
