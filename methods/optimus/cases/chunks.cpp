// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The chunk builder against the worked example (block of 32, chunk 8) and the golden toy runs.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "methods/optimus/cases/chunk_toy.h"

namespace unmask {
namespace {

using namespace testing;
using list = std::vector<std::int32_t>;

std::vector<int> digits(const std::string& text) {
  std::vector<int> d;
  for (const char c : text) d.push_back(c - '0');
  return d;
}
const std::string first_block = "10011200102120011021002101200121";
const std::string second_block = "01120012010211001200112001210021";

// "0-2,6,7" as numbers.
list expand(const std::string& text) {
  list all;
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t used = 0;
    const int from = std::stoi(text.substr(i), &used);
    i += used;
    int to = from;
    if (i < text.size() && text[i] == '-') {
      to = std::stoi(text.substr(i + 1), &used);
      i += used + 1;
    }
    for (int p = from; p <= to; ++p) all.push_back(p);
    ++i;
  }
  return all;
}

struct expected_step {
  const char *chunk, *refresh, *commit;
};

toy_settings with(chunk_policy policy, std::int32_t size, cache_rule rule) {
  toy_settings s;
  s.chunk.policy = policy;
  s.chunk.rule = rule;
  s.size = size;
  return s;
}

void expect_steps(const toy_run& run, const std::vector<expected_step>& want) {
  ASSERT_EQ(run.steps.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(run.steps[i].chunk, expand(want[i].chunk)) << "step " << i + 1;
    EXPECT_EQ(run.steps[i].refresh, expand(want[i].refresh)) << "step " << i + 1;
    EXPECT_EQ(run.steps[i].commit, expand(want[i].commit)) << "step " << i + 1;
  }
}

TEST(optimus_chunks, naive_chunks_of_the_worked_example) {
  expect_steps(run_toy(digits(first_block), with(chunk_policy::naive, 8, cache_rule::any_decoded)),
               {{"0-7", "", "0-2,6,7"},
                {"0-7", "0-2,6,7", "3,4"},
                {"3-5", "3,4", "5"},
                {"5", "5", ""},
                {"8-15", "", "8,9,13,14"},
                {"8-15", "8,9,13,14", "10,11,15"},
                {"10-12,15", "10,11,15", "12"},
                {"12", "12", ""},
                {"16-23", "", "16,17,20,21"},
                {"16-23", "16,17,20,21", "18,19,22,23"},
                {"18,19,22,23", "18,19,22,23", ""},
                {"24-31", "", "24,25,27,28"},
                {"24-31", "24,25,27,28", "26,29"},
                {"26,29-31", "26,29", "30,31"},
                {"30,31", "30,31", ""}});
}

TEST(optimus_chunks, streaming_chunks_of_the_worked_example) {
  expect_steps(
      run_toy(digits(first_block), with(chunk_policy::streaming, 8, cache_rule::any_decoded)),
      {{"0-7", "", "0-2,6,7"},
       {"0-7", "0-2,6,7", "3,4"},
       {"3-5,8-12", "3,4", "5,8,9"},
       {"5,8-14", "5,8,9", "10,11,13,14"},
       {"10-17", "10,11,13,14", "12,15-17"},
       {"12,15-21", "12,15-17", "18-21"},
       {"18-25", "18-21", "22-24"},
       {"22-29", "22-24", "25,27,28"},
       {"25-31", "25,27,28", "26,29"},
       {"26,29-31", "26,29", "30,31"},
       {"30,31", "30,31", ""}});
}

TEST(optimus_chunks, whole_blocks_of_the_worked_example) {
  const toy_run run =
      run_toy(digits(first_block), with(chunk_policy::prefix_caching, 32, cache_rule::none));
  ASSERT_EQ(run.steps.size(), 5U);
  EXPECT_EQ(run.steps[0].commit, expand("0-2,6,7,9,13,14,17,20,21,24,27,28"));
  EXPECT_EQ(run.steps[1].commit, expand("3,4,8,11,15,16,19,22,23,25,29"));
  EXPECT_EQ(run.steps[2].commit, expand("5,10,18,26,30,31"));
  EXPECT_EQ(run.steps[3].commit, expand("12"));
  EXPECT_EQ(run.steps[4].commit, list{});
}

// Steps and computed rows of every policy.
TEST(optimus_chunks, totals_of_the_worked_example) {
  const auto prefix = cache_rule::contiguous_prefix, any = cache_rule::any_decoded;
  const struct {
    toy_settings settings;
    int steps, slots;
  } cases[] = {{with(chunk_policy::prefix_caching, 32, cache_rule::none), 5, 160},
               {with(chunk_policy::prefix_caching, 32, any), 5, 90},
               {with(chunk_policy::prefix_caching, 32, prefix), 5, 140},
               {with(chunk_policy::naive, 8, any), 15, 83},
               {with(chunk_policy::naive, 8, prefix), 15, 120},
               {with(chunk_policy::streaming, 8, any), 11, 77},
               {with(chunk_policy::streaming, 8, prefix), 12, 87}};
  for (const auto& c : cases) {
    const toy_run run = run_toy(digits(first_block), c.settings);
    EXPECT_EQ(run.steps.size(), static_cast<std::size_t>(c.steps)) << c.slots;
    EXPECT_EQ(run.slots, c.slots);
    EXPECT_EQ(run.commits, 32);
  }
}

TEST(optimus_chunks, totals_of_two_blocks) {
  toy_settings in_block = with(chunk_policy::streaming, 32, cache_rule::any_decoded);
  toy_settings fused = in_block, beyond = in_block, two = in_block, two_fused = in_block;
  fused.chunk.fusion = two_fused.chunk.fusion = fusion_mode::fill;
  beyond.out_block = true;
  two.size = two_fused.size = 2;
  const struct {
    toy_settings settings;
    int steps, slots;  // slots 0: not stated
  } cases[] = {
      {in_block, 9, 180}, {fused, 8, 179}, {beyond, 7, 178}, {two, 66, 130}, {two_fused, 65, 0}};
  for (const auto& c : cases) {
    const toy_run run = run_toy(digits(first_block + second_block), c.settings);
    EXPECT_EQ(run.steps.size(), static_cast<std::size_t>(c.steps)) << c.slots;
    EXPECT_TRUE(c.slots == 0 || run.slots == c.slots) << run.slots;
    EXPECT_EQ(run.commits, 64);
  }
  const toy_run run = run_toy(digits(first_block + second_block), beyond);
  EXPECT_EQ(run.steps[2].chunk, expand("3-5,8,10-12,15,16,18,19,22,23,25,26,29-45"));
}

// A whole extra chunk of the next block: the two forwards of the unfused run side by side, so the
// decisions are those of the unfused run, one forward per block earlier.
TEST(optimus_chunks, full_fusion_decides_what_the_unfused_run_decides) {
  for (const std::int32_t size : {2, 4, 8, 12, 32}) {
    toy_settings off = with(chunk_policy::streaming, size, cache_rule::any_decoded), full = off;
    full.chunk.fusion = fusion_mode::full;
    const std::vector<int> two = digits(first_block + second_block);
    const toy_run a = run_toy(two, off), b = run_toy(two, full);
    EXPECT_EQ(b.steps.size() + 1, a.steps.size()) << size;
    EXPECT_EQ(a.slots, b.slots);
    std::vector<list> commits_a, commits_b;
    for (const auto& s : a.steps) {
      if (!s.commit.empty()) commits_a.push_back(s.commit);
    }
    for (const auto& s : b.steps) {
      if (!s.commit.empty()) commits_b.push_back(s.commit);
    }
    EXPECT_EQ(commits_a, commits_b) << size;
  }
}

// Every rule finishes with every chunk size, and no chunk is larger than asked for.
TEST(optimus_chunks, every_rule_and_size_terminates) {
  for (const cache_rule rule :
       {cache_rule::any_decoded, cache_rule::contiguous_prefix, cache_rule::right_neighbour}) {
    for (std::int32_t size = 2; size <= 32; ++size) {
      const toy_run run =
          run_toy(digits(first_block + second_block), with(chunk_policy::streaming, size, rule));
      EXPECT_EQ(run.commits, 64);
      EXPECT_LE(run.steps.size(), 128U);  // a step decides or settles something
      for (const auto& s : run.steps) EXPECT_LE(s.chunk.size(), static_cast<std::size_t>(size));
    }
  }
}

TEST(optimus_chunks, golden_toy_runs) {
  std::ifstream in(UNMASK_GOLDENS "/toy/optimus_chunks.json");
  const nlohmann::json data = nlohmann::json::parse(in);
  int cases = 0;
  for (const auto& c : data.at("cases")) {
    std::vector<int> difficulty;
    for (const auto& block : c.at("difficulties")) {
      for (const int d : block) difficulty.push_back(d);
    }
    toy_settings s;
    s.size = c.at("chunk_size").get<std::int32_t>();
    const std::string policy = c.at("policy");
    s.chunk.policy = policy == "fixed_block"   ? chunk_policy::prefix_caching
                     : policy == "naive_chunk" ? chunk_policy::naive
                                               : chunk_policy::streaming;
    s.chunk.rule = c.at("cache_rule").is_null() ? cache_rule::none : cache_rule::any_decoded;
    const toy_run run = run_toy(difficulty, s);
    ASSERT_EQ(run.steps.size(), c.at("n_steps").get<std::size_t>()) << c.at("id");
    EXPECT_EQ(run.slots, c.at("n_slots").get<int>()) << c.at("id");
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      const auto& want = c.at("steps")[i];
      const std::int32_t base = want.at("block").get<std::int32_t>() * 32;
      const auto absolute = [&](const char* name) {
        list l = want.at(name).get<list>();
        for (std::int32_t& p : l) p += base;
        return l;
      };
      EXPECT_EQ(run.steps[i].chunk, absolute("chunk")) << c.at("id") << " step " << i;
      EXPECT_EQ(run.steps[i].refresh, absolute("refresh")) << c.at("id") << " step " << i;
      EXPECT_EQ(run.steps[i].commit, absolute("commit")) << c.at("id") << " step " << i;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 6);
}

}  // namespace
}  // namespace unmask
