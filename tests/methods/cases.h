// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The numbers that tests hold a method against lie in its folder: cases.json has an entry for each
// method of the folder, with the work of fixed prompts (exact_work), the budget of what its kernels do
// to memory (device_traffic), the decoding that the GPU in software repeats (softgpu), and, of a method
// that edits, parameters with which it does, the count that tells and whether an order can be imposed (edits).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/decode/registry.h"

namespace unmask::testing {

using json = nlohmann::ordered_json;

// Where the cases of a method are, from the root of the repository on.
inline std::string cases_file(const std::string& method) {
  return method_registry::instance().find(method).source + "/cases.json";
}

// Every entry of this kind, by the name of its method.
inline std::map<std::string, json> all_cases(const std::string& kind) {
  std::map<std::string, json> all;
  for (const std::string& method : method_registry::instance().names()) {
    const std::string file = std::string(UNMASK_SOURCE_DIR) + "/" + cases_file(method);
    if (!std::filesystem::exists(file)) continue;
    const json in_folder = json::parse(read_file(file, std::size_t{1} << 20));
    for (const auto& [name, cases] : in_folder.items()) {
      if (cases.contains(kind)) all[name] = cases.at(kind);
    }
  }
  return all;
}

}  // namespace unmask::testing
