// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/math_verify_text.h"

#include <algorithm>
#include <array>

#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/math_text.h"

namespace unmask::scorers {
using py::pattern;
using py::replace_all;
namespace {

enum class boxes { all, last };

// The end of the braces that open at `at`; npos when they stay open before `limit`.
std::size_t closing_brace(std::string_view text, std::size_t at, std::size_t limit) {
  int open = 0;
  for (; at < limit; ++at) {
    if (text[at] == '{') ++open;
    if (text[at] == '}' && --open == 0) return at;
  }
  return std::string_view::npos;
}

// Contents of \boxed{} and \fbox{} from right to left: all of them, or the last and those that
// only "and", "or" or a comma separates from it. The text itself where there is none.
std::string without_boxes(std::string_view text, boxes mode) {
  static const pattern separator(R"(^\s*(?:and|or|,)\s*$)");
  std::vector<std::string> found;
  std::size_t limit = text.size(), later = std::string_view::npos;
  for (;;) {
    const std::string_view before = text.substr(0, limit);
    const std::size_t boxed = before.rfind("\\boxed"), fbox = before.rfind("\\fbox");
    if (boxed == std::string_view::npos && fbox == std::string_view::npos) break;
    const bool is_boxed =
        fbox == std::string_view::npos || (boxed != std::string_view::npos && boxed > fbox);
    const std::size_t begin = is_boxed ? boxed : fbox;
    std::size_t open = begin + (is_boxed ? 6 : 5);
    while (open < limit && py::is_space(static_cast<unsigned char>(text[open]))) ++open;
    if (open >= limit) break;
    const std::size_t end =
        text[open] == '{' ? closing_brace(text, open, limit) : std::string_view::npos;
    if (end == std::string_view::npos) {
      if (found.empty()) found.emplace_back(text.substr(open));
      break;
    }
    const bool joined = later == std::string_view::npos || mode == boxes::all ||
                        separator.match_at_start(text.substr(end + 1, later - end - 1));
    if (!joined) break;
    found.emplace_back(py::strip(text.substr(open + 1, end - open - 1)));
    later = limit = begin;
  }
  if (found.empty()) return std::string(text);
  std::ranges::reverse(found);
  return py::join(found, ",");
}

// The replacements of one pass: the leftmost place, and there the first pattern of the list.
std::string with_replacements(const std::string& text) {
  static const std::array<std::pair<const char*, const char*>, 17> list = {
      {{R"(\\math(?:rm|it|bf))", "\\text"},
       {R"(\\text(?:normal|bf|it|rm))", "\\text"},
       {R"(\\(?:d|t|c)frac)", "\\frac"},
       {R"(\s\.)", " 0."},
       {R"(\{\.)", "{0."},
       {R"(\~\=)", "\\approx"},
       {R"(\s*\{\s*,\s*\})", ","},
       {R"((?<!\w)(?:and|or)(?!\w))", ";"},
       {R"(\\text\{\s*(?:and|or)\s*\})", ";"},
       {R"((?<!\\)\\\s)", " "},
       {"infinity", "\\infty"},
       {R"(,?\\ldots)", " "},
       {R"(\s*percent)", "\\\\%"},
       {R"(\\text\{percent\})", "\\\\%"},
       {R"((?<!\\)inf(?!inity))", "\\infty"},
       {" sqrt", "\\sqrt"},
       {R"((?!))", ""}}};
  static const pattern any = [] {
    std::string all;
    for (const auto& [from, to] : list) all += (all.empty() ? "(" : "|(") + std::string(from) + ")";
    return pattern(all);
  }();
  return any.sub(text, [](const py::match& m) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (m.has(i + 1)) return std::string(list[i].second);
    }
    return std::string();
  });
}

std::string group_one(const pattern& p, std::string_view text) {
  return p.sub(text, [](const py::match& m) { return std::string(m[1]); });
}

