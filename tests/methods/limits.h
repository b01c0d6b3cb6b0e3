// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What limit identities compare: the answers of one method, with what they took, and those of another
// that it must equal. The identities lie in the folders of the methods (cases.cpp).
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/methods/tiny_models.h"

namespace unmask::testing {

struct decoded {
  std::vector<std::vector<std::int32_t>> answers;
  std::vector<std::int64_t> forwards;
  bool operator==(const decoded&) const = default;
};
inline decoded decoded_of(const closed_loop_result& r) {
  decoded d{outputs(r), {}};
  for (const decoded_answer& a : r.answers) d.forwards.push_back(a.counters.forwards);
  return d;
}
inline decoded decode(model_family family, const std::string& method, const parameter_map& given,
                      int requests = 4, std::int32_t gen_length = 24) {
  const auto model = tiny_model(family, reference_backend());
  return decoded_of(decode_closed(*model, method, given, tiny_requests(requests, gen_length), 2));
}
inline decoded decode_on_cpu(const std::string& method, const parameter_map& given,
                             model_family family = model_family::llada) {
  const auto model = tiny_model(family, cpu_backend());
  return decoded_of(decode_closed(*model, method, given, tiny_requests(4, 24), 2));
}

struct decoded_rows {
  std::vector<std::vector<std::int32_t>> answers;
  std::vector<std::int64_t> forwards, rows;
  bool operator==(const decoded_rows&) const = default;
};
inline decoded_rows decode_rows(model_family family, const std::string& method,
                                const parameter_map& given, std::int32_t gen_length = 24) {
  const auto model = tiny_model(family, reference_backend());
  const auto r = decode_closed(*model, method, given, tiny_requests(4, gen_length), 2);
  decoded_rows d{outputs(r), {}, {}};
  for (const decoded_answer& a : r.answers) {
    d.forwards.push_back(a.counters.forwards);
    d.rows.push_back(a.counters.rows);
  }
  return d;
}

// Vanilla's rule on blocks of 8: what is at least so confident, and the best. A strict rule has no
// such twin, but a threshold that no confidence equals is as strict.
inline decoded threshold_rule(double threshold, model_family family = model_family::llada) {
  return decode(family, "vanilla",
                {{"block_length", 8}, {"threshold", threshold}, {"schedule", "llada"}});
}
// One token in every forward, the most confident of the block.
inline decoded one_by_one(model_family family = model_family::llada) {
  return threshold_rule(1.5, family);
}

inline void expect_same_answers(model_family family, const std::string& left,
                                const parameter_map& left_given, const std::string& right,
                                const parameter_map& right_given) {
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
    const auto model = tiny_model(family, *backend);
    const auto requests = tiny_requests(4, 24);
    EXPECT_EQ(outputs(decode_closed(*model, left, left_given, requests, 3)),
              outputs(decode_closed(*model, right, right_given, requests, 3)))
        << left << " and " << right << " on " << backend->name();
  }
}

}  // namespace unmask::testing
