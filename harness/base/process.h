// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace unmask {

// Runs a program (looked up on PATH) with these arguments, without a shell, and waits for it.
// Empty files: the output goes where ours goes; otherwise they are written anew. The exit status;
// 128 + N when signal N ended it. Environment error when it cannot be started.
// It ends with us: SIGTERM goes to it if we are killed. A signal that would end us goes to it first, and
// we end by the same signal once it has.
int run_process(const std::vector<std::string>& command,
                const std::filesystem::path& standard_output = {},
                const std::filesystem::path& standard_error = {});

// A program that runs beside us. It is killed when this object goes, or when we end, however that comes.
class child_process {
 public:
  // As run_process(), which waits for it.
  child_process(const std::vector<std::string>& command,
                const std::filesystem::path& standard_output,
                const std::filesystem::path& standard_error);
  ~child_process();
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  pid_t pid() const { return pid_; }
  // What waitpid() says of it once it has ended.
  std::optional<int> ended();
  // Waits so many seconds for its end, then kills it.
  void let_end(double seconds);

 private:
  pid_t pid_ = 0;
  std::optional<int> status_;
};

// The words that started this process.
std::vector<std::string> own_words();

// This process becomes that program: its signals, output and exit status are the program's own.
// Environment error when it cannot be started.
[[noreturn]] void become_process(const std::vector<std::string>& command);

// Whether a process is there and has not ended.
bool is_alive(int process);

// A program that called us and named its process in this variable ends us when it ends, however that
// comes, also if it has ended before we ask. Called once, first of all.
inline constexpr const char* called_by = "UNMASK_CALLED_BY";
void end_with_caller();

// Words for a POSIX shell with blanks between, each in single quotes where it needs them.
std::string shell_line(const std::vector<std::string>& command);

// The file of the program `unmask`: the one that name_program() named, else this process's own. Python
// that holds the engine as a module is another program: then $UNMASK_PROGRAM names it, else it is
// ../bin/unmask next to the folder of the module, in a build and in a wheel. Environment error if it is
// not there.
std::filesystem::path this_program();
void name_program(const std::filesystem::path& program);
// What starts it once more: of this process its very file, even if its name is another one's by now.
std::filesystem::path program_to_start();
// The file that holds this code, the program's or the module's: what measured has its hash.
std::filesystem::path file_of_code();
// Its folder: of a module too, with or without a program next to it.
std::filesystem::path folder_of_code();
// Whether this code is a module of another program, whose process it is.
bool is_a_module();

// Set in the environment of runs that share a machine with others; and what their rows then say.
inline constexpr const char* shares_machine = "UNMASK_SHARES_MACHINE";
inline constexpr const char* shared_machine_note =
    "other measurements ran on the machine at the same time: times and speeds mean nothing";

}  // namespace unmask
