// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/model_spec.h"
#include "harness/cli/options.h"
#include "harness/cli/watch.h"
#include "harness/engine/closed_loop.h"
#include "harness/model/chat_template.h"
#include "harness/model/weights.h"

namespace unmask {
namespace po = boost::program_options;
namespace {

// "params.NAME=VALUE" texts, read as experiment files read them; names are checked by the method.
parameter_map parameters_of(const texts& assignments) {
  experiment_spec spec;
  for (const std::string& text : assignments) {
    if (!text.starts_with("params.")) {
      throw usage_error("--set of generate takes params.NAME=VALUE, not '" + text + "'");
    }
    apply_override(spec, text);
  }
  parameter_map given;
  for (const dotted_setting& s : spec.overrides) given[s.key.substr(7)] = s.value;
  return given;
}

}  // namespace

int command_generate(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  auto add = options.add_options();
  add("model", po::value<std::string>()->default_value("experiments/models/tiny-llada"),
      "checkpoint folder (Hugging Face layout)");
  add("method,m", po::value<std::string>(),
      "decoding method; default: the one the model was made for");
  add("preset", po::value<std::string>()->default_value(""), "named settings of the method");
  add("gen-length,n", po::value<int>()->default_value(64), "tokens of the canvas");
  add("seed", po::value<std::uint64_t>()->default_value(0), "of the sampling noise");
  add("raw", "the prompt as it is, without the model's chat template");
  add("watch", "show the canvas step by step");
  add("pause", po::value<int>()->default_value(60), "milliseconds between drawn steps");
  add_settings_option(options);
  add_device_option(options);
  po::variables_map values;
  if (!parse_command("generate [options] PROMPT",
                     "\nexample: unmask generate --watch \"Compute 5 * "
                     "7 - 15.\"\n",
                     options, {"prompt..."}, arguments, values)) {
    return 0;
  }
  if (!values.count("prompt")) throw usage_error("generate needs a prompt");
  std::string prompt;
  for (const std::string& word : values["prompt"].as<std::vector<std::string>>()) {
    prompt += (prompt.empty() ? "" : " ") + word;
  }
  const std::filesystem::path directory = model_folder(values["model"].as<std::string>());
  const model_config config = read_model_config(directory);
  if (!config.caution.empty()) fmt::print(stderr, "note: {}\n", config.caution);
  const tokenizer tokens = tokenizer::load(directory);
  const std::string name =
      values.count("method") ? values["method"].as<std::string>() : usual_method(config);
  const parameter_map given = parameters_of(texts_of(values, "set"));
  parameter_map resolved;
  recipe made = method_registry::instance().make(name, config, values["preset"].as<std::string>(),
                                                 given, &resolved);
  const std::string text =
      values.count("raw") ? prompt : apply_chat_template(config, tokens, {{"user", prompt}}, true);
  const sequence_request request{tokens.encode(text), values["gen-length"].as<int>(),
                                 values["seed"].as<std::uint64_t>()};
  const std::int32_t length = made.pace->canvas_length(config, request);
  if (length > config.max_positions) {
    throw usage_error(fmt::format("prompt and canvas take {} positions, but {} was made for {}",
                                  length, config.name, config.max_positions));
  }
  const std::string device = values.count("device") ? text_of(values, "device") : "cpu";
  const transformer model(config, load_weights(config, directory), device_named(device),
                          weight_format::f32, length);
  step_loop loop(model, std::move(made), {1, length, 0});
  watch_canvas watcher(tokens, std::cout, isatty(STDOUT_FILENO) == 1,
                       std::chrono::milliseconds(values["pause"].as<int>()));
  if (values.count("watch")) loop.observe(&watcher);
  const auto start = std::chrono::steady_clock::now();
  loop.admit(request);
  while (loop.step()) {
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<std::int32_t> output = loop.output(0);
  for (std::size_t i = 0; i < output.size(); ++i) {  // the answer ends at its first stop token
    if (std::find(config.stop_ids.begin(), config.stop_ids.end(), output[i]) !=
        config.stop_ids.end()) {
      output.resize(i + 1);
      break;
    }
  }
  const sequence_counters& c = loop.state().at(0).counters;
  fmt::print("{}\n", tokens.decode(output, true));
  std::fflush(stdout);  // the two streams may share a file
  fmt::print(stderr, "[{}: {} output tokens, {} forwards, {} rows, {:.1f} ms{}]\n", name,
             output.size(), c.forwards, c.rows, seconds * 1e3,
             values.count("watch") ? " with drawing" : "");
  return 0;
}

}  // namespace unmask
