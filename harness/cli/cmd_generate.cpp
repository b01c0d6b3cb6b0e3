// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <chrono>
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
#include "harness/devices/device.h"
#include "harness/engine/loop_runner.h"
#include "harness/measure/execute_parts.h"
#include "harness/measure/pictures/shown.h"
#include "harness/measure/prompt_maker.h"
#include "harness/model/tokenizer.h"
#include "harness/plan/needs.h"
#include "harness/rows/json_of.h"
#include "harness/rows/text_table.h"
#include "harness/run/runner.h"

namespace unmask {
namespace {

constexpr std::int64_t longest_canvas = 1 << 24, longest_pause = 60'000;

// Keys of [run] that one decode obeys; the others would be taken and mean nothing.
constexpr std::string_view decode_keys[] = {"device", "format", "kv_type", "isa",
                                            "gemm",   "graphs", "kernels", "device_check"};

bool sets_a_decode(std::string key) {
  if (key.starts_with("params.")) return true;
  if (key.starts_with("run.")) key.erase(0, 4);
  return std::ranges::find(decode_keys, key) != std::end(decode_keys);
}

// The one point of an experiment with this model, method and settings, as `unmask run` would plan it.
experiment_point planned(const command_line& line) {
  experiment_spec spec;
  spec.models = {entry_of_model(line.text("model"), line)};
  const std::string usual = usual_method(read_model_config(spec.models.front().path));
  spec.methods = entries_of_methods({line.text("method", usual)}, line.text("preset"));
  spec.run.seed = line.at_least("seed", 0);
  spec.run.gen_length = line.within("gen-length", 1, longest_canvas);
  for (const std::string& text : line.settings()) {
    if (!sets_a_decode(text.substr(0, text.find('=')))) {
      throw usage_error(
          "--set of generate takes params.NAME=VALUE and run.KEY=VALUE with the keys " +
          joined({std::begin(decode_keys), std::end(decode_keys)}, ", ") + "; not '" + text + "'");
    }
    apply_override(spec, text);
  }
  workload_entry& prompt = spec.workloads.emplace_back();
  prompt.name = "prompt";
  prompt.prompt_tokens = prompt.items.limit = 1;
  tell("{}\n", device_line(choose_devices(spec)));
  return plan_points(spec, *make_executor()).front();
}

option_table generate_options() {
  return option_table{
             {"model", std::string("tiny-llada"),
              "decode with this checkpoint: a folder in Hugging Face layout, ORG/NAME of its "
              "cache, or the name of an included model"},
             {"method,m", no_default,
              "decode by this method (default: the one the model was made for)"},
             {"preset", no_default, "take these named settings of the method"},
             {"set", repeated(),
              "set a parameter of the method, or how the model runs (repeatable): "
              "params.threshold=0.9, "
              "run.format=bf16"},
             device_option(),
             {"gen-length,n", 64, "generate this many tokens"},
             {"seed", 0, "draw sampling noise from this seed"},
             {"image", no_default,
              "show the model this PNG or JPEG picture before the prompt (with --raw: in place of "
              "<image>)"},
             {"picture-preset", no_default,
              "cut the picture into tiles, pad or squeeze it (default: what the model's "
              "configuration names)"},
             {"raw", flag(), "take the prompt as it is, without the model's chat template"},
             {"watch", flag(), "show the response step by step"},
             {"pause", 60, "with --watch: wait this many milliseconds between steps"},
             format_option("print the response as md (its text) or json (with tokens and counts)"),
             color_option()} +
         unread_options();
}

// One response as JSON: what was asked of the model, the response, its tokens up to and with the end token,
// and the counts of the line below the text. seconds: of this one decode, with what --watch drew.
nlohmann::ordered_json response_json(const experiment_point& point, const std::string& text,
                                     const std::vector<std::int32_t>& tokens,
                                     const sequence_counters& c, double seconds) {
  return {{"model", point.model.name}, {"method", point.method},
          {"preset", point.preset},    {"params", json_of<nlohmann::ordered_json>(point.params)},
          {"seed", point.run.seed},    {"text", text},
          {"tokens", tokens},          {"output_tokens", tokens.size()},
          {"forwards", c.forwards},    {"rows", c.rows},
          {"seconds", seconds}};
}

// What --image names; no rows without it.
shown_pictures pictures_shown(const command_line& line, const loaded_model& model,
                              const experiment_point& point) {
  if (!line.given("image")) {
    if (line.given("picture-preset")) throw usage_error("--picture-preset needs --image");
    return {};
  }
  if (line.text("pictures", "") == "off") {
    throw usage_error("--image shows a picture, and --pictures off leaves the tower unread");
  }
  const auto stops = point.params.find("stop_sequences");
  const bool own_stop = model.config.release == "LLaDA-V";
  if (own_stop && (stops == point.params.end() || to_string(stops->second).empty())) {
    tell("{}\n",
         "note: LLaDA-V's own loop stops at <|eot_id|>; this one decodes the whole response and "
         "cuts it there (vanilla, fast_dllm and dllm_cache stop with --preset llada-v)");
  }
  return show_picture(model, line.text("image"), line.text("picture-preset", ""));
}

}  // namespace

int command_generate(const texts& arguments) {
  const command_line line("generate PROMPT [options]", generate_options(), {"prompt..."},
                          arguments);
  line.place("prompt", "generate needs a prompt");
  const std::string prompt = joined(line.list("prompt"), " ");
  const std::chrono::milliseconds pause(line.within("pause", 0, longest_pause));
  const bool color = with_color(line);
  const bool as_json =
      parse_table_format(line.text("format"), {"md", "json"}) == table_format::json;
  if (as_json && line.given("watch")) {
    throw usage_error("--watch draws on standard output, where --format json prints its document");
  }
  const experiment_point point = planned(line);
  if (const std::string outside = outside_training(point.model.path, prompt); !outside.empty()) {
    tell("note: {}\n", outside);
  }
  const std::shared_ptr<loaded_model> model = load_model_of(point);
  const model_config& config = model->config;
  recipe made = method_registry::instance().make(point.method, config, parameters(point.params));
  const shown_pictures pictures = pictures_shown(line, *model, point);
  const prompt_maker prompts(*model);
  const vision_config vision = read_vision_config(model->directory, config.vocabulary);
  sequence_request request = request_of(
      pictures.rows ? prompts.about_picture(prompt, line.given("raw"), pictures.count(), vision)
      : line.given("raw") ? prompts.raw(prompt)
                          : prompts.chat({{"user", prompt}}),
      static_cast<std::int32_t>(point.run.gen_length), static_cast<std::uint64_t>(point.run.seed));
  if (pictures.rows) request.grids = {pictures.grid};
  const tokenizer& tokens = *model->tokens;
  const std::int32_t length = made.pace->canvas_length(config, request);
  if (length > config.max_positions) {
    throw usage_error(fmt::format("prompt and response take {} positions, but {} was made for {}",
                                  length, config.name, config.max_positions));
  }
  model->make_room(engine_rows(config, *made.pace, {request}, 1, 0, 0, true));
  step_loop loop(*model->packed, std::move(made), {1, length, 0, false, pictures.count()});
  std::optional<watch_canvas> watcher;
  if (line.given("watch")) {
    watcher.emplace(tokens, watch_settings{output_is_terminal(), color, pause, config.stop_ids});
    loop.observe(&*watcher);
  }
  const auto start = std::chrono::steady_clock::now();
  loop.admit(request, 0, pictures.rows ? pictures.rows.view() : tensor_view{});
  while (loop.step()) {
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (watcher) watcher->close();
  answer_record made_answer;
  made_answer.tokens = loop.output(0);
  const token_rules rules = rules_of(config);
  const auto answer = static_cast<std::size_t>(answer_tokens_of(made_answer, rules));
  // Counted as run counts: up to and with the end token, whose text is no part of the answer.
  const std::int64_t counted = output_tokens_of(made_answer, rules);
  const sequence_counters& c = loop.state().at(0).counters;
  const std::string text = tokens.decode(std::span(made_answer.tokens).first(answer), true);
  if (as_json) {
    made_answer.tokens.resize(static_cast<std::size_t>(counted));
    nlohmann::ordered_json said = response_json(point, text, made_answer.tokens, c, seconds);
    if (pictures.rows) {
      said["picture_rows"] = pictures.count();
      said["tower_runs"] = pictures.tower_runs;
      said["picture_flops"] = pictures.flops;
      said["picture_seconds"] = pictures.seconds;
    }
    print("{}", json_text(said));
    return 0;
  }
  print("{}\n", text);
  tell("[{}: {} output tokens, {} forward passes, {} computed positions, {:.1f} ms{}]\n",
       point.method, counted, c.forwards, c.rows, seconds * 1e3, watcher ? " with drawing" : "");
  if (pictures.rows) {
    tell("[picture: {} rows of the prompt, tower {} run, {:.3g} GFLOP, {:.1f} ms]\n",
         pictures.count(), pictures.tower_runs, pictures.flops * 1e-9, pictures.seconds * 1e3);
  }
  return 0;
}

}  // namespace unmask
