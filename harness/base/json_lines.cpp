// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/json_lines.h"

#include <nlohmann/json.hpp>

#include "harness/base/compressed.h"
#include "harness/base/error.h"
#include "harness/base/text.h"

namespace unmask {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 30;

}  // namespace

std::string read_workload_text(const std::string& path) {
  return read_plain_or_gzip(path, largest_file);
}

void for_each_line(std::string_view text,
                   const std::function<void(std::string_view, std::size_t)>& visit) {
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (!strip(line).empty()) visit(line, number);
  }
}

void for_each_object(std::string_view text, const std::string& file,
                     const std::function<void(const json_reader&, std::size_t)>& visit) {
  bool any = false;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    const std::string where = file + ", line " + std::to_string(number);
    const json_value value = parse_json(line, where);
    if (value.members() == nullptr) {
      throw environment_error(where + ": must be an object, not " + value.type_name());
    }
    visit(json_reader(value, where), number);
    any = true;
  });
  if (!any) throw environment_error(file + ": holds no items; expected one JSON object per line");
}

void for_each_json_line(const std::string& path,
                        const std::function<void(const json_reader&, std::size_t)>& visit) {
  for_each_object(read_workload_text(path), path, visit);
}

std::string json_string(const std::string& text) {
  using handling = nlohmann::json::error_handler_t;  // a file may hold anything
  return nlohmann::json(text).dump(-1, ' ', false, handling::replace);
}

std::string json_text(const json_value& value) {
  if (value.is_null()) return "null";
  if (const bool* flag = value.boolean()) return *flag ? "true" : "false";
  if (const std::int64_t* whole = value.integer()) return std::to_string(*whole);
  if (const double* number = std::get_if<double>(&value.data)) {
    return nlohmann::json(*number).dump();
  }
  if (const std::string* text = value.text()) return json_string(*text);
  std::string result;
  if (const json_value::array* items = value.items()) {
    for (const json_value& item : *items) result += (result.empty() ? "" : ",") + json_text(item);
    return "[" + result + "]";
  }
  for (const auto& [key, member] : *value.members()) {
    result += (result.empty() ? "" : ",") + json_string(key) + ":" + json_text(member);
  }
  return "{" + result + "}";
}

}  // namespace unmask
