// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A sandbox runs Python that a language model wrote: bubblewrap gives it namespaces of its own
// (no network, no processes or files of this machine but /usr, read-only), a seccomp filter refuses
// system calls that reach further, and resource limits bound memory, processes and disk. Limits on
// time are kept from outside, because no alarm inside Python interrupts one long C call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace unmask {

struct sandbox_limits {
  double seconds = 3.0;                    // wall time from the first statement on
  std::int64_t memory_bytes = 1LL << 30;   // address space of one process
  std::int64_t processes = 4;              // at any time, so 4 GiB in all
  std::int64_t file_bytes = 1LL << 20;     // one file
  std::int64_t folder_bytes = 16LL << 20;  // /tmp, which is memory and goes with the sandbox
  std::size_t output_bytes = 64 << 10;     // of standard output and error that is kept
};

struct sandbox_result {
  bool timed_out = false;
  std::string report;  // what the driver wrote to its report, without the start mark
  std::string output;  // standard output and error, the first `output_bytes` of them
  double seconds = 0;  // from the first statement to the end
};

// Why no program can be run on this machine, or nothing. The answer is that of a trial, made once.
std::optional<std::string> sandbox_missing();

// Runs `driver` (trusted Python) in a new sandbox. It finds `input` under descriptor 3, and writes
// to descriptor 4 first one byte "S", at which the time starts, and then its report. Everything
// the driver started is dead when this returns. Environment error when no sandbox can be made.
sandbox_result run_in_sandbox(const std::string& driver, const std::string& input,
                              const sandbox_limits& limits = {});

}  // namespace unmask
