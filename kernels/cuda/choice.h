// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>

#include "harness/base/error.h"

namespace unmask::cuda {

// What a run of the program chose instead of environment variables, which are for tests and
// benchmarks of single kernels. Only between operations, and before the backend is first asked.
inline std::map<std::string, std::string>& run_choices() {
  static std::map<std::string, std::string> all;
  return all;
}
inline void choose(const char* variable, const std::string& word) {
  run_choices()[variable] = word;
}

// Which of the words a run chose or an environment variable holds; neither: `otherwise`. Any other
// word is an environment error.
inline std::size_t word_of_environment(const char* variable,
                                       std::initializer_list<const char*> words,
                                       std::size_t otherwise) {
  const auto chosen = run_choices().find(variable);
  const char* text = chosen == run_choices().end() ? std::getenv(variable) : chosen->second.c_str();
  if (text == nullptr) return otherwise;
  const std::string word = text;
  std::string known;
  std::size_t at = 0;
  for (const char* one : words) {
    if (word == one) return at;
    known += at == 0 ? "" : at + 1 == words.size() ? " or " : ", ";
    known += one;
    ++at;
  }
  throw environment_error(std::string(variable) + " is \"" + word + "\"; say " + known);
}

// Whether the variable says `yes` rather than `no`.
inline bool chosen_by_environment(const char* variable, const char* yes, const char* no,
                                  bool otherwise) {
  return word_of_environment(variable, {yes, no}, otherwise ? 0 : 1) == 0;
}

}  // namespace unmask::cuda
