// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "harness/cli/command.h"
#include "harness/cli/settings_option.h"
#include "harness/cli/watch.h"
#include "harness/engine/closed_loop.h"
#include "harness/model/chat_template.h"
#include "harness/model/weights.h"

namespace unmask {
namespace po = boost::program_options;
namespace {

// The method a model was made for.
std::string default_method(const model_config& config) {
  switch (config.attention) {
    case mask_kind::full:
      return "vanilla";
    case mask_kind::causal:
      return "autoregressive";
    case mask_kind::block_causal:
      return "block_diffusion";
  }
  return "vanilla";
}

}  // namespace

int command_generate(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("model,m",
                        po::value<std::string>()->default_value("experiments/models/tiny-llada"),
                        "checkpoint folder (Hugging Face layout)")(
      "method", po::value<std::string>(),
      "decoding method; default: the one the model was made for")(
      "preset", po::value<std::string>()->default_value(""), "named settings of the method")(
      "set", po::value<std::vector<std::string>>()->composing(),
      "name=value of a method parameter (repeatable; see unmask show METHOD)")(
      "gen-length", po::value<int>()->default_value(64), "tokens of the canvas")(
      "seed", po::value<std::uint64_t>()->default_value(0), "of the sampling noise")(
      "raw", "the prompt as it is, without the model's chat template")(
      "watch", "show the canvas step by step")("pause", po::value<int>()->default_value(60),
                                               "milliseconds between drawn steps")(
      "backend", po::value<std::string>()->default_value("cpu"),
      "cpu, reference, cuda or cuda-emulated");
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
  const std::filesystem::path directory = values["model"].as<std::string>();
  const model_config config = read_model_config(directory);
  if (!config.caution.empty()) fmt::print(stderr, "note: {}\n", config.caution);
  const tokenizer tokens = tokenizer::load(directory);
  const std::string name =
      values.count("method") ? values["method"].as<std::string>() : default_method(config);
  const method_info& method = method_registry::instance().find(name);
  parameter_map given;
  if (values.count("set")) {
    given = parse_settings(method, values["set"].as<std::vector<std::string>>());
  }
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
  const std::string backend = values["backend"].as<std::string>();
  const transformer model(config, load_weights(config, directory), backend_named(backend),
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
