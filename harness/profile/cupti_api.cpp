// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#if UNMASK_HAS_CUPTI

#include "harness/profile/cupti_api.h"

#include <dlfcn.h>

#include "harness/base/error.h"
#include "harness/base/shared_library.h"

namespace unmask::cupti {
namespace {

struct opening {
  library functions;
  std::string problem;

  opening() {
    const shared_library found = open_shared_library(cupti_library(UNMASK_CUPTI_LIBRARY));
    void* handle = found.handle;
    if (!handle) {
      problem = "CUPTI is not here (tried " + found.tried + "); set UNMASK_CUPTI to libcupti.so";
      return;
    }
    // CUPTI asks the loader for its counters' library by a bare name, which the loader knows once the
    // file beside CUPTI is open.
    const auto folder = std::filesystem::path(found.path).parent_path();
    dlopen((folder / "libnvperf_host.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
#define UNMASK_CUPTI_LOAD(name)                                                      \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(handle, #name)); \
  if (!functions.name && problem.empty()) problem = "this CUPTI lacks " #name;
    UNMASK_CUPTI_FUNCTIONS(UNMASK_CUPTI_LOAD)
#undef UNMASK_CUPTI_LOAD
    if (!problem.empty()) return;
    std::uint32_t version = 0;
    functions.cuptiGetVersion(&version);
    // Until CUDA 12 versions were small numbers; since then they read like 130001.
    if (version < 130000) {
      problem = "CUPTI " + std::to_string(version) + " is older than that of CUDA 13";
    }
  }
};

}  // namespace

const library& open_library() {
  static const opening opened;
  if (!opened.problem.empty()) throw environment_error(opened.problem);
  return opened.functions;
}

std::string advice(CUptiResult result) {
  switch (static_cast<int>(result)) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "the driver lets administrators only read counters: run as root or with "
             "CAP_SYS_ADMIN, start the container with --cap-add=SYS_ADMIN, or load the driver with "
             "NVreg_RestrictProfilingToAdminUsers=0";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED:
      return "this virtual device has no counters";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "another tool (nsys, ncu, cuda-gdb, DCGM) holds the device's profiling hardware";
    case CUPTI_ERROR_UNKNOWN:
      return "is there a driver and a GPU?";
    default:
      return "";
  }
}

void check(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  open_library().cuptiGetResultString(result, &text);
  const std::string more = advice(result);
  throw environment_error(std::string(call) + ": " + (text ? text : "unknown error") + " (" +
                          std::to_string(static_cast<int>(result)) + ")" +
                          (more.empty() ? "" : "; " + more));
}

}  // namespace unmask::cupti

#endif
