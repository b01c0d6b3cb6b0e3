// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Any text as the passes that a killed run left of a point, behind a first line that fits: what can be read
// is taken up, and a pass that is taken up is written and read again as the same text.
#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/run/kept_passes.h"
#include "tests/fuzz/input_file.h"

namespace {

// The head that the program writes before the first pass.
std::string head_of(const unmask::scratch_folder& folder) {
  unmask::kept_passes fresh(folder.path(), "here", [](const std::string&) {});
  fresh.keep("p", {}, nullptr, {}, "");
  const std::string text = unmask::read_file(folder.path() / "unfinished" / "p.passes", 1 << 20);
  return text.substr(0, text.find('\n') + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unmask;
  static const scratch_folder folder;
  static const std::string head = head_of(folder);
  write_file(folder.path() / "unfinished" / "p.passes",
             head + std::string(fuzz::text_of(data, size)));
  fuzz::reads_or_refuses([&] {
    kept_passes kept(folder.path(), "here", [](const std::string&) {});
    const std::vector<pass_record> passes = kept.take_up("p").passes;
    for (const pass_record& pass : passes) {
      const std::string line = pass_line(pass, nullptr);
      fuzz::require(pass_line(pass_of_line(line, nullptr), nullptr) == line);
    }
  });
  return 0;
}
