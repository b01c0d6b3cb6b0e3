// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the files of this folder declare; registry.cpp lists them.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/json_lines.h"
#include "harness/workload/benchmarks/benchmark.h"

namespace unmask::declared {

std::vector<benchmark> gsm8k();
std::vector<benchmark> math();
std::vector<benchmark> mmlu();
std::vector<benchmark> arc_c();
std::vector<benchmark> piqa();
std::vector<benchmark> gpqa();
std::vector<benchmark> humaneval();
std::vector<benchmark> mbpp();
std::vector<benchmark> ifeval();
std::vector<benchmark> longbench();
std::vector<benchmark> cnn_dm();
std::vector<benchmark> needle_map();
std::vector<benchmark> conversations();

// The name, harness and config, and what the harness gives all its configs: OC-F and OC-L are chats,
// OC-F with a system message of OpenCompass' own; OC-S cuts prompts at 2048 tokens.
benchmark declared_as(const char* name, const char* harness, const char* config);
inline const char* const system_message = "You are a helpful assistant.";

// The question's options under A, B, ...: the fields of that name, the choices and the right one as
// number, letter and text, and the check of a letter.
void set_options(source_item& item, std::vector<std::string> options, std::size_t right);

// These columns, by the names in the first row, of comma-separated values; environment error for a
// column that is not there and for a row that is cut off.
std::vector<std::vector<std::string>> csv_columns(const official_text& file,
                                                  const std::vector<std::string>& names);

// {"key":value,...}; the values are JSON already.
std::string json_object(std::initializer_list<std::pair<std::string, std::string>> members);
std::string json_strings(const std::vector<std::string>& texts);
// The member as an array of strings, or the reader's error.
std::vector<std::string> texts_of(const json_reader& object, const std::string& key);

}  // namespace unmask::declared
