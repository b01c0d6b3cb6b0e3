// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/faults/failing_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct faults {
  long write = 0, full = 0, fsync = 0;  // 0: never
  bool truncate = false, flock = false;
  long writes = 0, fsyncs = 0;  // so far
};

long number_after(const char* text, const char* key) {
  const char* at = std::strstr(text, key);
  return at == nullptr ? 0 : std::atol(at + std::strlen(key));
}

faults parsed(const char* text) {
  faults f;
  if (text == nullptr) return f;
  f.write = number_after(text, "write=");
  f.full = number_after(text, "full=");
  f.fsync = number_after(text, "fsync=");
  f.truncate = std::strstr(text, "truncate") != nullptr;
  f.flock = std::strstr(text, "flock") != nullptr;
  return f;
}

faults& now() {
  static faults f = parsed(std::getenv("UNMASK_TEST_FAULTS"));
  return f;
}

bool holds_rows(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t n = ::readlink(link, path, sizeof path - 1);
  if (n < 0) return false;
  path[n] = '\0';
  return std::strstr(path, ".jsonl") != nullptr;
}

void log_open(const char* path) {
  static const char* const log = std::getenv("UNMASK_TEST_OPENS");
  if (log == nullptr) return;
  const auto file = ::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0644);
  char line[4200];
  const int n = std::snprintf(line, sizeof line, "%s\n", path);
  if (file >= 0 && n > 0) ::syscall(SYS_write, file, line, std::min<size_t>(n, sizeof line - 1));
  ::syscall(SYS_close, file);
}

int fail(int reason) {
  errno = reason;
  return -1;
}

}  // namespace

extern "C" {

void unmask_test_faults(const char* text) {
  now() = parsed(text);
}

int open(const char* path, int flags, ...) {
  log_open(path);
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  faults& f = now();
  if ((f.write > 0 || f.full > 0) && holds_rows(descriptor)) {
    ++f.writes;
    if (f.writes == f.write) size = std::min<size_t>(size, 100);
    if (f.write > 0 && f.writes == f.write + 1) return fail(ENOSPC);
    if (f.full > 0 && f.writes >= f.full) return fail(ENOSPC);
  }
  return ::syscall(SYS_write, descriptor, bytes, size);
}

int fsync(int descriptor) {
  faults& f = now();
  if (f.fsync > 0 && holds_rows(descriptor) && ++f.fsyncs == f.fsync) return fail(EIO);
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

int ftruncate(int descriptor, off_t size) noexcept {
  if (now().truncate && holds_rows(descriptor)) return fail(EIO);
  return static_cast<int>(::syscall(SYS_ftruncate, descriptor, size));
}

int flock(int descriptor, int operation) noexcept {
  if (now().flock) return fail(ENOLCK);
  return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
}

}  // extern "C"
