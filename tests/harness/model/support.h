// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Helpers of the model tests: small checkpoints, published data.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support.h"

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

// Runs action and checks that it throws an environment error whose text holds every part.
template <class Action>
void expect_environment_error(const Action& action, const std::vector<std::string>& parts) {
  const std::string text = expect_error(exit_code::environment, parts.front(), action);
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "`" << part << "` not in: " << text;
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
