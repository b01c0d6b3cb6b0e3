// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the rule means: its choices from whole histories of confidences, and what it is at its limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

parameter_map on(model_family family, const parameter_map& more) {
  const char* base = family == model_family::sdar ? "block_diffusion" : "fast_dllm";
  return with({{"base", base}, {"block_length", 8}}, more);
}

// Repeats every choice from all confidences that a token ever had, not from what the rule remembers.
struct choices final : step_observer {
  std::map<std::uint64_t, std::map<std::int32_t, std::vector<float>>>
      seen;  // by the request's seed
  std::int64_t checked = 0, risen = 0;

  static bool rose_twice(const std::vector<float>& p) {
    const std::size_t n = p.size();
    return n >= 3 && p[n - 3] < p[n - 2] && p[n - 2] < p[n - 1];
  }

  void on_step(const step_view& step) override {
    const candidate_lists& c = step.candidates;
    for (std::int32_t s = 0; c.count > 0 && s < step.state.capacity(); ++s) {
      std::vector<std::pair<float, std::int32_t>> all, ready;  // minus the confidence, position
      for (std::int32_t i = c.begin.as<std::int32_t>()[s]; i < c.begin.as<std::int32_t>()[s + 1];
           ++i) {
        const std::int32_t position = c.position.as<std::int32_t>()[i];
        std::vector<float>& past = seen[step.state.at(s).request.seed][position];
        past.push_back(c.probability.as<float>()[i]);
        all.emplace_back(-past.back(), position);
        if (rose_twice(past)) ready.emplace_back(-past.back(), position);
      }
      risen += std::ssize(ready);
      std::ranges::sort(all);
      std::ranges::sort(ready);
      all.resize(std::min<std::size_t>(all.size(), 1));
      ready.resize(std::min<std::size_t>(ready.size(), 2));
      std::vector<std::int32_t> want, got;
      for (const auto& [confidence, position] : ready.empty() ? all : ready)
        want.push_back(position);
      for (const decision_event& d : step.decisions) {
        if (d.sequence == s) got.push_back(d.position);
      }
      std::ranges::sort(want);
      EXPECT_EQ(got, want);
      ++checked;
    }
  }
};

// Two batch slots for five requests: a slot's memory is of the request that is in it.
TEST(rising, chooses_by_the_whole_history) {
  for (const model_family family : {model_family::llada, model_family::sdar}) {
    const auto model = tiny_model(family, cpu_backend());
    choices seen;
    decode_closed(*model, "rising", on(family, {{"at_most", 2}}), tiny_requests(5, 24), 2, "",
                  &seen);
    EXPECT_GT(seen.checked, 50);
    EXPECT_GT(seen.risen, 20);
  }
}

TEST(rising, that_never_waits_is_the_threshold_of_nothing) {
  for (const model_family family : {model_family::llada, model_family::sdar}) {
    const char* base = family == model_family::sdar ? "block_diffusion" : "fast_dllm";
    EXPECT_TRUE(decode(family, "rising", on(family, {{"rises", 0}, {"at_most", 64}})) ==
                decode(family, base, {{"block_length", 8}, {"threshold", 1e-9}}));
  }
}

TEST(rising, that_waits_for_ever_takes_the_surest) {
  for (const model_family family : {model_family::llada, model_family::sdar}) {
    const char* base = family == model_family::sdar ? "block_diffusion" : "fast_dllm";
    EXPECT_TRUE(decode(family, "rising", on(family, {{"rises", 1000000}})) ==
                decode(family, base, {{"block_length", 8}, {"threshold", 2.0}}));
  }
}

}  // namespace
}  // namespace unmask::testing
