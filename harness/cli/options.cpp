// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/options.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <sstream>

#include <fmt/core.h>
#include <boost/program_options.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/experiment/locate.h"

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

// --gen_length and --gen-length are one option.
texts spelled(texts arguments) {
  for (std::string& a : arguments) {
    if (!a.starts_with("--")) continue;
    const auto end = a.begin() + static_cast<std::ptrdiff_t>(std::min(a.find('='), a.size()));
    std::replace(a.begin(), end, '_', '-');
  }
  return arguments;
}

}  // namespace

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
           "KEY=VALUE by the dotted keys of experiment files (repeatable): params.threshold=0.9, "
           "run.batch_size=4"},
          {"device", no_default, "cpu (default), reference, cuda or cuda-emulated"}};
}

option_table paired_options() {
  return {{"margin", 0.02, "of speed, relative: what counts as the same"},
          {"score-margin", 0.02, "of the score, of 1"},
          {"base", no_default,
           "label that all are compared with; default: each label's setting without the sweep"}};
}

option experiments_option() {
  return {"experiments-dir", no_default,
          "where experiments, claims, tasks and models lie; default: those of the program"};
}

std::filesystem::path experiments_folder(const command_line& line) {
  if (line.given("experiments-dir")) return line.text("experiments-dir");
  return shipped_experiments();
}

command_line::command_line(const std::string& usage, const option_table& options,
                           const texts& places, const texts& arguments, const std::string& epilogue)
    : parsed_(std::make_unique<parsed>()) {
  po::options_description visible("options");
  for (const option& o : options) {
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
      std::cout << "usage: unmask " << usage << "\n\n" << visible << epilogue;
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

std::vector<std::int64_t> command_line::numbers(const std::string& name, std::int64_t least) const {
  std::vector<std::int64_t> all;
  for (const std::string& text : parts(name)) {
    std::int64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc{} || end != text.data() + text.size() || value < least) {
      throw usage_error(
          fmt::format("--{} takes whole numbers of at least {}, not '{}'", name, least, text));
    }
    all.push_back(value);
  }
  return all;
}

std::int64_t command_line::whole(const std::string& name) const {
  return parsed_->values[name].as<std::int64_t>();
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
  if (given("device")) all.push_back("run.device=" + text("device"));
  return all;
}

void command_line::write(const std::string& text) const {
  if (given("output")) {
    write_file(this->text("output"), text);
  } else {
    fmt::print("{}", text);
  }
}

}  // namespace unmask
