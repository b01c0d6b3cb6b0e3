// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/options.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/core.h>
#include <boost/program_options.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/package.h"
#include "harness/base/process.h"
#include "harness/base/run_keys.h"
#include "harness/cli/command.h"
#include "harness/cli/help.h"
#include "harness/cli/terminal.h"
#include "harness/plan/locate.h"

namespace unmask {
namespace po = boost::program_options;
namespace {

struct value_of_option {
  po::value_semantic* operator()(flag) const { return new po::untyped_value(true); }
  po::value_semantic* operator()(repeated) const { return po::value<texts>()->composing(); }
  po::value_semantic* operator()(const std::string& otherwise) const {
    auto* value = po::value<std::string>();
    return otherwise.empty() ? value : value->default_value(otherwise);
  }
  template <class Number>
  po::value_semantic* operator()(Number otherwise) const {
    return po::value<Number>()->default_value(otherwise);
  }
};

// What stands for a value in help, by the option's name; others by their type.
std::string placeholder(const option& o, const std::string& name) {
  static const std::map<std::string, std::string> known = {
      {"output", "PATH"},      {"format", "FORMAT"},
      {"set", "KEY=VALUE"},    {"device", "DEVICE"},
      {"model", "FOLDER"},     {"method", "NAME"},
      {"preset", "NAME"},      {"experiments-dir", "FOLDER"},
      {"artifact", "FILE"},    {"trace", "FILE"},
      {"samples", "FOLDER"},   {"data", "FOLDER"},
      {"plots-dir", "FOLDER"}, {"scale", "SCALE"},
      {"shard", "I/N"},        {"weights", "WEIGHTS"},
      {"tool", "TOOL"},        {"phase", "NAME"},
      {"view", "VIEW"},        {"gpu", "NAME"},
      {"only", "NAME"},        {"prompt-tokens", "N"},
      {"gen-length", "N"},     {"batch-size", "N"},
      {"color", "WHEN"},       {"base", "LABEL"},
      {"task", "NAME"},        {"points", "SELECTOR"},
      {"from", "RUN.json"},    {"confine", "FOLDER"},
      {"pictures", "off"},     {"unread", "accept"},
      {"columns", "NAMES"},    {"where", "KEY=VALUE"},
      {"order", "ORDER"},      {"rule", "RULE.py"},
      {"requests", "FILE"},    {"ranks", "N"}};
  if (std::holds_alternative<flag>(o.otherwise)) return "";
  if (std::holds_alternative<std::int64_t>(o.otherwise)) return "N";
  if (std::holds_alternative<double>(o.otherwise)) return "X";
  const auto at = known.find(name);
  return at == known.end() ? "TEXT" : at->second;
}

// Where words_of() wants the words of the next command_line that is made.
command_words* wanted_words = nullptr;
struct words_given {};

// --gen_length and --gen-length are one option.
texts spelled(texts arguments) {
  for (std::string& a : arguments) {
    if (!a.starts_with("--")) continue;
    const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.find('='), a.size()));
    std::replace(a.begin(), end, '_', '-');
  }
  return arguments;
}

// The options in a help text of the package: "  -o, --output FILE  meaning", or six blanks before an option
// without a letter. The meaning is perhaps on the lines below.
option_table options_in(const std::string& help) {
  static std::deque<std::string> names;  // an option keeps a pointer to its name
  option_table options;
  std::istringstream in(help);
  for (std::string line; std::getline(in, line);) {
    const std::size_t dash = line.find("--");
    const bool has_letter = line.starts_with("  -") && !line.starts_with("  --");
    if (dash == std::string::npos || !(has_letter || line.starts_with("      --"))) {
      const std::size_t first = line.find_first_not_of(' ');
      if (first != std::string::npos && first > 4 && !options.empty()) {
        options.back().meaning += (options.back().meaning.empty() ? "" : " ") + line.substr(first);
      }
      continue;
    }
    const std::size_t end = std::min(line.find_first_of(" ,=", dash), line.size());
    std::string name = line.substr(dash + 2, end - dash - 2);
    if (name == "help") continue;
    if (has_letter) name += std::string(",") + line[3];
    const std::size_t gap = std::min(line.find("  ", end), line.size());
    const std::size_t meaning = line.find_first_not_of(' ', gap);
    names.push_back(name);
    option o{names.back().c_str(), flag(),
             meaning == std::string::npos ? "" : line.substr(meaning)};
    if (gap > end) o.otherwise = no_default;  // a value stands behind the name
    options.push_back(o);
  }
  return options;
}

