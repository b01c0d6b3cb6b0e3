// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as a file of tasks: refused, or items with all that an item needs.
#include "harness/workload/scorer.h"
#include "harness/workload/task.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  const fuzz::input_file file(fuzz::text_of(data, size));
  fuzz::reads_or_refuses([&] {
    const std::vector<task_item> items = read_tasks(file.path());
    fuzz::require(!items.empty());
    for (const task_item& item : items) {
      require_scorer(item.scorer, "fuzz");
      fuzz::require(item.gen_length > 0 && item.context_tokens >= 0);
    }
    fuzz::require(hash_of_tasks(items).size() == 64);
  });
  return 0;
}
