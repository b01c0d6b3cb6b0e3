// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/math_object.h"

#include <algorithm>
#include <array>
#include <optional>

#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/latex_parser.h"

namespace unmask::scorers {
namespace {

using kind = math_object::kind;

// Calls visit(at) for every byte outside of (), [], {} and \{\}; stops when it returns true.
template <class Visit>
void at_top_level(std::string_view text, Visit visit) {
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && visit(at)) return;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
  }
}

// 1,234.5: only where nothing else is in the text do commas belong to a number.
bool is_long_number(std::string_view text) {
  static const py::pattern form(R"(^-?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?$)");
  return !text.ends_with('\n') && form.match_at_start(text).has_value();
}

// The parts between commas and semicolons; not those of the blanks \, and \;.
std::vector<std::string_view> members_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  at_top_level(text, [&](std::size_t at) {
    const bool blank = at > 0 && text[at - 1] == '\\';
    if (!blank && (text[at] == ',' || text[at] == ';')) {
      parts.push_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
    return false;
  });
  parts.push_back(text.substr(begin));
  return parts;
}

struct comparison {
  std::size_t at, length;
  const char* sign;
};

std::optional<comparison> next_comparison(std::string_view text, std::size_t from) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 15> commands = {
      {{"\\leq", "<="},
       {"\\le", "<="},
       {"\\geq", ">="},
       {"\\ge", ">="},
       {"\\neq", "!="},
       {"\\ne", "!="},
       {"\\in", "="},
       {"\\lt", "<"},
       {"\\gt", ">"},
       {"≤", "<="},
       {"≥", ">="},
       {"≠", "!="},
       {"=", "="},
       {"<", "<"},
       {">", ">"}}};
  std::optional<comparison> found;
  at_top_level(text, [&](std::size_t at) {
    if (at < from) return false;
    for (const auto& [name, sign] : commands) {
      if (!text.substr(at).starts_with(name)) continue;
      const std::size_t end = at + name.size();
      const bool longer =
          name[0] == '\\' && end < text.size() &&
          ((text[end] >= 'a' && text[end] <= 'z') || (text[end] >= 'A' && text[end] <= 'Z'));
      if (longer) continue;
      found = comparison{at, name.size(), sign};
      return true;
    }
    return false;
  });
  return found;
}

// "x \in A", which brackets may not enclose.
bool has_membership(std::string_view text) {
  for (auto c = next_comparison(text, 0); c; c = next_comparison(text, c->at + c->length)) {
    if (text.substr(c->at).starts_with("\\in")) return true;
  }
  return false;
}

math_object expression(std::string_view text) {
  std::string plain = py::replace_all(py::replace_all(text, "^{\\circ}", ""), "^\\circ", "");
  if (is_long_number(py::strip(plain))) plain = py::replace_all(plain, ",", "");
  // A base without braces takes all digits, and then the argument is missing: \log_23.
  static const py::pattern bare_log(R"(\\log_[0-9]{2,}\s*([-+*/=<>,;:)\]}^]|$))");
  if (bare_log.search(plain)) throw latex_refused{};
  std::string_view rest = py::strip(plain);
  const bool percent = rest.ends_with('%');
  if (percent) rest = py::strip(rest.substr(0, rest.size() - (rest.ends_with("\\%") ? 2 : 1)));
  if (percent && rest.ends_with(')')) throw latex_refused{};  // the sign belongs to a bare number
  if (rest.ends_with('.')) throw latex_refused{};
  formula_ptr value = parse_verify_latex(rest);
  if (!percent) return {.value = value};
  if (value->type != formula::kind::number) throw latex_refused{};
  return {.value = make_number(value->value / 100, value->decimal)};
}

// \( and \) as the parentheses that they are there, and signs that have no command.
std::string with_plain_signs(std::string_view text) {
  static constexpr std::pair<const char*, const char*> signs[] = {
      {"×", "\\times "}, {"⋅", "\\cdot "}, {"÷", "\\div "}, {"−", "-"}, {"π", "\\pi "}};
  std::string out;
  std::vector<bool> open;  // of each parenthesis: has a backslash
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool slash = text[at] == '\\' && at + 1 < text.size();
    if (slash && text[at + 1] == '\\') {
      out += text.substr(at++, 2);
      continue;
    }
    const bool marked = slash && (text[at + 1] == '(' || text[at + 1] == ')');
    if (marked) ++at;
    if (text[at] == '(') open.push_back(marked);
    if (text[at] == ')' && !open.empty()) {
      if (open.back() != marked) throw latex_refused{};
      open.pop_back();
    }
    out += text[at];
  }
  for (const auto& [sign, command] : signs) out = py::replace_all(out, sign, command);
  return out;
}