// Asks the Python package for the help of all its commands at once: starting Python and loading its
// libraries takes a fifth of a second, and completion and manual want every command.
std::map<std::string, std::string> help_of_package() {
  const scratch_folder scratch;
  const std::filesystem::path out = scratch.path() / "help", ignored = scratch.path() / "errors";
  std::map<std::string, std::string> help;
  if (run_process(package_command({"help", "--all"}), out, ignored) != 0) return help;
  std::istringstream in(read_file(out, std::size_t{1} << 20));
  constexpr std::string_view heading = "== ";
  std::string command;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(heading)) {
      command = line.substr(heading.size());
    } else {
      help[command] += line + "\n";
    }
  }
  return help;
}

// Of a command that the Python package answers: what its --help says; none where there is no Python.
command_words words_of_package(const std::string& name) {
  static const std::map<std::string, std::string> help = help_of_package();
  command_words words;
  const auto found = help.find(name);
  if (found == help.end()) return words;
  words.usage = name + " [options]";
  words.options = options_in(found->second);
  return words;
}

}  // namespace

command_words words_of(const command& c) {
  if (c.run == nullptr) return words_of_package(c.name);
  command_words words;
  wanted_words = &words;
  try {
    c.run({"--help"});
  } catch (const words_given&) {
  }
  wanted_words = nullptr;
  return words;
}

option_words spelled_out(const option& o) {
  const std::string name = o.name;
  const std::size_t comma = std::min(name.find(','), name.size());
  const std::string plain = name.substr(0, comma);
  return {comma < name.size() ? name.substr(comma + 1) : "", plain, placeholder(o, plain)};
}

std::string meaning_of(const option& o) {
  const auto with = [&](const std::string& value) {
    return value.empty() || o.meaning.find("(" + value + ": ") != std::string::npos
               ? o.meaning
               : o.meaning + " (default: " + value + ")";
  };
  if (const auto* text = std::get_if<std::string>(&o.otherwise)) return with(*text);
  if (const auto* real = std::get_if<double>(&o.otherwise)) return with(fmt::format("{:g}", *real));
  if (const auto* whole = std::get_if<std::int64_t>(&o.otherwise)) {
    return with(std::to_string(*whole));
  }
  return o.meaning;
}

option heading(const std::string& words) {
  return {"", flag(), words};
}

bool is_heading(const option& o) {
  return *o.name == '\0';
}

struct command_line::parsed {
  po::variables_map values;
};

