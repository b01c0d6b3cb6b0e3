// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/closed_loop.h"

#include <algorithm>
#include <chrono>

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

bool decodes_only(const step_plan& plan) {
  return std::ranges::none_of(plan.of, [](const sequence_step& step) {
    return step.active && step.what == phase::prefill;
  });
}

}  // namespace

std::int32_t rows_needed(const model_config& model, const method_info& method,
                         const parameters& settings, const std::vector<sequence_request>& requests,
                         std::int32_t batch_size) {
  const recipe r = method.make(model, settings);
  // No batch can hold more than its longest members at once.
  std::vector<std::int32_t> lengths;
  for (const sequence_request& q : requests) lengths.push_back(r.pace->canvas_length(model, q));
  std::sort(lengths.rbegin(), lengths.rend());
  std::int32_t rows = 0;
  for (std::int32_t i = 0; i < batch_size && i < static_cast<std::int32_t>(lengths.size()); ++i) {
    rows += lengths[static_cast<std::size_t>(i)];
  }
  return std::max(rows, 1);
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
  step_loop loop(model, std::move(r), {places, length, 0});
  loop.observe(observer);

  std::vector<std::size_t> request_of(static_cast<std::size_t>(places));
  std::vector<double> admitted(static_cast<std::size_t>(places));
  std::size_t next = 0, done = 0;

  const phase_range range(work_phase::run, static_cast<std::int64_t>(requests.size()));
  // Recording is what an engine does when it starts: this clock stands still meanwhile.
  const auto start = std::chrono::steady_clock::now();
  const auto now = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() -
           loop.recording_seconds();
  };
  while (done < requests.size()) {
    while (next < requests.size()) {
      const std::int32_t place = loop.admit(requests[next]);
      if (place < 0) break;
      request_of[static_cast<std::size_t>(place)] = next++;
      admitted[static_cast<std::size_t>(place)] = now();
    }
    const double begin = now();
    if (!loop.step()) {
      throw std::logic_error("closed loop: requests wait but nothing is active");
    }
    ++result.steps;
    if (decodes_only(loop.plan())) {
      result.decode_seconds += now() - begin;
      for (std::int32_t s = 0; s < places; ++s) result.decode_committed += loop.committed(s);
    }
    for (std::int32_t s = 0; s < places; ++s) {
      if (!loop.state().occupied(s)) continue;
      const sequence& q = loop.state().at(s);
      decoded_answer& answer = result.answers[request_of[static_cast<std::size_t>(s)]];
      if (answer.first_block_seconds == 0 && q.counters.committed > 0) {
        answer.first_block_seconds = now() - admitted[static_cast<std::size_t>(s)];
      }
      if (!q.finished) continue;
      answer.seconds = now() - admitted[static_cast<std::size_t>(s)];
      answer.output = loop.output(s);
      answer.counters = q.counters;
      loop.release(s);
      ++done;
    }
  }
  result.seconds = now();
  result.recording_seconds = loop.recording_seconds();
  result.peak_kv_bytes = loop.peak_cache_bytes();
  result.spent = loop.seconds();
  result.recorded = loop.recorded();
  result.learnt = loop.pace().learnt();
  return result;
}

}  // namespace unmask
