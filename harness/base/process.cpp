// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/process.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>

#include <fcntl.h>
#include <link.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace unmask {
namespace {

// ---- signals go on to whom we wait for ----

constexpr std::array<int, 3> stops = {SIGINT, SIGTERM, SIGHUP};
std::array<std::atomic<pid_t>, 256> waited_for{};
std::atomic<int> stopped_by{0};

void pass_on(int number, siginfo_t* from, void*) {
  const int reason = errno;
  stopped_by = number;
  // What a terminal sends, it sends to the children too.
  if (from == nullptr || from->si_code != SI_KERNEL) {
    for (const std::atomic<pid_t>& child : waited_for) {
      if (const pid_t pid = child.load(); pid > 0) ::kill(pid, number);
    }
  }
  errno = reason;
}

bool anybody_runs() {
  for (const std::atomic<pid_t>& child : waited_for) {
    if (child.load() > 0) return true;
  }
  return false;
}

// Ends this process by the signal that came, if one did, once all children have ended.
void end_if_stopped() {
  const int number = stopped_by.load();
  if (number == 0) return;
  while (anybody_runs()) ::usleep(10'000);
  remove_scratch_folders();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// While one of these lives, a signal that would end this process goes to its children first. A second
// one ends it at once. A handler that somebody has set stays.
class passed_signals {
 public:
  passed_signals() {
    const std::lock_guard alone(guard());
    if (users()++ > 0) return;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      ::sigaction(stops[i], nullptr, &before()[i]);
      if (!is_default(i)) continue;
      struct sigaction ours = {};
      ours.sa_sigaction = pass_on;
      ours.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESTART | SA_RESETHAND);
      sigemptyset(&ours.sa_mask);
      ::sigaction(stops[i], &ours, nullptr);
    }
  }
  ~passed_signals() {
    const std::lock_guard alone(guard());
    if (--users() > 0) return;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      if (is_default(i)) ::sigaction(stops[i], &before()[i], nullptr);
    }
  }
  passed_signals(const passed_signals&) = delete;
  passed_signals& operator=(const passed_signals&) = delete;

 private:
  static std::mutex& guard() {
    static std::mutex one;
    return one;
  }
  static int& users() {
    static int number = 0;
    return number;
  }
  static std::array<struct sigaction, 3>& before() {
    static std::array<struct sigaction, 3> all{};
    return all;
  }
  static bool is_default(std::size_t i) {
    return (before()[i].sa_flags & SA_SIGINFO) == 0 && before()[i].sa_handler == SIG_DFL;
  }
};

// ---- start ----

// All signals wait while it lives: a child that is not yet another program must not run our handlers.
class signals_held {
 public:
  signals_held() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_held() { let_go(); }
  signals_held(const signals_held&) = delete;
  signals_held& operator=(const signals_held&) = delete;
  void let_go() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& w : words) all.push_back(w.data());
  all.push_back(nullptr);
  return all;
}

bool write_to(int descriptor, const char* file) {
  if (*file == '\0') return true;
  const int opened = ::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return opened >= 0 && ::dup2(opened, descriptor) >= 0;
}

// The child's half, between fork and exec: no memory is taken and nothing is freed.
[[noreturn]] void become(char* const* words, const char* output, const char* errors, pid_t parent,
                         int report, const signals_held& held) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);  // it ended before it could be asked for
  for (const int number : stops) {
    struct sigaction now {};
    ::sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) std::signal(number, SIG_DFL);
  }
  held.let_go();
  if (write_to(STDOUT_FILENO, output) && write_to(STDERR_FILENO, errors)) ::execvp(words[0], words);
  const int reason = errno;
  [[maybe_unused]] const ssize_t told = ::write(report, &reason, sizeof reason);
  ::_exit(127);
}

// Starts it; 0: it could not be started, for the reason in errno.
pid_t start(std::vector<std::string> words, const std::string& output, const std::string& errors,
            std::atomic<pid_t>& place) {
  const std::vector<char*> pointers = pointers_to(words);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return 0;
  const pid_t parent = ::getpid();
  pid_t child = -1;
  {
    const signals_held held;
    child = ::fork();
    if (child == 0) become(pointers.data(), output.c_str(), errors.c_str(), parent, ends[1], held);
    if (child > 0) place = child;
  }
  int reason = errno;
  ::close(ends[1]);
  ssize_t n = 0;
  if (child > 0) {
    do {
      n = ::read(ends[0], &reason, sizeof reason);
    } while (n < 0 && errno == EINTR);
  }
  ::close(ends[0]);
  if (child > 0 && n == 0) return child;
  if (child > 0) ::waitpid(child, nullptr, 0);
  place = 0;
  errno = reason;
  return 0;
}

// A free place among those that are waited for.
std::atomic<pid_t>& free_place() {
  for (std::atomic<pid_t>& one : waited_for) {
    pid_t nobody = 0;
    if (one.compare_exchange_strong(nobody, -1)) return one;
  }
  throw environment_error("too many processes at a time");
}

