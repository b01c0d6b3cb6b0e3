// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The freeze decision of Ada-DLM on confidences worked out elsewhere: active sets, prototypes and
// frozen positions of every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/backend.h"
#include "methods/ada_dlm/kernels/freeze.h"

namespace unmask {
namespace {

using nlohmann::json;
using ints = std::vector<std::int32_t>;

TEST(ada_dlm_freeze, every_case_exactly) {
  std::ifstream file(UNMASK_GOLDENS "/toy/ada_dlm_freeze.json");
  const json golden = json::parse(file);
  ASSERT_GE(golden.at("cases").size(), 5U);
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
    for (const json& c : golden.at("cases")) {
      SCOPED_TRACE(backend->name() + " " + c.at("id").get<std::string>());
      const auto length = c.at("length").get<std::int64_t>();
      const auto m = c.at("history").get<std::int64_t>();
      const ints rank{c.at("K").get<std::int32_t>()};
      const tensor history = backend->allocate(dtype::f32, {1, length, m});
      for (const json& step : c.at("steps")) {
        const ints active = step.at("active").get<ints>();
        const auto confidence = step.at("confidence").get<std::vector<float>>();
        const auto n = static_cast<std::int32_t>(active.size());
        ASSERT_EQ(confidence.size(), active.size());
        const ints begin{0, n};
        const candidate_set set{1, n, begin.data(), active.data(), active.data()};
        backend->run(op::push_history{set, confidence.data(), false, history});
        std::vector<std::uint8_t> accept(active.size(), 9);
        backend->run(op::accept_two_centroids{set, history, rank.data(), {}, accept.data()});
        ints frozen;
        for (std::size_t i = 0; i < active.size(); ++i) {
          if (accept[i] != 0) frozen.push_back(active[i]);
        }
        EXPECT_EQ(frozen, step.at("frozen").get<ints>());
        // The prototypes the decision rests on: rank 1 and rank K + 1.
        ints order = active;
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
          return history.as<float>()[a * m] > history.as<float>()[b * m];
        });
        EXPECT_EQ(order.front(), step.at("high").get<std::int32_t>());
        EXPECT_EQ(order[static_cast<std::size_t>(std::min(rank[0], n - 1))],
                  step.at("boundary").get<std::int32_t>());
      }
    }
  }
}

}  // namespace
}  // namespace unmask
