// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where an experiment meets models, methods and tasks; the rest of this room knows none of them.
#include <algorithm>

#include "harness/engine/closed_loop.h"
#include "harness/experiment/runner.h"
#include "harness/model/chat_template.h"
#include "harness/model/checkpoint.h"
#include "harness/model/weights.h"
#include "harness/profile/environment.h"
#include "harness/workload/scorer.h"
#include "harness/workload/task.h"
#include "kernels/error.h"
#include "kernels/random.h"

namespace unmask {
namespace {

const ops& backend_of(const std::string& device) {
  if (device == "cpu") return cpu_ops();
  if (device == "reference") return reference_ops();
  throw environment_error("device '" + device + "' has no kernels in this build; use cpu");
}

const char* effective_format(const std::string& format) {
  return format == "auto" || format == "f32" ? "f32" : format == "bf16" ? "bf16" : "int8";
}

weight_format format_of(const std::string& effective) {
  if (effective == "f32") return weight_format::f32;
  return effective == "bf16" ? weight_format::bf16 : weight_format::int8;
}

// A checkpoint as read, and packed for one backend and format.
struct loaded_model {
  model_config config;
  tokenizer tokens;
  model_weights weights;
  model_record record;
  std::string device;
  std::shared_ptr<const transformer> packed;

  // Makes the transformer anew only when it must hold more rows than before.
  void make_room(std::int32_t rows) {
    if (packed && packed->max_rows() >= rows) return;
    packed.reset();  // never two copies of the weights at once
    packed = std::make_shared<const transformer>(config, weights, backend_of(device),
                                                 format_of(record.format), rows);
  }
};

std::shared_ptr<loaded_model> load(const model_entry& entry, const run_settings& run) {
  model_config config = read_model_config(entry.path);
  tokenizer tokens = tokenizer::load(entry.path);
  const bool random = entry.weights != "checkpoint";
  model_weights weights =
      random ? random_weights(config, std::stoull(entry.weights.substr(7)), dtype::bf16)
             : load_weights(config, entry.path);
  model_record record{entry.name, random ? entry.weights : hash_of_checkpoint(entry.path),
                      config.parameters(), random ? "synthetic" : "checkpoint",
                      effective_format(run.format)};
  return std::make_shared<loaded_model>(loaded_model{std::move(config), std::move(tokens),
                                                     std::move(weights), std::move(record),
                                                     run.device, nullptr});
}

struct loaded_workload {
  std::vector<task_item> items;
  std::vector<sequence_request> requests;  // in the order of the items
  workload_record record;
};

std::shared_ptr<const loaded_workload> load(const workload_entry& entry, const run_settings& run,
                                            const loaded_model& model) {
  auto w = std::make_shared<loaded_workload>();
  w->items = select(read_tasks(entry.file.string()), static_cast<std::size_t>(entry.limit), 0);
  w->record = {entry.name, hash_of_tasks(w->items), static_cast<std::int64_t>(w->items.size())};
  const chat_format format = chat_format_of(model.config, model.tokens);
  for (std::size_t i = 0; i < w->items.size(); ++i) {
    const task_item& item = w->items[i];
    sequence_request request;
    request.prompt =
        model.tokens.encode(apply_chat_template(format, {{"user", item.prompt}}, true));
    request.gen_length =
        run.gen_length > 0 ? static_cast<std::int32_t>(run.gen_length) : item.gen_length;
    // Each request has noise of its own, whatever the batch it is decoded in.
    const philox4 noise = philox4x32(static_cast<std::uint64_t>(run.seed), 1, i);
    request.seed = (std::uint64_t{noise.x[0]} << 32) | noise.x[1];
    w->requests.push_back(std::move(request));
  }
  return w;
}

work_record work_of(const sequence_counters& c) {
  work_record w;
  w.forwards = c.forwards;
  w.prefill_forwards = c.prefill_forwards;
  w.commit_forwards = c.commit_forwards;
  w.denoise_steps = c.denoise_steps;
  w.rows = c.rows;
  w.decode_rows = c.decode_rows;
  w.layer_rows = c.layer_rows;
  w.head_rows = c.head_rows;
  w.committed = c.committed;
  w.flops = c.flops;
  w.keys_seen = c.keys_seen;
  return w;
}

class real_point final : public prepared_point {
 public:
  real_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
             std::shared_ptr<const loaded_workload> workload)
      : model_(std::move(model)),
        workload_(std::move(workload)),
        method_(method_registry::instance().find(point.method)),
        settings_(point.params),
        batch_size_(static_cast<std::int32_t>(point.run.batch_size)) {
    const recipe made = method_.make(model_->config, settings_);
    for (const sequence_request& r : workload_->requests) {
      canvas_.push_back(made.pace->canvas_length(model_->config, r) -
                        static_cast<std::int32_t>(r.prompt.size()));
    }
  }

  std::int32_t rows() const {
    return rows_needed(model_->config, method_, settings_, workload_->requests, batch_size_);
  }
  model_record model() const override { return model_->record; }
  workload_record workload() const override { return workload_->record; }
  token_rules rules() const override {
    return {model_->config.vocabulary, model_->config.mask_id, model_->config.stop_ids};
  }

