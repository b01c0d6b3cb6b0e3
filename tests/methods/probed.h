// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A pass of a small model that probes watch, and what the package computes from it.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/measure/probe.h"
#include "tests/methods/tiny_models.h"

namespace unmask::testing {

inline const parameter_map blocks_of_8 = {{"block_length", 8}};
inline constexpr int steps_per_request = 16;

struct tried {
  const char* method;
  model_family family;
  parameter_map given;
};

struct probed {
  nlohmann::json results;
  closed_loop_result run;
};

// What the package computes from what a recorder wrote.
inline nlohmann::json computed(const std::ostringstream& written) {
  const scratch_folder scratch;
  write_file(scratch.path() / "trace.jsonl", written.str());
  nlohmann::json results;
  const auto all = probe_results(scratch.path() / "trace.jsonl");
  for (const auto& [name, text] : all) results[name] = nlohmann::json::parse(text);
  return results;
}

inline probed observed(const transformer& model, const std::vector<sequence_request>& requests,
                       const std::vector<std::string>& names, const std::string& method,
                       const parameter_map& given, probe_settings settings,
                       const probe_source& source) {
  settings.names = names;
  std::ostringstream written;
  probe_recorder recorder(settings, source, written);
  probed p;
  p.run = decode_closed(model, method, given, requests, 1, "", &recorder);
  recorder.finish();
  p.results = computed(written);
  return p;
}

inline probed look(const std::vector<std::string>& names, const std::string& method,
                   model_family family, const parameter_map& given,
                   const probe_settings& settings = {}) {
  const auto model = tiny_model(family, reference_backend());
  return observed(*model, tiny_requests(3, 16), names, method, given, settings, {});
}

}  // namespace unmask::testing
