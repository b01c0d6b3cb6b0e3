// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every field of a row, declared once: its name, when it is there, its place and what it means. Who
// writes, reads or describes rows visits these lists (row.cpp, row_schema.cpp); the package checks rows
// by the schema that is made of them. A new field is its member in row.h, a line here, and the code that
// fills it in.
//
// A visitor has, for a field of each kind:
//   visit(field, value)             a text, a truth, a count, a number, or lists and maps of these
//   visit.rounded(field, number)    a number that is written as a whole one where it is one
//   visit.word(field, value, names) one of these words
//   visit.pair(field, low, high)    two numbers
//   visit.text(field, text)         a JSON object as text; visit.texts: several by name
//   visit.object(field, member)     an object with fields of its own; std::optional: it may be null
//   visit.used(keys), visit.run(settings), visit.metrics(metrics)   what other lists declare
#pragma once

#include <cmath>
#include <optional>

#include "harness/rows/row.h"

namespace unmask {

enum class presence : std::uint8_t {
  needed,  // every row has it
  later,   // every row that was written since it is recorded
  some     // where it says something: not empty, above 0, a number
};

struct row_field {
  const char* name;
  presence when;
  const char* meaning;  // empty: results/FORMAT.md says it of the object around it
};
constexpr row_field needed(const char* name, const char* meaning = "") {
  return {name, presence::needed, meaning};
}
constexpr row_field later(const char* name, const char* meaning = "") {
  return {name, presence::later, meaning};
}
constexpr row_field some(const char* name, const char* meaning = "") {
  return {name, presence::some, meaning};
}

inline constexpr const char* weight_sources[] = {"checkpoint", "synthetic"};
inline constexpr const char* row_verdict_names[] = {
    "PASS", "NOISY", "INVALID", "NOT_VERIFIED", "NOT_SUPPORTED", "FAILED", "INACTIVE"};
inline constexpr const char* origin_names[] = {"measured", "counted", "analytic", "synthetic"};

// Whether an object that is not in every row says something.
inline bool is_there(const experiment_record& e) {
  return !e.file.empty();
}
inline bool is_there(const benchmark_record& b) {
  return !b.harness.empty();
}
inline bool is_there(const item_records& items) {
  return !items.empty();
}
inline bool is_there(const topology_record& t) {
  return t.hosts > 0;
}
template <class T>
bool is_there(const std::optional<T>& value) {
  return value.has_value();
}

template <class Visit>
void each_field(experiment_record& e, Visit& visit) {
  visit(needed("file"), e.file);
  visit(needed("paper"), e.paper);
  visit(needed("artifact"), e.artifact);
  visit(needed("scale"), e.scale);
}

template <class Visit>
void each_field(model_record& m, Visit& visit) {
  visit(needed("name"), m.name);
  visit(needed("hash"), m.hash);
  visit(needed("parameters"), m.parameters);
  visit.word(needed("weights"), m.weights, weight_sources);
  visit.used(m.used);
  visit(later("layers"), m.layers);
  visit(some("caution"), m.caution);
  visit(some("chat_template"), m.chat_template);
  visit(some("checked"), m.checked);
}

template <class Visit>
void each_field(benchmark_record& b, Visit& visit) {
  visit(needed("harness"), b.harness);
  visit(needed("version"), b.version);
  visit(needed("config"), b.config);
  visit(needed("shots"), b.shots);
  visit(needed("prompt"), b.prompt);
  visit(needed("extraction"), b.scorer);
  visit(needed("metric"), b.metric);
  visit(needed("items_there"), b.items);
  visit(needed("trials"), b.trials);
}

template <class Visit>
void each_field(workload_record& w, Visit& visit) {
  visit(needed("family"), w.family);
  visit(needed("items"), w.items);
  visit(needed("hash"), w.hash);
  visit.object(some("benchmark"), w.benchmark);
  visit(some("judge"), w.rater);
  visit(some("prompts_hash",
             "SHA-256 of the tokens of every prompt, those of one prompt a line of numbers"),
        w.prompts_hash);
  visit(some("picture_preset", "how the pictures that the tasks show were cut"), w.picture_preset);
  visit(some("pillow", "versions of Pillow that resampled them, parted by commas"), w.pillow);
}

template <class Visit>
void each_field(device_facts& d, Visit& visit) {
  visit(needed("is_card", "a GPU, which a driver knows"), d.is_card);
  visit(needed("times_mean_something", "false: emulated kernels, whose times say nothing"),
        d.times_mean_something);
}

template <class Visit>
void each_field(topology_record& t, Visit& visit) {
  visit(needed("hosts", "machines that the ranks are on"), t.hosts);
  visit(needed("transport", "by which bytes go from rank to rank"), t.transport);
  visit(some("nccl", "version of NCCL, if they go by it"), t.nccl);
}

template <class Visit>
void each_field(score_record& s, Visit& visit) {
  visit(needed("mean"), s.mean);
  visit(needed("exact"), s.exact);
  visit(needed("n"), s.n);
  visit.pair(needed("ci95"), s.low, s.high);
  visit(some("undecided"), s.undecided);
  visit(some("mean_of_groups"), s.mean_of_groups);
  visit(some("mean_of_groups_ci95", "95 % interval of that mean (since 1.5)"), s.group_range);
  visit(some("beside"), s.beside);
  visit(some("libraries",
             "of a published benchmark: name and version of what scored the answers (since 1.5)"),
        s.libraries);
  visit.rounded(some("trial_deviation"), s.trial_deviation);
}

template <class Visit>
void each_field(sample_record& s, Visit& visit) {
  visit(needed("seconds"), s.seconds);
  visit(needed("warmup_seconds"), s.warmup_seconds);
  visit.rounded(needed("half_width"), s.half_width);
  visit(needed("stop"), s.stop);
  visit(some("taken_up", "repetitions that an interrupted run had made (since 1.5)"), s.taken_up);
  visit(some("own_share",
             "by repetition: processor time of the process / (seconds x threads that can run)"),
        s.own_share);
  visit(some("other_share", "by repetition: share of the usable processors that other work had"),
        s.other_share);
  visit(some("throttled_seconds",
             "by repetition: length of the periods in which a CPU quota stopped the process"),
        s.throttled_seconds);
  visit(some("disturbance", "why the times are not those of a quiet machine, as a sentence"),
        s.disturbance);
  visit(some("median", "true if the speed is of the median repetition, because one is an outlier"),
        s.median);
}

template <class Visit>
void each_field(item_records& i, Visit& visit) {
  visit(needed("answer_hash"), i.answer_hash);
  visit(needed("exact"), i.exact);
  visit(needed("id"), i.id);
  visit(needed("output_tokens"), i.output_tokens);
  visit(needed("score"), i.score);
  visit(needed("seconds"), i.seconds);
  visit(some("nfe",
             "this and the other counts: of the first repetition, as the metrics of their "
             "names count them"),
        i.forwards);
  visit(some("denoise_steps"), i.denoise_steps);
  visit(some("committed"), i.committed);
  visit(some("rows"), i.rows);
  visit(some("decode_rows"), i.decode_rows);
  visit(some("late_layer_rows"), i.late_layer_rows);
  visit(some("sequences", "of judged texts: sequences of four words"), i.sequences);
  visit(some("repeated_sequences", "those of them that the same text has had before"),
        i.repeated_sequences);
}

// In the order in which a reader wants to see them: what was run, the verdict, the numbers, the
// circumstances.
template <class Visit>
void each_field(result_row& r, Visit& visit) {
  visit(needed("run_id", "the run that wrote the row"), r.run_id);
  visit(
      needed("point_id",
             "first 16 hex digits of the SHA-256 of the resolved settings with the hashes of model "
             "and workload"),
      r.point_id);
  visit(needed("title", "of the experiment"), r.title);
  visit(needed("position", "of the point in its plan"), r.position);
  visit.object(some("experiment", "which experiment the row is of (since 1.5)"), r.experiment);
  visit.object(needed("model"), r.model);
  visit.object(needed("workload"), r.workload);
  visit(needed("method"), r.method);
  visit(needed("preset"), r.preset);
  visit(needed("label"), r.label);
  visit(needed("variation"), r.variation);
  visit(needed("params", "of the method, every default filled in"), r.params);
  visit.run(r.run);
  visit.object(some("device_facts",
                    "what the device that was used says of itself; rows before this was recorded "
                    "lack it"),
               r.device);
  visit.object(some("topology", "how the ranks were connected; absent of one rank"), r.topology);
  visit.word(needed("verdict"), r.verdict, row_verdict_names);
  visit(needed("reason"), r.reason);
  visit.metrics(r.metrics);
  visit.object(needed("score"), r.score);
  visit.object(needed("samples"), r.samples);
  visit(some("answers_hash",
             "SHA-256 of the tokens of every answer of the first repetition (since 1.2)"),
        r.answers_hash);
  visit.object(
      some("items", "of paired points and of scored artifacts: lists over the items (since 1.2)"),
      r.items);
  visit.texts(some("probes", "by name, where the experiment asked for them (since 1.1)"), r.probes);
  visit.text(
      some("calibration",
           "what a method that calibrates itself measured before its first pass (since 1.3)"),
      r.calibration);
  visit.text(needed("environment", "machine and build, as unmask doctor prints them"),
             r.environment);
  visit(needed("source_hash", "commit the program was built from, -dirty when it was edited"),
        r.source_hash);
  visit(needed("finished_at", "UTC, ISO 8601"), r.finished_at);
}

}  // namespace unmask
