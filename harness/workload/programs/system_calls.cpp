// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/programs/system_calls.h"

#include <array>
#include <cerrno>
#include <memory>

#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

const std::array refused = {SCMP_SYS(ptrace),
                            SCMP_SYS(process_vm_readv),
                            SCMP_SYS(process_vm_writev),
                            SCMP_SYS(kcmp),
                            SCMP_SYS(pidfd_getfd),
                            SCMP_SYS(mount),
                            SCMP_SYS(umount2),
                            SCMP_SYS(pivot_root),
                            SCMP_SYS(move_mount),
                            SCMP_SYS(open_tree),
                            SCMP_SYS(fsopen),
                            SCMP_SYS(fsmount),
                            SCMP_SYS(mount_setattr),
                            SCMP_SYS(unshare),
                            SCMP_SYS(setns),
                            SCMP_SYS(add_key),
                            SCMP_SYS(request_key),
                            SCMP_SYS(keyctl),
                            SCMP_SYS(bpf),
                            SCMP_SYS(perf_event_open),
                            SCMP_SYS(userfaultfd),
                            SCMP_SYS(io_uring_setup),
                            SCMP_SYS(io_uring_enter),
                            SCMP_SYS(io_uring_register),
                            SCMP_SYS(init_module),
                            SCMP_SYS(finit_module),
                            SCMP_SYS(kexec_load),
                            SCMP_SYS(open_by_handle_at)};

constexpr scmp_datum_t namespace_flags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

void check(int result) {
  if (result < 0) throw environment_error("libseccomp cannot build the filter of the sandbox");
}

std::string build() {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(seccomp_init(SCMP_ACT_ALLOW),
                                                                seccomp_release);
  if (filter == nullptr) check(-1);
  for (const int call : refused) {
    check(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0));
  }
  for (const int family : {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK}) {
    check(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                           SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(family))));
  }
  // One rule a flag: a rule compares one masked value, and any of them may be set.
  for (scmp_datum_t flag = 1; flag != 0 && flag <= namespace_flags; flag <<= 1) {
    if ((namespace_flags & flag) == 0) continue;
    check(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)));
  }
  // The flags of clone3 lie in memory, which no filter reads; without it the C library uses clone.
  check(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
  const int file = memfd_create("filter", MFD_CLOEXEC);
  if (file < 0) check(-1);
  std::string text;
  if (seccomp_export_bpf(filter.get(), file) == 0) {
    text.resize(static_cast<std::size_t>(lseek(file, 0, SEEK_END)));
    if (pread(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) text.clear();
  }
  close(file);
  if (text.empty()) check(-1);
  return text;
}

}  // namespace

const std::string& system_call_filter() {
  static const std::string filter = build();
  return filter;
}

}  // namespace unmask
