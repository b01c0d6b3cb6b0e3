// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/process.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

class file_actions {
 public:
  file_actions() { posix_spawn_file_actions_init(&actions_); }
  ~file_actions() { posix_spawn_file_actions_destroy(&actions_); }
  file_actions& operator=(file_actions&&) = delete;
  void write_to(int descriptor, const std::filesystem::path& file) {
    if (file.empty()) return;
    posix_spawn_file_actions_addopen(&actions_, descriptor, file.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0644);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

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
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  file_actions actions;
  actions.write_to(STDOUT_FILENO, standard_output);
  actions.write_to(STDERR_FILENO, standard_error);
  std::fflush(nullptr);  // what we printed comes before what the child prints
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], actions.get(), nullptr, arguments.data(), environ);
  if (failed != 0) {
    throw environment_error("cannot start " + command.front() + ": " + std::strerror(failed));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw environment_error("lost the process " + command.front());
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::filesystem::path this_program() {
  std::error_code failed;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw environment_error("cannot find the file of this program in /proc/self/exe");
  return path;
}

}  // namespace unmask
