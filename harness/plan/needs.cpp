// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/needs.h"

#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "harness/model/checkpoint.h"
#include "harness/plan/asked_devices.h"
#include "harness/plan/benchmark_prompts.h"
#include "harness/plan/locate.h"
#include "harness/rows/row_table.h"
#include "harness/workload/benchmark_list.h"
#include "kernels/cuda/device/traffic.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

struct need_parts {
  std::string kind, value;
};
need_parts split(const std::string& need) {
  const std::size_t colon = need.find(':');
  if (colon == std::string::npos) return {need, ""};
  return {need.substr(0, colon), need.substr(colon + 1)};
}

const std::vector<std::string> with_number = {"gpus", "gpu_memory_gb", "memory_gb", "cores"};
const std::vector<std::string> with_name = {"weights", "trace", "benchmark", "model"};

bool one_of(const std::vector<std::string>& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

std::optional<double> number(const std::string& text) {
  const std::optional<double> value = as_number(text);
  return value > 0.0 ? value : std::nullopt;
}

// A benchmark as a need names it: NAME, or NAME/HARNESS[/CONFIG].
benchmark_request request_named(const std::string& value) {
  const std::size_t slash = std::min(value.find('/'), value.size());
  benchmark_request request;
  request.name = value.substr(0, slash);
  request.harness = slash < value.size() ? value.substr(slash + 1) : "";
  return request;
}

std::string what_is_missing(const std::string& need, const machine_view& m) {
  const need_parts parts = split(need);
  const auto less = [&](double here, const char* unit) {
    const double wanted = number(parts.value).value_or(0);
    return here >= wanted ? "" : fmt::format("{:.4g}{} here", here, unit);
  };
  if (parts.kind == "cuda") {
    if (!m.cuda_kernels) return "this program was built without CUDA";
    if (m.gpus == 0) return "no GPU is visible";
    return m.no_gpu;
  }
  if (parts.kind == "cuda-emulated") {
    return cuda::emulator::is_built() ? ""
                                      : "it belongs to builds with tests; ./dev build makes one";
  }
  if (parts.kind == "gpus") return less(static_cast<double>(m.gpus), "");
  if (parts.kind == "gpu_memory_gb") return less(m.gpu_memory_gb, "");
  if (parts.kind == "memory_gb") return less(m.memory_gb, "");
  if (parts.kind == "cores") return less(m.cores, "");
  if (parts.kind == "weights") {
    return m.has_weights(parts.value) ? "" : "not in $UNMASK_MODELS or the Hugging Face cache";
  }
  if (parts.kind == "model") {
    const fs::path config = fs::path("models") / parts.value / "config.json";
    if (find_embedded(config, {})) return "";
    return "not made yet; ./dev model " + parts.value + " makes it";
  }
  if (parts.kind == "benchmark") {
    if (m.has_dataset(parts.value)) return "";
    const std::string lack = lacks_prompts(request_named(parts.value), {});
    return lack.empty() ? "not on that machine" : lack;
  }
  return m.has_trace(parts.value) ? "" : "not in $UNMASK_DATASETS/traces";
}

}  // namespace

void check_need(const std::string& need, const std::string& where) {
  const need_parts parts = split(need);
  if (parts.kind == "cuda" && parts.value.empty() && need == "cuda") return;
  if (one_of(with_number, parts.kind)) {
    if (number(parts.value)) return;
    throw usage_error(where + ": the need '" + need + "' must be " + parts.kind +
                      ":N with a number above 0");
  }
  if (one_of(with_name, parts.kind)) {
    if (parts.value.empty()) {
      throw usage_error(where + ": the need '" + need +
                        "' must name what it needs after the colon");
    }
    if (parts.kind == "benchmark") {
      const benchmark_request named = request_named(parts.value);
      located(where, [&] { find_benchmark(named.name, named.harness); });
    }
    return;
  }
  std::vector<std::string> known = {"cuda"};
  known.insert(known.end(), with_number.begin(), with_number.end());
  known.insert(known.end(), with_name.begin(), with_name.end());
  throw usage_error(where + ": " + unknown_name("need", parts.kind, known));
}

std::vector<std::string> needs_of(const experiment_spec& spec) {
  std::vector<std::string> all;
  const auto add = [&](const std::string& need) {
    if (!one_of(all, need)) all.push_back(need);
  };
  for (const std::string& need : spec.needs) add(need);
  const std::vector<std::string> devices = devices_of(spec);
  for (const char* device : {"cuda", "cuda-emulated"}) {
    if (one_of(devices, device)) add(device);
  }
  for (const model_entry& model : spec.models) {
    if (!model.published.empty()) add("weights:" + model.published);
    std::error_code none;
    if (fs::exists(model.path / delta_file, none)) {
      add("model:" + model.path.lexically_normal().filename().string());
    }
  }
  // Prompts that were written beforehand need no data, and fewer examples fewer files.
  for (const prompts_need& need : prompts_of(spec)) {
    const benchmark_request& r = need.request;
    if (!r.path.empty() || lacks_prompts(r, need.tokenizer).empty()) continue;
    add("benchmark:" + r.name + (r.harness.empty() ? "" : "/" + r.harness));
  }
  for (const workload_entry& w : spec.workloads) {
    if (w.file.string().starts_with("trace:")) add(w.file.string());
  }
  return all;
}

machine_view this_machine() {
  const environment here = capture_environment("");
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  machine_view m;
  m.cuda_kernels = here.cuda.built;
  m.gpus = here.cuda.devices.size();
  if (m.cuda_kernels && m.gpus > 0) m.no_gpu = why_no_gpu();
  for (const cuda::device_properties& d : here.cuda.devices) {
    m.gpu_memory_gb = std::max(m.gpu_memory_gb, static_cast<double>(d.memory_bytes) / gib);
  }
  m.memory_gb = static_cast<double>(here.memory_bytes) / gib;
  m.cores = std::max(here.cpus_usable, 1);
  m.has_weights = [](const std::string& name) { return find_weights(name).has_value(); };
  m.has_dataset = [](const std::string& name) {
    return lacks_prompts(request_named(name), {}).empty();
  };
  m.has_trace = [](const std::string& file) { return find_trace(file).has_value(); };
  return m;
}

std::vector<std::string> missing_needs(const std::vector<std::string>& needs,
                                       const machine_view& machine) {
  std::vector<std::string> missing;
  for (const std::string& need : needs) {
    const std::string found = what_is_missing(need, machine);
    if (!found.empty()) missing.push_back(need + " (" + found + ")");
  }
  return missing;
}

std::string cannot_run(const experiment_spec& spec, const machine_view& machine) {
  if (!spec.not_run.empty()) return "NOT RUN: " + spec.not_run;
  std::vector<std::string> missing = missing_needs(needs_of(spec), machine);
  for (const prompts_need& need : prompts_of(spec)) {
    if (need.request.path.empty()) continue;  // its files are the experiment's own
    const std::string lack = lacks_prompts(need.request, need.tokenizer);
    if (!lack.empty()) missing.push_back("benchmark:" + need.request.name + " (" + lack + ")");
  }
  const std::string list = joined(missing, "; ");
  return list.empty() ? "" : "NOT RUN: needs " + list;
}

}  // namespace unmask