option_table operator+(option_table all, const option_table& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

option output_option(const std::string& meaning) {
  return {"output,o", no_default, meaning};
}

option format_option(const std::string& meaning) {
  return {"format", std::string("md"), meaning};
}

option_table settings_options() {
  return {{"set", repeated(),
           "override a key of the file: params.threshold=0.9, run.batch_size=4 (repeatable)"},
          device_option()};
}

option ranks_option() {
  return {"ranks", no_default, "run the model on N processes together (run.ranks)"};
}

option device_option() {
  return {"device", no_default,
          "run the kernels of: " + joined(find_run_key("device")->choices()) +
              " (default: auto, cuda if there is a usable GPU, else cpu)"};
}

option_table unread_options() {
  return {{"pictures", no_default,
           "take a model with a picture tower, which is not read, for text only"},
          {"unread", no_default,
           "take a checkpoint with tensors that nothing reads, although they would change "
           "answers"}};
}

option_table paired_options() {
  return {{"margin", 0.02, "count speeds as the same up to this relative difference"},
          {"score-margin", 0.02, "count scores as the same up to this difference, 0 to 1"},
          {"base", no_default, "compare with this label (default: its setting without the sweep)"}};
}

option experiments_option() {
  return {"experiments-dir", no_default,
          "use the experiments, claims, tasks and models of this folder (default: those of the "
          "program)"};
}

std::filesystem::path experiments_folder(const command_line& line) {
  if (line.given("experiments-dir")) return line.text("experiments-dir");
  return shipped_experiments();
}

command_line::command_line(const std::string& usage, const option_table& options,
                           const texts& places, const texts& arguments, const std::string& about,
                           const std::string& ending)
    : parsed_(std::make_unique<parsed>()) {
  if (wanted_words) {
    *std::exchange(wanted_words, nullptr) = {usage, options, places, about, ending};
    throw words_given();
  }
  po::options_description visible("options");
  for (const option& o : options) {
    if (is_heading(o)) continue;
    visible.add_options()(o.name, std::visit(value_of_option(), o.otherwise), o.meaning.c_str());
  }
  visible.add_options()("help,h", "this text");
  po::options_description all = visible;
  po::positional_options_description positions;
  for (const std::string& name : places) {
    const bool list = name.ends_with("...");
    const std::string plain = list ? name.substr(0, name.size() - 3) : name;
    if (!all.find_nothrow(plain, false)) {
      all.add_options()(plain.c_str(), po::value<texts>()->composing());
    }
    positions.add(plain.c_str(), list ? -1 : 1);
  }
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    po::store(po::command_line_parser(spelled(arguments))
                  .options(all)
                  .positional(positions)
                  .style(style)
                  .run(),
              parsed_->values);
    if (given("help")) {
      write_output(help_text({usage, options, places, about, ending}));
      throw help_shown();
    }
    po::notify(parsed_->values);
  } catch (const po::unknown_option& unknown) {
    texts known;
    for (const auto& o : visible.options()) known.push_back(o->long_name());
    std::string wrong = unknown.get_option_name();
    wrong.erase(0, wrong.find_first_not_of('-'));
    throw usage_error(unknown_name("option", wrong, known) + " (usage: unmask " + usage + ")");
  } catch (const po::error& failure) {
    throw usage_error(std::string(failure.what()) + " (usage: unmask " + usage + ")");
  }
}

command_line::~command_line() = default;

bool command_line::given(const std::string& name) const {
  return parsed_->values.count(name) > 0;
}

std::string command_line::text(const std::string& name, const std::string& otherwise) const {
  return given(name) ? parsed_->values[name].as<std::string>() : otherwise;
}

texts command_line::list(const std::string& name) const {
  return given(name) ? parsed_->values[name].as<texts>() : texts{};
}

texts command_line::parts(const std::string& name) const {
  texts all;
  for (const std::string& text : list(name)) {
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
      if (!part.empty()) all.push_back(part);
    }
  }
  return all;
}

std::vector<std::int64_t> command_line::numbers(const std::string& name, std::int64_t least,
                                                std::int64_t most) const {
  std::vector<std::int64_t> all;
  for (const std::string& text : parts(name)) {
    std::int64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size() || value < least ||
        value > most) {
      throw usage_error(
          fmt::format("--{} takes whole numbers from {} to {}, not '{}'", name, least, most, text));
    }
    all.push_back(value);
  }
  return all;
}

std::int64_t command_line::whole(const std::string& name) const {
  return parsed_->values[name].as<std::int64_t>();
}

std::int64_t command_line::within(const std::string& name, std::int64_t least,
                                  std::int64_t most) const {
  const std::int64_t value = at_least(name, least);
  if (value <= most) return value;
  throw usage_error(fmt::format("--{} is {} but must be at most {}", name, value, most));
}

std::int64_t command_line::at_least(const std::string& name, std::int64_t least) const {
  const std::int64_t value = whole(name);
  if (value < least) throw usage_error(fmt::format("--{} is at least {}", name, least));
  return value;
}

double command_line::real(const std::string& name) const {
  return parsed_->values[name].as<double>();
}

std::string command_line::place(const std::string& name, const std::string& missing) const {
  const texts words = list(name);
  if (words.empty()) throw usage_error(missing);
  return words.front();
}

table_format command_line::format() const {
  return parse_table_format(text("format"));
}

texts command_line::settings() const {
  texts all = list("set");
  for (const char* key : {"device", "ranks"}) {
    if (given(key)) all.push_back(std::string("run.") + key + "=" + text(key));
  }
  return all;
}

void command_line::write(const std::string& text) const {
  if (given("output")) {
    replace_file(this->text("output"), shown(text));
  } else {
    print_tables(text);
  }
}

}  // namespace unmask
