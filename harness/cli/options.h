// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Options that mean the same in every command: -o is a path, --format a format, --set a dotted key,
// --device a device.
#pragma once

#include <boost/program_options.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/experiment/spec.h"

namespace unmask {

using texts = std::vector<std::string>;

void add_output_option(boost::program_options::options_description& options,
                       const std::string& meaning);
void add_format_option(boost::program_options::options_description& options,
                       const std::string& meaning);
void add_settings_option(boost::program_options::options_description& options);
void add_device_option(boost::program_options::options_description& options);
void add_experiments_option(boost::program_options::options_description& options);

// Empty where the option was not given.
texts texts_of(const boost::program_options::variables_map& values, const char* name);
std::string text_of(const boost::program_options::variables_map& values, const char* name);
// "a,b" given once or several times.
texts list_of(const boost::program_options::variables_map& values, const char* name);
// Whole numbers of list_of, each at least `least`; usage error that names the option.
std::vector<std::int64_t> numbers_of(const boost::program_options::variables_map& values,
                                     const char* name, std::int64_t least);

// What --set and --device say, as assignments in their order; the device last.
texts settings_of(const boost::program_options::variables_map& values);

// To standard output, or to the file that -o names.
void write_output(const boost::program_options::variables_map& values, const std::string& text);
void write_text(const std::filesystem::path& file, const std::string& text);

}  // namespace unmask
