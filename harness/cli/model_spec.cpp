// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/model_spec.h"

#include <fmt/core.h>

#include "harness/base/error.h"
#include "harness/decode/registry.h"
#include "harness/experiment/locate.h"

namespace unmask {

std::string usual_method(const model_config& config) {
  if (config.attention == mask_kind::full) return "vanilla";
  return config.attention == mask_kind::causal ? "autoregressive" : "block_diffusion";
}

option_table model_options(int repetitions) {
  return option_table{
             {"method,m", repeated(),
              "decoding methods, a,b (repeatable); default: the one the model was made for; of an "
              "experiment file: only methods of this name or label"},
             {"preset", no_default, "named settings of the methods"},
             {"weights", std::string("checkpoint"),
              "checkpoint or random:SEED (then config.json is enough)"},
             {"layers", 0, "random weights: only the first so many layers"},
             {"seed", 0, "of random prompts and sampling noise"},
             {"repetitions", repetitions, "timed passes"},
             {"warmup", 1, "passes before them"}} +
         settings_options();
}

std::filesystem::path model_folder(const std::filesystem::path& given) {
  std::error_code none;
  if (given.has_parent_path() || std::filesystem::is_directory(given, none)) return given;
  return find_embedded("models" / given, {}).value_or(given);
}

std::filesystem::path fresh_folder(const std::filesystem::path& wanted) {
  std::filesystem::path place = wanted;
  std::error_code none;
  for (int i = 2; std::filesystem::exists(place, none); ++i) {
    place = wanted.parent_path() / fmt::format("{}-{}", wanted.filename().string(), i);
  }
  return place;
}

experiment_spec spec_of_model(const std::filesystem::path& given, const command_line& line) {
  const std::filesystem::path directory = model_folder(given);
  experiment_spec spec;
  const std::string weights = line.text("weights");
  const bool random = weights.starts_with("random:") && weights.size() > 7 &&
                      weights.find_first_not_of("0123456789", 7) == std::string::npos;
  if (weights != "checkpoint" && !random) {
    throw usage_error("--weights is checkpoint or random:SEED, not '" + weights + "'");
  }
  const model_config config = read_model_config(directory);
  std::string name = directory.filename().string();
  if (name.empty()) name = directory.parent_path().filename().string();  // "folder/"
  if (const std::int64_t layers = line.at_least("layers", 0); layers > 0) {
    name += fmt::format(", {} of {} layers", layers, config.layers);
  }
  model_entry model;
  model.name = name;
  model.path = directory;
  model.weights = weights;
  model.layers = line.whole("layers");
  spec.models.push_back(model);
  texts methods = line.parts("method");
  if (methods.empty()) methods.push_back(usual_method(config));
  for (const std::string& method : methods) {
    method_registry::instance().find(method);  // the nearest name where there is none
    method_entry entry;
    entry.name = entry.label = method;
    entry.preset = line.text("preset");
    entry.where = "--method";
    spec.methods.push_back(entry);
  }
  spec.run.seed = line.at_least("seed", 0);
  spec.evidence.warmup = line.at_least("warmup", 0);
  for (const std::string& assignment : line.settings()) apply_override(spec, assignment);
  return spec;
}

}  // namespace unmask
