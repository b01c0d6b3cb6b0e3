// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any line as a result row: refused, or a row that is written and read again as the same text.
#include "harness/rows/row.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  fuzz::reads_or_refuses([&] {
    const result_row row = parse_row(std::string(fuzz::text_of(data, size)), "fuzz:1");
    const std::string once = to_json_line(row);
    fuzz::require(to_json_line(parse_row(once, "fuzz:2")) == once);
  });
  return 0;
}