std::vector<math_object> objects_of(const std::vector<std::string_view>& parts) {
  std::vector<math_object> all;
  for (const std::string_view part : parts) {
    if (py::strip(part).empty()) throw latex_refused{};
    all.push_back(parse_math_object(part));
  }
  return all;
}

bool is_infinite(const math_object& o, bool negative) {
  if (o.type != kind::expression) return false;
  const auto text = reduced_text(*o.value);
  return text && *text == (negative ? "-1*$~infty^1" : "1*$~infty^1");
}

// Ends in order: an interval; the other way round or equal and open: a tuple; equal and closed: a
// set of one. Symbols count as in order.
math_object bracketed(std::string_view text) {
  const bool left = text.front() == '(', right = text.back() == ')';
  std::vector<math_object> items = objects_of(members_of(text.substr(1, text.size() - 2)));
  if (items.size() != 2) return {.type = kind::tuple, .items = std::move(items)};
  for (const math_object& item : items) {
    if (item.type != kind::expression) return {.type = kind::tuple, .items = std::move(items)};
  }
  const bool endless = is_infinite(items[0], true) || is_infinite(items[1], false);
  const bool symbols = contains(*items[0].value, formula::kind::symbol) ||
                       contains(*items[1].value, formula::kind::symbol);
  if (!endless && !symbols) {
    const auto a = numeric_value(*items[0].value, 1), b = numeric_value(*items[1].value, 1);
    if (!a || !b) throw latex_unsupported{};
    if (a->real() > b->real()) return {.type = kind::tuple, .items = std::move(items)};
    if (compare(items[0].value, items[1].value) != sameness::different) {
      if (!left && !right) return {.type = kind::set, .items = {items[0]}};
      return {.type = kind::tuple, .items = std::move(items)};
    }
  }
  return {
      .type = kind::interval, .items = std::move(items), .left_open = left, .right_open = right};
}

// The text between the first and the last character when these belong together.
bool encloses(std::string_view text, std::string_view open, std::string_view close) {
  if (text.size() < open.size() + close.size() || !text.starts_with(open) ||
      !text.ends_with(close)) {
    return false;
  }
  int depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ')' || c == ']' || c == '}') && --depth == 0 && at + 1 < text.size()) return false;
  }
  return true;
}

std::string_view inner_of(std::string_view text) {
  return text.substr(1, text.size() - 2);
}

std::optional<math_object> matrix(std::string_view text) {
  static const py::pattern form(R"(^\\begin\{([pb]?matrix)\}(.*)\\end\{([pb]?matrix)\}$)",
                                py::pattern::dot_all);
  const auto m = form.match_at_start(text);
  if (!m) return {};
  math_object result{.type = kind::matrix};
  for (const std::string_view row : py::split((*m)[2], "\\\\")) {
    if (py::strip(row).empty()) continue;
    math_object line{.type = kind::tuple};
    for (const std::string_view cell : py::split(row, "&")) line.items.push_back(expression(cell));
    result.items.push_back(std::move(line));
  }
  return result;
}

std::optional<math_object> word(std::string_view text) {
  const std::size_t open = text.starts_with("\\text{") || text.starts_with("\\mbox{") ? 6 : 0;
  if (open == 0 || text.find('}', open) != text.size() - 1) return {};
  std::string name(text.substr(open, text.size() - open - 1));
  for (const char* dropped : {" ", "(", ")"}) name = py::replace_all(name, dropped, "");
  if (name.empty() || name.find_first_of("\\{}$_^") != std::string::npos) throw latex_unsupported{};
  return math_object{.type = kind::word, .text = name};
}

// x = 1, y < 2 < z: neighbours in pairs.
std::optional<math_object> chain(std::string_view text) {
  auto sign = next_comparison(text, 0);
  if (!sign) return {};
  math_object all{.type = kind::all_of};
  std::size_t begin = 0;
  std::optional<math_object> before;
  std::string relation;
  for (;;) {
    const std::size_t end = sign ? sign->at : text.size();
    const std::string_view side = py::strip(text.substr(begin, end - begin));
    if (side.empty()) throw latex_refused{};
    math_object here = parse_math_object(side);
    if (before) {
      all.items.push_back({.type = kind::relation, .text = relation, .items = {*before, here}});
    }
    if (!sign) break;
    before = here;
    relation = sign->sign;
    begin = sign->at + sign->length;
    sign = next_comparison(text, begin);
  }
  return all.items.size() == 1 ? all.items.front() : all;
}

