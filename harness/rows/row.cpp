// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/row.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/rows/json_of.h"
#include "harness/rows/row_fields.h"
#include "harness/rows/row_judge.h"

namespace unmask {
namespace {

using nlohmann::json;

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
  if (!value.is_number()) wrong(key, "a whole number", value);
  into = value.get<std::int64_t>();  // 3.0 too, as pandas writes a column with holes
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

template <class T>
void read(const json& value, const std::string& key, std::map<std::string, T>& into) {
  if (!value.is_object()) wrong(key, "an object", value);
  for (const auto& [name, item] : value.items()) read(item, name, into[name]);
}

const json& member(const json& in, const std::string& key) {
  const auto found = in.find(key);  // of what is no object: nothing
  if (found == in.end()) throw std::runtime_error("`" + key + "` is missing");
  return *found;
}
// What an exception says, without the library's "[json.exception.NAME.NUMBER] ".
std::string plain(const std::string& problem) {
  const std::size_t end = problem.starts_with("[json.exception.") ? problem.find("] ") : 0;
  return end == 0 || end == std::string::npos ? problem : problem.substr(end + 2);
}

// Why a text is no JSON object with a schema_version.
std::string why_no_row(const std::string& line, const json& in) {
  if (is_hostile_json(line)) return "holds a zero byte or is nested deeper than any row";
  if (in.is_object() && in.contains("schema_version")) {
    const json& version = in["schema_version"];
    return "`schema_version` should be a text and is " +
           (version.is_number() ? "the number " + version.dump() : version.type_name());
  }
  if (!in.is_discarded()) return "one JSON object with `schema_version` is expected";
  try {
    const json read = json::parse(line);
  } catch (const json::exception& problem) {
    return "no JSON: " + plain(problem.what());
  }
  return "no JSON";
}

// "1" of "1.5"; nothing where a text is no MAJOR.MINOR.
std::optional<std::string> major_of(const std::string& version) {
  const std::size_t point = version.find('.');
  const auto digits = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (point == std::string::npos || !digits(version.substr(0, point)) ||
      !digits(version.substr(point + 1))) {
    return {};
  }
  return version.substr(0, point);
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

bool says_something(const std::string& value) {
  return !value.empty();
}
bool says_something(std::int64_t value) {
  return value > 0;
}
bool says_something(bool value) {
  return value;
}
bool says_something(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double v) { return std::isfinite(v) && v != 0; });
}
bool says_something(const std::vector<std::int64_t>& values) {
  return !values.empty();
}
bool says_something(double value) {
  return std::isfinite(value);
}
template <class T>
bool says_something(const std::map<std::string, T>& value) {
  return !value.empty();
}

class row_writer {
 public:
  explicit row_writer(nlohmann::ordered_json& out) : out_(out) {}

  template <class T>
  void operator()(const row_field& f, const T& value) {
    put(f, value, value);
  }
  void operator()(const row_field& f, const parameter_map& value) {
    out_[f.name] = json_of<json>(value);
  }
  void rounded(const row_field& f, double value) { put(f, value, number(value)); }
  void word(const row_field& f, const std::string& value, const auto&) { out_[f.name] = value; }
  void word(const row_field& f, row_verdict value, const auto&) { out_[f.name] = name_of(value); }
  void pair(const row_field& f, double low, double high) { out_[f.name] = {low, high}; }
  void text(const row_field& f, const std::string& value) { put(f, value, object_of(value)); }
  void texts(const row_field& f, const std::map<std::string, std::string>& value) {
    json all = json::object();
    for (const auto& [name, text] : value) all[name] = object_of(text);
    put(f, value, all);
  }
  template <class T>
  void object(const row_field& f, T& value) {
    if constexpr (requires { is_there(value); }) {
      if (!is_there(value)) {
        if (f.when == presence::needed) out_[f.name] = nullptr;
        return;
      }
    }
    nlohmann::ordered_json& inside = out_[f.name] = nlohmann::ordered_json::object();
    row_writer visit(inside);
    if constexpr (requires { value.has_value(); }) {
      each_field(*value, visit);
    } else {
      each_field(value, visit);
    }
  }
  void used(const run_keys& used) {
    for (const run_key& key : run_key_list()) {
      if (key.used) out_[key.name] = key.text(used);
    }
  }
  void run(const run_settings& run) { put_run(out_, run); }
  void metrics(const std::map<std::string, metric>& all) {
    json values = json::object(), from = json::object(), sampled = json::object();
    for (const auto& [name, m] : all) {
      values[name] = number(m.value);
      from[name] = name_of(m.from);
      if (!m.samples.empty()) sampled[name] = m.samples;
    }
    out_["metrics"] = values;
    out_["provenance"] = from;
    if (!sampled.empty()) out_["metric_samples"] = sampled;
  }

