// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Matrix products with packed weights: y = x W^T, W [N, K].
//
// Layout. W is cut into panels of `panel_width` output features; inside a panel the features of
// one k lie side by side (K-major), so a kernel streams the panel once, front to back:
//   f32, bf16:  panel[k][n]
//   int8:       panel[k / 4][n][k % 4], K padded to a multiple of 4 with zeros
// The last panel is padded with zero features. The width belongs to the instruction set the
// matrix was packed for, and a matrix is always multiplied by the kernels it was packed for.
//
// Batch invariance. One output element is one chain of fused multiply-adds over ascending k, from
// zero, whatever M is and wherever the row sits in a tile: row r has the same bits alone and in
// any batch. Bias and the old y are added after the chain. The oneDNN path gives this up and is
// therefore never chosen unless asked for.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/isa.h"

namespace unmask::cpu {

// Who multiplies. own: the kernels here, batch-invariant, always the default. onednn: the library
// for f32 weights and M >= 128 (it keeps its own packed copy, made on first use). automatic: for
// each (M, K, N) whichever was faster when first tried.
enum class gemm_path { own, onednn, automatic };
gemm_path require(gemm_path path);     // as it is; environment_error if there is no library
gemm_path gemm_path_of_environment();  // UNMASK_GEMM=own|onednn|auto; own without it

// Weight [N, K] in f32, bf16 or f16 into the layout of a set. int8: scale_n =
// max_k |W[n, k]| / 127, nearest even. Throws environment_error when memory runs out.
packed_handle pack(const tensor_view& weight, weight_format format, isa set);

// y [M, N] = x [M, K] W^T (+ bias [N], data null for none), or y += the same. x and y are f32,
// any row_stride, and do not overlap. Uses the OpenMP threads when the work is worth it.
void linear(const tensor_view& x, const packed_matrix& w, const tensor_view& bias,
            const tensor_view& y, bool accumulate, gemm_path path = gemm_path::own);

// Columns [n0, n1) of x W^T into y [M, >= n1 - n0], on the calling thread only: the tile of a
// fused LM head. n0 is a multiple of panel_width(w); n1 is one too, or N. Same bits as linear.
void linear_columns(const tensor_view& x, const packed_matrix& w, std::int64_t n0, std::int64_t n1,
                    const tensor_view& y);

// Rows of activations made ready for one product: for int8 weights the quantised rows, for
// float weights x itself. Lets a fused LM head quantise once and stream many column tiles.
// Owned by the caller, reusable; grows only. `x` must outlive the use.
class prepared_rows {
 public:
  prepared_rows() = default;
  prepared_rows(const prepared_rows&) = delete;
  prepared_rows& operator=(const prepared_rows&) = delete;
  ~prepared_rows();

  void prepare(const tensor_view& x, const packed_matrix& w);

 private:
  friend void linear_columns(const prepared_rows& x, const packed_matrix& w, std::int64_t n0,
                             std::int64_t n1, const tensor_view& y);
  tensor_view source_;
  void* memory_ = nullptr;  // int8 rows, then one scale per row
  std::size_t capacity_ = 0;
};
void linear_columns(const prepared_rows& x, const packed_matrix& w, std::int64_t n0,
                    std::int64_t n1, const tensor_view& y);

// Output features of one panel of w.
std::int64_t panel_width(const packed_matrix& w);
// Instruction set w was packed for.
isa packed_for(const packed_matrix& w);

}  // namespace unmask::cpu
