// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/closed_loop.h"

#include <algorithm>

#include "harness/engine/engine.h"
#include "harness/engine/loop_runner.h"
#include "harness/profile/phases.h"

namespace unmask {
namespace {

std::int32_t longest(const model_config& model, const pace_policy& pace,
                     const std::vector<sequence_request>& requests) {
  std::int32_t length = 0;
  for (const sequence_request& r : requests) {
    length = std::max(length, pace.canvas_length(model, r));
  }
  return length;
}

// Rows of prompts in one forward: activations are bounded by them and not by the batch. A method
// that may touch its whole canvas in any forward has room for all of them anyway.
constexpr std::int32_t prefill_rows = 8192;
std::int32_t piece_of(const pace_policy& pace) {
  return pace.shape().prefill_piece > 0 ? prefill_rows : 0;
}

// What the engine tells about a closed batch.
class batch_sink final : public engine_sink {
 public:
  explicit batch_sink(closed_loop_result& into) : into_(into) {}
  void on_request(request_record&& r) override {
    if (r.end != outcome::finished) {
      throw std::logic_error("closed loop: a request was not answered");
    }
    decoded_answer& answer = into_.answers[r.request];
    answer.output = std::move(r.answer.output);
    answer.counters = r.answer.counters;
    answer.seconds = r.finish - r.admitted;
    if (answer.counters.committed > 0) answer.first_block_seconds = r.first_decided - r.admitted;
  }

 private:
  closed_loop_result& into_;
};

}  // namespace

std::int32_t rows_needed(const model_config& model, const method_info& method,
                         const parameters& settings, const std::vector<sequence_request>& requests,
                         std::int32_t batch_size) {
  const recipe r = method.make(model, settings);
  return engine_rows(model, *r.pace, requests, batch_size, prefill_rows, piece_of(*r.pace), true);
}

closed_loop_result run_closed_loop(const transformer& model, const method_info& method,
                                   const parameters& settings,
                                   const std::vector<sequence_request>& requests,
                                   std::int32_t batch_size, step_observer* observer) {
  if (batch_size <= 0) throw usage_error("batch_size must be positive");
  closed_loop_result result;
  result.answers.resize(requests.size());
  if (requests.empty()) return result;

  const std::int32_t places =
      std::min<std::int32_t>(batch_size, static_cast<std::int32_t>(requests.size()));
  recipe r = method.make(model.config(), settings);
  const std::int32_t length = longest(model.config(), *r.pace, requests);
  if (length > model.config().max_positions) {
    throw usage_error("a request needs " + std::to_string(length) + " positions, but " +
                      model.config().name + " was made for " +
                      std::to_string(model.config().max_positions));
  }
  const bool whole = r.pace->shape().ahead == 0;
  const std::int32_t piece = whole ? 0 : piece_of(*r.pace);
  loop_runner runner(
      model, std::move(r), {places, length, 0}, [&](std::size_t i) { return requests[i]; }, piece);
  step_loop& loop = runner.loop();
  loop.observe(observer);
  engine_settings engine;
  engine.policy = batching::mixed;
  engine.prefill_tokens = whole ? 0 : prefill_rows;
  const std::vector<request_order> all_at_once(requests.size());
  batch_sink sink(result);

  const phase_range range(profile_phase::run, static_cast<std::int64_t>(requests.size()));
  // Recording is what an engine does when it starts: this clock stands still meanwhile.
  engine_clock clock(0, [&] { return loop.graphs().seconds; });
  result.seconds = run_engine(runner, all_at_once, engine, clock, sink).seconds;
  static_cast<pass_totals&>(result) = loop.totals();
  result.graphs = loop.graphs();
  result.learnt = loop.pace().learnt();
  return result;
}

}  // namespace unmask
