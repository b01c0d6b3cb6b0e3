// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/programs/sandbox.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/python_text.h"

namespace unmask {
namespace {

using std::chrono::steady_clock;

constexpr const char* bubblewrap = "/usr/bin/bwrap";
constexpr const char* prlimit = "/usr/bin/prlimit";
constexpr const char* python = "/usr/bin/python3";
constexpr uid_t nobody = 65534;
constexpr double start_seconds = 20;  // a busy machine may be slow to make a sandbox
// What the driver finds where.
constexpr int input_slot = 3;
constexpr int report_slot = 4;
constexpr int filter_slot = 5;

class descriptor {
 public:
  explicit descriptor(int value = -1) : value_(value) {}
  ~descriptor() { reset(); }
  descriptor& operator=(descriptor&&) = delete;
  int get() const { return value_; }
  void reset(int value = -1) {
    if (value_ >= 0) close(value_);
    value_ = value;
  }

 private:
  int value_;
};

[[noreturn]] void refuse(const std::string& what) {
  throw environment_error("the sandbox for programs: " + what + ": " + std::strerror(errno));
}

struct channel {
  channel() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) refuse("no pipe");
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
  descriptor read;
  descriptor write;
};

// A file without a name that holds these bytes, read from its start.
void fill(descriptor& file, const std::string& bytes) {
  file.reset(memfd_create("unmask", MFD_CLOEXEC));
  if (file.get() < 0) refuse("no memory file");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(file.get(), bytes.data() + done, bytes.size() - done);
    if (n <= 0) refuse("a memory file took no more");
    done += static_cast<std::size_t>(n);
  }
  lseek(file.get(), 0, SEEK_SET);
}

const std::array refused_calls = {SCMP_SYS(ptrace),
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

void check_filter(int result) {
  if (result < 0) throw environment_error("libseccomp cannot build the filter of the sandbox");
}

std::string build_filter() {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(seccomp_init(SCMP_ACT_ALLOW),
                                                                seccomp_release);
  if (filter == nullptr) check_filter(-1);
  for (const int call : refused_calls) {
    check_filter(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0));
  }
  for (const int family : {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK}) {
    check_filter(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(family))));
  }
  // One rule a flag: a rule compares one masked value, and any of them may be set.
  for (scmp_datum_t flag = 1; flag != 0 && flag <= namespace_flags; flag <<= 1) {
    if ((namespace_flags & flag) == 0) continue;
    check_filter(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)));
  }
  // The flags of clone3 lie in memory, which no filter reads; without it the C library uses clone.
  check_filter(seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0));
  const int file = memfd_create("filter", MFD_CLOEXEC);
  if (file < 0) check_filter(-1);
  std::string text;
  if (seccomp_export_bpf(filter.get(), file) == 0) {
    text.resize(static_cast<std::size_t>(lseek(file, 0, SEEK_END)));
    if (pread(file, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) text.clear();
  }
  close(file);
  if (text.empty()) check_filter(-1);
  return text;
}

// A seccomp program (BPF instructions as bubblewrap reads them) that answers EPERM to the system
// calls with which a process reaches beyond its sandbox: tracing, other processes' memory, mounts,
// namespaces, keys, BPF, performance events, page faults in user space, io_uring, and sockets that
// are not local. Environment error where libseccomp cannot build it.
const std::string& system_call_filter() {
  static const std::string filter = build_filter();
  return filter;
}

std::vector<std::string> command_of(const std::string& driver, const sandbox_limits& limits) {
  const long cpu_seconds = std::lround(std::ceil(limits.seconds + start_seconds));
  const std::string line = fmt::format(
      "{} --unshare-all --die-with-parent --new-session --cap-drop ALL --uid {} --gid {} "
      "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
      "--symlink usr/lib64 /lib64 --proc /proc --dev /dev --size {} --tmpfs /tmp --chdir /tmp "
      "--seccomp {} {} --as={} --cpu={} --nproc={} --fsize={} --nofile=64 --core=0 {} -I -S -c",
      bubblewrap, nobody, nobody, limits.folder_bytes, filter_slot, prlimit, limits.memory_bytes,
      cpu_seconds, limits.processes, limits.file_bytes, python);
  const auto words = py::words_of(line);  // none of them holds a blank
  std::vector<std::string> command(words.begin(), words.end());
  command.push_back(driver);
  return command;
}

