// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/traces.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/nearest.h"
#include "harness/base/text.h"

namespace unmask {
namespace {

constexpr std::int64_t most_trace_tokens = 1 << 24;
constexpr std::int64_t most_milliseconds = std::int64_t{1} << 50;

// One line of a CSV file with its columns found by the header's names.
struct csv_line {
  const std::string& path;
  std::size_t number;
  const std::vector<std::string>& header;
  std::vector<std::string_view> fields;

  [[noreturn]] void fail(std::string_view column, const std::string& sentence) const {
    throw environment_error(path + ", line " + std::to_string(number) + ": column `" +
                            std::string(column) + "` " + sentence);
  }
  std::string_view field(std::string_view column) const {
    const auto at = std::find(header.begin(), header.end(), column);
    if (at == header.end()) fail(column, "is missing in the header");
    const auto index = static_cast<std::size_t>(at - header.begin());
    if (index >= fields.size()) fail(column, "is missing");
    return strip(fields[index]);
  }
  std::int64_t tokens(std::string_view column) const {
    const std::string_view text = field(column);
    std::int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc{} || end != text.data() + text.size() || value < 0 ||
        value > most_trace_tokens) {
      fail(column, "is " + in_ticks(text) + "; expected an integer from 0 to " +
                       std::to_string(most_trace_tokens));
    }
    return value;
  }
};

// Quoted fields do not occur in these traces, so a comma always separates.
template <class function>
void for_each_csv_line(const std::string& path, function visit) {
  const std::string text = read_workload_text(path);
  std::vector<std::string> header;
  bool any = false;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (header.empty()) {
      if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
      for (std::string_view name : split(line, ",")) header.emplace_back(strip(name));
      return;
    }
    visit(csv_line{path, number, header, split(line, ",")});
    any = true;
  });
  if (!any) throw environment_error(path + ": holds no requests below a header line");
}

// "2023-11-16 18:15:46.6805900" in seconds since 1970, nullopt when it is anything else. Whole
// seconds stay apart from the fraction so that differences keep all seven digits.
struct moment {
  std::int64_t seconds = 0;
  double fraction = 0;
};
std::optional<moment> parse_moment(std::string_view text) {
  constexpr std::string_view shape = "0000-00-00 00:00:00";
  if (text.size() < shape.size()) return std::nullopt;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == '0' ? !is_digit(text[i]) : text[i] != shape[i]) return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t size) {
    int value = 0;
    for (char c : text.substr(at, size)) value = 10 * value + (c - '0');
    return value;
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  moment result;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  result.seconds = static_cast<std::int64_t>(days) * 86400 + hour * 3600 + minute * 60 + second;
  std::string_view rest = text.substr(shape.size());
  if (rest.empty()) return result;
  rest.remove_prefix(1);
  if (text[shape.size()] != '.' || rest.empty()) return std::nullopt;
  double unit = 1, digits = 0;
  for (char c : rest) {
    if (!is_digit(c) || unit > 1e15) return std::nullopt;
    digits = 10 * digits + (c - '0');
    unit *= 10;
  }
  result.fraction = digits / unit;
  return result;
}

std::vector<trace_request> read_lengths(const std::string& path) {
  std::vector<trace_request> requests;
  for_each_csv_line(path, [&](const csv_line& line) {
    requests.push_back({0, line.tokens("num_prefill_tokens"), line.tokens("num_decode_tokens")});
  });
  return requests;
}

std::vector<trace_request> read_azure(const std::string& path) {
  std::vector<trace_request> requests;
  std::int64_t origin = 0;
  for_each_csv_line(path, [&](const csv_line& line) {
    const auto time = parse_moment(line.field("TIMESTAMP"));
    if (!time) line.fail("TIMESTAMP", "must look like `2023-11-16 18:15:46.6805900`");
    if (requests.empty()) origin = time->seconds;
    requests.push_back({static_cast<double>(time->seconds - origin) + time->fraction,
                        line.tokens("ContextTokens"), line.tokens("GeneratedTokens")});
  });
  return requests;
}

std::vector<trace_request> read_mooncake(const std::string& path) {
  std::vector<trace_request> requests;
  for_each_json_line(path, [&](const json_reader& object, std::size_t) {
    requests.push_back({object.number("timestamp", 0, most_milliseconds) / 1000,
                        object.integer("input_length", 0, most_trace_tokens),
                        object.integer("output_length", 0, most_trace_tokens)});
  });
  return requests;
}

struct trace_reader {
  const char* name;
  std::vector<trace_request> (*read)(const std::string& path);
};
constexpr trace_reader readers[] = {
    {"lengths", read_lengths}, {"azure", read_azure}, {"mooncake", read_mooncake}};

}  // namespace

const std::vector<std::string>& trace_formats() {
  static const std::vector<std::string> names = names_in(readers, &trace_reader::name);
  return names;
}

std::vector<trace_request> read_trace(const std::string& format, const std::string& path) {
  auto requests = readers[find_known("trace format", format, trace_formats())].read(path);
  std::stable_sort(requests.begin(), requests.end(), [](const auto& a, const auto& b) {
    return a.arrival_seconds < b.arrival_seconds;
  });
  const double first = requests.front().arrival_seconds;
  for (trace_request& request : requests) request.arrival_seconds -= first;
  return requests;
}

}  // namespace unmask
