// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Points of a model's shape: random prompts instead of tasks, nothing to score.
#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/engine/closed_loop.h"
#include "harness/experiment/execute_parts.h"
#include "harness/experiment/profiled.h"
#include "harness/model/checkpoint.h"
#include "kernels/random.h"

namespace unmask {
namespace {

std::vector<sequence_request> random_requests(const shape_settings& shape, const run_settings& run,
                                              const model_config& model) {
  std::vector<sequence_request> requests;
  for (std::int64_t i = 0; i < shape.requests; ++i) {
    sequence_request r;
    r.seed = stream_key(static_cast<std::uint64_t>(run.seed), 1, static_cast<std::uint64_t>(i));
    r.gen_length = static_cast<std::int32_t>(run.gen_length);
    for (std::int64_t p = 0; p < shape.prompt_tokens; ++p) {
      auto id = static_cast<std::int32_t>(uniform_open(r.seed, static_cast<std::uint64_t>(p)) *
                                          model.vocabulary);
      if (id == model.mask_id || std::ranges::find(model.stop_ids, id) != model.stop_ids.end()) {
        id = 0;
      }
      r.prompt.push_back(id);
    }
    requests.push_back(std::move(r));
  }
  return requests;
}

std::shared_ptr<loaded_model> load_shape(const model_entry& entry, const run_settings& run,
                                         std::int64_t layers) {
  auto m = std::make_shared<loaded_model>();
  m->config = read_model_config(entry.path);
  m->device = run.device;
  m->kv_type = stored_kv_type(run);
  const bool random = entry.weights != "checkpoint";
  if (layers > 0) {
    if (!random) throw usage_error("--layers needs --weights random:SEED");
    if (layers > m->config.layers) {
      throw usage_error(
          fmt::format("--layers {}: {} has {}", layers, m->config.name, m->config.layers));
    }
    m->config.layers = static_cast<std::int32_t>(layers);
  }
  const std::string format = run.format == "auto" ? "f32" : run.format;
  m->record = {entry.name,
               random ? entry.weights : hash_of_checkpoint(entry.path),
               m->config.parameters(),
               random ? "synthetic" : "checkpoint",
               format,
               name_of(m->kv_type),
               m->config.layers};
  m->weights = random ? random_weights(m->config, std::stoull(entry.weights.substr(7)), dtype::bf16)
                      : load_weights(m->config, entry.path);
  return m;
}

class shape_point final : public loadable_point {
 public:
  shape_point(const experiment_point& point, std::shared_ptr<loaded_model> model,
              const shape_settings& shape)
      : loadable_point(std::move(model)),
        method_(method_registry::instance().find(point.method)),
        settings_(point.params),
        batch_size_(static_cast<std::int32_t>(point.run.batch_size)),
        requests_(random_requests(shape, point.run, model_->config)) {
    const recipe made = method_.make(model_->config, settings_);
    for (const sequence_request& r : requests_) {
      canvas_.push_back(made.pace->canvas_length(model_->config, r) -
                        static_cast<std::int32_t>(r.prompt.size()));
    }
    workload_ = {point.workload.name, fmt::format("random tokens, seed {}", point.run.seed),
                 shape.requests};
  }

  std::int32_t rows() const override {
    return rows_needed(model_->config, method_, settings_, requests_, batch_size_);
  }
  workload_record workload() const override { return workload_; }
  std::vector<scored_answer> score(const pass_record&) override { return {}; }

  pass_record pass() override {
    return pass_of(run_closed_loop(*model_->packed, method_, settings_, requests_, batch_size_),
                   requests_, canvas_);
  }

 private:
  const method_info& method_;
  parameters settings_;
  std::int32_t batch_size_;
  std::vector<sequence_request> requests_;
  std::vector<std::int64_t> canvas_;
  workload_record workload_;
};

class shape_executor final : public executor {
 public:
  explicit shape_executor(const shape_settings& shape) : shape_(shape), real_(make_executor()) {}
  method_catalogue methods() const override { return real_->methods(); }
  std::string environment() const override { return real_->environment(); }
  std::string source_hash() const override { return real_->source_hash(); }

  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    const experiment_point& first = group.front();
    const std::string key = model_key(first.model, first.run);
    if (key != key_) {
      model_.reset();  // one model in memory at a time
      model_ = load_shape(first.model, first.run, shape_.layers);
      key_ = key;
    }
    std::vector<preparation> all;
    std::int32_t rows = 1;
    for (const experiment_point& p : group) {
      preparation prepared;
      prepared.verdict = verdict_kind::not_supported;
      try {
        method_registry::instance().find(p.method).check(model_->config, parameters(p.params));
        auto point = std::make_unique<shape_point>(p, model_, shape_);
        rows = std::max(rows, point->rows());
        prepared.point = std::move(point);
      } catch (const error& problem) {
        prepared.reason = problem.what();
      }
      all.push_back(std::move(prepared));
    }
    model_->make_room(rows);
    return all;
  }

 private:
  shape_settings shape_;
  std::unique_ptr<executor> real_;
  std::shared_ptr<loaded_model> model_;
  std::string key_;
};

}  // namespace

std::unique_ptr<executor> make_shape_executor(const shape_settings& shape) {
  return std::make_unique<shape_executor>(shape);
}

}  // namespace unmask
