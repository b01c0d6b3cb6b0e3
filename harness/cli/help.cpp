// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/help.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "harness/base/display.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/devices/build_info.h"

namespace unmask {

std::string version_text() {
  const build_info& build = this_build();
  const std::string cuda = build.cuda_toolkit;
  return fmt::format(
      "{}, commit {}, {}, {}, {}", build.version, commit_text(build), build.build_type,
      build.compiler,
      cuda.empty() ? "CPU only" : "CUDA " + cuda + " for " + build.cuda_architectures);
}

namespace {

constexpr int page_width = 100, meaning_column = 30;

// The words of `text` in lines of page_width, all but the first behind `indent` blanks.
std::string wrapped(const std::string& text, int indent) {
  std::istringstream in(text);
  std::string out;
  int column = indent;
  for (std::string word; in >> word;) {
    const int width = display_width(word);
    if (column > indent && column + 1 + width > page_width) {
      out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
  }
  return out;
}

// Paragraphs: a line that begins with a blank stays as it is.
std::string paragraphs(const std::string& text) {
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    out += (line.starts_with(' ') ? line : wrapped(line, 0)) + "\n";
  }
  return out;
}

std::string option_lines(const option& o) {
  if (is_heading(o)) return "\n" + o.meaning + ":\n";
  const option_words w = spelled_out(o);
  std::string line = w.letter.empty() ? "      " : "  -" + w.letter + ", ";
  line += "--" + w.name + (w.value.empty() ? "" : " " + w.value);
  const auto width = static_cast<std::size_t>(meaning_column);
  if (line.size() + 2 > width) {
    line += "\n" + std::string(width, ' ');
  } else {
    line.resize(width, ' ');
  }
  return line + wrapped(meaning_of(o), meaning_column) + "\n";
}

const option help_option = {"help,h", flag(), "print this text"};

std::string example_lines(const texts& examples) {
  std::string text;
  for (const std::string& e : examples) text += "  unmask " + e + "\n";
  return text;
}

// Text in man(7): no line of it is taken for a request, no sign for an escape.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string roff_option(const option& o) {
  if (is_heading(o)) return ".PP\n" + roff(o.meaning) + ":\n";
  const option_words w = spelled_out(o);
  std::string text = ".TP\n";
  if (!w.letter.empty()) text += "\\fB\\-" + roff(w.letter) + "\\fR, ";
  text += "\\fB\\-\\-" + roff(w.name) + "\\fR";
  if (!w.value.empty()) text += " \\fI" + roff(w.value) + "\\fR";
  return text + "\n" + roff(meaning_of(o)) + "\n";
}

}  // namespace

const std::vector<exit_meaning>& exit_codes() {
  static const std::vector<exit_meaning> all = {
      {0, "success"},
      {1,
       "a measurement failed: a run is FAILED or INVALID, a method cannot decode the model, or "
       "planned points have no row"},
      {2, "wrong command line or file: an unknown option, name or key, or an impossible setting"},
      {3,
       "something is missing: a file, device, package, tool or memory; or output did not reach "
       "its file"},
      {4, "success, but two runs differ or a claim is not fully supported"}};
  return all;
}

std::string help_text(const command_words& words) {
  const std::string name = words.usage.substr(0, words.usage.find(' '));
  std::string text = "usage: unmask " + words.usage + "\n";
  const command& c = command_named(name);
  text += std::string("\n") + c.summary + "\n";
  if (!words.about.empty()) text += "\n" + paragraphs(words.about);
  if (words.options.empty() || !is_heading(words.options.front())) text += "\noptions:\n";
  for (const option& o : words.options) text += option_lines(o);
  text += option_lines(help_option);
  if (!words.ending.empty()) text += "\n" + paragraphs(words.ending);
  text += c.examples.size() > 1 ? "\nexamples:\n" : "\nexample:\n";
  return text + example_lines(c.examples);
}

std::string program_help() {
  std::string text =
      "unmask: benchmark and profile decoding methods for diffusion language models\n\n"
      "usage: unmask COMMAND [options]        unmask help COMMAND shows options and examples\n\n";
  std::size_t width = 0;
  for (const command& c : commands()) width = std::max(width, std::string_view(c.name).size());
  std::string group;
  for (const command& c : commands()) {
    if (group != c.group) text += (group.empty() ? "" : "\n") + std::string(c.group) + ":\n";
    group = c.group;
    text += fmt::format("  {:<{}}  {}\n", c.name, width, c.summary);
  }
  text += "\nunmask --version prints the commit and the build\n\nstart with:\n";
  for (const char* name : {"run", "generate", "bench"}) {
    text += example_lines({command_named(name).examples.front()});
  }
  text += "\nexit codes:\n";
  for (const exit_meaning& e : exit_codes()) {
    text += fmt::format("  {}  {}\n", e.code, wrapped(e.meaning, 5));
  }
  return text;
}

std::string manual_page() {
  std::string text =
      ".\\\" Made by `unmask man` from the option tables of the program.\n"
      ".TH UNMASK 1\n.SH NAME\nunmask \\- benchmark and profile decoding methods for diffusion "
      "language models\n.SH SYNOPSIS\n.B unmask\n.I COMMAND\n[options]\n.SH COMMANDS\n";
  for (const command& c : commands()) {
    const command_words words = words_of(c);
    text += ".SS " + roff(words.usage.empty() ? c.name : words.usage) + "\n";
    text += roff(c.summary) + ".\n";
    for (const option& o : words.options) text += roff_option(o);
    text += ".PP\nExamples:\n.PP\n.nf\n";
    for (const std::string& e : c.examples) text += roff("    unmask " + e) + "\n";
    text += ".fi\n";
  }
  text += ".SH EXIT STATUS\n";
  for (const exit_meaning& e : exit_codes()) {
    text += fmt::format(".TP\n.B {}\n{}\n", e.code, roff(e.meaning));
  }
  text += ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] : std::map<std::string, std::string>{
           {"UNMASK_MODELS", "folders of checkpoints, separated by colons"},
           {"UNMASK_DATASETS", "folders of benchmark data and traces, separated by colons"},
           {"UNMASK_PYTHON", "the Python that runs the package behind some commands"},
           {"NO_COLOR", "set: no colours"}}) {
    text += ".TP\n.B " + roff(name) + "\n" + roff(meaning) + "\n";
  }
  return text;
}

}  // namespace unmask
