// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// An experiment as its TOML file states it: models, workloads, methods, how often to measure, and
// a sweep over any of their settings. Reading checks names and types; what the values mean for a
// method is checked by the plan (plan.h).
//
// Every key is declared beside the struct of its table, by each_key() (keys.h); FORMAT.md is made of
// these lists. [run] has run_keys.h and evidence_key_list(), [serve] serve_settings.h. [sweep] has
// axes by dotted key (settings.h) beside its mode; [layout] is read by the package alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/plan/benchmark_workload.h"
#include "harness/plan/keys.h"
#include "harness/plan/probe_settings.h"
#include "harness/rows/row.h"
#include "harness/workload/task.h"

namespace unmask {

// Where an experiment may read and write; check_paths (confine.h) holds it to them.
struct path_bounds {
  std::filesystem::path folder;  // reads stay inside it; empty: they may be anywhere
  bool anywhere = false;         // --allow-outside: neither reads nor writes are looked at
};

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

// The seed of weights "random:SEED"; nothing for "checkpoint" and all else.
std::optional<std::uint64_t> seed_of_weights(const std::string& weights);

struct model_entry {
  std::string name;
  std::filesystem::path path;
  std::string weights = "checkpoint", role;
  std::string published;       // NAME of a path "weights:NAME"; empty: a plain path
  double soften = 1;           // divides the final norm, and with it all logits
  std::int64_t positions = 0;  // more than the checkpoint's own, for times only; 0: its own
  // What is taken although nothing reads it (unread_use).
  std::string pictures = "refuse", unread = "refuse";
  std::int64_t layers = 0;               // of random weights: use only the first N; 0: all
  std::string hash;                      // of what decides its output; "": not computed yet
  std::filesystem::path config;          // a folder with its config.json; empty: its own
  std::vector<dotted_setting> settings;  // of every point of this model, before the sweep
};

inline const std::vector<std::string>& pictures_uses() {
  static const std::vector<std::string> uses = {"refuse", "off"};
  return uses;
}
inline const std::vector<std::string>& unread_uses() {
  static const std::vector<std::string> uses = {"refuse", "accept"};
  return uses;
}

template <class Visit>
void each_key(model_entry& m, Visit& visit) {
  visit(
      file_key{
          "path",
          "a folder in Hugging Face layout, beside this file or with the program; ORG/NAME in the "
          "cache of Hugging Face; \"weights:NAME\" in $UNMASK_MODELS"}
          .needed("a model directory")
          .looked_up(),
      m.path);
  visit(file_key{"name", "as rows show it"}
            .otherwise("last part of the path")
            .in_ids(id_part::always),
        m.name);
  visit(file_key{"weights", "or \"random:SEED\": speed is real, tokens are not"}.in_ids(
            id_part::always),
        m.weights);
  visit(file_key{"role", "another name by which `models` of a method or workload means it"},
        m.role);
  visit(file_key{"soften", "divide the logits by this: the same arg-max, less confidence"}
            .bounds(1e-3, 1e3)
            .in_ids(id_part::when_changed),
        m.soften);
  visit(file_key{"positions",
                 "take prompts of so many positions, more than it was made for, to time them"}
            .bounds(0, 1 << 24)
            .in_ids(id_part::when_changed),
        m.positions);
  visit(file_key{"pictures", "\"off\": ask a model with a picture tower about text alone"}.one_of(
            pictures_uses, "use of pictures"),
        m.pictures);
  visit(file_key{"unread",
                 "\"accept\": take a checkpoint without tensors that nothing reads and "
                 "that would change answers"}
            .one_of(unread_uses, "use of what is not read"),
        m.unread);
  visit(file_key{"config", "a folder with its config.json, to plan with where it is not here"}.once(
            "shape"),
        m.config);
  visit(file_key{"set", "settings as in --set, for the points of this model"}, m.settings);
}

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

// The keys that hold for whatever is answered.
template <class Visit>
void each_key(workload_entry& w, Visit& visit) {
  constexpr id_part changed = id_part::when_changed;
  visit(file_key{"limit", "take so many items; 0: all"}.in_ids(id_part::always), w.items.limit);
  visit(file_key{"offset", "leave out so many first"}.in_ids(changed), w.items.offset);
  visit(file_key{"draw", "shuffle by this seed before; 0: as they stand"}.in_ids(changed),
        w.items.seed);
  visit(
      file_key{"spread", "take `limit` items evenly over the file, not the first"}.in_ids(changed),
      w.items.spread);
  visit.range(file_key{"context", "take items whose context has so many tokens"}.in_ids(changed),
              "tokens of context", w.items.context_low, w.items.context_high);
  visit(file_key{"gen_length", "tokens to generate; 0: what [run] or the item says"}
            .bounds(0, 1 << 24)
            .in_ids(changed),
        w.gen_length);
  visit(file_key{"models", "for these models alone, by name or role"}.otherwise("all"), w.models);
  visit.hashed(
      file_key{"judge", "a causal model whose likelihood scores text without a scorer"}.looked_up(),
      w.rater, w.rater_hash);
}

// [[workload]] as the file states it: an entry for each of its tasks or benchmarks.
struct workload_table {
  std::vector<std::string> tasks, benchmarks;
  std::filesystem::path file, trace;
  std::string name;
  workload_entry entry;  // of each
};

template <class Visit>
void each_key(workload_table& t, Visit& visit) {
  visit(file_key{"tasks", "embedded tasks (`unmask list tasks`), each a workload"}, t.tasks);
  visit(file_key{"file", "a file of your own, JSON lines as below"}.looked_up(), t.file);
  visit(file_key{"trace", "a file of arrivals and lengths, or \"trace:FILE\""}
            .of("serve")
            .looked_up(),
        t.trace);
  visit(file_key{"format", "of `trace`, and needed with it: lengths, azure or mooncake"},
        t.entry.trace_format);
  visit(file_key{"lengths", "published lengths, such as sdar-8b/sharegpt"}.of("serve"),
        t.entry.lengths);
  visit.one_or_more(file_key{"benchmark", "published benchmarks (`unmask list benchmarks`)"},
                    t.benchmarks);
  visit(file_key{"name", "as rows show it"}.otherwise("of the task or file"), t.name);
  each_key(t.entry, visit);
  each_key(t.entry.benchmark, visit);
}

struct method_entry {
  std::string name, label, preset;
  parameter_map params;
  std::vector<std::string> models, workloads;
  std::string where;  // FILE:LINE, for messages
};

template <class Visit>
void each_key(method_entry& m, Visit& visit) {
  visit(file_key{"name", "the method"}.needed(), m.name);
  visit(file_key{"label", "as rows, tables and figures show it"}.otherwise("its name"), m.label);
  visit(file_key{"preset", "a set of parameters by name"}, m.preset);
  visit(file_key{"params", "params.NAME = VALUE, over the preset"}, m.params);
  visit(file_key{"models", "on these models alone, by name or role"}.otherwise("all"), m.models);
  visit(file_key{"workloads", "on these workloads alone"}.otherwise("all"), m.workloads);
}

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
  std::string kind, title, note;
  std::filesystem::path published;  // empty: none
  std::string not_reproducible;     // empty: it is
};

