// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The normalisation of Minerva's appendix D, which lm-eval and OpenCompass carry in variants, and
// OpenCompass' two ways to compare answers with it.
#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/math_text.h"

namespace unmask::scorers {
using py::pattern;
using py::replace_all;
namespace {

// The published lists. "\\le" is OpenCompass' own addition (`more`), as are the line ends.
std::string without_words(std::string_view raw, bool more) {
  static const std::pair<const char*, const char*> replaced[] = {
      {"an ", ""},          {"a ", ""},
      {".$", "$"},          {"\\$", ""},
      {"\\ ", ""},          {" ", ""},
      {"mbox", "text"},     {",\\text{and}", ","},
      {"\\text{and}", ","}, {"\\text{m}", "\\text{}"}};
  static const char* const removed[] = {"square",       "ways",
                                        "integers",     "dollars",
                                        "mph",          "inches",
                                        "ft",           "hours",
                                        "km",           "units",
                                        "\\ldots",      "sue",
                                        "points",       "feet",
                                        "minutes",      "digits",
                                        "cents",        "degrees",
                                        "cm",           "gm",
                                        "pounds",       "meters",
                                        "meals",        "edges",
                                        "students",     "childrentickets",
                                        "multiples",    "\\text{s}",
                                        "\\text{.}",    "\\text{\ns}",
                                        "\\text{}^2",   "\\text{}^3",
                                        "\\text{\n}",   "\\text{}",
                                        "\\mathrm{th}", "^\\circ",
                                        "^{\\circ}",    "\\;",
                                        ",\\!",         "{,}",
                                        "\"",           "\\dots"};
  std::string text(raw);
  for (const auto& [from, to] : replaced) text = replace_all(text, from, to);
  if (more) text = replace_all(text, "\\le", "<");
  for (const char* word : removed) text = replace_all(text, word, "");
  if (more) {
    for (const char* end : {"\n", "\r", "\f"}) text = replace_all(text, end, "");
  }
  return text;
}

// Each match replaced by its group.
std::string keep_group(const char* regex, std::string_view text, std::size_t group) {
  const pattern p(regex);
  return p.sub(text, [group](const py::match& m) { return std::string(m[group]); });
}

std::string without_commands(std::string text) {
  text = keep_group(R"((\\text\{)(.*?)(\}))", text, 2);
  text = keep_group(R"((\\textbf\{)(.*?)(\}))", text, 2);
  text = keep_group(R"((\\overline\{)(.*?)(\}))", text, 2);
  return keep_group(R"((\\boxed\{)(.*)(\}))", text, 2);
}

// \fracab to \frac{a}{b} and \sqrta to \sqrt{a}; "100,000" to "100000".
std::string with_braces(std::string text) {
  static const pattern frac("(frac)([^{])(.)"), sqrt("(sqrt)([^{])");
  text = frac.sub(text, [](const py::match& m) {
    return "frac{" + std::string(m[2]) + "}{" + std::string(m[3]) + "}";
  });
  text = sqrt.sub(text, [](const py::match& m) { return "sqrt{" + std::string(m[2]) + "}"; });
  text = replace_all(text, "$", "");
  const std::string digits = replace_all(text, ",", "");
  return py::is_digit_text(digits) ? digits : text;
}

// Group 1 of the last match, or the text itself.
std::string last_of(const char* regex, const std::string& text) {
  const auto all = pattern(regex).find_all(text);
  return all.empty() ? text : std::string(all.back()[1]);
}

std::string opencompass_normal(std::string_view answer) {
  std::string text = without_words(answer, true);
  text = keep_group(R"((\\text\{)\((.*?)\)(\}))", text, 2);
  text = without_commands(text);
  text = last_of("finalansweris(.*)", text);
  text = last_of("answer?is:?(.*)", text);
  text = last_of(R"(oxed\{(.*?)\})", text);
  text = last_of(R"(\$(.*?)\$)", text);
  text = std::string(py::strip(text));
  if (py::contains(text, "rac") && !py::contains(text, "\\frac")) {
    text = replace_all(text, "rac", "\\frac");
  }
  return with_braces(text);
}

std::optional<std::string> boxed_answer(std::string_view response) {
  static const pattern doubled(R"(^\{(.*)\}$)");
  const auto command = last_boxed_command(response);
  const auto content = command ? without_box(*command) : std::nullopt;
  if (!content) return {};
  const auto inner = doubled.match_at_start(*content);
  return inner ? std::string((*inner)[1]) : *content;
}

// _strip_string_v2, step by step.
std::string stripped_v2(std::string_view raw) {
  static const pattern end_text(R"(\\text{.*?}$)"), mbox(R"(\\mbox{.*?})");
  static const pattern zeros(R"((\d+)\.0+([^\d]))"), end_zeros(R"((\d+)\.0+$)");
  static const pattern root(R"(\\sqrt(\w+))");
  std::string text = replace_all(py::strip(raw), "\n", "");
  text = std::string(py::rstrip(text, "."));
  text = replace_all(replace_all(text, "\\!", ""), "\\ ", "");
  text = replace_all(replace_all(text, "\\\\", "\\"), "\\\\", "\\");
  text = replace_all(replace_all(text, "tfrac", "frac"), "dfrac", "frac");
  text = replace_all(replace_all(text, "\\left", ""), "\\right", "");
  const std::string without(py::strip(end_text.sub_text(text, "")));
  if (!without.empty()) text = without;
  for (const char* part : {"^{\\circ}", "^\\circ", "\\$", "$", "\\text", "x\\in", "\\%", "%"}) {
    text = replace_all(text, part, "");
  }
  text = replace_all(replace_all(text, " .", " 0."), "{.", "{0.");
  text = replace_all(replace_all(text, "\\cdot", ""), "infinity", "\\infty");
  if (!py::contains(text, "\\infty")) text = replace_all(text, "inf", "\\infty");
  text = replace_all(text, "+\\inity", "\\infty");
  text = replace_all(replace_all(text, "and", ""), "\\mathbf", "");
  text = mbox.sub_text(text, "");
  if (py::contains(text, "j") && !py::contains(text, "i")) text = replace_all(text, "j", "i");
  text = zeros.sub(text, [](const py::match& m) { return std::string(m[1]) + std::string(m[2]); });
  text = end_zeros.sub(text, [](const py::match& m) { return std::string(m[1]); });
  if (text.empty()) return text;
  if (text[0] == '.') text = "0" + text;
  if (const auto sides = py::split(text, "="); sides.size() == 2 && py::length(sides[0]) <= 2) {
    text = std::string(sides[1]);
  }
  text = root.sub(text, [](const py::match& m) { return "\\sqrt{" + std::string(m[1]) + "}"; });
  return fixed_slash(fixed_fractions(replace_all(text, " ", ""), true));
}

}  // namespace

std::string minerva_answer(std::string_view response) {
  static const pattern marked("Final Answer: The final answer is(.*?). I hope it is correct.");
  const std::string text = std::string(response) + "I hope it is correct.";
  const auto found = marked.search(text);
  return found ? std::string(py::strip((*found)[1])) : "[invalidanswer]";
}

std::string minerva_normal(std::string_view answer) {
  static const pattern dollars(R"((.*?)(\$)(.*?)(\$)(.*))");
  const std::size_t equals = answer.rfind('=');
  if (equals != std::string_view::npos) answer.remove_prefix(equals + 1);
  const std::string text = dollars.sub(without_words(answer, false), [](const py::match& m) {
    return "$" + std::string(m[3]) + "$";
  });
  return with_braces(without_commands(text));
}

std::string math_opencompass_answer(std::string_view response, int version) {
  if (version == 2) {
    const auto boxed = boxed_answer(response);
    if (boxed && !boxed->empty()) return *boxed;
  }
  const auto sentences = py::split(response, ".");
  for (const std::string_view sentence : sentences) {
    const std::string lower = py::lower(sentence);
    const bool marked =
        py::contains(lower, "final answer") || (version == 2 && py::contains(lower, "answer is"));
    if (marked) return opencompass_normal(sentence);
  }
  return opencompass_normal(sentences.front());
}

bool math_opencompass_equal(std::string_view a, std::string_view b, int version) {
  const auto stripped = [version](std::string_view text) {
    return version == 1 ? stripped_math(text, true) : stripped_v2(text);
  };
  try {
    const std::string x = stripped(a), y = stripped(b);
    if (x == y || opencompass_normal(x) == opencompass_normal(y)) return true;
  } catch (const python_exception&) {
    // The published function goes on with the texts as they came.
  }
  return opencompass_normal(a) == opencompass_normal(b) || a == b;
}

}  // namespace unmask::scorers