// What the new process does before it becomes bubblewrap; only calls that are safe after a fork of
// a program with threads. Exit status 127: it could not.
[[noreturn]] void become(char* const* arguments, int input, int report, int filter, int output) {
  setsid();
  // Out of the way of the slots first: a descriptor may already have the number of another's slot.
  std::array<int, 4> high = {fcntl(input, F_DUPFD, 16), fcntl(report, F_DUPFD, 16),
                             fcntl(filter, F_DUPFD, 16), fcntl(output, F_DUPFD, 16)};
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(high[3], STDOUT_FILENO);
  dup2(high[3], STDERR_FILENO);
  dup2(high[0], input_slot);
  dup2(high[1], report_slot);
  dup2(high[2], filter_slot);
  syscall(SYS_close_range, filter_slot + 1, ~0U, 0);
  // A limit on processes does not bind root, so the sandbox is made by a user without rights.
  if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setresgid(nobody, nobody, nobody) != 0 ||
                         setresuid(nobody, nobody, nobody) != 0)) {
    _exit(127);
  }
  // The environment is empty: /proc/1/environ inside would show it.
  std::array<char*, 1> environment = {nullptr};
  execve(arguments[0], arguments, environment.data());
  _exit(127);
}

// Reads what is there, keeps at most `room` bytes in all and drops the rest. False at the end.
bool drain(int from, std::string& into, std::size_t room) {
  std::array<char, 1 << 14> buffer{};
  const ssize_t n = read(from, buffer.data(), buffer.size());
  if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
  const std::size_t kept =
      std::min(static_cast<std::size_t>(n), room - std::min(room, into.size()));
  into.append(buffer.data(), kept);
  return true;
}

double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

// The process on our side: it is killed with all that it started, and reaped, at the latest here.
class running {
 public:
  explicit running(pid_t process) : process_(process) {
    ended_.reset(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  }
  ~running() { end(); }
  running& operator=(running&&) = delete;
  int ended() const { return ended_.get(); }
  int end() {
    if (process_ > 0) {
      kill(-process_, SIGKILL);
      kill(process_, SIGKILL);
      while (waitpid(process_, &status_, 0) < 0 && errno == EINTR) continue;
      process_ = -1;
    }
    return status_;
  }

 private:
  pid_t process_;
  int status_ = 0;
  descriptor ended_;
};

constexpr std::size_t report_bytes = 1 << 20;

sandbox_result watch(running& process, int report, int output, const sandbox_limits& limits) {
  sandbox_result result;
  const auto made = steady_clock::now();
  auto started = made;
  bool runs = false;
  fcntl(report, F_SETFL, O_NONBLOCK);
  fcntl(output, F_SETFL, O_NONBLOCK);
  std::array<pollfd, 3> watched = {pollfd{report, POLLIN, 0}, pollfd{output, POLLIN, 0},
                                   pollfd{process.ended(), POLLIN, 0}};
  while (true) {
    const double left = (runs ? limits.seconds : start_seconds) - seconds_since(started);
    if (left <= 0) break;
    poll(watched.data(), watched.size(), static_cast<int>(std::ceil(left * 1000)));
    const bool ended = (watched[2].revents & POLLIN) != 0;
    if (!drain(report, result.report, report_bytes)) watched[0].fd = -1;
    if (!drain(output, result.output, limits.output_bytes)) watched[1].fd = -1;
    if (!runs && !result.report.empty()) {
      runs = true;
      started = steady_clock::now();
    }
    if (ended) break;
  }
  result.seconds = seconds_since(started);
  result.timed_out = result.seconds >= limits.seconds;
  const int status = process.end();
  // A child that keeps the pipes open must not delay the verdict: what is there by now is all.
  for (int i = 0; i < 64 && drain(report, result.report, report_bytes); ++i) continue;
  if (result.report.empty() || result.report[0] != 'S') {
    throw environment_error("the sandbox for programs did not start (status " +
                            std::to_string(status) + "): " + result.output.substr(0, 300));
  }
  result.report.erase(0, 1);
  return result;
}

}  // namespace

sandbox_result run_in_sandbox(const std::string& driver, const std::string& input,
                              const sandbox_limits& limits) {
  channel report;
  channel output;
  descriptor text;
  fill(text, input);
  descriptor filter;
  fill(filter, system_call_filter());
  std::vector<std::string> words = command_of(driver, limits);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) refuse("no new process");
  if (child == 0) {
    become(arguments.data(), text.get(), report.write.get(), filter.get(), output.write.get());
  }
  running process(child);
  report.write.reset();
  output.write.reset();
  return watch(process, report.read.get(), output.read.get(), limits);
}

std::optional<std::string> sandbox_missing() {
  static const std::optional<std::string> answer = []() -> std::optional<std::string> {
    for (const char* program : {bubblewrap, prlimit, python}) {
      if (access(program, X_OK) != 0) return std::string(program) + " is not installed";
    }
    try {
      run_in_sandbox("import os; os.write(4, b'S')", "");
    } catch (const std::exception& problem) {
      return problem.what();
    }
    return std::nullopt;
  }();
  return answer;
}

}  // namespace unmask