inline const std::vector<std::string>& artifact_kinds() {
  static const std::vector<std::string> kinds = {"table", "figure"};
  return kinds;
}

template <class Visit>
void each_key(artifact_header& a, Visit& visit) {
  visit(file_key{"paper", "small letters, digits and _"}.needed(), a.paper);
  visit(file_key{"id", "such as table_5"}.needed(), a.id);
  visit(file_key{"kind", "table or figure"}.one_of(artifact_kinds, "kind of artifact").needed(),
        a.kind);
  visit(file_key{"title", "one line"}.needed(), a.title);
  visit(file_key{"published", "the file with the paper's numbers"}, a.published);
  visit(file_key{"note", "what differs from the paper"}, a.note);
  visit(file_key{"not_reproducible", "why nothing is measured; the rest may then be absent"},
        a.not_reproducible);
}

struct scale_entry {
  std::string name;
  std::vector<std::string> needs;  // as stated
  std::string takes, note, not_run;
  std::vector<std::string> labels;
  std::vector<dotted_setting> settings;
};

template <class Visit>
void each_key(scale_entry& s, Visit& visit) {
  visit(file_key{"needs", "what must be here, of the needs below"}, s.needs);
  visit(file_key{"takes", "how long, for people"}, s.takes);
  visit(file_key{"note", "what this scale shows and what not"}, s.note);
  visit(file_key{"not_run", "why it cannot be measured yet"}, s.not_run);
  visit(file_key{"labels", "of the [[method]] tables that it keeps"}.otherwise("all"), s.labels);
  visit(file_key{"set", "settings as in --set"}, s.settings);
  for (const char* key : {"title", "description", "kind"}) {
    visit.over({key, "instead of the file's"}, "text");
  }
  visit.over({"run", "over [run]"}, "table");
  visit.over({"model", "instead of [[model]]"}, "tables");
  visit.over({"workload", "instead of [[workload]]"}, "tables");
  visit.over({"method", "instead of [[method]]"}, "tables");
  visit.over({"probe", "over [probe]"}, "table");
  visit.over({"sweep", "over [sweep]; an empty array removes an axis"}, "table");
  visit.over({"serve", "over [serve]"}, "table");
  visit.over({"layout", "over [layout]"}, "table");
}

struct experiment_spec {
  std::string file;               // where it was read; empty: made by a program
  std::filesystem::path extends;  // the file that it is laid over, as it says; empty: none
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

inline const std::vector<std::string>& experiment_kinds() {
  static const std::vector<std::string> kinds = {"decode", "serve"};
  return kinds;
}

// The keys before the first table.
template <class Visit>
void each_key(experiment_spec& s, Visit& visit) {
  visit(file_key{"extends",
                 "an experiment file, next to this one or with the program, that this one changes"}
            .looked_up(),
        s.extends);
  visit(file_key{"title", "one line that names the experiment in rows and pages"}, s.title);
  visit(file_key{"description", "what is asked and what is expected"}, s.description);
  visit(
      file_key{
          "kind",
          "decode: all requests at once; serve: requests arrive, the batching engine schedules"}
          .one_of(experiment_kinds, "kind of experiment"),
      s.run.kind);
}

// Every unknown key, wrong type or value out of range is a usage error that names file, line and
// key, and the nearest known key. `scale` empty: "tiny" where the file has scales; usage error when
// it has others only, or when a scale is asked for that it does not have.
// `bounds`: where a file that it extends may be.
experiment_spec read_spec(const std::filesystem::path& file, const std::string& scale = "",
                          const path_bounds& bounds = {});
experiment_spec parse_spec(const std::string& toml, const std::filesystem::path& file,
                           const std::string& scale = "", const path_bounds& bounds = {});
// The default scale, or the first one where there is no default: for listings.
experiment_spec read_any_scale(const std::filesystem::path& file);

// The file of a task given by name: data/NAME.jsonl in one of embedded_places(beside). Usage error
// with the nearest name and those places when there is none, and for a path.
std::filesystem::path find_task(const std::string& name, const std::filesystem::path& beside);

// "KEY=VALUE", the value written as in TOML; text may go without quotes.
void apply_override(experiment_spec& spec, const std::string& assignment);

}  // namespace unmask
