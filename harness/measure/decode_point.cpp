// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/decode_point.h"

#include <algorithm>
#include <array>

#include "harness/base/error.h"
#include "harness/engine/closed_loop.h"
#include "harness/engine/loop_runner.h"
#include "harness/measure/pictures/shown.h"

namespace unmask {
namespace {

// Decode forwards of a closed batch: tokens over the time of those forwards in which no prompt
// entered.
void decode_rate(const std::vector<iteration_record>& iterations, pass_record& pass) {
  double seconds = 0, committed = 0;
  for (const iteration_record& it : iterations) {
    if (it.prefill) continue;
    seconds += it.seconds;
    committed += static_cast<double>(it.committed);
  }
  if (seconds > 0) {
    pass.metrics["decode_tokens_per_second"] = {committed / seconds, origin::measured};
  }
}

}  // namespace

decode_point::decode_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
                           std::shared_ptr<const loaded_workload> workload,
                           std::shared_ptr<step_time_store> times)
    : loaded_point(point, std::move(model), std::move(workload), std::move(times), "") {}

std::int32_t decode_point::rows() const {
  const recipe made = make();
  return std::max(engine_rows(model_->config, *made.pace, workload_->requests, places_, 0, 0),
                  calibration_.rows());
}

pass_record decode_point::pass() {
  return pass(nullptr, nullptr);
}

pass_record decode_point::pass(step_observer* observer, std::vector<answer_record>* finished) {
  calibration_.run(*model_->packed, nullptr);
  engine_order order;
  order.arrivals.resize(workload_->requests.size());  // all at 0
  order.settings.policy = batching::mixed;
  order.observer = observer;
  served_run done;
  try {
    run(order, done);
  } catch (...) {
    if (finished) *finished = answers_of(done);
    throw;
  }
  pass_record pass;
  pass.seconds = done.totals.seconds;
  pass.use = done.use;
  static_cast<pass_totals&>(pass) = done.loop;
  decode_rate(done.iterations, pass);
  count_repetitions(done, pass);
  count_pictures(done, pass);
  count_ranks(done, pass);
  time_rule(done, pass);
  pass.answers = answers_of(done);
  return pass;
}

std::vector<answer_record> decode_point::answers_of(const served_run& done) const {
  std::vector<answer_record> answers;
  for (const request_record& r : done.requests) {
    if (r.end != outcome::finished) continue;
    answer_record answer = answer_of(r);
    // Latency starts at admission: queueing depends on the batch size alone.
    answer.seconds = r.finish - r.admitted;
    if (answer.work.committed > 0) answer.first_block_seconds = r.first_decided - r.admitted;
    answers.push_back(std::move(answer));
  }
  return answers;
}

bool decode_point::probe(const probe_settings& settings, std::ostream& out) {
  if (workload_->pictures && workload_->pictures->holds_pictures()) throw usage_error(no_probes);
  std::vector<sequence_request> requests = workload_->requests;
  if (settings.limit > 0 && requests.size() > static_cast<std::size_t>(settings.limit)) {
    requests.resize(static_cast<std::size_t>(settings.limit));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].id = static_cast<std::int64_t>(i);
  }
  const probe_source source = source_of(requests);
  probe_recorder recorder(settings, source, out);
  run_closed_loop(*model_->packed, method_, calibration_.settings(), requests, 1, &recorder);
  recorder.finish();
  return true;
}

probe_source decode_point::source_of(const std::vector<sequence_request>& requests) {
  probe_source source;
  if (model_->tokens) {
    source.text = [this](std::int32_t token) {
      const std::array<std::int32_t, 1> one = {token};
      return model_->tokens->decode(one, false);
    };
  }
  if (model_->tokens && workload_->items.size() >= requests.size()) {
    source.score = [this](std::size_t request, std::span<const std::int32_t> canvas) {
      // The libraries of a benchmark score whole passes, not canvases one by one.
      if (!is_own_scorer(workload_->items[request].scorer)) return std::optional<double>();
      answer_record answer;
      answer.tokens.assign(canvas.begin(), canvas.end());
      std::ranges::replace(answer.tokens, -1, model_->config.mask_id);
      const scored_answer s =
          score_answers(*model_, *workload_, {answer}, {request}, rules()).front();
      return s.scored ? std::optional<double>(s.value) : std::nullopt;
    };
  }
  source.again = [this, &requests](const trajectory_source& order) {
    return decode_again(*model_->packed, method_, calibration_.settings(), requests, &order);
  };
  source.reference = [this, &requests](std::int64_t block) {
    return decode_reference(*model_->packed, requests, block);
  };
  return source;
}

std::unique_ptr<sized_point> make_decode_point(const experiment_point& point,
                                               std::shared_ptr<const loaded_model> model,
                                               std::shared_ptr<const loaded_workload> workload,
                                               std::shared_ptr<step_time_store> times) {
  return std::make_unique<decode_point>(point, std::move(model), std::move(workload),
                                        std::move(times));
}

}  // namespace unmask
