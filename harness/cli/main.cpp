// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <filesystem>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/output.h"
#include "harness/base/process.h"
#include "harness/cli/command.h"
#include "harness/cli/help.h"
#include "harness/cli/options.h"
#include "harness/devices/environment.h"
#include "harness/run/following.h"

namespace unmask {
namespace {

int dispatch(const texts& arguments) {
  if (arguments.empty()) {
    write_error(program_help());
    return static_cast<int>(exit_code::usage);
  }
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    write_output(program_help());
    return 0;
  }
  if (arguments[0] == "--version") {
    print("unmask {}\n", version_text());
    return 0;
  }
  return run_command(command_named(arguments[0]), {arguments.begin() + 1, arguments.end()});
}

int fail(exit_code code, const std::string& sentence) {
  write_error("unmask: " + sentence + "\n");
  return static_cast<int>(code);
}

// Runs `work`; what it throws becomes one sentence and an exit code.
template <class Work>
int guarded(const Work& work) {
  try {
    return work();
  } catch (const help_shown&) {
    return 0;
  } catch (const error& failure) {
    return fail(failure.code(), failure.what());
  } catch (const std::filesystem::filesystem_error& failure) {
    return fail(exit_code::environment, failure.path1().string() + ": " + failure.code().message());
  } catch (const std::bad_alloc&) {
    return fail(exit_code::environment, "out of memory; use a smaller batch size, length or model");
  } catch (const std::exception& failure) {
    return fail(exit_code::run_failed, std::string("internal error: ") + failure.what());
  }
}

}  // namespace
}  // namespace unmask

int unmask_main(int argc, char** argv) {
  unmask::end_with_caller();
  unmask::match_threads_to_quota();
  const int code = unmask::guarded([&] {
    unmask::follows();
    return unmask::dispatch({argv + 1, argv + argc});
  });
  // What did not reach its file was not done, whatever else came of it.
  const int written = unmask::guarded([] {
    unmask::check_output();
    return 0;
  });
  return written != 0 ? written : code;
}

// Weak: the GPU check's one program (tests/gpu/multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_main(argc, argv);
}