// "x = 1, 2": both values belong to x.
math_object listed(const std::vector<std::string_view>& parts) {
  std::vector<math_object> items = objects_of(parts);
  const bool rest_plain = std::all_of(items.begin() + 1, items.end(), [](const math_object& o) {
    return o.type == kind::expression || o.type == kind::word;
  });
  math_object& first = items.front();
  if (first.type == kind::relation && first.text == "=" && rest_plain) {
    math_object values{.type = kind::set, .items = {first.items[1]}};
    values.items.insert(values.items.end(), items.begin() + 1, items.end());
    return {.type = kind::relation, .text = "=", .items = {first.items[0], values}};
  }
  return {.type = kind::set, .items = std::move(items)};
}

std::vector<std::string_view> united_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  at_top_level(text, [&](std::size_t at) {
    if (!text.substr(at).starts_with("\\cup")) return false;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 4;
    return false;
  });
  parts.push_back(text.substr(begin));
  return parts;
}

math_object united(std::string_view text) {
  math_object all{.type = kind::united};
  for (const std::string_view part : united_parts(text)) {
    if (py::strip(part).empty()) throw latex_refused{};
    math_object o = parse_math_object(part);
    if (o.type != kind::interval) throw latex_unsupported{};
    all.items.push_back(std::move(o));
  }
  return all;
}

// a \pm b: both values.
std::optional<math_object> plus_minus(std::string_view text) {
  std::size_t found = std::string_view::npos;
  at_top_level(text, [&](std::size_t at) {
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with("\\pm") && !rest.starts_with("\\mp")) return false;
    found = at;
    return true;
  });
  if (found == std::string_view::npos) return {};
  if (py::strip(text.substr(0, found)).empty()) throw latex_refused{};
  const math_object left = expression(text.substr(0, found));
  const math_object right = expression(text.substr(found + 3));
  return math_object{.type = kind::set,
                     .items = {{.value = make_sum(left.value, right.value)},
                               {.value = make_sum(left.value, make_negative(right.value))}}};
}

}  // namespace

math_object parse_math_object(std::string_view latex) {
  const std::string plain = with_plain_signs(latex);
  const std::string_view text = py::strip(plain);
  if (text.empty()) throw latex_refused{};
  if (auto m = matrix(text)) return *m;
  if (auto w = word(text)) return *w;
  // Only ASCII's blanks separate anything there.
  for (const char32_t c : py::decode(text)) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (py::is_space(c) && !blank && !py::contains(text, "\\text")) throw latex_refused{};
  }
  if (text == "\\emptyset" || text == "\\{\\}") return {.type = kind::set};
  if (py::contains(text, "\\mathbb")) throw latex_unsupported{};
  if (united_parts(text).size() > 1 && !next_comparison(text, 0)) return united(text);
  if (encloses(text, "\\{", "\\}")) {
    return {.type = kind::set, .items = objects_of(members_of(text.substr(2, text.size() - 4)))};
  }
  const auto parts = members_of(text);
  if (parts.size() > 1 && !is_long_number(text)) return listed(parts);
  if (auto relation = chain(text)) return *relation;
  if (encloses(text, "{", "}")) {
    math_object braced{.type = kind::set, .items = objects_of(members_of(inner_of(text)))};
    if (braced.items.size() != 1) return braced;
    if (braced.items[0].type == kind::united) throw latex_refused{};
    return plus_minus(inner_of(text)) ? braced.items[0] : braced;
  }
  const bool opens = text[0] == '(' || text[0] == '[';
  const bool closes = text.back() == ')' || text.back() == ']';
  if (opens && closes && encloses(text, text.substr(0, 1), text.substr(text.size() - 1))) {
    if (members_of(inner_of(text)).size() > 1) return bracketed(text);
    if (has_membership(inner_of(text))) throw latex_refused{};
    const math_object inner = parse_math_object(inner_of(text));
    if (inner.type != kind::expression || py::strip(inner_of(text)).ends_with('%')) return inner;
  }
  if (auto both = plus_minus(text)) return *both;
  return expression(text);
}

}  // namespace unmask::scorers
