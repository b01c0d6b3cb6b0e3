// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/model_spec.h"

#include <fmt/core.h>

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/text.h"
#include "harness/decode/registry.h"
#include "harness/plan/locate.h"
#include "harness/plan/published_decoding.h"

namespace unmask {

std::string usual_method(const model_config& config) {
  return decoding_of(config).method;
}

option_table model_options(int repetitions) {
  return option_table{
             {"method,m", repeated(),
              "measure these decoding methods, a,b (default: the one the model was made for); with "
              "an "
              "experiment file: only methods of this name or label (repeatable)"},
             {"preset", no_default, "take these named settings of the methods"},
             {"weights", std::string("checkpoint"),
              "take the checkpoint's weights, or random:SEED (then config.json is enough)"},
             {"layers", 0, "with random weights: take only the first N layers (0: all)"},
             {"seed", 0, "draw random prompts and sampling noise from this seed"},
             {"repetitions", repetitions, "time at most N repetitions"},
             {"warmup", 1, "run N repetitions before them, without timing"}} +
         unread_options() + settings_options();
}

namespace {
constexpr std::int64_t largest_number = 1 << 24, most_prompt_tokens = 1 << 28;
}  // namespace

void check_prompts(const std::filesystem::path& model, std::int64_t prompts,
                   std::int64_t prompt_tokens, std::int64_t gen_length) {
  const model_config config = read_model_config(model);
  if (prompt_tokens + gen_length > config.max_positions) {
    throw usage_error(fmt::format(
        "prompts of {} tokens and a response of {} take {} positions, but {} was made "
        "for {}",
        prompt_tokens, gen_length, prompt_tokens + gen_length, config.name, config.max_positions));
  }
  if (prompts > most_prompt_tokens / std::max<std::int64_t>(prompt_tokens, 1)) {
    throw usage_error(fmt::format("{} prompts of {} tokens are more than {} tokens; take fewer",
                                  prompts, prompt_tokens, most_prompt_tokens));
  }
}

std::filesystem::path model_folder(const std::filesystem::path& given) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::is_directory(given, none)) {
    // The root of an entry of a Hugging Face cache holds no model itself.
    const std::string entry = fs::weakly_canonical(given, none).filename().string();
    if (fs::exists(given / "config.json", none) || !entry.starts_with("models--")) return given;
    return newest_snapshot(given).value_or(given);
  }
  if (fs::exists(given, none)) return given;
  for (const fs::path& place : {"models" / given, given}) {
    if (given.is_absolute()) break;
    if (const auto embedded = find_embedded(place, {})) return *embedded;
  }
  std::string name = given.string();
  if (name.starts_with("weights:")) name.erase(0, 8);
  if (name.starts_with("models--")) name = replace_all(name.substr(8), "--", "/");
  if (const auto found = find_weights(name)) return *found;
  const std::string nearest = nearest_model(given);
  throw environment_error(fmt::format(
      "cannot find the model '{}'{} Looked in: this folder, the included models, $UNMASK_MODELS, "
      "the Hugging Face cache ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub){}. To fetch "
      "a "
      "published model: hf download {}",
      given.string(), nearest.empty() ? "." : nearest, models_wheel(),
      name.find('/') != std::string::npos && given.is_relative() ? name : "ORG/NAME"));
}

std::filesystem::path fresh_folder(const std::filesystem::path& wanted) {
  std::filesystem::path place = wanted;
  std::error_code none;
  for (int i = 2; std::filesystem::exists(place, none); ++i) {
    place = wanted.parent_path() / fmt::format("{}-{}", wanted.filename().string(), i);
  }
  return place;
}

model_entry entry_of_model(const std::filesystem::path& given) {
  model_entry model;
  model.path = model_folder(given);
  model.name = model.path.filename().string();
  if (model.name.empty()) model.name = model.path.parent_path().filename().string();  // "folder/"
  if (const auto above = model.path.parent_path(); above.filename() == "snapshots") {
    const std::string entry = above.parent_path().filename().string();  // models--ORG--NAME
    if (const auto at = entry.rfind("--"); at != std::string::npos)
      model.name = entry.substr(at + 2);
  }
  return model;
}

model_entry entry_of_model(const std::filesystem::path& given, const command_line& line) {
  model_entry model = entry_of_model(given);
  const auto take = [&](const char* option, const std::vector<std::string>& known,
                        std::string& into) {
    if (!line.given(option)) return;
    find_known(std::string("value of --") + option, line.text(option), known);
    into = line.text(option);
  };
  take("pictures", pictures_uses(), model.pictures);
  take("unread", unread_uses(), model.unread);
  return model;
}

std::vector<method_entry> entries_of_methods(const texts& methods, const std::string& preset) {
  std::vector<method_entry> all;
  for (const std::string& method : methods) {
    method_registry::instance().find(method);  // the nearest name where there is none
    method_entry& entry = all.emplace_back();
    entry.name = entry.label = method;
    entry.preset = preset;
    entry.where = "--method";
  }
  return all;
}

experiment_spec spec_of_model(const std::filesystem::path& given, const command_line& line) {
  experiment_spec spec;
  const std::string weights = line.text("weights");
  if (weights != "checkpoint" && !seed_of_weights(weights)) {
    throw usage_error(
        "--weights is checkpoint or random:SEED, SEED a whole number below 2^64, not '" + weights +
        "'");
  }
  model_entry model = entry_of_model(given, line);
  const model_config config = read_model_config(model.path);
  model.weights = weights;
  model.layers = line.within("layers", 0, largest_number);
  if (model.layers > 0) {
    model.name += fmt::format(", {} of {} layers", model.layers, config.layers);
  }
  spec.models.push_back(model);
  texts methods = line.parts("method");
  if (methods.empty()) methods.push_back(usual_method(config));
  spec.methods = entries_of_methods(methods, line.text("preset"));
  spec.run.seed = line.at_least("seed", 0);
  spec.evidence.warmup = line.within("warmup", 0, 1000);
  for (const std::string& assignment : line.settings()) apply_override(spec, assignment);
  return spec;
}

}  // namespace unmask
