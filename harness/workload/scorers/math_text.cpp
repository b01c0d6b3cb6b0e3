// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/math_text.h"

#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"

namespace unmask::scorers {
using py::replace_all;
namespace {

// The character that begins a text, all its bytes; "" of an empty text.
std::string_view first_character(std::string_view text) {
  return text.empty() ? text : text.substr(0, py::decode_utf8(text, 0).bytes);
}

std::string without_all(std::string text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) text = replace_all(text, part, "");
  return text;
}

std::string fixed_roots(std::string_view text) {
  std::string out;
  for (const std::string_view part : py::split(text, "\\sqrt")) {
    if (part.data() == text.data()) {
      out += part;
      continue;
    }
    if (part.empty()) throw python_exception{"IndexError"};
    const std::string_view first = first_character(part);
    out += "\\sqrt";
    out += first == "{" ? std::string(part)
                        : "{" + std::string(first) + "}" + std::string(part.substr(first.size()));
  }
  return out;
}

std::string before_unit(const std::string& text) {
  const auto parts = py::split(text, "\\text{ ");
  if (parts.size() > 2) throw python_exception{"AssertionError"};
  return std::string(parts[0]);
}

}  // namespace

std::optional<std::string> last_boxed_command(std::string_view text) {
  std::size_t begin = text.rfind("\\boxed");
  if (begin == std::string_view::npos) begin = text.rfind("\\fbox");
  if (begin == std::string_view::npos) return {};
  int open = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '{') ++open;
    if (text[at] == '}' && --open == 0) return std::string(text.substr(begin, at + 1 - begin));
  }
  return {};
}

std::optional<std::string> without_box(std::string_view command) {
  constexpr std::string_view left = "\\boxed{";
  if (!command.starts_with(left) || !command.ends_with('}')) return {};
  return std::string(command.substr(left.size(), command.size() - left.size() - 1));
}

std::string fixed_fractions(std::string_view text, bool lenient) {
  std::string out;
  for (const std::string_view part : py::split(text, "\\frac")) {
    if (part.data() == text.data()) {
      out += part;
      continue;
    }
    out += "\\frac";
    if (part.empty() && !lenient) throw python_exception{"IndexError"};
    if (part.starts_with('{')) {
      out += part;
      continue;
    }
    const std::string_view a = first_character(part);
    const std::string_view b = first_character(part.substr(a.size()));
    if (b.empty()) return std::string(text);
    const std::string_view rest = part.substr(a.size() + b.size());
    out += "{" + std::string(a) + "}";
    out += b == "{" ? "{" : "{" + std::string(b) + "}";
    out += rest;
  }
  return out;
}

std::string fixed_slash(std::string_view text) {
  const auto parts = py::split(text, "/");
  if (parts.size() != 2) return std::string(text);
  const auto a = py::parse_int(parts[0]), b = py::parse_int(parts[1]);
  if (!a || !b) throw python_exception{"ValueError"};
  return text == *a + "/" + *b ? "\\frac{" + *a + "}{" + *b + "}" : std::string(text);
}

std::string stripped_math(std::string_view raw, bool lenient) {
  std::string text = without_all(std::string(raw), {"\n", "\\!"});
  text = replace_all(text, "\\\\", "\\");
  text = replace_all(replace_all(text, "tfrac", "frac"), "dfrac", "frac");
  text = without_all(text, {"\\left", "\\right", "^{\\circ}", "^\\circ", "\\$"});
  text = replace_all(before_unit(text), "\\%", "");
  text = replace_all(replace_all(text, " .", " 0."), "{.", "{0.");
  if (text.empty()) return text;
  if (text[0] == '.') text = "0" + text;
  if (const auto sides = py::split(text, "="); sides.size() == 2 && py::length(sides[0]) <= 2) {
    text = std::string(sides[1]);
  }
  text = replace_all(fixed_roots(text), " ", "");
  text = fixed_fractions(text, lenient);
  if (text == "0.5") text = "\\frac{1}{2}";
  return fixed_slash(text);
}

std::string hendrycks_strip(std::string_view text) {
  return stripped_math(text, false);
}

bool hendrycks_equal(std::string_view a, std::string_view b) {
  try {
    return hendrycks_strip(a) == hendrycks_strip(b);
  } catch (const python_exception&) {
    return a == b;
  }
}

}  // namespace unmask::scorers
