// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>

namespace unmask {

// Where this program came from. The commit is that of the last build, not of the last configure.
struct build_info {
  const char* version;             // "0.1.0"
  const char* git_commit;          // 40 hex digits, or "unknown" outside a checkout
  bool git_dirty;                  // tracked files that make the program differ from it
  const char* git_unknown;         // why the commit is unknown, "" if it is known
  const char* compiler;            // "gcc 12.2.0"
  const char* flags;               // of every C++ file
  const char* build_type;          // CMake's name
  const char* cuda_toolkit;        // "13.0.88", "" in a CPU-only build
  const char* cuda_architectures;  // "80 90a-real 89-real", "" in a CPU-only build
};

const build_info& this_build();

// The commit for people: 40 digits with " (modified)", or "unknown" with the reason in brackets.
inline std::string commit_text(const build_info& build) {
  const std::string commit = build.git_commit;
  if (*build.git_unknown != '\0') return commit + " (" + build.git_unknown + ")";
  return commit + (build.git_dirty ? " (modified)" : "");
}

}  // namespace unmask
