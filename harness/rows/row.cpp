// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/row.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/rows/json_of.h"

namespace unmask {
namespace {

using nlohmann::json;

constexpr const char* verdict_names[] = {"PASS",          "NOISY",  "INVALID", "NOT_VERIFIED",
                                         "NOT_SUPPORTED", "FAILED", "INACTIVE"};
constexpr const char* origin_names[] = {"measured", "counted", "analytic", "synthetic"};

template <class Enum, std::size_t n>
Enum named(const char* const (&names)[n], const std::string& name) {
  for (std::size_t i = 0; i < n; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  throw std::runtime_error("'" + name + "' is no known value");
}

json number(double value) {
  // JSON has no NaN; whole numbers are written without a fraction.
  if (!std::isfinite(value)) return nullptr;
  if (value == std::floor(value) && std::abs(value) < 9007199254740992.0) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

// What a key of a row holds, by name: a row may be anybody's, and its reader must hear which key is
// wrong and how.
[[noreturn]] void wrong(const std::string& key, const char* wanted, const json& value) {
  throw std::runtime_error("`" + key + "` should be " + wanted + " and is " + value.type_name());
}

void read(const json& value, const std::string& key, std::string& into) {
  if (!value.is_string()) wrong(key, "a text", value);
  into = value.get<std::string>();
}
void read(const json& value, const std::string& key, bool& into) {
  if (!value.is_boolean()) wrong(key, "true or false", value);
  into = value.get<bool>();
}
void read(const json& value, const std::string& key, std::int64_t& into) {
  if (!value.is_number_integer()) wrong(key, "a whole number", value);
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    throw std::runtime_error("`" + key + "` is beyond every count");
  }
  into = value.get<std::int64_t>();
}
void read(const json& value, const std::string& key, double& into) {  // null: not a number
  if (!value.is_number() && !value.is_null()) wrong(key, "a number", value);
  into = value.is_null() ? std::nan("") : value.get<double>();
}
template <class T>
void read(const json& value, const std::string& key, std::vector<T>& into) {
  if (!value.is_array()) wrong(key, "a list", value);
  for (const json& item : value) {
    T one{};
    read(item, key, one);
    into.push_back(std::move(one));
  }
}

const json& member(const json& in, const std::string& key) {
  const auto found = in.find(key);  // of what is no object: nothing
  if (found == in.end()) throw std::runtime_error("`" + key + "` is missing");
  return *found;
}
const json& object(const json& in, const std::string& key) {
  const json& value = member(in, key);
  if (!value.is_object()) wrong(key, "an object", value);
  return value;
}
template <class T>
void take(const json& in, const char* key, T& into) {
  read(member(in, key), key, into);
}
template <class T>
void take_if_there(const json& in, const char* key, T& into) {
  if (in.contains(key)) take(in, key, into);
}

double real(const json& in, const std::string& key) {
  double value = 0;
  read(in, key, value);
  return value;
}

// What an exception says, without the library's "[json.exception.NAME.NUMBER] ".
std::string plain(const std::string& problem) {
  const std::size_t end = problem.starts_with("[json.exception.") ? problem.find("] ") : 0;
  return end == 0 || end == std::string::npos ? problem : problem.substr(end + 2);
}

// Why a text is no JSON object with a schema_version.
std::string why_no_row(const std::string& line, const json& in) {
  if (is_hostile_json(line)) return "holds a zero byte or is nested deeper than any row";
  if (!in.is_discarded()) return "one JSON object with `schema_version` is expected";
  try {
    const json read = json::parse(line);
  } catch (const json::exception& problem) {
    return "no JSON: " + plain(problem.what());
  }
  return "no JSON";
}

json object_of(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_object() ? value : json::object();
}

parameter_map params_of(const json& in) {
  parameter_map params;
  for (const auto& [name, value] : in.items()) {
    if (!value.is_primitive() || value.is_null()) wrong(name, "a setting", value);
    params[name] = parameter_of(value);
  }
  return params;
}

json of_items(const item_records& items) {
  return {{"id", items.id},           {"score", items.score},
          {"exact", items.exact},     {"output_tokens", items.output_tokens},
          {"seconds", items.seconds}, {"answer_hash", items.answer_hash}};
}

item_records items_of(const json& in) {
  item_records items;
  take(in, "id", items.id);
  take(in, "score", items.score);
  take(in, "exact", items.exact);
  take(in, "output_tokens", items.output_tokens);
  take(in, "seconds", items.seconds);
  take(in, "answer_hash", items.answer_hash);
  const std::size_t n = items.id.size();
  if (items.score.size() != n || items.exact.size() != n || items.output_tokens.size() != n ||
      items.seconds.size() != n || items.answer_hash.size() != n) {
    throw std::runtime_error("`items` holds lists of different lengths");
  }
  return items;
}

score_record score_of(const json& in) {
  score_record s;
  take(in, "mean", s.mean);
  take(in, "exact", s.exact);
  take(in, "n", s.n);
  std::vector<double> range;
  take(in, "ci95", range);
  if (range.size() != 2) throw std::runtime_error("`ci95` should be two numbers");
  s.low = range[0];
  s.high = range[1];
  take_if_there(in, "undecided", s.undecided);
  take_if_there(in, "mean_of_groups", s.mean_of_groups);
  if (in.contains("beside")) {
    for (const auto& [name, value] : object(in, "beside").items()) {
      s.beside[name] = real(value, name);
    }
  }
  take_if_there(in, "trial_deviation", s.trial_deviation);
  if (in.contains("libraries")) object(in, "libraries").get_to(s.libraries);
  return s;
}

void read_results(result_row& row, const json& in) {
  std::string name;
  take(in, "verdict", name);
  row.verdict = named<verdict_kind>(verdict_names, name);
  take(in, "reason", row.reason);
  const json& from = object(in, "provenance");
  for (const auto& [metric, value] : object(in, "metrics").items()) {
    std::string where;
    take(from, metric.c_str(), where);
    row.metrics[metric] = {real(value, metric), named<origin>(origin_names, where), {}};
  }
  if (in.contains("metric_samples")) {
    for (const auto& [metric, values] : object(in, "metric_samples").items()) {
      const auto of = row.metrics.find(metric);
      if (of == row.metrics.end()) throw std::runtime_error("`" + metric + "` is no metric");
      read(values, metric, of->second.samples);
    }
  }
  if (!member(in, "score").is_null()) row.score = score_of(object(in, "score"));
  const json& samples = object(in, "samples");
  take(samples, "seconds", row.samples.seconds);
  take(samples, "warmup_seconds", row.samples.warmup_seconds);
  take(samples, "half_width", row.samples.half_width);
  take(samples, "stop", row.samples.stop);
  take_if_there(samples, "taken_up", row.samples.taken_up);
}

void read_model(result_row& row, const json& model) {
  take(model, "name", row.model.name);
  take(model, "hash", row.model.hash);
  take(model, "parameters", row.model.parameters);
  take(model, "weights", row.model.weights);
  take_if_there(model, "layers", row.model.layers);
  take_if_there(model, "caution", row.model.caution);
  take_if_there(model, "chat_template", row.model.chat_template);
  take_if_there(model, "checked", row.model.checked);
  for (const run_key& key : run_key_list()) {
    const auto* text = std::get_if<std::string run_keys::*>(&key.field);
    if (!key.used || !text) continue;
    row.model.used.** text = "f32";  // rows that are older than such a key kept everything in it
    take_if_there(model, key.name, row.model.used.**text);
  }
}

void read_workload(result_row& row, const json& workload) {
  take(workload, "family", row.workload.family);
  take(workload, "hash", row.workload.hash);
  take(workload, "items", row.workload.items);
  take_if_there(workload, "judge", row.workload.rater);
  if (!workload.contains("benchmark")) return;
  const json& in = object(workload, "benchmark");
  benchmark_record& b = row.workload.benchmark;
  take(in, "harness", b.harness);
  take(in, "version", b.version);
  take(in, "config", b.config);
  take(in, "prompt", b.prompt);
  take(in, "extraction", b.scorer);
  take(in, "metric", b.metric);
  take(in, "shots", b.shots);
  take(in, "items_there", b.items);
  take(in, "trials", b.trials);
}

void read_settings(result_row& row, const json& in) {
  take(in, "run_id", row.run_id);
  take(in, "point_id", row.point_id);
  take(in, "title", row.title);
  take(in, "position", row.position);
  if (in.contains("experiment")) {
    const json& e = object(in, "experiment");
    take(e, "file", row.experiment.file);
    take(e, "paper", row.experiment.paper);
    take(e, "artifact", row.experiment.artifact);
    take(e, "scale", row.experiment.scale);
  }
  read_model(row, object(in, "model"));
  read_workload(row, object(in, "workload"));
  take(in, "method", row.method);
  take(in, "preset", row.preset);
  take(in, "label", row.label);
  take(in, "variation", row.variation);
  row.params = params_of(object(in, "params"));
  // A key that a row does not have is younger than the row: it had its default.
  for (const run_key& key : run_key_list()) {
    std::visit([&](const auto field) { take_if_there(in, key.name, row.run.*field); }, key.field);
  }
  if (in.contains("device_facts")) {
    const json& facts = object(in, "device_facts");
    row.device.emplace();
    take(facts, "is_card", row.device->is_card);
    take(facts, "times_mean_something", row.device->times_mean_something);
  }
  if (in.contains("serve")) {
    row.run.kind = "serve";
    row.run.serve = params_of(object(in, "serve"));
  }
}

// Keys of a row are ordered as a reader wants to see them: what was run, the verdict, the numbers, the
// circumstances. Each of these adds a part of them.
void put_model(nlohmann::ordered_json& out, const result_row& row) {
  out["model"] = {{"name", row.model.name},
                  {"hash", row.model.hash},
                  {"parameters", row.model.parameters},
                  {"weights", row.model.weights}};
  for (const run_key& key : run_key_list()) {
    if (key.used) out["model"][key.name] = key.text(row.model.used);
  }
  out["model"]["layers"] = row.model.layers;
  if (!row.model.caution.empty()) out["model"]["caution"] = row.model.caution;
  if (!row.model.chat_template.empty()) out["model"]["chat_template"] = row.model.chat_template;
  if (!row.model.checked.empty()) out["model"]["checked"] = row.model.checked;
}

void put_workload(nlohmann::ordered_json& out, const result_row& row) {
  out["workload"] = {
      {"family", row.workload.family}, {"items", row.workload.items}, {"hash", row.workload.hash}};
  if (const benchmark_record& b = row.workload.benchmark; !b.harness.empty()) {
    out["workload"]["benchmark"] = {
        {"harness", b.harness}, {"version", b.version},   {"config", b.config},
        {"shots", b.shots},     {"prompt", b.prompt},     {"extraction", b.scorer},
        {"metric", b.metric},   {"items_there", b.items}, {"trials", b.trials}};
  }
  if (!row.workload.rater.empty()) out["workload"]["judge"] = row.workload.rater;
}

void put_metrics(nlohmann::ordered_json& out, const result_row& row) {
  json metrics = json::object(), from = json::object();
  for (const auto& [name, m] : row.metrics) {
    metrics[name] = number(m.value);
    from[name] = name_of(m.from);
  }
  out["metrics"] = metrics;
  out["provenance"] = from;
  json sampled = json::object();
  for (const auto& [name, m] : row.metrics) {
    if (!m.samples.empty()) sampled[name] = m.samples;
  }
  if (!sampled.empty()) out["metric_samples"] = sampled;
}

void put_score(nlohmann::ordered_json& out, const result_row& row) {
  out["score"] = nullptr;
  if (row.score) {
    out["score"] = {{"mean", row.score->mean},
                    {"exact", row.score->exact},
                    {"n", row.score->n},
                    {"ci95", {row.score->low, row.score->high}}};
    if (row.score->undecided > 0) out["score"]["undecided"] = row.score->undecided;
    if (std::isfinite(row.score->mean_of_groups)) {
      out["score"]["mean_of_groups"] = row.score->mean_of_groups;
    }
    if (!row.score->beside.empty()) out["score"]["beside"] = row.score->beside;
    if (!row.score->libraries.empty()) out["score"]["libraries"] = row.score->libraries;
    if (row.workload.benchmark.trials > 1) {
      out["score"]["trial_deviation"] = number(row.score->trial_deviation);
    }
  }
}

}  // namespace

const char* name_of(verdict_kind verdict) {
  return verdict_names[static_cast<std::size_t>(verdict)];
}
const char* name_of(origin from) {
  return origin_names[static_cast<std::size_t>(from)];
}

std::optional<double> result_row::value_of(const std::string& name) const {
  const auto found = metrics.find(name);
  if (found == metrics.end()) return std::nullopt;
  return found->second.value;
}

bool is_reportable(const result_row& row) {
  return row.verdict == verdict_kind::pass || row.verdict == verdict_kind::noisy ||
         row.verdict == verdict_kind::not_verified || row.verdict == verdict_kind::inactive;
}

std::string to_json_line(const result_row& row) {
  nlohmann::ordered_json out;
  out["schema_version"] = std::to_string(row_schema_major) + "." + std::to_string(row_schema_minor);
  out["run_id"] = row.run_id;
  out["point_id"] = row.point_id;
  out["title"] = row.title;
  out["position"] = row.position;
  if (const experiment_record& e = row.experiment; !e.file.empty()) {
    out["experiment"] = {
        {"file", e.file}, {"paper", e.paper}, {"artifact", e.artifact}, {"scale", e.scale}};
  }
  put_model(out, row);
  put_workload(out, row);
  out["method"] = row.method;
  out["preset"] = row.preset;
  out["label"] = row.label;
  out["variation"] = row.variation;
  out["params"] = json_of<json>(row.params);
  put_run(out, row.run);
  if (row.device) {
    out["device_facts"] = {{"is_card", row.device->is_card},
                           {"times_mean_something", row.device->times_mean_something}};
  }
  out["verdict"] = name_of(row.verdict);
  out["reason"] = row.reason;
  put_metrics(out, row);
  put_score(out, row);
  out["samples"] = {{"seconds", row.samples.seconds},
                    {"warmup_seconds", row.samples.warmup_seconds},
                    {"half_width", number(row.samples.half_width)},
                    {"stop", row.samples.stop}};
  if (row.samples.taken_up > 0) out["samples"]["taken_up"] = row.samples.taken_up;
  if (!row.answers_hash.empty()) out["answers_hash"] = row.answers_hash;
  if (!row.items.empty()) out["items"] = of_items(row.items);
  if (!row.probes.empty()) {
    json probes = json::object();
    for (const auto& [name, result] : row.probes) probes[name] = object_of(result);
    out["probes"] = probes;
  }
  if (!row.calibration.empty()) out["calibration"] = object_of(row.calibration);
  out["environment"] = object_of(row.environment);
  out["source_hash"] = row.source_hash;
  out["finished_at"] = row.finished_at;
  // Reasons may quote what a file held: bytes that are not UTF-8 must not stop the row.
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

result_row parse_row(const std::string& line, const std::string& where) {
  const json in = tree_of<json>(line);
  if (!in.is_object() || !in.contains("schema_version") || !in["schema_version"].is_string()) {
    throw environment_error(where + ": not a result row (" + why_no_row(line, in) + ")");
  }
  result_row row;
  row.schema_version = in["schema_version"].get<std::string>();
  if (row.schema_version.rfind(std::to_string(row_schema_major) + ".", 0) != 0) {
    throw unknown_schema(where + ": schema version " + row.schema_version +
                         " is not known to this program, which reads " +
                         std::to_string(row_schema_major) + ".x; use the version that wrote it");
  }
  try {
    read_settings(row, in);
    read_results(row, in);
    take_if_there(in, "answers_hash", row.answers_hash);
    if (in.contains("items")) row.items = items_of(object(in, "items"));
    if (in.contains("probes")) {
      for (const auto& [name, result] : object(in, "probes").items()) {
        row.probes[name] = result.dump();
      }
      if (auto old = row.probes.extract("calibration")) row.calibration = std::move(old.mapped());
    }
    if (in.contains("calibration")) row.calibration = object(in, "calibration").dump();
    row.environment = object(in, "environment").dump();
    take(in, "source_hash", row.source_hash);
    take(in, "finished_at", row.finished_at);
  } catch (const std::exception& problem) {
    throw environment_error(where + ": broken result row: " + plain(problem.what()));
  }
  return row;
}

}  // namespace unmask
