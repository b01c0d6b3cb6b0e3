// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/row.h"

#include <nlohmann/json.hpp>

#include "harness/analysis/json_of.h"
#include "harness/base/error.h"

namespace unmask {
namespace {

using nlohmann::json;

constexpr const char* verdict_names[] = {"PASS",         "NOISY",         "INVALID", "INCORRECT",
                                         "NOT_VERIFIED", "NOT_SUPPORTED", "FAILED",  "INACTIVE"};
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

double real(const json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

json object_of(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_object() ? value : json::object();
}

parameter_map params_of(const json& in) {
  parameter_map params;
  for (const auto& [name, value] : in.items()) params[name] = parameter_of(value);
  return params;
}

json of_items(const item_records& items) {
  return {{"id", items.id},           {"score", items.score},
          {"exact", items.exact},     {"output_tokens", items.output_tokens},
          {"seconds", items.seconds}, {"answer_hash", items.answer_hash}};
}

item_records items_of(const json& in) {
  item_records items;
  items.id = in.at("id").get<std::vector<std::string>>();
  for (const json& v : in.at("score")) items.score.push_back(real(v));
  items.exact = in.at("exact").get<std::vector<bool>>();
  items.output_tokens = in.at("output_tokens").get<std::vector<std::int64_t>>();
  for (const json& list : in.at("seconds")) {
    items.seconds.emplace_back();
    for (const json& v : list) items.seconds.back().push_back(real(v));
  }
  items.answer_hash = in.at("answer_hash").get<std::vector<std::string>>();
  const std::size_t n = items.id.size();
  if (items.score.size() != n || items.exact.size() != n || items.output_tokens.size() != n ||
      items.seconds.size() != n || items.answer_hash.size() != n) {
    throw std::runtime_error("`items` holds lists of different lengths");
  }
  return items;
}

void read_results(result_row& row, const json& in) {
  row.verdict = named<verdict_kind>(verdict_names, in.at("verdict").get<std::string>());
  row.reason = in.at("reason").get<std::string>();
  const json& from = in.at("provenance");
  for (const auto& [name, value] : in.at("metrics").items()) {
    row.metrics[name] = {
        real(value), named<origin>(origin_names, from.at(name).get<std::string>()), {}};
  }
  if (in.contains("metric_samples")) {
    for (const auto& [name, values] : in.at("metric_samples").items()) {
      for (const json& v : values) row.metrics.at(name).samples.push_back(real(v));
    }
  }
  if (const json& s = in.at("score"); !s.is_null()) {
    row.score = score_record{s.at("mean"),
                             s.at("exact"),
                             s.at("n"),
                             s.at("ci95").at(0),
                             s.at("ci95").at(1),
                             s.value("undecided", std::int64_t{0}),
                             s.value("mean_of_groups", std::nan("")),
                             s.value("beside", std::map<std::string, double>{}),
                             s.value("trial_deviation", 0.0)};
  }
  const json& samples = in.at("samples");
  for (const json& v : samples.at("seconds")) row.samples.seconds.push_back(real(v));
  for (const json& v : samples.at("warmup_seconds")) row.samples.warmup_seconds.push_back(real(v));
  row.samples.half_width = real(samples.at("half_width"));
  row.samples.stop = samples.at("stop").get<std::string>();
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

std::string point_name(const result_row& row) {
  std::string name = row.model.name;
  for (const std::string* part :
       {&row.workload.family, &row.method, &row.label, &row.variation, &row.run.kind}) {
    name += "\n" + *part;
  }
  for (const run_key& key : run_key_list()) name += "\n" + key.text(row.run);
  return name;
}

bool is_reportable(const result_row& row) {
  return row.verdict == verdict_kind::pass || row.verdict == verdict_kind::noisy ||
         row.verdict == verdict_kind::not_verified || row.verdict == verdict_kind::inactive;
}

std::string to_json_line(const result_row& row) {
  // Ordered as a reader wants to see it: what was run, the verdict, the numbers, the circumstances.
  nlohmann::ordered_json out;
  out["schema_version"] = std::to_string(row_schema_major) + "." + std::to_string(row_schema_minor);
  out["run_id"] = row.run_id;
  out["point_id"] = row.point_id;
  out["title"] = row.title;
  out["position"] = row.position;
  out["model"] = {{"name", row.model.name},
                  {"hash", row.model.hash},
                  {"parameters", row.model.parameters},
                  {"weights", row.model.weights}};
  for (const run_key& key : run_key_list()) {
    if (key.used) out["model"][key.name] = key.text(row.model.used);
  }
  out["model"]["layers"] = row.model.layers;
  if (!row.model.caution.empty()) out["model"]["caution"] = row.model.caution;
  out["workload"] = {
      {"family", row.workload.family}, {"items", row.workload.items}, {"hash", row.workload.hash}};
  if (const benchmark_record& b = row.workload.benchmark; !b.harness.empty()) {
    out["workload"]["benchmark"] = {
        {"harness", b.harness}, {"version", b.version},   {"config", b.config},
        {"shots", b.shots},     {"prompt", b.prompt},     {"extraction", b.scorer},
        {"metric", b.metric},   {"items_there", b.items}, {"trials", b.trials}};
  }
  if (!row.workload.judge.empty()) out["workload"]["judge"] = row.workload.judge;
  out["method"] = row.method;
  out["preset"] = row.preset;
  out["label"] = row.label;
  out["variation"] = row.variation;
  out["params"] = json_of<json>(row.params);
  put_run(out, row.run);
  out["verdict"] = name_of(row.verdict);
  out["reason"] = row.reason;
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
    if (row.workload.benchmark.trials > 1) {
      out["score"]["trial_deviation"] = number(row.score->trial_deviation);
    }
  }
  out["samples"] = {{"seconds", row.samples.seconds},
                    {"warmup_seconds", row.samples.warmup_seconds},
                    {"half_width", number(row.samples.half_width)},
                    {"stop", row.samples.stop}};
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
    throw environment_error(where + ": not a result row (one JSON object with schema_version)");
  }
  result_row row;
  row.schema_version = in["schema_version"].get<std::string>();
  if (row.schema_version.rfind(std::to_string(row_schema_major) + ".", 0) != 0) {
    throw environment_error(where + ": schema version " + row.schema_version +
                            " is not known to this program, which reads " +
                            std::to_string(row_schema_major) + ".x; use the version that wrote it");
  }
  try {
    row.run_id = in.at("run_id");
    row.point_id = in.at("point_id");
    row.title = in.at("title");
    row.position = in.at("position");
    const json& model = in.at("model");
    row.model = {model.at("name"),
                 model.at("hash"),
                 model.at("parameters"),
                 model.at("weights"),
                 {},
                 model.value("layers", std::int64_t{0}),
                 model.value("caution", "")};
    for (const run_key& key : run_key_list()) {
      const auto* text = std::get_if<std::string run_keys::*>(&key.field);
      // Rows that are older than such a key kept everything in f32.
      if (key.used && text) row.model.used.** text = model.value(key.name, "f32");
    }
    const json& workload = in.at("workload");
    row.workload = {workload.at("family"), workload.at("hash"), workload.at("items")};
    if (workload.contains("benchmark")) {
      const json& b = workload.at("benchmark");
      row.workload.benchmark = {b.at("harness"), b.at("version"),     b.at("config"),
                                b.at("prompt"),  b.at("extraction"),  b.at("metric"),
                                b.at("shots"),   b.at("items_there"), b.at("trials")};
    }
    row.workload.judge = workload.value("judge", "");
    row.method = in.at("method");
    row.preset = in.at("preset");
    row.label = in.at("label");
    row.variation = in.at("variation");
    row.params = params_of(in.at("params"));
    // A key that a row does not have is younger than the row: it had its default.
    for (const run_key& key : run_key_list()) {
      if (!in.contains(key.name)) continue;
      std::visit([&](const auto member) { in.at(key.name).get_to(row.run.*member); }, key.field);
    }
    if (in.contains("serve")) {
      row.run.kind = "serve";
      row.run.serve = params_of(in.at("serve"));
    }
    read_results(row, in);
    if (in.contains("answers_hash")) row.answers_hash = in.at("answers_hash");
    if (in.contains("items")) row.items = items_of(in.at("items"));
    if (in.contains("probes")) {
      for (const auto& [name, result] : in.at("probes").items()) row.probes[name] = result.dump();
      if (auto old = row.probes.extract("calibration")) row.calibration = std::move(old.mapped());
    }
    if (in.contains("calibration")) row.calibration = in.at("calibration").dump();
    if (!in.at("environment").is_object()) throw std::runtime_error("`environment` is no object");
    row.environment = in.at("environment").dump();
    row.source_hash = in.at("source_hash");
    row.finished_at = in.at("finished_at");
  } catch (const std::exception& problem) {
    throw environment_error(where + ": broken result row: " + problem.what());
  }
  return row;
}

}  // namespace unmask
