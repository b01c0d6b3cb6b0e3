// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as run.json: refused, or a manifest whose text has the hash that stands beside it.
#include "harness/plan/request.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  const fuzz::input_file file(fuzz::text_of(data, size));
  fuzz::reads_or_refuses([&] {
    const run_manifest manifest = read_manifest(file.path());
    const run_request again = request_again(file.path());
    fuzz::require(again.again && again.again->text == manifest.text);
    fuzz::require(again.overrides.empty() || again.overrides == manifest.overrides);
  });
  return 0;
}
