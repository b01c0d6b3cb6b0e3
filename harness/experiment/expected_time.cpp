// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/expected_time.h"

#include <algorithm>
#include <cmath>

namespace unmask {
namespace {

// A whole number parameter that is given and not "choose for me"; otherwise `fallback`.
double size_or(const parameters& given, const std::string& name, double fallback) {
  const auto found = given.values().find(name);
  if (found == given.values().end() || !std::holds_alternative<std::int64_t>(found->second)) {
    return fallback;
  }
  const auto value = static_cast<double>(std::get<std::int64_t>(found->second));
  return value > 0 ? value : fallback;
}

}  // namespace

cost_shape cost_shape_of(const model_config& c) {
  return {c.layers,
          c.hidden,
          c.heads,
          c.kv_heads,
          c.head_dim,
          c.feed_forward,
          c.vocabulary,
          {c.moe.experts, c.moe.experts_per_token, c.moe.hidden, c.moe.shared_experts,
           c.moe.first_dense_layers}};
}

cost_run cost_run_of(const model_config& model, const method_info& method, const parameters& given,
                     const expected_run& run) {
  constexpr double usual_block = 32, usual_chunk = 8;
  const double block = std::min(
      size_or(given, "block_length", model.block > 0 ? model.block : usual_block), run.generated);
  const row_shape& shape = method.shape;
  double rows = 1;
  switch (shape.extent) {
    case row_extent::canvas:
      rows = run.prompt + run.generated;
      break;
    case row_extent::answer:
      rows = run.generated;
      break;
    case row_extent::block:
      rows = block;
      break;
    case row_extent::chunk:
      rows = size_or(given, "chunk", usual_chunk);
      break;
    case row_extent::token:
      break;
  }
  cost_run c;
  c.answers = run.answers;
  c.batch = run.batch;
  c.prompt = run.prompt;
  c.generated = run.generated;
  c.forwards = run.forwards > 0 ? run.forwards : run.generated;
  c.rows = std::max(1.0, rows * shape.share);
  c.late_rows = shape.late_share > 0 ? std::max(1.0, rows * shape.late_share) : 0;
  // Masks of the block in work, half of them decided on average; a token decides itself.
  c.candidates = shape.extent == row_extent::token ? 1 : std::min(c.rows, std::max(1.0, block / 2));
  const double blocks = block > 0 ? std::ceil(run.generated / block) : 1;
  if (shape.refreshes) c.full_forwards = std::min(blocks, c.forwards);
  c.prefills = shape.extent != row_extent::canvas && !shape.refreshes;
  return c;
}

double expected_gpu_seconds(const model_config& model, const method_info& method,
                            const parameters& given, const expected_run& run,
                            const device_ceilings& device) {
  return expected_seconds(cost_shape_of(model), cost_run_of(model, method, given, run), device);
}

}  // namespace unmask
