// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/python_text.h"
#include "harness/cli/command.h"
#include "harness/cli/model_spec.h"
#include "harness/cli/options.h"
#include "harness/engine/closed_loop.h"
#include "harness/model/chat_template.h"
#include "harness/model/weights.h"
#include "kernels/decisions.h"

namespace unmask {
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

// Low to high confidence, from the 256-colour cube; readable on dark and light backgrounds.
int colour_of(float confidence) {
  if (confidence >= 0.95F) return 34;  // green
  if (confidence >= 0.8F) return 37;   // teal
  if (confidence >= 0.5F) return 178;  // amber
  return 167;                          // red
}

int terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
  return 80;
}

// The canvas in the terminal, step by step: masks as dots, tokens coloured by the confidence they
// were decided with, those of this step underlined.
class watch_canvas final : public step_observer {
 public:
  // `terminal`: redraw in place with colours; otherwise one plain line per step.
  watch_canvas(const tokenizer& tokens, std::ostream& out, bool terminal,
               std::chrono::milliseconds pause)
      : tokens_(tokens), out_(out), terminal_(terminal), pause_(pause) {}

  void on_step(const step_view& step) override {
    const sequence& q = step.state.at(0);
    cells_.resize(static_cast<std::size_t>(q.length - q.prompt_length));
    ++step_;
    for (std::int32_t c = 0; c < step.candidates.count; ++c) {
      const std::uint8_t what = step.candidates.accept.as<std::uint8_t>()[c];
      if (what == decision_keep) continue;
      const auto at = step.candidates.position.as<std::int32_t>()[c] - q.prompt_length;
      if (at < 0 || at >= static_cast<std::int32_t>(cells_.size())) continue;
      cell& changed = cells_[static_cast<std::size_t>(at)];
      changed = what == decision_reopen ? cell{}
                                        : cell{step.candidates.token.as<std::int32_t>()[c],
                                               step.candidates.probability.as<float>()[c], step_};
    }
    draw(step);
    if (terminal_) std::this_thread::sleep_for(pause_);
  }

 private:
  struct cell {
    std::int32_t token = -1;  // -1: masked
    float confidence = 0;
    int step = -1;
  };

  void draw(const step_view& step) {
    std::string text;
    if (terminal_ && drawn_lines_ > 0) text += fmt::format("\x1b[{}A\x1b[J", drawn_lines_);
    const auto decided = std::ranges::count_if(cells_, [](const cell& c) { return c.token >= 0; });
    text += fmt::format("step {:3}  {:7}  rows {:4}  decided {}/{}\n", step_,
                        name_of(step.plan.of[0].what), step.entered.rows, decided, cells_.size());
    const int columns = terminal_columns();
    int column = 0, lines = 1;
    for (const cell& c : cells_) {
      std::string piece = "\xC2\xB7";  // middle dot: masked
      if (c.token >= 0) {
        const std::array<std::int32_t, 1> one = {c.token};
        piece = py::replace_all(tokens_.decode(one, false), "\n", "\xE2\x8F\x8E");  // return sign
      }
      const auto width = static_cast<int>(py::length(piece));  // right for Latin text
      if (terminal_ && column + width > columns) {
        text += '\n';
        column = 0;
        ++lines;
      }
      column += width;
      if (!terminal_ || c.token < 0) {
        text += piece;
      } else {
        text += fmt::format("\x1b[{}38;5;{}m{}\x1b[0m", c.step == step_ ? "4;" : "",
                            colour_of(c.confidence), piece);
      }
    }
    out_ << text << '\n' << std::flush;
    drawn_lines_ = lines + 1;
  }

  const tokenizer& tokens_;
  std::ostream& out_;
  bool terminal_;
  std::chrono::milliseconds pause_;
  std::vector<cell> cells_;
  int step_ = 0, drawn_lines_ = 0;
};

}  // namespace

int command_generate(const texts& arguments) {
  const option_table options = {
      {"model", std::string("experiments/models/tiny-llada"),
       "checkpoint folder (Hugging Face layout)"},
      {"method,m", no_default, "decoding method; default: the one the model was made for"},
      {"preset", no_default, "named settings of the method"},
      {"gen-length,n", 64, "tokens of the canvas"},
      {"seed", 0, "of the sampling noise"},
      {"raw", flag(), "the prompt as it is, without the model's chat template"},
      {"watch", flag(), "show the canvas step by step"},
      {"pause", 60, "milliseconds between drawn steps"}};
  const command_line line("generate [options] PROMPT", options + settings_options(), {"prompt..."},
                          arguments,
                          "\nexample: unmask generate --watch \"Compute 5 * 7 - 15.\"\n");
  line.place("prompt", "generate needs a prompt");
  const std::string prompt = fmt::format("{}", fmt::join(line.list("prompt"), " "));
  const std::filesystem::path directory = model_folder(line.text("model"));
  const model_config config = read_model_config(directory);
  if (!config.caution.empty()) fmt::print(stderr, "note: {}\n", config.caution);
  const tokenizer tokens = tokenizer::load(directory);
  const std::string name = line.text("method", usual_method(config));
  const parameter_map given = parameters_of(line.list("set"));
  parameter_map resolved;
  recipe made =
      method_registry::instance().make(name, config, line.text("preset"), given, &resolved);
  const std::string text =
      line.given("raw") ? prompt : apply_chat_template(config, tokens, {{"user", prompt}}, true);
  const sequence_request request{tokens.encode(text),
                                 static_cast<std::int32_t>(line.at_least("gen-length", 0)),
                                 static_cast<std::uint64_t>(line.at_least("seed", 0))};
  const std::int32_t length = made.pace->canvas_length(config, request);
  if (length > config.max_positions) {
    throw usage_error(fmt::format("prompt and canvas take {} positions, but {} was made for {}",
                                  length, config.name, config.max_positions));
  }
  const transformer model(config, load_weights(config, directory),
                          device_named(line.text("device", "cpu")), weight_format::f32, length);
  step_loop loop(model, std::move(made), {1, length, 0});
  watch_canvas watcher(tokens, std::cout, isatty(STDOUT_FILENO) == 1,
                       std::chrono::milliseconds(line.whole("pause")));
  if (line.given("watch")) loop.observe(&watcher);
  const auto start = std::chrono::steady_clock::now();
  loop.admit(request);
  while (loop.step()) {
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<std::int32_t> output = loop.output(0);
  const auto stop = std::ranges::find_first_of(output, config.stop_ids);
  if (stop != output.end()) output.erase(stop + 1, output.end());  // the answer ends there
  const sequence_counters& c = loop.state().at(0).counters;
  fmt::print("{}\n", tokens.decode(output, true));
  std::fflush(stdout);  // the two streams may share a file
  fmt::print(stderr, "[{}: {} output tokens, {} forwards, {} rows, {:.1f} ms{}]\n", name,
             output.size(), c.forwards, c.rows, seconds * 1e3,
             line.given("watch") ? " with drawing" : "");
  return 0;
}

}  // namespace unmask
