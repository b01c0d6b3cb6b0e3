// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Helpers of the model tests: temporary directories, small checkpoints, published data.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/error.h"

namespace unmask::test {

namespace fs = std::filesystem;

inline fs::path fixtures() {
  return fs::path(UNMASK_SOURCE_DIR) / "tests/harness/model/fixtures";
}

inline fs::path embedded_models() {
  return fs::path(UNMASK_SOURCE_DIR) / "experiments/models";
}

// Published configs and tokenizers (tests/data/README.md).
inline fs::path published() {
  return fs::path(UNMASK_SOURCE_DIR) / "tests/data";
}

// Tiny random checkpoints of every family, unpacked by the build from tests/goldens.
inline fs::path golden_models() {
  return fs::path(UNMASK_GOLDENS) / "models";
}

inline std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void spill(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A directory of its own for each test case, removed at the end.
class temporary_directory {
 public:
  temporary_directory() {
    std::string pattern = (fs::temp_directory_path() / "unmask-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~temporary_directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Runs action and checks that it throws an environment error whose text holds every part.
template <class Action>
void expect_environment_error(const Action& action, const std::vector<std::string>& parts) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one that names " << parts.front();
  } catch (const error& problem) {
    EXPECT_EQ(problem.code(), exit_code::environment) << problem.what();
    const std::string text = problem.what();
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "`" << part << "` not in: " << text;
    }
  }
}

// ---- writing safetensors ------------------------------------------------------------------------

inline std::string with_length(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    file[i] = static_cast<char>((std::uint64_t{header.size()} >> (8 * i)) & 0xFF);
  }
  return file + header + data;
}

struct f32_tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // empty: filled with 0.5
};

inline std::string make_safetensors(const std::vector<f32_tensor>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::string data;
  for (const f32_tensor& t : tensors) {
    std::size_t count = 1;
    std::string shape;
    for (const std::int64_t n : t.shape) {
      count *= static_cast<std::size_t>(n);
      shape += (shape.empty() ? "" : ",") + std::to_string(n);
    }
    std::vector<float> values = t.values;
    values.resize(count, 0.5F);
    header += ",\"" + t.name + "\":{\"dtype\":\"F32\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + 4 * count) + "]}";
    data.append(reinterpret_cast<const char*>(values.data()), 4 * count);
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return with_length(header, data);
}

}  // namespace unmask::test
