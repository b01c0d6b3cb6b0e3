// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What tests of several rooms need: how work failed, and files.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace unmask::test {

// How work ended: the code and the sentence of its error; ok and "" without one.
struct failure {
  exit_code code = exit_code::ok;
  std::string sentence;
};

template <class Work>
failure failure_of(const Work& work) {
  try {
    work();
  } catch (const error& problem) {
    return {problem.code(), problem.what()};
  }
  return {};
}

template <class Work>
std::string message_of(const Work& work) {
  return failure_of(work).sentence;
}

// Checks that work ends with an error of this code whose sentence holds `part`; the sentence.
template <class Work>
std::string expect_error(exit_code code, const std::string& part, const Work& work) {
  const failure ended = failure_of(work);
  EXPECT_EQ(static_cast<int>(ended.code), static_cast<int>(code)) << ended.sentence;
  EXPECT_NE(ended.sentence.find(part), std::string::npos) << ended.sentence << "\nlacks: " << part;
  return ended.sentence;
}

inline std::string text_of(const std::filesystem::path& file) {
  return read_file(file, std::size_t{1} << 30);
}

}  // namespace unmask::test
