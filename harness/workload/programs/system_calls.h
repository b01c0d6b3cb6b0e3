// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>

namespace unmask {

// A seccomp program (BPF instructions as bubblewrap reads them) that answers EPERM to the system
// calls with which a process reaches beyond its sandbox: tracing, other processes' memory, mounts,
// namespaces, keys, BPF, performance events, page faults in user space, io_uring, and sockets that
// are not local. Environment error where libseccomp cannot build it.
const std::string& system_call_filter();

}  // namespace unmask