 private:
  template <class T>
  void put(const row_field& f, const T& value, const json& written) {
    if constexpr (requires { says_something(value); }) {
      if (f.when == presence::some && !says_something(value)) return;
    }
    out_[f.name] = written;
  }
  nlohmann::ordered_json& out_;
};

class row_reader {
 public:
  explicit row_reader(const json& in) : in_(in) {}

  template <class T>
  void operator()(const row_field& f, T& into) {
    if (reads(f)) read(member(in_, f.name), f.name, into);
  }
  void operator()(const row_field& f, parameter_map& into) { into = params_of(object_in(f)); }
  void rounded(const row_field& f, double& into) { (*this)(f, into); }
  void word(const row_field& f, std::string& into, const auto&) { (*this)(f, into); }
  void word(const row_field& f, row_verdict& into, const auto& names) {
    std::string name;
    (*this)(f, name);
    into = named<row_verdict>(names, name);
  }
  void pair(const row_field& f, double& low, double& high) {
    std::vector<double> range;
    (*this)(f, range);
    if (range.size() != 2) {
      throw std::runtime_error("`" + std::string(f.name) + "` should be two numbers");
    }
    low = range[0];
    high = range[1];
  }
  void text(const row_field& f, std::string& into) {
    if (reads(f)) into = object_in(f).dump();
  }
  void texts(const row_field& f, std::map<std::string, std::string>& into) {
    if (!reads(f)) return;
    for (const auto& [name, value] : object_in(f).items()) into[name] = value.dump();
  }
  template <class T>
  void object(const row_field& f, T& into) {
    if (!reads(f)) return;
    if constexpr (requires { into.has_value(); }) {
      if (f.when == presence::needed && member(in_, f.name).is_null()) return;
      row_reader visit(object_in(f));
      each_field(into.emplace(), visit);
    } else {
      row_reader visit(object_in(f));
      each_field(into, visit);
    }
  }
  void used(run_keys& used) {
    for (const run_key& key : run_key_list()) {
      const auto* text = std::get_if<std::string run_keys::*>(&key.field);
      if (!key.used || !text) continue;
      used.** text = "f32";  // rows that are older than such a key kept everything in it
      (*this)(later(key.name), used.**text);
    }
  }
  void run(run_settings& run) {
    // A key that a row does not have is younger than the row: it had its default.
    for (const run_key& key : run_key_list()) {
      std::visit([&](const auto field) { (*this)(later(key.name), run.*field); }, key.field);
    }
    if (has("serve")) {
      run.kind = "serve";
      run.serve = params_of(object_in(later("serve")));
    }
  }
  void metrics(std::map<std::string, metric>& into) {
    const json& from = object_in(needed("provenance"));
    for (const auto& [name, value] : object_in(needed("metrics")).items()) {
      std::string where;
      read(member(from, name), name, where);
      double number = 0;
      read(value, name, number);
      into[name] = {number, named<origin>(origin_names, where), {}};
    }
    if (!has("metric_samples")) return;
    for (const auto& [name, values] : object_in(later("metric_samples")).items()) {
      read(values, name, into.at(name).samples);
    }
  }

