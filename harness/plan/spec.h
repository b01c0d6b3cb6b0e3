// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// An experiment as its TOML file states it: models, workloads, methods, how often to measure, and
// a sweep over any of their settings. Reading checks names and types; what the values mean for a
// method is checked by the plan (plan.h).
//
//   title = "..."                       description = "..."
//   kind = "decode" | "serve"           decode: a closed loop, all requests at once (default);
//                                       serve: requests arrive, the batching engine schedules them
//   [run]       the keys of run_keys.h, and
//               repetitions = 5 or repetitions.min / repetitions.max, warmup, ci_half_width,
//               more_items, more_repetitions = factor of both
//   [[model]]   path, name, weights = "checkpoint" | "random:SEED"; soften = T divides the final
//               norm, and with it the logits, by T: the same arg-max, less confidence;
//               set = {KEY = VALUE} as in --set, for its points alone; shape = a folder with the
//               config.json to plan with where the weights are not here;
//               positions = N: longer prompts than the checkpoint was made for, to time them
//   [[workload]] tasks = ["word_problem", ...] or file = "x.jsonl"; which items (item_selection):
//               context = [LOW, HIGH], draw = SEED, offset, limit, spread = true; gen_length
//               benchmark = "gsm8k" or several, harness, shots, trials, ... (benchmark_workload.h);
//               models = [...]: for these alone; judge = a causal model whose likelihood of free
//               text is its score
//               serve only: trace = "x.csv" and format = "lengths" | "azure" | "mooncake", or
//               lengths = "sdar-8b/sharegpt" (published means and deviations)
//   [serve]     see serve_settings.cpp, or unmask run --help
//   [[method]]  name, label, preset, models = [...], workloads = [...], params.NAME = value
//   [probe]     names = ["confidence", ...] (probe_settings.h); tau, margin, sink_share, every, limit,
//               reference_block
//   [sweep]     mode = "cross" | "zip" | "one-at-a-time" | "leave-one-out", and axes by dotted key:
//               params.threshold = [0.7, 0.9]     every method that has the parameter
//               method.LABEL.steps = [32, 64]     one method, by label or by name
//               batch_size = [1, 4]               every key of run_keys.h, and limit
//               serve.rate = [1, 2, 4]            any key of [serve]
//
// An artifact, a table or figure of a paper, says more:
//   [artifact]   paper, id, kind = "table" | "figure", title; published = FILE, note,
//                not_reproducible = why (then nothing else is needed)
//   [scale.NAME] laid over everything above when that scale is chosen: tables merge and the scale
//                wins, arrays ([[scale.NAME.model]], a sweep axis) replace; besides, needs
//                (needs.h), takes, note, not_run = why, and [scale.NAME.set] with keys as in --set
//   [layout]     how the paper arranges the numbers; read by harness/python/unmask/tables/layout.py
// A model's path "weights:NAME" is looked up (locate.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/plan/benchmark_workload.h"
#include "harness/plan/probe_settings.h"
#include "harness/rows/row.h"
#include "harness/workload/task.h"

