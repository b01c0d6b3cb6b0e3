// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/cli/command.h"
#include "harness/cli/model_spec.h"
#include "harness/cli/options.h"
#include "harness/cli/terminal.h"
#include "harness/cli/training_tasks.h"
#include "harness/cli/watch.h"
#include "harness/engine/closed_loop.h"
#include "harness/experiment/device.h"
#include "harness/experiment/execute_parts.h"
#include "harness/model/chat_template.h"
#include "harness/model/tokenizer.h"
#include "harness/model/weights.h"

namespace unmask {
namespace {

constexpr std::int64_t longest_canvas = 1 << 24, longest_pause = 60'000;

// What --set and --device say of one decode: parameters of the method, and the device.
struct generate_settings {
  parameter_map params;  // names are checked by the method
  std::string device = "auto";
};
generate_settings settings_of(const texts& assignments) {
  experiment_spec spec;
  for (const std::string& text : assignments) {
    const std::string key = text.substr(0, text.find('='));
    if (!key.starts_with("params.") && key != "run.device" && key != "device") {
      throw usage_error("--set of generate takes params.NAME=VALUE or run.device=NAME, not '" +
                        text + "'");
    }
    apply_override(spec, text);
  }
  generate_settings given;
  for (const dotted_setting& s : spec.overrides) {
    if (s.key.starts_with("params.")) {
      given.params[s.key.substr(7)] = s.value;
    } else {
      given.device = to_string(s.value);
    }
  }
  find_known("device", given.device, find_run_key("device")->choices());
  return given;
}

option_table generate_options() {
  return {
      {"model", std::string("tiny-llada"),
       "decode with this checkpoint: a folder in Hugging Face layout, or the name of an "
       "embedded model"},
      {"method,m", no_default, "decode by this method; default: the one the model was made for"},
      {"preset", no_default, "take these named settings of the method"},
      {"set", repeated(), "set a parameter of the method (repeatable): params.threshold=0.9"},
      device_option(),
      {"gen-length,n", 64, "generate this many tokens"},
      {"seed", 0, "draw sampling noise from this seed"},
      {"raw", flag(), "take the prompt as it is, without the model's chat template"},
      {"watch", flag(), "show the canvas step by step"},
      {"pause", 60, "with --watch: wait this many milliseconds between steps"},
      color_option()};
}

std::vector<std::int32_t> prompt_tokens(const std::string& prompt, bool raw,
                                        const std::filesystem::path& directory,
                                        const model_config& config, const tokenizer& tokens) {
  if (raw) return tokens.encode_raw(prompt);
  const conversation chat = {{"user", prompt}};
  return tokens.encode(chat_template::load(directory, config).render(chat));
}

}  // namespace

int command_generate(const texts& arguments) {
  const command_line line("generate PROMPT [options]", generate_options(), {"prompt..."},
                          arguments);
  line.place("prompt", "generate needs a prompt");
  const std::string prompt = joined(line.list("prompt"), " ");
  const auto gen_length = static_cast<std::int32_t>(line.within("gen-length", 1, longest_canvas));
  const std::chrono::milliseconds pause(line.within("pause", 0, longest_pause));
  const generate_settings given = settings_of(line.settings());
  const bool color = with_color(line);
  const chosen_device device = choose_device(given.device);
  tell("{}\n", device_line({device}));
  const std::filesystem::path directory = model_folder(line.text("model"));
  const model_config config = read_model_config(directory);
  if (!config.caution.empty()) tell("note: {}\n", config.caution);
  if (const std::string outside = outside_training(directory, prompt); !outside.empty()) {
    tell("note: {}\n", outside);
  }
  const tokenizer tokens = tokenizer::load(directory);
  const std::string name = line.text("method", usual_method(config));
  parameter_map resolved;
  recipe made =
      method_registry::instance().make(name, config, line.text("preset"), given.params, &resolved);
  const sequence_request request{
      prompt_tokens(prompt, line.given("raw"), directory, config, tokens), gen_length,
      static_cast<std::uint64_t>(line.at_least("seed", 0))};
  const std::int32_t length = made.pace->canvas_length(config, request);
  if (length > config.max_positions) {
    throw usage_error(fmt::format("prompt and canvas take {} positions, but {} was made for {}",
                                  length, config.name, config.max_positions));
  }
  const transformer model(config, load_weights(config, directory), backend_of(device.name),
                          weight_format::f32, length);
  step_loop loop(model, std::move(made), {1, length, 0});
  std::optional<watch_canvas> watcher;
  if (line.given("watch")) {
    watcher.emplace(tokens, watch_settings{output_is_terminal(), color, pause, config.stop_ids});
    loop.observe(&*watcher);
  }
  const auto start = std::chrono::steady_clock::now();
  loop.admit(request);
  while (loop.step()) {
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (watcher) watcher->close();
  std::vector<std::int32_t> output = loop.output(0);
  const auto stop = std::ranges::find_first_of(output, config.stop_ids);
  const auto answer = static_cast<std::size_t>(stop - output.begin());
  // Counted as run counts: up to and with the end token, whose text is no part of the answer.
  const std::size_t counted = std::min(answer + 1, output.size());
  const sequence_counters& c = loop.state().at(0).counters;
  print("{}\n", tokens.decode(std::span(output).first(answer), true));
  tell("[{}: {} output tokens, {} forwards, {} rows, {:.1f} ms{}]\n", name, counted, c.forwards,
       c.rows, seconds * 1e3, watcher ? " with drawing" : "");
  return 0;
}

}  // namespace unmask
