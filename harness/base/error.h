// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <stdexcept>
#include <string>

namespace unmask {

// Process exit codes, stable for scripts.
enum class exit_code : int {
  ok = 0,
  run_failed = 1,     // a run failed, was INVALID or NOT_SUPPORTED, or a golden case differs
  usage = 2,          // unknown option, name or key; impossible setting
  environment = 3,    // model files, memory, device, output that did not reach its file
  not_reproduced = 4  // a claim did not hold, or two runs differ
};

// Every error a user can cause carries one sentence that names the file, key or tensor and says
// what to do, and the exit code the program ends with.
class error : public std::runtime_error {
 public:
  error(exit_code code, const std::string& sentence) : std::runtime_error(sentence), code_(code) {}
  exit_code code() const noexcept { return code_; }

 private:
  exit_code code_;
};

inline error usage_error(const std::string& sentence) {
  return {exit_code::usage, sentence};
}
inline error environment_error(const std::string& sentence) {
  return {exit_code::environment, sentence};
}

// Does `work`, whose error becomes a usage error that begins with the place it is about.
template <class Work>
auto located(const std::string& where, const Work& work) {
  try {
    return work();
  } catch (const error& problem) {
    throw usage_error(where + ": " + problem.what());
  }
}

}  // namespace unmask
