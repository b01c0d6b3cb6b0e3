// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/model_spec.h"

#include <fmt/core.h>

#include "harness/base/error.h"
#include "harness/cli/options.h"
#include "harness/decode/registry.h"
#include "harness/experiment/locate.h"

namespace unmask {
namespace po = boost::program_options;

std::string usual_method(const model_config& config) {
  if (config.attention == mask_kind::full) return "vanilla";
  return config.attention == mask_kind::causal ? "autoregressive" : "block_diffusion";
}

void add_model_options(po::options_description& options, int repetitions) {
  auto add = options.add_options();
  add("method,m", po::value<texts>()->composing(),
      "decoding methods, a,b (repeatable); default: the one the model was made for; of an "
      "experiment file: only methods of this name or label");
  add("preset", po::value<std::string>()->default_value(""), "named settings of the methods");
  add("weights", po::value<std::string>()->default_value("checkpoint"),
      "checkpoint or random:SEED (then config.json is enough)");
  add("layers", po::value<int>()->default_value(0),
      "random weights: only the first so many layers");
  add("seed", po::value<int>()->default_value(0), "of random prompts and sampling noise");
  add("repetitions", po::value<int>()->default_value(repetitions), "timed passes");
  add("warmup", po::value<int>()->default_value(1), "passes before them");
  add_settings_option(options);
  add_device_option(options);
}

int at_least(const po::variables_map& values, const char* name, int least) {
  const int value = values[name].as<int>();
  if (value < least) throw usage_error(fmt::format("--{} is at least {}", name, least));
  return value;
}

std::filesystem::path model_folder(const std::filesystem::path& given) {
  std::error_code none;
  if (given.has_parent_path() || std::filesystem::is_directory(given, none)) return given;
  return find_embedded("models" / given, std::filesystem::current_path(none)).value_or(given);
}

experiment_spec spec_of_model(const std::filesystem::path& given, const po::variables_map& values) {
  const std::filesystem::path directory = model_folder(given);
  experiment_spec spec;
  const std::string weights = text_of(values, "weights");
  const bool random = weights.starts_with("random:") && weights.size() > 7 &&
                      weights.find_first_not_of("0123456789", 7) == std::string::npos;
  if (weights != "checkpoint" && !random) {
    throw usage_error("--weights is checkpoint or random:SEED, not '" + weights + "'");
  }
  const model_config config = read_model_config(directory);
  std::string name = directory.filename().string();
  if (name.empty()) name = directory.parent_path().filename().string();  // "folder/"
  if (const int layers = at_least(values, "layers", 0); layers > 0) {
    name += fmt::format(", {} of {} layers", layers, config.layers);
  }
  model_entry model;
  model.name = name;
  model.path = directory;
  model.weights = weights;
  spec.models.push_back(model);
  texts methods = list_of(values, "method");
  if (methods.empty()) methods.push_back(usual_method(config));
  for (const std::string& method : methods) {
    method_registry::instance().find(method);  // the nearest name where there is none
    method_entry entry;
    entry.name = entry.label = method;
    entry.preset = text_of(values, "preset");
    entry.where = "--method";
    spec.methods.push_back(entry);
  }
  spec.run.seed = at_least(values, "seed", 0);
  spec.evidence.warmup = at_least(values, "warmup", 0);
  for (const std::string& assignment : settings_of(values)) apply_override(spec, assignment);
  return spec;
}

}  // namespace unmask
