// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask completion, help and man: what is made from the tables of all commands.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/run_keys.h"
#include "harness/cli/command.h"
#include "harness/cli/help.h"
#include "harness/cli/options.h"
#include "harness/decode/registry.h"

namespace unmask {
namespace {

// Words that an option takes; those with others take files.
const std::map<std::string, texts>& values_of_options() {
  static const std::map<std::string, texts> all = {
      {"method", method_registry::instance().names()},
      {"device", find_run_key("device")->choices()},
      {"format", {"md", "csv", "latex", "json"}},
      {"tool", {"phases", "nvtx", "cupti", "nsys", "ncu"}},
      {"scale", {"tiny", "scores", "real", "shapes", "full"}},
      {"view", {"rows", "paired", "paper", "parallelism", "phases"}},
      {"gpu", {"a100", "b200", "h100", "h200", "rtx4090", "rtx5090"}},
      {"color", {"auto", "always", "never"}},
      {"scheduler", {"slurm"}},
      {"weights", {"checkpoint", "random:"}}};
  return all;
}

// Words that stand behind a command itself; others take files.
texts words_behind(const std::string& command) {
  if (command == "list") {
    return {"methods", "models", "tasks", "benchmarks", "experiments", "claims"};
  }
  if (command == "completion") return {"bash", "zsh"};
  if (command == "help") return names_in(commands(), &command::name);
  if (command != "show") return {};
  texts all = method_registry::instance().names();
  for (const char* page : {"glossary", "format", "schema"}) all.emplace_back(page);
  return all;
}

texts spellings(const option& o) {
  const option_words w = spelled_out(o);
  texts all = {"--" + w.name};
  if (!w.letter.empty()) all.push_back("-" + w.letter);
  return all;
}

std::string bash_script() {
  std::string options, behind, values;
  std::map<std::string, texts> patterns;  // by the words they take
  for (const command& c : commands()) {
    texts names = {"--help", "-h"};
    for (const option& o : words_of(c).options) {
      if (is_heading(o)) continue;
      for (const std::string& name : spellings(o)) {
        names.push_back(name);
        const auto known = values_of_options().find(spelled_out(o).name);
        if (known == values_of_options().end()) continue;
        patterns[joined(known->second, " ")].push_back(fmt::format("'{} {}'", c.name, name));
      }
    }
    options += fmt::format("    {}) options='{}' ;;\n", c.name, joined(names, " "));
    if (const texts words = words_behind(c.name); !words.empty()) {
      behind += fmt::format("    {}) behind='{}' ;;\n", c.name, joined(words, " "));
    }
  }
  for (const auto& [words, where] : patterns) {
    values += fmt::format("    {}) values='{}' ;;\n", joined(where, "|"), words);
  }
  return fmt::format(
      R"(# Completion of unmask for bash: source <(unmask completion bash)
_unmask() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command=${{COMP_WORDS[1]}} options='' behind='' values=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
    return
  fi
  case $command in
{}  esac
  case $command in
{}  esac
  case "$command $before" in
{}  esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [ "${{word#-}}" != "$word" ]; then
    COMPREPLY=($(compgen -W "$options" -- "$word"))
  elif [ -n "$behind" ]; then
    COMPREPLY=($(compgen -W "$behind" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _unmask unmask
)",
      joined(names_in(commands(), &command::name), " "), options, behind, values);
}

// Text inside '...[text]' of _arguments.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const option& o) {
  const option_words w = spelled_out(o);
  const auto known = values_of_options().find(w.name);
  std::string value;
  if (!w.value.empty()) {
    value = ":" + zsh_text(w.value) + ":" +
            (known == values_of_options().end() ? "_files"
                                                : "(" + zsh_text(joined(known->second, " ")) + ")");
  }
  const bool again = std::holds_alternative<repeated>(o.otherwise);
  std::string lines;
  for (const std::string& name : spellings(o)) {
    lines += fmt::format("        '{}{}[{}]{}' \\\n", again ? "*" : "", name,
                         zsh_text(meaning_of(o)), value);
  }
  return lines;
}

std::string zsh_script() {
  std::string names, cases;
  for (const command& c : commands()) {
    names += fmt::format("    '{}:{}'\n", c.name, zsh_text(c.summary));
    cases += fmt::format("    {})\n      _arguments \\\n", c.name);
    for (const option& o : words_of(c).options) cases += is_heading(o) ? "" : zsh_option(o);
    const texts words = words_behind(c.name);
    cases += words.empty() ? "        '*:file:_files'"
                           : fmt::format("        '*:word:({})'", zsh_text(joined(words, " ")));
    cases += "\n      ;;\n";
  }
  return "#compdef unmask\n# Completion of unmask for zsh: a file _unmask on $fpath, or source "
         "<(unmask completion zsh)\n_unmask() {\n  local -a commands\n  commands=(\n" +
         names +
         "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
         "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n" +
         cases + "  esac\n}\ncompdef _unmask unmask\n";
}

}  // namespace

std::string completion_script(const std::string& shell) {
  find_known("shell", shell, {"bash", "zsh"});
  return shell == "bash" ? bash_script() : zsh_script();
}

int command_completion(const texts& arguments) {
  const command_line line("completion bash|zsh", {}, {"shell"}, arguments,
                          "Load it in bash with: source <(unmask completion bash)");
  write_output(completion_script(line.place("shell", "completion needs a shell: bash or zsh")));
  return 0;
}

int command_man(const texts& arguments) {
  const command_line line("man", {}, {}, arguments, "Read it with: unmask man | man -l -");
  write_output(manual_page());
  return 0;
}

int command_help(const texts& arguments) {
  const command_line line("help [COMMAND]", {}, {"command"}, arguments);
  if (!line.given("command")) {
    write_output(program_help());
    return 0;
  }
  return run_command(command_named(line.list("command").front()), {"--help"});
}

}  // namespace unmask
