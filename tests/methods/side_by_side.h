// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decodings of one request on backends that chose otherwise: each alone, and step by step in turn.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/step_loop.h"
#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask::testing {

// What a decoding came to: its tokens, and the bits of what the head read in every step.
struct decoded_bits {
  std::vector<std::int32_t> tokens;
  std::vector<std::byte> steps;
  std::int64_t replayed = 0;  // segments that ran as captured graphs
};

class stepwise final : public step_observer {
 public:
  stepwise(const transformer& model, const std::string& method, const parameter_map& given,
           const sequence_request& request)
      : model_(model),
        loop_(model, test::recipe_of(method, model.config(), given), {1, model.max_rows(), 0}) {
    loop_.observe(this);
    place_ = loop_.admit(request);
  }
  bool step() { return loop_.step(); }
  decoded_bits result() {
    bits_.tokens = loop_.output(place_);
    bits_.replayed = loop_.graphs().replayed;
    return bits_;
  }

  void on_step(const step_view& step) override {
    const tensor_view& rows = step.head_input;
    const auto element = static_cast<std::int64_t>(size_of(rows.type));
    std::vector<std::byte> row(static_cast<std::size_t>(rows.columns() * element));
    for (std::int64_t r = 0; r < step.left.rows; ++r) {
      const auto* from = static_cast<const std::byte*>(rows.data) + r * rows.row_stride * element;
      model_.backend().read(row.data(), from, row.size());
      bits_.steps.insert(bits_.steps.end(), row.begin(), row.end());
    }
  }

 private:
  const transformer& model_;
  step_loop loop_;
  std::int32_t place_ = -1;
  decoded_bits bits_;
};

// make(backend) packs a model for the backend. Each is decoded alone first, its model gone when the next
// one comes; then all models are there at once and take one step each in turn.
template <class Make>
std::vector<decoded_bits> expect_same_side_by_side(const std::vector<const backend*>& backends,
                                                   const Make& make, const std::string& method,
                                                   const parameter_map& given,
                                                   const sequence_request& request) {
  std::vector<decoded_bits> alone;
  for (const backend* on : backends) {
    const std::unique_ptr<const transformer> model = make(*on);
    stepwise one(*model, method, given, request);
    while (one.step()) {
    }
    alone.push_back(one.result());
  }
  std::vector<std::unique_ptr<const transformer>> models;
  std::vector<std::unique_ptr<stepwise>> together;
  for (const backend* on : backends) models.push_back(make(*on));
  for (const auto& model : models) {
    together.push_back(std::make_unique<stepwise>(*model, method, given, request));
  }
  for (bool busy = true; busy;) {
    busy = false;
    for (const auto& one : together) busy = one->step() || busy;
  }
  for (std::size_t i = 0; i < backends.size(); ++i) {
    const decoded_bits got = together[i]->result();
    EXPECT_FALSE(got.tokens.empty());
    EXPECT_EQ(got.tokens, alone[i].tokens) << "backend " << i;
    EXPECT_TRUE(got.steps == alone[i].steps) << "backend " << i;
    EXPECT_EQ(got.replayed, alone[i].replayed) << "backend " << i;
  }
  return alone;
}

}  // namespace unmask::testing
