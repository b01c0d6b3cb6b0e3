// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as an experiment file: refused with file and line, or an experiment with unique names.
#include "harness/plan/spec.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  fuzz::reads_or_refuses([&] {
    const experiment_spec spec =
        parse_spec(std::string(fuzz::text_of(data, size)), "/nowhere/fuzz.toml");
    for (const model_entry& model : spec.models) fuzz::require(!model.name.empty());
    for (const method_entry& method : spec.methods) fuzz::require(!method.name.empty());
    fuzz::require(spec.evidence.min_repetitions <= spec.evidence.max_repetitions);
  });
  return 0;
}