 private:
  bool reads(const row_field& f) const { return f.when == presence::needed || has(f.name); }
  // Null, which pandas writes where other rows have a value, means absent.
  bool has(const char* name) const {
    const auto found = in_.find(name);
    return found != in_.end() && !found->is_null();
  }
  const json& object_in(const row_field& f) const {
    const json& value = member(in_, f.name);
    if (!value.is_object()) wrong(f.name, "an object", value);
    return value;
  }
  const json& in_;
};

// The last member of a line that this program writes: the SHA-256 of the line without it.
constexpr const char* checksum_begins = R"(,"sha256":")";

// Whether a line that has a checksum is, byte for byte, what it was written as.
bool is_as_written(std::string_view line) {
  constexpr std::string_view begins = checksum_begins;
  constexpr std::size_t digits = 64, member = begins.size() + digits + 1;
  const std::size_t begin = line.find_first_not_of(" \t\r"), end = line.find_last_not_of(" \t\r");
  line = line.substr(begin, end - begin + 1);
  if (line.size() <= member + 1) return false;
  const std::string_view tail = line.substr(line.size() - member - 1);
  if (!tail.starts_with(begins)) return false;
  const std::string rest = std::string(line.substr(0, line.size() - member - 1)) + "}";
  return tail.substr(begins.size(), digits) == sha256_hex(rest);
}

// No verdict rests on the numbers of a row that somebody or something changed.
void mark_changed(result_row& row) {
  row.changed = true;
  if (!is_reportable(row)) return;
  row.verdict = row_verdict::not_verified;
  row.reason = changed_row + (row.reason.empty() ? "" : "; " + row.reason);
}

}  // namespace

const char* name_of(row_verdict verdict) {
  return row_verdict_names[static_cast<std::size_t>(verdict)];
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
  return row.verdict == row_verdict::pass || row.verdict == row_verdict::noisy ||
         row.verdict == row_verdict::not_verified || row.verdict == row_verdict::inactive;
}

std::string to_json_line(const result_row& row) {
  nlohmann::ordered_json out;
  out["schema_version"] = std::to_string(row_schema_major) + "." + std::to_string(row_schema_minor);
  row_writer visit(out);
  each_field(const_cast<result_row&>(row), visit);  // which the writer only reads
  // Reasons may quote what a file held: bytes that are not UTF-8 must not stop the row.
  std::string line = out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const std::string digest = sha256_hex(line);
  line.pop_back();
  return line + checksum_begins + digest + "\"}";
}

result_row parse_row(const std::string& line, const std::string& where) {
  const json in = tree_of<json>(line);
  if (!in.is_object() || !in.contains("schema_version") || !in["schema_version"].is_string()) {
    throw no_row(where, why_no_row(line, in));
  }
  result_row row;
  row.schema_version = in["schema_version"].get<std::string>();
  const auto major = major_of(row.schema_version);
  if (!major) throw no_row(where, "`schema_version` should be MAJOR.MINOR");
  if (*major != std::to_string(row_schema_major)) {
    throw unknown_schema(where + ": schema version " + row.schema_version +
                         " is not known to this program, which reads " +
                         std::to_string(row_schema_major) + ".x; use the version that wrote it");
  }
  if (const std::string problem = problem_of_row(in); !problem.empty())
    throw no_row(where, problem);
  try {
    row_reader visit(in);
    each_field(row, visit);
    // Where it lay before schema 1.3.
    if (auto old = row.probes.extract("calibration"); old && row.calibration.empty()) {
      row.calibration = std::move(old.mapped());
    }
  } catch (const std::exception& problem) {
    throw no_row(where, plain(problem.what()));
  }
  const auto checksum = in.find("sha256");
  if (checksum != in.end() && !checksum->is_null() && !is_as_written(line)) mark_changed(row);
  return row;
}

}  // namespace unmask