std::string basic(std::string text) {
  static const pattern left(
      R"(\\m?left(\\\{|\{|\\\||\||\[|\(|\\rbracl|\\lgroup|\\lbrace|\\lbrack|\\vert|\\lvert|\\lceil|\\lfloor|\\langle|\\llcorner|\\ulcorner))");
  static const pattern right(
      R"(\\m?right(\\\}|\}|\\\||\||\]|\)|\\rbrack|\\rgroup|\\rbrace|\\vert|\\rvert|\\rceil|\\rfloor|\\rangle|\\lrcorner|\\urcorner))");
  static const pattern permutation(R"(\(([a-zA-Z0-9+\-*/\\ ]+?)\)_\{([a-zA-Z0-9+\-*/\\ ]+?)\})");
  static const pattern useless(
      R"(\\mathrm\{th\}|\\!\s*|\\text\s*\{\s*\}|\\\$|\$|(?<!\\)["']|\\displaystyle)");
  static const pattern doubled(R"(\\\\(?=[a-zA-Z]))");
  text = replace_all(text, "\\mathrm{T}", "T");
  text = replace_all(replace_all(text, "\\mathrm{d}", "d"), "{\\rm d}", "d");
  text = replace_all(text, "\\left[\\begin{matrix}", "\\begin{bmatrix}");
  text = replace_all(text, "\\end{matrix}\\right]", "\\end{bmatrix}");
  text = group_one(right, group_one(left, text));
  text = permutation.sub(text, [](const py::match& m) {
    const std::string n(m[1]), k(m[2]);
    return "\\frac{(" + n + ")!}{((" + n + ")-(" + k + "))!}";
  });
  text = with_replacements(useless.sub_text(text, ""));
  text = replace_all(replace_all(text, "\n", " "), "\t", " ");
  return py::contains(text, "matrix") ? text : doubled.sub_text(text, "\\");
}

std::string last_side(const std::string& text) {
  static const pattern equals(R"((?<!\\|\<|\!|\>)=)");
  if (text.find_first_of(",;") != std::string::npos) return text;
  const auto sides = equals.split(text);
  return sides.size() > 2 ? std::string(sides.back()) : text;
}

std::string without_units(std::string text) {
  static const pattern unit(R"((\\(?:text|mbox)\{.*?\})(\^\d|\{\^\d\})?$)");
  // Of the published units only this one begins with the white space that its pattern asks for.
  static const pattern east(R"((?=\s) m east(?:s|es)?($|\W))");
  static const pattern empty_text(R"(\\text\s*\{\s*\})");
  const std::string bare(py::strip(unit.sub_text(text, "")));
  if (!bare.empty()) text = bare;
  for (int i = 0; i < 2; ++i) {
    const std::string less = east.sub_text(text, "");
    if (!less.empty()) text = less;
  }
  return empty_text.sub_text(text, " ");
}

std::string two_groups(const pattern& p, const std::string& text, const char* name) {
  return p.sub(text, [name](const py::match& m) {
    return std::string(name) + "{" + std::string(m[1]) + "}{" + std::string(m[2]) + "}";
  });
}

// \sqrt and \frac without braces, as the gold may have them.
std::string root_braces(const std::string& text) {
  std::string out;
  for (std::string_view part : py::split(text, "\\sqrt")) {
    if (out.empty() && part.data() == text.data()) {
      out += part;
      continue;
    }
    part = py::lstrip(part);
    const bool bare = !part.empty() && part[0] != '{' && part[0] != '[';
    const std::size_t n = bare ? py::decode_utf8(part, 0).bytes : 0;
    out += "\\sqrt";
    if (bare) out += "{" + std::string(part.substr(0, n)) + "}";
    out += part.substr(n);
  }
  return out;
}

std::string fraction_braces(const std::string& text) {
  std::string spaced;
  for (const std::string_view part : py::split(text, "\\frac")) {
    spaced +=
        part.data() == text.data() ? std::string(part) : "\\frac" + std::string(py::lstrip(part));
  }
  const std::string fixed = fixed_fractions(spaced, true);
  return fixed == spaced && !py::contains(spaced, "\\frac{") ? text : fixed;
}

std::string repaired(std::string text) {
  static const pattern power(R"(\^\s?\((.*?)\))"), call(R"(sqrt\s?\((.*?)\))");
  static const pattern digits(R"(\\frac\s?(\d)\s?(\d+))"), log(R"(\\log_\s?(\d)\s?(\d+))");
  static const pattern first(R"(\\frac\s?\{(.*?)\}\s?(\d))"),
      second(R"(\\frac\s?(\d)\s?\{(.*?)\})");
  static const pattern root(R"(\\sqrt\s?(\d))");
  text = power.sub(text, [](const py::match& m) { return "^{" + std::string(m[1]) + "}"; });
  text = call.sub(text, [](const py::match& m) { return "\\sqrt{" + std::string(m[1]) + "}"; });
  text = two_groups(digits, text, "\\frac");
  text = log.sub(text, [](const py::match& m) {
    return "\\log_{" + std::string(m[1]) + "}{" + std::string(m[2]) + "}";
  });
  text = two_groups(second, two_groups(first, text, "\\frac"), "\\frac");
  text = root.sub(text, [](const py::match& m) { return "\\sqrt{" + std::string(m[1]) + "}"; });
  text = fraction_braces(root_braces(replace_all(text, " sqrt", "\\sqrt")));
  try {
    return fixed_slash(text);
  } catch (const python_exception&) {
    return text;
  }
}

std::string normal(std::string_view latex, boxes mode, bool gold) {
  std::string text = without_units(last_side(basic(without_boxes(latex, mode))));
  if (gold) {
    if (text.starts_with('.')) text = "0" + text;
    if (text == "0.5") text = "\\frac{1}{2}";
    text = repaired(text);
  }
  return std::string(py::strip(text));
}

// One environment of LaTeX: five kinds (a bare fraction too, unless boxed), then a percent sign.
constexpr std::size_t boxed_groups = 6, plain_groups = 7;

std::string environment(bool boxed) {
  std::array<std::string, 5> inner = {R"((?:[^$]|\$(?!\$)))", R"((?:[^\\]|\\(?!\])))",
                                      R"((?:\\[$]|[^\n$]))", R"((?:[^\\\n]|\\(?!\))))",
                                      R"([^\n\]\[])"};
  for (std::string& c : inner) {
    c = boxed ? c + "*?\\\\boxed\\{" + c + "+?\\}" + c + "*?" : c + "+?";
  }
  std::string all = R"((?:(?:(?<!\\)\$\$()" + inner[0] + R"()(?<!\\)\$\$|(?<!\\)\\\[()" + inner[1] +
                    R"()(?<!\\)\\\]|(?<!\\|\d)\$()" + inner[2] + R"()(?<!\\)\$|(?<!\\)\\\(()" +
                    inner[3] + R"()(?<!\\)\\\)|\s\[()" + inner[4] + R"()\]\s)";
  if (!boxed) {
    const std::string number = R"(-?\d+(?:[.,]\d+)?)";
    all += R"(|(-?\\frac\{)" + number + R"(\}\{)" + number + R"(\}))";
  }
  return all + R"()\s*((?:\\?%|[Pp]ercent|[Pp]ercentage|[Pp]ct))?))";
}

std::string environments(bool boxed) {
  std::string all = "(?:" + environment(boxed);
  for (int i = 1; i <= 5; ++i) all += R"((?:\s*(?:and|or|,)\s*)" + environment(boxed) + ")?";
  return all + ")";
}

struct way {
  pattern regex;
  std::size_t groups;  // of one environment; 0: the whole is \boxed{...
};

const std::vector<std::vector<way>>& ways() {
  static const std::vector<std::vector<way>> by_priority = [] {
    const auto make = [](const std::string& text, std::size_t groups) {
      return way{pattern(text, pattern::dot_all), groups};
    };
    const std::string plain = environments(false);
    std::vector<std::vector<way>> all(4);
    all[0] = {make(R"((?i:final answer is)\:?\s*)" + plain + R"(\.?\s?I hope)", plain_groups),
              make(environments(true), boxed_groups), make(R"((\\boxed\{.+\}))", 0)};
    all[1] = {make(R"((?i:final answer.{0,100}?)\s+is\:?\s*)" + plain, plain_groups)};
    all[2] = {make("(?i:answer):.{0,50}?" + plain, plain_groups)};
    all[3] = {make("(?i:answer).{0,50}?" + plain, plain_groups)};
    return all;
  }();
  return by_priority;
}

std::vector<found_formula> formulas_of(const py::match& m, std::size_t groups) {
  if (groups == 0) return {{normal(m[1], boxes::last, false)}};
  std::vector<found_formula> all;
  for (std::size_t e = 0; e < 6; ++e) {
    for (std::size_t g = 1; g < groups; ++g) {
      const std::size_t at = e * groups + g;
      if (m[at].empty()) continue;
      all.push_back({normal(m[at], boxes::all, false), !m[e * groups + groups].empty()});
      break;
    }
  }
  return all;
}

}  // namespace

std::vector<found_formula> formulas_in(std::string_view response) {
  for (const std::vector<way>& group : ways()) {
    std::vector<std::pair<py::match, std::size_t>> found;
    for (const way& w : group) {
      for (py::match& m : w.regex.find_all(response)) found.emplace_back(std::move(m), w.groups);
    }
    if (found.empty()) continue;
    // The one that ends last, and of those the one that begins first.
    const auto best = std::ranges::max_element(found, [](const auto& a, const auto& b) {
      if (a.first.end() != b.first.end()) return a.first.end() < b.first.end();
      return a.first.begin() > b.first.begin();
    });
    return formulas_of(best->first, best->second);
  }
  return {};
}

std::vector<found_formula> formulas_in_gold(std::string_view reference) {
  if (reference.empty()) return {};
  return {{normal(reference, boxes::all, true)}};
}

}  // namespace unmask::scorers
