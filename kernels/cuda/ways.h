// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What multiplies, where there are several ways to: the one place that says which may be taken.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/choice.h"

namespace unmask::cuda {

// Operations with several ways to multiply, and the ways, in the order in which they are preferred.
// products: of bfloat16 weights, by the library or on CUDA cores; int8_products the same (dp4a);
// attention (bfloat16 K/V) and experts (bfloat16 weights): by wgmma, mma.sync or on CUDA cores.
enum class multiplied : std::uint8_t { products, int8_products, attention, experts };
enum class multiplier : std::uint8_t { library, wgmma, mma_sync, cuda_cores };

inline const char* name_of(multiplied what) {
  constexpr const char* names[] = {"products", "int8 products", "attention", "experts"};
  return names[static_cast<std::size_t>(what)];
}
inline const char* name_of(multiplier how) {
  constexpr const char* names[] = {"cuBLASLt", "wgmma", "mma.sync", "CUDA cores"};
  return names[static_cast<std::size_t>(how)];
}

// Those of dense weights of this format; none: float32 weights have one way.
inline std::optional<multiplied> products_of(weight_format format) {
  if (format == weight_format::f32) return std::nullopt;
  return format == weight_format::int8 ? multiplied::int8_products : multiplied::products;
}

// What the device check found wrong on this machine, for the rest of the program.
inline std::set<std::pair<multiplied, multiplier>>& ways_left_out() {
  static std::set<std::pair<multiplied, multiplier>> all;
  return all;
}

// The one place that says which ways may be taken. Of those that may, and that the device and the
// operands allow, an operation takes the first. CUDA cores always may.
inline bool may_multiply(multiplied what, multiplier how) {
  if (ways_left_out().contains({what, how})) return false;
  const bool dense = what == multiplied::products || what == multiplied::int8_products;
  if (how == multiplier::cuda_cores) return true;
  if (dense != (how == multiplier::library)) return false;
  // UNMASK_CUDA_GEMM=own: a row's bits do not depend on the batch.
  const auto own = [] {
    return chosen_by_environment("UNMASK_CUDA_GEMM", "own", "library", false);
  };
  if (dense) return !own();
  if (what == multiplied::experts && own()) return false;
  // UNMASK_CUDA_WGMMA=off: mma.sync multiplies where wgmma could, so that they can be compared.
  return how != multiplier::wgmma || chosen_by_environment("UNMASK_CUDA_WGMMA", "on", "off", true);
}

}  // namespace unmask::cuda
