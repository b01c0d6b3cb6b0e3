// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What multiplies, if there are several ways to; choices.h says which may be taken.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/backend.h"

namespace unmask::cuda {

// Operations with several ways to multiply, and the ways, in the order in which they are preferred.
// products: of bfloat16 weights, by the library or on CUDA cores; int8_products the same (dp4a);
// attention (bfloat16 K/V) and experts (bfloat16 weights): by wgmma, mma.sync or on CUDA cores. newer: by
// a kernel that no card has measured yet beside the one before it: of attention those of many rows, of
// few sequences (clusters) and of cut keys, of experts the products whose warpgroups have roles, of the head
// the fold of a chunk of logits, of gate and up (bfloat16 weights) the product that gates few rows, of few_rows,
// products of few rows into the residual stream (bfloat16 weights), the one whose blocks share k, and of head_product,
// the head of many candidates (bfloat16 weights), the product that folds its logits.
enum class multiplied : std::uint8_t {
  products,
  int8_products,
  attention,
  experts,
  head,
  gated,
  few_rows,
  head_product
};
enum class multiplier : std::uint8_t { newer, library, wgmma, mma_sync, cuda_cores };

inline const char* name_of(multiplied what) {
  constexpr const char* names[] = {
      "products",    "int8 products",        "attention",     "experts", "head",
      "gate and up", "products of few rows", "head's product"};
  return names[static_cast<std::size_t>(what)];
}
inline const char* name_of(multiplier how) {
  constexpr const char* names[] = {"newer kernels", "cuBLASLt", "wgmma", "mma.sync", "CUDA cores"};
  return names[static_cast<std::size_t>(how)];
}

// Products of the library's that newer kernels take in some sizes.
constexpr bool instead_of_library(multiplied what) {
  return what == multiplied::gated || what == multiplied::few_rows ||
         what == multiplied::head_product;
}

// Those of dense weights of this format; none: float32 weights have one way.
inline std::optional<multiplied> products_of(weight_format format) {
  if (format == weight_format::f32) return std::nullopt;
  return format == weight_format::int8 ? multiplied::int8_products : multiplied::products;
}

}  // namespace unmask::cuda