namespace unmask {

// How much evidence a number needs.
struct evidence_settings {
  std::int64_t min_repetitions = 3;
  std::int64_t max_repetitions = 10;
  std::int64_t warmup = 1;      // passes before the first sample
  double ci_half_width = 0.03;  // of the 95 % interval of the mean, relative: stop when reached
  // How many times the items that the workloads ask for (as far as there are so many), and how many
  // times the repetitions and the seeds of a search.
  std::int64_t more_items = 1, more_repetitions = 1;
  // All points of one model, workload and run setting in turn, with as many repetitions each, and
  // every item's result kept in the row: what a paired comparison needs. (Scored rows of an
  // artifact keep their items without it.)
  bool paired = false;
};

// One setting by its dotted key; `where` is FILE:LINE or "--set".
struct dotted_setting {
  std::string key;
  parameter_value value;
  std::string where;
};

struct model_entry {
  std::string name;                    // default: last part of the path
  std::filesystem::path path;          // relative paths start at the TOML file
  std::string weights = "checkpoint";  // or random:SEED
  std::string role;                    // another name for methods to say which model they run on
  std::string published;               // NAME of a path "weights:NAME"; empty: a plain path
  double soften = 1;                   // divides the final norm, and with it all logits
  std::int64_t positions = 0;          // more than the checkpoint's own, for times only; 0: its own
  std::int64_t layers = 0;             // of random weights: use only the first N; 0: all
  std::string hash;                    // of what decides its output; "": not computed yet
  std::filesystem::path shape;  // a folder with its config.json, to plan with where it is not here
  std::vector<dotted_setting> settings;  // of every point of this model, before the sweep
};

struct workload_entry {
  std::string name;             // task family, or stem of the file
  std::filesystem::path file;   // JSON Lines of tasks, or a trace
  std::string trace_format;     // of a trace; empty: tasks
  std::string lengths;          // name of published lengths; empty: a file
  item_selection items;         // which; 0: all
  std::int64_t count = 0;       // items that it then takes; 0: not counted yet
  std::string hash;             // of the file; "": not computed yet
  benchmark_request benchmark;  // as a harness runs it; no name: something else
  std::int64_t gen_length = 0;  // tokens to generate, before [run] and the items; 0: theirs
  // items.limit prompts of so many random tokens; 0: something else.
  std::int64_t prompt_tokens = 0;
  std::vector<std::string> models;  // names or roles of the models that it is for; empty: all
  // A causal model: the score of an answer that has no scorer, free text, is its likelihood under
  // that model, per token (the geometric mean). Empty: such an answer has no score.
  std::filesystem::path rater;
  std::string rater_hash;  // of its weights; "": not computed yet
};

struct method_entry {
  std::string name;
  std::string label;  // default: name
  std::string preset;
  parameter_map params;
  std::vector<std::string> models;     // names or roles of the models it runs on; empty: all
  std::vector<std::string> workloads;  // names of the workloads it runs on; empty: all
  std::string where;                   // FILE:LINE, for messages
};

struct sweep_axis {
  std::string key;
  std::vector<parameter_value> values;
  std::string where;
};

enum class sweep_mode : std::uint8_t {
  cross,          // every combination
  zip,            // the i-th value of every axis together
  one_at_a_time,  // base = first value of every axis; then each other value alone
  leave_one_out   // base = settings without the sweep; then each value of each axis alone
};

struct artifact_header {
  std::string paper, id;  // paper empty: a plain experiment
  std::string kind;       // table, figure
  std::string title, note;
  std::filesystem::path published;  // the paper's numbers; empty: none
  std::string not_reproducible;     // why it cannot be run at all; empty: it can
};

struct scale_entry {
  std::string name;
  std::string takes, note;               // for listings
  std::string not_run;                   // why this scale cannot run anywhere yet; empty: it can
  std::vector<std::string> needs;        // as stated
  std::vector<std::string> labels;       // of the methods it keeps; empty: all
  std::vector<dotted_setting> settings;  // [scale.NAME.set]
};

struct experiment_spec {
  std::string file;  // where it was read; empty: made by a program
  std::string title, description;
  artifact_header artifact;
  std::vector<scale_entry> scales;  // of the file, in its order
  std::string scale;                // the chosen one; empty: the file has none
  std::vector<std::string> needs;   // as stated; needs_of() has all
  std::string not_run;              // why it cannot run: of the artifact or the scale
  run_settings run;
  evidence_settings evidence;
  std::vector<model_entry> models;
  std::vector<workload_entry> workloads;
  std::vector<method_entry> methods;
  probe_settings probe;  // no names: no probes
  sweep_mode mode = sweep_mode::cross;
  std::vector<sweep_axis> axes;
  std::vector<dotted_setting> overrides;  // --set: applied last, so they win over file and sweep
};

// Every unknown key, wrong type or value out of range is a usage error that names file, line and
// key, and the nearest known key. `scale` empty: "tiny" where the file has scales; usage error when
// it has others only, or when a scale is asked for that it does not have.
experiment_spec read_spec(const std::filesystem::path& file, const std::string& scale = "");
experiment_spec parse_spec(const std::string& toml, const std::filesystem::path& file,
                           const std::string& scale = "");
// The default scale, or the first one where there is no default: for listings.
experiment_spec read_any_scale(const std::filesystem::path& file);

// The file of a task given by name: data/NAME.jsonl in one of embedded_places(beside). Usage error
// with the nearest name and those places when there is none, and for a path.
std::filesystem::path find_task(const std::string& name, const std::filesystem::path& beside);

// "KEY=VALUE", the value written as in TOML; text may go without quotes.
void apply_override(experiment_spec& spec, const std::string& assignment);

}  // namespace unmask
