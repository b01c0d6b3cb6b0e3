// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A multiple choice by likelihood: each continuation's log likelihood under the masked model. The
// benchmark's own library chooses among them. No method decodes anything.
#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/decode/likelihood.h"
#include "harness/measure/execute_parts.h"
#include "harness/measure/official_scores.h"
#include "harness/measure/prompt_maker.h"
#include "kernels/random.h"

namespace unmask {
namespace {

class likelihood_point final : public sized_point {
 public:
  likelihood_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
                   std::shared_ptr<const loaded_workload> workload)
      : sized_point(std::move(model), std::move(workload)) {
    const benchmark_request& b = point.workload.benchmark;
    const bool dream = model_->config.shifted_logits;
    if (model_->config.mask_id < 0) {
      throw usage_error("the model " + model_->config.name +
                        " has no mask token; its likelihoods are not by masks");
    }
    settings_.rule = dream ? likelihood_rule::dream : likelihood_rule::llada;
    const likelihood_draws drawn = draws_of(b, dream);
    settings_.mc_num = static_cast<std::int32_t>(drawn.samples);
    settings_.batch_size = static_cast<std::int32_t>(drawn.rows);
    settings_.guidance = b.guidance;
    settings_.seed = static_cast<std::uint64_t>(point.run.seed);
    if (dream && b.guidance > 0) throw usage_error("`guidance` is LLaDA's; Dream has none");
    make_pairs();
  }

  std::int32_t rows() const override { return rows_; }

  pass_record pass() override {
    using clock = std::chrono::steady_clock;
    pass_record pass;
    const machine_watch watch;
    const auto begin = clock::now();
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const auto asked = clock::now();
      answer_record answer;
      answer.prompt_tokens = static_cast<std::int64_t>(pairs_[i].front().context.size());
      estimate(i, answer);
      if (meter_) meter_->items.fetch_add(1, std::memory_order_relaxed);
      answer.seconds = std::chrono::duration<double>(clock::now() - asked).count();
      answer.first_block_seconds = answer.seconds;
      pass.steps += answer.work.forwards;
      pass.answers.push_back(std::move(answer));
    }
    pass.seconds = std::chrono::duration<double>(clock::now() - begin).count();
    pass.use = watch.stop();
    return pass;
  }

  void count_in(work_meter& meter) override { meter_ = &meter; }

  std::vector<scored_answer> score(const pass_record& pass) override {
    std::vector<scored_answer> all;
    largest_error_ = 0;
    close_choices_ = 0;
    for (std::size_t i = 0; i < pass.answers.size(); ++i) {
      const std::vector<double>& value = pass.answers[i].loglikelihoods;
      const task_item& item = workload_->items[i];
      all.push_back(
          {{}, item.id, nlohmann::json{{"loglikelihoods", value}}.dump(), item.family, i, value});
      largest_error_ = std::max(largest_error_, pass.answers[i].standard_error);
      close_choices_ += is_close(pass.answers[i]);
    }
    score_officially(all, workload_->items);
    return all;
  }

  std::map<std::string, std::string> measured_reports() const override {
    const nlohmann::json report = {
        {"rule", settings_.rule == likelihood_rule::dream ? "dream" : "llada"},
        {"mc_num", settings_.mc_num},
        {"batch_size", settings_.batch_size},
        {"guidance", settings_.guidance},
        {"seed", settings_.seed},
        {"largest_standard_error", largest_error_},
        {"choices_within_two_standard_errors", close_choices_}};
    return {{"likelihood", report.dump()}};
  }

 private:
  void make_pairs() {
    const bool dream = settings_.rule == likelihood_rule::dream;
    const prompt_maker prompts(*model_);
    for (std::size_t i = 0; i < workload_->items.size(); ++i) {
      const task_item& item = workload_->items[i];
      if (!item.messages.empty()) {
        throw usage_error("kind likelihood takes `prompt` raw: a base model's continuation");
      }
      pairs_.emplace_back();
      for (const std::string& continuation : item.continuations) {
        const std::int32_t eos = model_->config.stop_ids.empty() ? -1 : model_->config.stop_ids[0];
        pairs_.back().push_back(prompts.pair(item.prompt, continuation,
                                             dream ? "<|beginoftext|>" : "", dream ? eos : -1));
        const encoded_pair& p = pairs_.back().back();
        rows_ = std::max(rows_,
                         settings_.batch_size *
                             static_cast<std::int32_t>(p.context.size() + p.continuation.size()));
      }
    }
  }

  void estimate(std::size_t i, answer_record& answer) {
    for (std::size_t c = 0; c < pairs_[i].size(); ++c) {
      const likelihood_estimate e =
          log_likelihood(*model_->packed, pairs_[i][c].context, pairs_[i][c].continuation,
                         settings_, stream_key(i, c));
      answer.loglikelihoods.push_back(e.log_likelihood);
      answer.standard_error = std::max(answer.standard_error, e.standard_error);
      answer.work.forwards += e.forwards;
    }
  }

  // Best and second differ by less than two standard errors of the estimates.
  static bool is_close(const answer_record& answer) {
    std::vector<double> sorted = answer.loglikelihoods;
    std::ranges::sort(sorted, std::greater<>());
    return sorted.size() > 1 && sorted[0] - sorted[1] < 2 * answer.standard_error;
  }

  likelihood_settings settings_;
  std::int32_t rows_ = 1;
  std::vector<std::vector<encoded_pair>> pairs_;  // by item, then by choice
  double largest_error_ = 0;                      // of the pass that was scored: among all choices
  std::int64_t close_choices_ = 0;  // and of it: items whose choice is within the error
  work_meter* meter_ = nullptr;
};

}  // namespace

std::unique_ptr<sized_point> make_likelihood_point(
    const experiment_point& point, std::shared_ptr<const loaded_model> model,
    std::shared_ptr<const loaded_workload> workload) {
  return std::make_unique<likelihood_point>(point, std::move(model), std::move(workload));
}

}  // namespace unmask
