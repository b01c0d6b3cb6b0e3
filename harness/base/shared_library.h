// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Libraries that are opened when they are first needed, because the program must start where they
// are not. A machine with a GPU may hold CUDA's libraries only inside a Python installation (the
// wheels nvidia-cublas, nvidia-cudnn-cu13, nvidia-cuda-cupti, nvidia-nccl-cu13), which the loader does not search.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace unmask {

struct library_search {
  std::vector<std::string> names;  // "libcublasLt.so.13": what the loader would be asked for
  const char* variable = nullptr;  // an environment variable that names the file, or null
  std::string built_with;          // the file of the toolkit of the build; empty: there was none
  bool global = false;             // its symbols serve libraries that it opens
};

struct shared_library {
  void* handle = nullptr;  // null: not found. Never closed.
  std::string path;        // the file that was opened
  std::string tried;       // "a, b, ...", for the sentence that says what is missing
};

// Tries, in this order: the file named by the variable, alone where it is set; every name by the
// loader's own rules; the toolkit of the build; every name in the folders of python_libraries().
shared_library open_shared_library(const library_search& wanted);

// What is looked for of CUDA 13 beside the driver and the static runtime.
inline library_search cublaslt_library(std::string built_with = {}) {
  return {{"libcublasLt.so.13"}, "UNMASK_CUBLASLT", std::move(built_with)};
}
inline library_search cudnn_library() {
  return {{"libcudnn.so.9"}, "UNMASK_CUDNN"};
}
// The lines of several ranks between their GPUs.
inline library_search nccl_library() {
  return {{"libnccl.so.2"}, "UNMASK_NCCL"};
}
// CUPTI opens libraries of its own that look for its symbols.
inline library_search cupti_library(std::string built_with = {}) {
  return {{"libcupti.so.13", "libcupti.so"}, "UNMASK_CUPTI", std::move(built_with), true};
}

// Folders nvidia/*/lib inside the packages of $VIRTUAL_ENV and of each python3 on PATH, sorted.
std::vector<std::filesystem::path> python_libraries();

}  // namespace unmask
