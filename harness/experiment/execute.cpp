// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Where an experiment meets models, methods and tasks (with execute_*.cpp); the rest of this room
// knows none of them.
#include <algorithm>
#include <array>
#include <iostream>
#include <numeric>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/engine/closed_loop.h"
#include "harness/experiment/execute_parts.h"
#include "harness/experiment/imposed_commits.h"
#include "harness/experiment/locate.h"
#include "harness/experiment/probe_decodes.h"
#include "harness/model/checkpoint.h"
#include "harness/profile/environment.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/cuda/choice.h"
#include "kernels/cuda/device.h"

namespace unmask {
namespace {

constexpr std::size_t largest_config = std::size_t{1} << 20;
constexpr std::size_t largest_workload = std::size_t{1} << 30;

// Tells the backends what [run] says about kernels, before a model is packed for them.
void choose_kernels(const run_settings& run) {
  if (run.device.starts_with("cuda")) {
    if (run.gemm == "fastest") throw usage_error("`gemm` \"fastest\" needs device \"cpu\"");
    cuda::choose("UNMASK_CUDA_GEMM", run.gemm == "own" ? "own" : "library");
    cuda::choose("UNMASK_CUDA_GRAPHS", run.graphs == "off" ? "off" : "on");
    return;
  }
  cpu::set_active_isa(run.isa == "auto" ? cpu::supported_isas().front() : cpu::parse_isa(run.isa));
  cpu::set_gemm_path(run.gemm == "library"   ? cpu::gemm_path::onednn
                     : run.gemm == "fastest" ? cpu::gemm_path::automatic
                                             : cpu::gemm_path::own);
}

class real_point final : public loadable_point {
 public:
  real_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
             std::shared_ptr<const loaded_workload> workload,
             std::shared_ptr<step_time_store> times)
      : loadable_point(std::move(model), std::move(workload)),
        method_(method_registry::instance().find(point.method)),
        batch_size_(static_cast<std::int32_t>(point.run.batch_size)),
        calibration_(method_, model_->config, point.params, batch_size_,
                     model_key(point.model, point.run), std::move(times)) {
    const recipe made = method_.make(model_->config, settings());
    for (const sequence_request& r : workload_->requests) {
      canvas_.push_back(made.pace->canvas_length(model_->config, r) -
                        static_cast<std::int32_t>(r.prompt.size()));
    }
    if (point.run.impose != "none") impose(point.run, made.pace->shape().block);
  }

  std::int32_t rows() const override {
    return std::max(
        rows_needed(model_->config, method_, settings(), workload_->requests, batch_size_),
        calibration_.rows());
  }

  std::vector<active_knob> knobs() const override { return knobs_of(method_, settings()); }
  parameter_map measured_settings() const override { return calibration_.filled(); }
  std::string calibration_report() const override { return calibration_.report(); }

  pass_record pass() override {
    calibration_.run(*model_->packed, nullptr);
    const closed_loop_result result = run_closed_loop(
        *model_->packed, imposed_ ? *imposed_ : method_, settings(), requests(), batch_size_);
    calibration_.keep(result.learnt);
    return pass_of(result, workload_->requests, canvas_);
  }

  std::map<std::string, std::string> probe(const probe_settings& settings) override {
    std::vector<sequence_request> requests = workload_->requests;
    if (settings.limit > 0 && requests.size() > static_cast<std::size_t>(settings.limit)) {
      requests.resize(static_cast<std::size_t>(settings.limit));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].id = static_cast<std::int64_t>(i);
    }
    probe_observer observer(settings, source_of(requests));
    run_closed_loop(*model_->packed, method_, this->settings(), requests, 1, &observer);
    return observer.results();
  }

  std::vector<scored_answer> score(const pass_record& pass) override {
    if (workload_->items.empty() || imposed_) return {};
    std::vector<std::size_t> item_of(pass.answers.size());
    std::iota(item_of.begin(), item_of.end(), std::size_t{0});
    return score_answers(*model_, *workload_, pass.answers, item_of, rules());
  }

 private:
  const parameters& settings() const { return calibration_.settings(); }
  const std::vector<sequence_request>& requests() const {
    return imposed_ ? numbered_ : workload_->requests;
  }
  // Trajectories are looked up by the number of the request.
  void impose(const run_settings& run, std::int32_t block) {
    numbered_ = workload_->requests;
    std::vector<std::int32_t> lengths;
    for (std::size_t i = 0; i < numbered_.size(); ++i) {
      numbered_[i].id = static_cast<std::int64_t>(i);
      lengths.push_back(static_cast<std::int32_t>(canvas_[i]) +
                        static_cast<std::int32_t>(numbered_[i].prompt.size()));
    }
    imposed_ = imposed_method(method_,
                              commits_of(run.impose, *workload_, lengths, model_->config, block,
                                         static_cast<std::uint64_t>(run.seed)),
                              imposes_ranks(run.impose, *model_));
  }

  // What the probes may ask about these requests.
  probe_source source_of(const std::vector<sequence_request>& requests) {
    probe_source source;
    if (model_->tokens) {
      source.text = [this](std::int32_t token) {
        const std::array<std::int32_t, 1> one = {token};
        return model_->tokens->decode(one, false);
      };
    }
    if (model_->tokens && workload_->items.size() >= requests.size()) {
      source.score = [this](std::size_t request, std::span<const std::int32_t> canvas) {
        answer_record answer;
        answer.tokens.assign(canvas.begin(), canvas.end());
        std::ranges::replace(answer.tokens, -1, model_->config.mask_id);
        const scored_answer s =
            score_answers(*model_, *workload_, {answer}, {request}, rules()).front();
        return s.scored ? std::optional<double>(s.value) : std::nullopt;
      };
    }
    source.again = [this, &requests](const trajectory_source& order) {
      return decode_again(*model_->packed, method_, this->settings(), requests, &order);
    };
    source.reference = [this, &requests](std::int64_t block) {
      return decode_reference(*model_->packed, requests, block);
    };
    return source;
  }

