// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// One result row: what was run, what came out, and how far to trust it. The format is documented in
// results/FORMAT.md; the constants below are its version.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/run_keys.h"
#include "harness/base/value.h"

namespace unmask {

// Major: old readers would misread the row. Minor: fields were added.
inline constexpr int row_schema_major = 1;
inline constexpr int row_schema_minor = 5;

enum class row_verdict : std::uint8_t {
  pass,           // every check held and the output was scored
  noisy,          // as PASS, but the speed is known to no better than a quarter either way
  invalid,        // the numbers contradict each other or physics
  not_verified,   // all checks passed; the output was not scored
  not_supported,  // this method cannot decode this model
  failed,         // the run ended with an error
  inactive        // all is well, but a setting of the method never changed anything
};
const char* name_of(row_verdict verdict);  // "PASS", "INVALID", ...

// Where a value comes from.
enum class origin : std::uint8_t {
  measured,  // a clock
  counted,   // by the harness
  analytic,  // computed from shapes and counts
  synthetic  // rests on tokens that weights without meaning chose
};
const char* name_of(origin from);

struct metric {
  double value = 0;
  origin from = origin::counted;
  // What `value` is the mean of, where it was found more than once: per seed of a search, in their
  // order (rows of one setting share arrivals and lengths seed by seed, so they are compared in
  // pairs), or per repetition.
  std::vector<double> samples = {};
};

// What a point runs with, besides its model, workload and method.
struct run_settings : run_keys {
  std::string kind = "decode";  // or serve
  parameter_map serve;          // of kind serve: the keys of [serve]; resolved in a plan
  bool operator==(const run_settings&) const = default;
};

// What the device that was used says of itself (devices/device.h).
struct device_facts {
  bool is_card = false, times_mean_something = true;
  bool operator==(const device_facts&) const = default;
};

struct model_record {
  std::string name, hash;
  std::int64_t parameters = 0;
  std::string weights = "checkpoint";  // checkpoint or synthetic
  run_keys used = {};                  // what those keys came to that are declared `used`
  std::int64_t layers = 0;             // 0: written before this was recorded
  std::string caution;                 // model_config::caution
  std::string chat_template = {};      // chat_template::summary(): text, file, who renders it
  // What the device check found of the kernels on the GPU (devices/first_use.h); empty: no GPU.
  std::string checked = {};
};

// How a harness runs a benchmark: what a score must share with another to stand beside it.
struct benchmark_record {
  std::string harness, version, config;  // harness empty: no benchmark
  std::string prompt;                    // raw, bos, one-turn or chat
  std::string scorer, metric;
  std::int64_t shots = 0, items = 0, trials = 1;  // items: there are in all
};

struct workload_record {
  std::string family, hash;
  std::int64_t items = 0;  // used
  benchmark_record benchmark = {};
  std::string rater;         // model whose likelihood of free text is its score; empty: none
  std::string prompts_hash;  // of the tokens put in
  // Of pictures that its tasks show, how a model's preset has them cut and which versions of Pillow resampled them, parted
  // by commas; empty: they show none.
  std::string picture_preset, pillow;
};

struct score_record {
  double mean = 0;             // of 0 to 1
  std::int64_t exact = 0;      // items with full marks
  std::int64_t n = 0;          // items that were scored
  double low = 0, high = 0;    // 95 %, of the means of items
  std::int64_t undecided = 0;  // items beyond n whose verdict the scorer cannot establish
  // Plain mean over a benchmark's subjects or tasks, as OpenCompass averages MMLU and LongBench; not
  // a number where there is one group only.
  double mean_of_groups = std::nan("");
  std::vector<double> group_range = {};       // its 95 % interval; empty where there is none
  std::map<std::string, double> beside = {};  // what else the scorer measures, by name
  double trial_deviation = std::nan("");      // of the means of several trials; else not a number
  // Name and version of the libraries that scored; empty: this program's own scorers.
  std::map<std::string, std::string> libraries = {};
};

struct sample_record {
  std::vector<double> seconds;         // one per repetition, as measured
  std::vector<double> warmup_seconds;  // kept apart, in no statistic
  double half_width = 0;               // relative, 95 %, of the mean
  std::string stop;                    // half_width, max_repetitions
  std::int64_t taken_up = 0;  // of the repetitions, those that an earlier, stopped run had made
  // One per repetition, of what was watched (devices/machine_use.h); empty: nothing was.
  std::vector<double> own_share, other_share, throttled_seconds;
  // Why these are not the times of a quiet machine, as a sentence; empty: they may be.
  std::string disturbance;
  // Whether the speed is that of the median repetition, not of the mean of all.
  bool median = false;
};

// How the ranks of a run are connected: shared memory, TCP or NCCL.
struct topology_record {
  std::int64_t hosts = 0;  // 0: one process, or nothing was computed
  std::string transport;   // by which their bytes go
  std::string nccl;        // its version, if they go by it
};

// The experiment that a row is of.
struct experiment_record {
  std::string file;  // relative to where the program was started, or its bare name; empty:
                     // made by a program, or written before schema 1.5
  std::string paper, artifact;  // empty: a plain experiment
  std::string scale;            // empty: the file has none
};

// One entry per item of the workload, in its order: what paired comparisons need.
struct item_records {
  std::vector<std::string> id;
  std::vector<double> score;  // NaN: not scored
  std::vector<bool> exact;
  std::vector<std::int64_t> output_tokens;
  std::vector<std::vector<double>> seconds;  // admission to finish, one per repetition
  std::vector<std::string> answer_hash;      // first 16 hex digits of the SHA-256 of its tokens
  // What ratios of counts are made of (harness/decode/counters.h), so that they have an interval over
  // the items; empty: of a row from before, or of another program.
  std::vector<std::int64_t> forwards, denoise_steps, committed, rows, decode_rows, late_layer_rows;
  // Of texts that a model judges: their sequences of four words, and how many of them the same text has had
  // before; empty of answers, and of a row from before.
  std::vector<std::int64_t> sequences, repeated_sequences;
  bool empty() const { return id.empty(); }
  std::size_t size() const { return id.size(); }
};

struct result_row {
  std::string schema_version;  // "MAJOR.MINOR"
  std::string run_id, point_id, title;
  std::int64_t position = 0;  // of the point in the plan of its experiment
  experiment_record experiment;
  model_record model;
  workload_record workload;
  std::string method, preset, label, variation;
  parameter_map params;
  run_settings run;
  std::optional<device_facts> device;  // nothing: the row is older than this was recorded
  topology_record topology;            // of several ranks
  row_verdict verdict = row_verdict::failed;
  std::string reason;
  std::map<std::string, metric> metrics;  // absent: not earned or not defined
  std::optional<score_record> score;      // never with synthetic weights
  sample_record samples;
  std::string answers_hash;  // SHA-256 of the tokens of all answers; empty: before schema 1.2
  item_records items;        // of paired experiments and scored artifacts
  std::map<std::string, std::string> probes;  // JSON object by name; probe.h
  // JSON object: what a method that calibrates itself measured before its first pass; empty: none.
  // Rows before schema 1.3 have it among the probes, from where parse_row takes it.
  std::string calibration;
  std::string environment = "{}";  // JSON object, the build among it
  std::string source_hash;         // commit the program was built from; "-dirty" when edited
  std::string finished_at;         // UTC, ISO 8601
  bool changed = false;            // of a row that was read: since it was written (its `sha256`)

  std::optional<double> value_of(const std::string& name) const;
};

// Whether the numbers of this row may be shown and compared.
bool is_reportable(const result_row& row);

std::string to_json_line(
    const result_row& row);  // one line, no newline; `sha256` is its last member
// The reason of a row whose `sha256` does not fit. Its verdict is NOT_VERIFIED at best.
inline const std::string changed_row = "changed after it was written";
// Environment errors: of text that is no row, with the field and why; of a row of another major version.
struct no_row : error {
  no_row(const std::string& where, const std::string& why)
      : error(exit_code::environment, where + ": no result row (" + why + ")"), reason(why) {}
  std::string reason;
};
struct unknown_schema : error {
  explicit unknown_schema(const std::string& sentence) : error(exit_code::environment, sentence) {}
};
result_row parse_row(const std::string& line, const std::string& where);

}  // namespace unmask
