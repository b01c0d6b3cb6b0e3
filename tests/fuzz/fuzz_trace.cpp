// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as a trace of requests, in every format: refused, or requests in order of arrival.
#include <cmath>

#include "harness/workload/traces.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  const fuzz::input_file file(fuzz::text_of(data, size));
  for (const std::string& format : trace_formats()) {
    fuzz::reads_or_refuses([&] {
      double before = 0;
      for (const trace_request& request : read_trace(format, file.path())) {
        fuzz::require(std::isfinite(request.arrival_seconds) && request.arrival_seconds >= before);
        fuzz::require(request.prompt_tokens >= 0 && request.output_tokens >= 0);
        before = request.arrival_seconds;
      }
    });
  }
  return 0;
}