  const method_info& method_;
  std::int32_t batch_size_;
  point_calibration calibration_;
  std::vector<std::int64_t> canvas_;    // generated positions laid out for each request
  std::optional<method_info> imposed_;  // with commits from elsewhere
  std::vector<sequence_request> numbered_;
};

class real_executor final : public executor {
 public:
  explicit real_executor(std::optional<shape_settings> shape = std::nullopt) : shape_(shape) {}
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

  void identify(experiment_point& p) override {
    p.run.device = device_present(p.run.device);
    p.model.hash = remembered(p.model.path.string() + "\n" + p.model.weights, [&] {
      if (p.model.weights == "checkpoint") return hash_of_checkpoint(p.model.path);
      return sha256_hex(read_file(p.model.path / "config.json", largest_config));
    });
    if (!p.workload.benchmark.name.empty()) {
      const std::string which = canonical_benchmark(p.workload.benchmark) +
                                p.workload.benchmark.path + std::to_string(p.workload.items.limit) +
                                " " + std::to_string(p.workload.items.offset) + " " +
                                std::to_string(p.workload.items.seed) + " " +
                                std::to_string(p.workload.items.spread);
      p.workload.hash = remembered(which, [&] {
        const auto summary = summary_of(p.workload, tokens_of(p.model.path));
        return summary ? summary->hash : "";
      });
      return;
    }
    if (p.workload.file.empty()) return;  // published lengths
    p.workload.hash = remembered(p.workload.file.string(), [&] {
      return sha256_hex(read_file(p.workload.file, largest_workload));
    });
  }

  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    const experiment_point& first = group.front();
    choose_kernels(first.run);
    if (!std::filesystem::exists(first.model.path / "config.json")) {
      throw environment_error("no model in " + first.model.path.string() +
                              " (no config.json there); " + looked_in(first.model.path));
    }
    const std::string key = model_key(first.model, first.run);
    if (key != model_key_) {
      model_.reset();  // one model in memory at a time
      model_key_.clear();
      model_ = load_model(first.model, first.run, shape_ ? shape_->layers : 0, shape_.has_value());
      model_key_ = key;
    }
    const auto workload =
        shape_ ? random_workload(first.workload.name, *shape_, first.run, model_->config)
               : load_workload(first.workload, first.run, *model_);
    std::vector<preparation> all;
    std::int32_t rows = 1;
    for (const experiment_point& p : group) {
      preparation prepared;
      prepared.verdict = verdict_kind::not_supported;
      try {
        method_registry::instance().find(p.method).check(model_->config, parameters(p.params));
        prepared.verdict = verdict_kind::failed;  // from here on it is no matter of support
        std::unique_ptr<loadable_point> point;
        if (p.workload.benchmark.kind == "likelihood") {
          if (p.run.impose != "none") throw usage_error("likelihoods commit nothing to `impose`");
          point = make_likelihood_point(p, model_, workload);
        } else if (p.run.kind == "serve") {
          point = make_serve_point(p, model_, workload, times_);
        } else {
          point = std::make_unique<real_point>(p, model_, workload, times_);
        }
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
  // A file that is not there has no hash: loading it says so.
  std::string remembered(const std::string& what, const std::function<std::string()>& hash) {
    const auto [at, fresh] = hashes_.try_emplace(what);
    if (!fresh) return at->second;
    try {
      at->second = hash();
    } catch (const error&) {
    }
    return at->second;
  }
  // The tokenizer beside a model; null where there is none.
  const tokenizer* tokens_of(const std::filesystem::path& model) {
    const auto [at, fresh] = tokenizers_.try_emplace(model);
    std::error_code none;
    if (fresh && std::filesystem::exists(model / "tokenizer.json", none)) {
      at->second = tokenizer::load(model);
    }
    return at->second ? &*at->second : nullptr;
  }
  // Points for a GPU run on the CPU, and are recorded so, where there is none.
  std::string device_present(const std::string& wanted) {
    if (wanted != "cuda" || !cuda::query().devices.empty()) return wanted;
    if (!told_) std::cerr << cuda::query().note << "; running on the CPU instead\n";
    told_ = true;
    return "cpu";
  }

  std::optional<shape_settings> shape_;  // instead of the workloads of the points
  std::map<std::string, std::string> hashes_;
  std::map<std::filesystem::path, std::optional<tokenizer>> tokenizers_;
  bool told_ = false;
  std::string model_key_;
  std::shared_ptr<loaded_model> model_;
  std::shared_ptr<step_time_store> times_ = std::make_shared<step_time_store>();
};

}  // namespace

std::unique_ptr<executor> make_executor() {
  return std::make_unique<real_executor>();
}

std::unique_ptr<executor> make_shape_executor(const shape_settings& shape) {
  return std::make_unique<real_executor>(shape);
}

run_summary run_experiment(const experiment_spec& spec, const run_options& options) {
  const std::unique_ptr<executor> with = make_executor();
  return run_experiment(spec, options, *with);
}

}  // namespace unmask
