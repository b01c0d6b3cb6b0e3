// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/row_schema.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/rows/row_fields.h"

namespace unmask {
namespace {

using schema = nlohmann::ordered_json;

// The type of a value of a row.
schema type_of(const std::string&) {
  return {{"type", "string"}};
}
schema type_of(bool) {
  return {{"type", "boolean"}};
}
schema type_of(std::int64_t) {
  return {{"type", "integer"}};
}
// Of a field that a row lacks rather than holds null in it.
schema type_of(double) {
  return {{"type", "number"}};
}
schema number_or_null() {
  return {{"type", {"number", "null"}}};
}
template <class T>
schema type_of(const std::vector<T>&) {
  if constexpr (std::is_same_v<T, double>) return {{"type", "array"}, {"items", number_or_null()}};
  return {{"type", "array"}, {"items", type_of(T{})}};
}
template <class T>
schema type_of(const std::map<std::string, T>&) {
  return {{"type", "object"}, {"additionalProperties", type_of(T{})}};
}
schema type_of(const parameter_map&) {
  return {{"type", "object"},
          {"additionalProperties", {{"type", {"boolean", "number", "string"}}}}};
}

class schema_maker {
 public:
  template <class T>
  void operator()(const row_field& f, const T& value) {
    put(f, type_of(value));
  }
  void rounded(const row_field& f, double) { put(f, number_or_null()); }
  template <class T, std::size_t n>
  void word(const row_field& f, const T&, const char* const (&names)[n]) {
    put(f, {{"enum", std::vector<std::string>(names, names + n)}});
  }
  void pair(const row_field& f, double, double) {
    put(f, {{"type", "array"}, {"items", {{"type", "number"}}}, {"minItems", 2}, {"maxItems", 2}});
  }
  void text(const row_field& f, const std::string&) { put(f, {{"type", "object"}}); }
  void texts(const row_field& f, const std::map<std::string, std::string>&) {
    put(f, {{"type", "object"}, {"additionalProperties", {{"type", "object"}}}});
  }
  template <class T>
  void object(const row_field& f, T& value) {
    schema_maker inside;
    schema kind = "object";
    if constexpr (requires { value.has_value(); }) {
      if (f.when == presence::needed) kind = {"object", "null"};
      each_field(value.emplace(), inside);
    } else {
      each_field(value, inside);
    }
    put(f, {{"type", kind}, {"required", inside.required_}, {"properties", inside.properties_}});
  }
  void used(const run_keys&) {
    for (const run_key& key : run_key_list()) {
      if (key.used) put(later(key.name), {{"type", "string"}});
    }
  }
  void run(const run_settings& run) {
    for (const run_key& key : run_key_list()) {
      std::visit(
          [&](const auto field) {
            schema type = type_of(run.*field);
            const std::string unit = *key.unit == '\0' ? "" : std::string(key.unit) + ", ";
            type["description"] = unit + key.meaning;
            type["default"] = run.*field;  // where a row, being older, does not name it
            put(later(key.name), std::move(type));
          },
          key.field);
    }
    put(some("serve", "of served points only: the keys of [serve]"), type_of(run.serve));
  }
  void metrics(const std::map<std::string, metric>&) {
    put(needed("metrics",
               "values by name; a name that is missing was not earned or is not defined"),
        {{"type", "object"}, {"additionalProperties", number_or_null()}});
    put(needed("provenance", "where each metric comes from"),
        {{"type", "object"},
         {"additionalProperties",
          {{"enum", std::vector<std::string>(std::begin(origin_names), std::end(origin_names))}}}});
    put(some("metric_samples",
             "what a metric is the mean of: per seed of a search, or per repetition"),
        {{"type", "object"},
         {"additionalProperties", {{"type", "array"}, {"items", number_or_null()}}}});
  }

  void put(const row_field& f, schema type) {
    if (*f.meaning != '\0') type["description"] = f.meaning;
    if (f.when == presence::needed) required_.push_back(f.name);
    properties_[f.name] = std::move(type);
  }
  schema required_ = schema::array(), properties_ = schema::object();
};

// The probe of unmask profile: its phases, and the kernels of a traced run.
schema phases() {
  const schema text = {{"type", "string"}}, number = {{"type", "number"}};
  const schema phase = {
      {"type", "object"},
      {"required", {"phase", "container", "own_seconds", "flops", "bytes", "provenance"}},
      {"properties",
       {{"phase", text},
        {"container", {{"type", "boolean"}}},
        {"own_seconds", number},
        {"flops", number_or_null()},
        {"bytes", number_or_null()},
        {"provenance", text},
        {"device_seconds", number_or_null()}}}};
  const schema kernel = {
      {"type", "object"},
      {"additionalProperties", {{"type", {"string", "number", "boolean", "null"}}}}};
  return {{"type", "object"},
          {"properties",
           {{"phases", {{"type", "array"}, {"items", phase}}},
            {"kernels", {{"type", "array"}, {"items", kernel}}}}}};
}

}  // namespace

std::string row_schema_text() {
  result_row row;
  schema_maker made;
  made.put(needed("schema_version", "MAJOR.MINOR; another major version is not this schema"),
           {{"type", "string"}, {"pattern", fmt::format("^{}\\.[0-9]+$", row_schema_major)}});
  each_field(row, made);
  // What the package writes into rows (harness/python/unmask: record, score).
  made.put(
      some("measured_by", "the other program that measured the row, which unmask.record wrote"),
      {{"type", "string"}});
  made.put(
      some("sha256",
           "SHA-256 of the line without this member, which is its last: a row whose bytes give "
           "another was changed after it was written"),
      {{"type", "string"}});
  // What readers rely on in the objects that are others' business.
  made.properties_["probes"]["properties"] = {{"phases", phases()}};
  made.properties_["environment"]["properties"] = {{"build", {{"type", "object"}}}};
  made.properties_["score"]["properties"]["scored_at"] = {
      {"type", "string"},
      {"description", "when `unmask score` gave the score, of a row written once more with it"}};
  const schema all = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$id", "row.schema.json"},
      {"title",
       fmt::format("One result row of Unmask, schema {}.{}", row_schema_major, row_schema_minor)},
      {"description",
       "One line of rows.jsonl; results/FORMAT.md says what the fields mean. Fields that are not "
       "named here may be there."},
      {"$comment", "SPDX-License-Identifier: Apache-2.0"},
      {"type", "object"},
      {"required", made.required_},
      {"properties", made.properties_}};
  return all.dump(1) + "\n";
}

}  // namespace unmask