  pass_record pass() override {
    const closed_loop_result result =
        run_closed_loop(*model_->packed, method_, settings_, workload_->requests, batch_size_);
    pass_record pass{result.seconds,
                     result.steps,
                     result.peak_kv_bytes,
                     {},
                     result.spent.forward + result.spent.decisions,
                     result.spent.selection};
    for (std::size_t i = 0; i < result.answers.size(); ++i) {
      const decoded_answer& answer = result.answers[i];
      pass.answers.push_back({static_cast<std::int64_t>(workload_->requests[i].prompt.size()),
                              canvas_[i], answer.output, work_of(answer.counters), answer.seconds,
                              answer.first_block_seconds});
    }
    return pass;
  }

  std::map<std::string, std::string> probe(const probe_settings& settings) override {
    std::vector<sequence_request> requests = workload_->requests;
    if (settings.limit > 0 && requests.size() > static_cast<std::size_t>(settings.limit)) {
      requests.resize(static_cast<std::size_t>(settings.limit));
    }
    probe_observer observer(settings);
    run_closed_loop(*model_->packed, method_, settings_, requests, 1, &observer);
    return observer.results();
  }

  std::vector<scored_answer> score(const pass_record& pass) override {
    std::vector<scored_answer> all;
    for (std::size_t i = 0; i < pass.answers.size(); ++i) {
      const answer_record& answer = pass.answers[i];
      const auto length = static_cast<std::size_t>(answer_tokens_of(answer, rules()));
      const task_item& item = workload_->items[i];
      scored_answer s;
      s.id = item.id;
      s.text = model_->tokens.decode(std::span(answer.tokens).first(length), true);
      const struct score judged = score_answer(item, s.text);
      s.note = judged.note;
      s.scored = judged.scored;
      s.value = judged.value;
      s.exact = judged.exact;
      all.push_back(std::move(s));
    }
    return all;
  }

 private:
  std::shared_ptr<const loaded_model> model_;
  std::shared_ptr<const loaded_workload> workload_;
  const method_info& method_;
  parameters settings_;
  std::int32_t batch_size_;
  std::vector<std::int64_t> canvas_;  // generated positions laid out for each request
};

class real_executor final : public executor {
 public:
  method_catalogue methods() const override {
    const auto find = [](const std::string& name) -> const method_info& {
      return method_registry::instance().find(name);
    };
    return {[] { return method_registry::instance().names(); },
            [find](const std::string& name) {
              std::vector<std::string> names;
              for (const parameter_spec& p : find(name).parameters) names.push_back(p.name);
              return names;
            },
            [find](const std::string& name, const std::string& preset, const parameter_map& given) {
              const method_info& method = find(name);
              parameter_map merged;
              if (!preset.empty()) {
                std::vector<std::string> known;
                for (const auto& [p, values] : method.presets) known.push_back(p);
                if (!method.presets.contains(preset)) {
                  throw usage_error(unknown_name("preset of " + name, preset, known));
                }
                merged = method.presets.at(preset);
              }
              for (const auto& [parameter, value] : given) merged[parameter] = value;
              return resolve_parameters(name, method.parameters, merged);
            }};
  }

  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    const experiment_point& first = group.front();
    const std::string key = first.model.path.string() + "\n" + first.model.weights + "\n" +
                            first.run.device + "\n" + effective_format(first.run.format);
    backend_of(first.run.device);  // before anything is read
    if (key != model_key_) {
      model_.reset();  // one model in memory at a time
      model_key_.clear();
      model_ = load(first.model, first.run);
      model_key_ = key;
    }
    const auto workload = load(first.workload, first.run, *model_);
    std::vector<preparation> all;
    std::int32_t rows = 1;
    for (const experiment_point& p : group) {
      preparation prepared;
      prepared.verdict = verdict_kind::not_supported;
      try {
        method_registry::instance().find(p.method).check(model_->config, parameters(p.params));
        prepared.verdict = verdict_kind::failed;  // from here on it is no matter of support
        auto point = std::make_unique<real_point>(p, model_, workload);
        rows = std::max(rows, point->rows());
        prepared.point = std::move(point);
      } catch (const std::exception& problem) {
        prepared.reason = problem.what();
      }
      all.push_back(std::move(prepared));
    }
    model_->make_room(rows);
    return all;
  }

  std::string environment() const override {
    return environment_json(capture_environment(cpu_ops().name()));
  }
  std::string source_hash() const override {
    const build_info& build = this_build();
    return std::string(build.git_commit) + (build.git_dirty ? "-dirty" : "");
  }

 private:
  std::string model_key_;
  std::shared_ptr<loaded_model> model_;
};

}  // namespace

std::unique_ptr<executor> make_executor() {
  return std::make_unique<real_executor>();
}

run_summary run_experiment(const experiment_spec& spec, const run_options& options) {
  const std::unique_ptr<executor> with = make_executor();
  return run_experiment(spec, options, *with);
}

}  // namespace unmask
