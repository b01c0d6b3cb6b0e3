// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the files of this folder declare; registry.cpp lists them.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/json.h"
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

// {"key":value,...}; the values are JSON already.
std::string json_object(std::initializer_list<std::pair<std::string, std::string>> members);
std::string json_string(const std::string& text);
// The member as an array of strings, or the reader's error.
std::vector<std::string> texts_of(const json_reader& object, const std::string& key);
std::string joined_lines(const std::vector<std::string>& lines);

}  // namespace unmask::declared
