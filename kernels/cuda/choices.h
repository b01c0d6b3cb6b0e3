// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a backend object takes of the CUDA kernels, if there is a choice. It never changes: another
// choice is another object, and all objects of a device share its queue, memory and library.
#pragma once

#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "kernels/cuda/ways.h"

namespace unmask::cuda {

struct choices {
  // bfloat16 and int8 weights take them instead of the library's. A row's bits do not depend on the
  // batch then.
  bool own_products = false;
  bool wgmma = true;   // false: mma.sync multiplies where wgmma could, to compare them
  bool graphs = true;  // layers are recorded and repeated; false: the host launches every kernel
  bool newer = false;  // kernels that no card has measured yet may be taken
  std::set<std::pair<multiplied, multiplier>> left_out;  // what the device check found wrong

  // The one place that says which ways may be taken. Of those that may, and that the device and the
  // operands allow, an operation takes the first. CUDA cores always may.
  bool may_multiply(multiplied what, multiplier how) const {
    if (left_out.contains({what, how})) return false;
    if (how == multiplier::newer) {
      if (instead_of_library(what) && !may_multiply(multiplied::products, multiplier::library)) {
        return false;  // activations are float32
      }
      if (what == multiplied::experts) return newer && may_multiply(what, multiplier::wgmma);
      return newer && (what == multiplied::head ||
                       (wgmma && (what == multiplied::attention || instead_of_library(what))));
    }
    const bool dense = what == multiplied::products || what == multiplied::int8_products;
    if (how == multiplier::cuda_cores) return true;
    // What comes behind a product, or takes its place.
    if (what == multiplied::head || instead_of_library(what)) return false;
    if (dense != (how == multiplier::library)) return false;
    if (own_products && what != multiplied::attention) return false;
    return how != multiplier::wgmma || wgmma;
  }
  auto operator<=>(const choices&) const = default;
};

// Whether an environment variable holds `yes` rather than `no`; unset: `otherwise`. Any other word is
// an environment error. They are for tests and benchmarks of single kernels.
inline bool chosen_by_environment(const char* variable, const char* yes, const char* no,
                                  bool otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  const std::string word = text;
  if (word == yes || word == no) return word == yes;
  throw environment_error(std::string(variable) + " is \"" + word + "\"; say " + yes + " or " + no);
}
inline bool wgmma_by_environment() {
  return chosen_by_environment("UNMASK_CUDA_WGMMA", "on", "off", true);
}
// Those that no card has measured yet, where a run leaves it open; nothing: the variable is not set.
inline std::optional<bool> newer_by_environment() {
  if (std::getenv("UNMASK_CUDA_KERNELS") == nullptr) return std::nullopt;
  return chosen_by_environment("UNMASK_CUDA_KERNELS", "new", "before", false);
}
// Whether heads of a picture's tower get zeros up to 64 or 128 elements, so that tensor cores multiply them, with
// keys and values in bfloat16. No card has measured it yet: exact is what a run takes.
inline bool widens_towers_by_environment() {
  return chosen_by_environment("UNMASK_CUDA_TOWERS", "padded", "exact", false);
}
// `graphs`: without UNMASK_CUDA_GRAPHS. The emulator gains nothing from them.
inline choices choices_of_environment(bool graphs = true) {
  return {chosen_by_environment("UNMASK_CUDA_GEMM", "own", "library", false),
          wgmma_by_environment(),
          chosen_by_environment("UNMASK_CUDA_GRAPHS", "on", "off", graphs),
          newer_by_environment().value_or(false),
          {}};
}

}  // namespace unmask::cuda

namespace unmask {

// One object for each set of choices, made when it is first asked for; cuda_backend() and
// cuda_emulated_backend() are the environment's. They throw as those do.
const backend& cuda_backend(const cuda::choices& choices);
const backend& cuda_emulated_backend(const cuda::choices& choices);

}  // namespace unmask
