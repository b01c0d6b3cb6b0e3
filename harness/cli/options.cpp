// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/cli/options.h"

#include <charconv>
#include <fstream>
#include <sstream>

#include <fmt/core.h>

#include "harness/base/error.h"

namespace unmask {
namespace po = boost::program_options;

void add_output_option(po::options_description& options, const std::string& meaning) {
  options.add_options()("output,o", po::value<std::string>(), meaning.c_str());
}

void add_format_option(po::options_description& options, const std::string& meaning) {
  options.add_options()("format", po::value<std::string>()->default_value("md"), meaning.c_str());
}

void add_settings_option(po::options_description& options) {
  options.add_options()("set", po::value<texts>()->composing(),
                        "KEY=VALUE by the dotted keys of experiment files (repeatable): "
                        "params.threshold=0.9, run.batch_size=4");
}

void add_device_option(po::options_description& options) {
  options.add_options()("device", po::value<std::string>(),
                        "cpu (default), reference, cuda or cuda-emulated");
}

void add_experiments_option(po::options_description& options) {
  options.add_options()("experiments-dir", po::value<std::string>()->default_value("experiments"),
                        "where experiments, claims, tasks and models lie");
}

texts texts_of(const po::variables_map& values, const char* name) {
  return values.count(name) ? values[name].as<texts>() : texts{};
}

std::string text_of(const po::variables_map& values, const char* name) {
  return values.count(name) ? values[name].as<std::string>() : "";
}

texts list_of(const po::variables_map& values, const char* name) {
  texts all;
  for (const std::string& text : texts_of(values, name)) {
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
      if (!part.empty()) all.push_back(part);
    }
  }
  return all;
}

std::vector<std::int64_t> numbers_of(const po::variables_map& values, const char* name,
                                     std::int64_t least) {
  std::vector<std::int64_t> all;
  for (const std::string& text : list_of(values, name)) {
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

texts settings_of(const po::variables_map& values) {
  texts settings = texts_of(values, "set");
  if (values.count("device")) settings.push_back("run.device=" + text_of(values, "device"));
  return settings;
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::error_code failed;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failed);
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw environment_error("cannot write " + file.string());
}

void write_output(const po::variables_map& values, const std::string& text) {
  if (values.count("output")) {
    write_text(text_of(values, "output"), text);
  } else {
    fmt::print("{}", text);
  }
}

}  // namespace unmask