// Nothing can end single quotes but a single quote.
std::string quoted(const std::string& word) {
  constexpr const char* plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string shell_line(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

int run_process(const std::vector<std::string>& command,
                const std::filesystem::path& standard_output,
                const std::filesystem::path& standard_error) {
  std::fflush(nullptr);  // what we printed comes before what the child prints
  end_if_stopped();
  const passed_signals passed;
  std::atomic<pid_t>& place = free_place();
  const pid_t child = start(command, standard_output.string(), standard_error.string(), place);
  if (child == 0) {
    const std::string reason = std::strerror(errno);
    place = 0;
    throw environment_error("cannot start " + command.front() + ": " + reason);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    place = 0;
    throw environment_error("lost the process " + command.front());
  }
  place = 0;
  end_if_stopped();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

child_process::child_process(const std::vector<std::string>& command,
                             const std::filesystem::path& standard_output,
                             const std::filesystem::path& standard_error) {
  std::fflush(nullptr);
  std::atomic<pid_t> place{0};
  pid_ = start(command, standard_output.string(), standard_error.string(), place);
  if (pid_ == 0) {
    throw environment_error("cannot start " + command.front() + ": " + std::strerror(errno));
  }
}

child_process::~child_process() {
  let_end(0);
}

std::optional<int> child_process::ended() {
  if (status_) return status_;
  int status = 0;
  const pid_t gone = ::waitpid(pid_, &status, WNOHANG);
  if (gone == pid_) status_ = status;
  if (gone < 0 && errno != EINTR) status_ = 0;  // somebody else has waited for it
  return status_;
}

void child_process::let_end(double seconds) {
  constexpr double nap = 0.01;
  for (double waited = 0; !ended() && waited < seconds; waited += nap) {
    ::usleep(static_cast<useconds_t>(nap * 1e6));
  }
  if (ended()) return;
  ::kill(pid_, SIGKILL);
  while (!ended()) ::usleep(1000);
}

std::vector<std::string> own_words() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(in, word, '\0');) words.push_back(word);
  return words;
}

void become_process(const std::vector<std::string>& command) {
  std::fflush(nullptr);
  std::vector<std::string> words = command;
  ::execvp(words.front().c_str(), pointers_to(words).data());
  throw environment_error("cannot start " + command.front() + ": " + std::strerror(errno));
}

bool is_alive(int process) {
  if (process <= 0 || (::kill(process, 0) != 0 && errno == ESRCH)) return false;
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const std::size_t name = text.rfind(')');  // PID (NAME) STATE ...
  return name == std::string::npos || name + 2 >= text.size() || text[name + 2] != 'Z';
}

void end_with_caller() {
  const char* text = std::getenv(called_by);
  if (text == nullptr) return;
  const int caller = std::atoi(text);
  ::unsetenv(called_by);
  // Of a caller further up no signal comes; one that has ended has no children.
  if (caller == ::getppid()) ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (caller > 0 && !is_alive(caller)) std::raise(SIGTERM);
}

namespace {

constexpr const char* own_file = "/proc/self/exe";

std::filesystem::path& named_program() {
  static std::filesystem::path name;
  return name;
}

// The file of the library that this code is a part of; empty where it is a part of the program itself.
std::filesystem::path library_of_code() {
  struct search {
    std::uintptr_t code = reinterpret_cast<std::uintptr_t>(&library_of_code);
    std::filesystem::path file = {};
  } wanted;
  const auto look = [](dl_phdr_info* object, std::size_t, void* into) {
    search& s = *static_cast<search*>(into);
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const auto& part = object->dlpi_phdr[i];
      const std::uintptr_t first = object->dlpi_addr + part.p_vaddr;
      if (part.p_type != PT_LOAD || s.code < first || s.code >= first + part.p_memsz) continue;
      s.file = object->dlpi_name;  // the program's own is empty
      return 1;
    }
    return 0;
  };
  ::dl_iterate_phdr(look, &wanted);
  return wanted.file;
}

}  // namespace

void name_program(const std::filesystem::path& program) {
  named_program() = program;
}

std::filesystem::path this_program() {
  if (!named_program().empty()) return named_program();
  if (const std::filesystem::path library = library_of_code(); !library.empty()) {
    if (const char* given = std::getenv("UNMASK_PROGRAM"); given && *given) return given;
    const auto beside = library.parent_path().parent_path() / "bin/unmask";
    if (is_file(beside)) return beside;
    throw environment_error("NOT RUN: needs the program unmask, which is not " + beside.string() +
                            "; $UNMASK_PROGRAM names its file");
  }
  std::error_code failed;
  const auto path = std::filesystem::read_symlink(own_file, failed);
  if (failed) throw environment_error("cannot find the file of this program in /proc/self/exe");
  return path;
}

std::filesystem::path program_to_start() {
  return named_program().empty() && library_of_code().empty() ? own_file : this_program();
}

std::filesystem::path file_of_code() {
  const std::filesystem::path library = library_of_code();
  return library.empty() ? own_file : library;
}

std::filesystem::path folder_of_code() {
  return (is_a_module() ? library_of_code() : this_program()).parent_path();
}

bool is_a_module() {
  return !library_of_code().empty();
}

}  // namespace unmask
