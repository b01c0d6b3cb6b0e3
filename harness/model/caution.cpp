// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/caution.h"

#include <algorithm>
#include <cctype>

#include "harness/base/files.h"

namespace unmask {
namespace {

constexpr std::uintmax_t text_limit = 4 << 20;

bool holds(const std::filesystem::path& file, const std::string& word) {
  std::error_code failure;
  if (std::filesystem::file_size(file, failure) > text_limit || failure) return false;
  return read_file(file, text_limit).find(word) != std::string::npos;
}

// "LLaDA2.1" anywhere in a path: of the directory as given, or of where its links lead.
bool named(const std::filesystem::path& directory, const std::string& name) {
  std::error_code failure;
  const std::filesystem::path real = std::filesystem::weakly_canonical(directory, failure);
  for (std::string text : {directory.string(), real.string()}) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    if (text.find(name) != std::string::npos) return true;
  }
  return false;
}

std::string marker_of(const std::filesystem::path& directory) {
  for (const char* version : {"llada2.1", "llada2.2"}) {
    if (named(directory, version)) return std::string("its directory's name holds ") + version;
  }
  const std::string key = "editing_threshold";
  for (const char* file : {"generation_config.json", "README.md", "modeling_llada2_moe.py"}) {
    if (holds(directory / file, key)) return std::string(file) + " speaks of " + key;
  }
  return {};
}

}  // namespace

std::string caution_of(const model_config& model, const std::filesystem::path& directory) {
  if (model.family != model_family::llada2_moe || model.attention != mask_kind::block_causal) {
    return {};
  }
  const std::string marker = marker_of(directory);
  if (marker.empty()) return {};
  return model.name + " is published with token editing (LLaDA2.1, LLaDA2.2; " + marker +
         "), which no method here does: it is decoded as LLaDA2.0, and neither its quality nor its "
         "speed is the published one";
}

}  // namespace unmask
