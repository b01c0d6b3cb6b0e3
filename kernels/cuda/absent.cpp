// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The answers of a build without CUDA; compiled instead of everything else in this folder.
#include "harness/base/error.h"
#include "kernels/backend.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/product_library.h"
#include "kernels/cuda/rank_library.h"

namespace unmask::cuda {

report query() {
  report result;
  result.note = "no GPU: this program was built without CUDA";
  return result;
}

const backend* gpu_reading_host_memory() {
  return nullptr;
}

namespace {
[[noreturn]] void refuse() {
  throw environment_error("cannot measure a GPU: this program was built without CUDA");
}
}  // namespace

void require_rank_library() {
  throw environment_error(query().note);
}
std::string rank_library_version() {
  throw environment_error(query().note);
}

std::string product_library() {
  return "none";
}

copy_roof measure_copy_roof(int) {
  refuse();
}

product_roof measure_product_roof(int, product_kind) {
  refuse();
}

}  // namespace unmask::cuda

namespace unmask {

const backend& cuda_backend(const cuda::choices&) {
  return cuda_backend();
}
const backend& cuda_backend() {
  throw environment_error(cuda::query().note);
}

}  // namespace unmask
