// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// An experiment meets models, methods and tasks here and in what prepares the points; the runner knows
// none of them.
#include <algorithm>

#include <fmt/format.h>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/process.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "harness/devices/first_use.h"
#include "harness/measure/execute_parts.h"
#include "harness/model/checkpoint.h"
#include "harness/plan/locate.h"
#include "harness/plan/settings.h"

namespace unmask {
namespace {

constexpr std::size_t largest_config = std::size_t{1} << 20;
constexpr std::size_t largest_workload = std::size_t{1} << 30;

class real_executor final : public executor {
 public:
  method_catalogue methods() const override {
    return [](const std::string& name) -> const method_info& {
      return method_registry::instance().find(name);
    };
  }

  void identify(experiment_point& p) override {
    // An absent "cuda" stays in the plan, for forecasts; run_experiment() refuses to measure it.
    if (p.run.device == "auto") p.run.device = choose_device("auto").name;
    check_run_device(p.run);
    identify_files(p);
    p.model.hash = remembered(p.model.path.string() + "\n" + p.model.weights, [&] {
      if (p.model.weights == "checkpoint") return hash_of_checkpoint(p.model.path, &opened_);
      return sha256_hex(read_file(p.model.path / "config.json", largest_config));
    });
    if (!p.workload.benchmark.name.empty()) {
      const std::string which = canonical_benchmark(p.workload.benchmark) +
                                p.workload.benchmark.path.string() + canonical_workload(p.workload);
      p.workload.hash = remembered(which, [&] {
        const auto summary = summary_of(p.workload, p.model.path);
        if (summary) counts_[which] = summary->items;
        return summary ? summary->hash : "";
      });
      p.workload.count = counts_[which];
      return;
    }
    if (p.workload.file.empty()) return;  // published lengths
    if (const std::filesystem::path& rater = p.workload.rater; !rater.empty()) {
      p.workload.rater_hash = remembered(rater.string() + "\ncheckpoint",
                                         [&] { return hash_of_checkpoint(rater, &opened_); });
    }
    const std::string file = p.workload.file.string();
    if (!p.workload.trace_format.empty()) {
      p.workload.hash =
          remembered(file, [&] { return sha256_hex(read_file(file, largest_workload)); });
      return;
    }
    // Hashes the chosen items alone, so that a file that grows leaves the ids of earlier points.
    const std::string which = file + canonical_workload(p.workload);
    p.workload.hash = remembered(which, [&] {
      const std::vector<task_item> items = select(read_tasks(file), p.workload.items);
      counts_[which] = static_cast<std::int64_t>(items.size());
      return hash_of_tasks(items);
    });
    p.workload.count = counts_[which];
  }

  // What settings name as a file is a part of what was measured, wherever it lies.
  void identify_files(experiment_point& p) {
    const auto look_at = [&](const std::string& key, const parameter_value& value) {
      const auto file = named_file(value);
      if (!file) return;
      // One that cannot be read ends the run before it starts.
      const auto [hash, fresh] = hashes_.try_emplace("setting\n" + *file);
      if (fresh) hash->second = sha256_hex(read_file(*file, largest_workload));
      p.files[key] = hash->second;
    };
    for (const auto& [name, value] : p.params) look_at("params." + name, value);
    for (const auto& [name, value] : p.run.serve) look_at("serve." + name, value);
    look_at("impose", p.run.impose);
  }

  std::vector<preparation> prepare(std::span<const experiment_point> group) override {
    const experiment_point& first = group.front();
    const std::string key = model_key(first.model, first.run);
    if (key != model_key_) {
      model_.reset();  // one model in memory at a time
      model_key_.clear();
      model_ = load_model_of(first);
      model_key_ = key;
    } else {
      model_->record.checked = find_device(first.run.device).checked(first.run, false);
    }
    const auto workload = load_workload(first.workload, first.run, *model_);
    std::vector<preparation> all;
    std::int32_t rows = 1;
    for (const experiment_point& p : group) {
      preparation prepared;
      prepared.verdict = row_verdict::not_supported;
      try {
        method_registry::instance().find(p.method).check(model_->config, parameters(p.params));
        check_share(model_->config, share_of_run(model_->run), weight_format_of(model_->run));
        check_card(p, *workload);
        prepared.verdict = row_verdict::failed;  // from here on it is no matter of support
        std::unique_ptr<sized_point> point;
        if (p.workload.benchmark.kind == "likelihood") {
          if (p.run.impose != "none") throw usage_error("likelihoods commit nothing to `impose`");
          point = make_likelihood_point(p, model_, workload);
        } else if (p.run.kind == "serve") {
          point = make_serve_point(p, model_, workload, times_);
        } else {
          point = make_decode_point(p, model_, workload, times_);
        }
        rows = std::max(rows, point->rows());
        prepared.point = std::move(point);
      } catch (const std::exception& problem) {
        prepared.reason = problem.what();
      }
      all.push_back(std::move(prepared));
    }
    const bool any =
        std::ranges::any_of(all, [](const preparation& p) { return p.point != nullptr; });
    if (any) model_->make_room(rows);
    return all;
  }

  std::string environment() const override {
    unmask::environment machine = capture_environment(cpu_backend().name());
    look_at_load(machine);
    return environment_json(machine);
  }
  std::string source_hash() const override {
    const build_info& build = this_build();
    return std::string(build.git_commit) + (build.git_dirty ? "-dirty" : "");
  }
  std::string program_hash() const override {
    const std::filesystem::path program = file_of_code();
    return remembered_hash(program, user_hash_memory(), [&] {
      const auto file = mapped_file::open(program);
      return sha256_hex(
          {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
    });
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
  std::map<std::string, std::string> hashes_;
  std::map<std::string, std::int64_t> counts_;  // items, beside the hashes of workloads
  // Files of models that were hashed stay mapped: loading reads them there and opens none again.
  std::vector<std::shared_ptr<const mapped_file>> opened_;
  std::string model_key_;
  std::shared_ptr<loaded_model> model_;
  std::shared_ptr<step_time_store> times_ = std::make_shared<step_time_store>();
};

}  // namespace

std::shared_ptr<loaded_model> load_model_of(const experiment_point& point) {
  const std::string checked = find_device(point.run.device).checked(point.run, false);
  (void)backend_of(point.run);  // throws before anything is read
  if (!std::filesystem::exists(point.model.path / "config.json")) {
    throw environment_error("no model in " + point.model.path.string() +
                            " (no config.json there); " + looked_in(point.model.path));
  }
  const std::shared_ptr<loaded_model> model = load_model(point.model, point.run);
  model->record.checked = checked;
  return model;
}

std::unique_ptr<executor> make_executor() {
  return std::make_unique<real_executor>();
}

}  // namespace unmask
