// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A stand-in for cuBLASLt on the GPU in software: column-major products with A transposed, checked
// against what the library's header and manual ask.
#include <cublasLt.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/softgpu/runtime.h"
#include "tests/softgpu/settings.h"

namespace {

using unmask::softgpu::enqueue_host;
using unmask::softgpu::host_address;
using unmask::softgpu::library_note;

struct layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t ld;
  std::size_t pitch() const { return static_cast<std::size_t>(ld); }
};
struct description {
  cublasComputeType_t compute;
  cudaDataType scale;
  std::int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;
};
struct preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};
struct algorithm {  // what lies in a cublasLtMatmulAlgo_t
  std::uint64_t magic;
  std::uint32_t alignment[4];
  std::uint32_t number;
  std::uint32_t bias_alignment;  // of the product that it was asked for; 0: that had no bias
};
constexpr std::uint64_t own_magic = 0x554E4D41534BU;
constexpr std::size_t other_workspace = 1 << 20;  // bytes, of the second algorithm
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t));

template <class T>
T* as(void* p) {
  return static_cast<T*>(p);
}
void complain(const std::string& what) {
  library_note("cuBLASLt", what);
}

std::size_t size_of(cudaDataType t) {
  switch (t) {
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_8I:
      return 1;
    default:
      return 0;
  }
}

cublasStatus_t refuse(cublasStatus_t status, const std::string& why) {
  complain(why);
  return status;
}

struct product {
  description d;
  layout a, b, c, out;
};

product product_of(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out) {
  const auto own = [](cublasLtMatrixLayout_t l) { return *reinterpret_cast<layout*>(l); };
  return {*reinterpret_cast<description*>(d), own(a), own(b), own(c), own(out)};
}

cublasStatus_t check_float_product(const product& p) {
  const bool types =
      p.d.scale == CUDA_R_32F && p.a.type == CUDA_R_16BF && p.b.type == CUDA_R_16BF &&
      (p.out.type == CUDA_R_16BF || p.out.type == CUDA_R_32F) && p.c.type == p.out.type;
  if (!types) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types of a float32 product");
  const bool bias_fits =
      p.d.bias != nullptr &&
      (p.d.bias_type == -1 || p.d.bias_type == static_cast<std::int32_t>(p.out.type));
  if (p.d.epilogue == CUBLASLT_EPILOGUE_BIAS && !bias_fits) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a bias of another type than the result's");
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_integer_product(const product& p) {
  const bool types = p.d.scale == CUDA_R_32I && p.a.type == CUDA_R_8I && p.b.type == CUDA_R_8I &&
                     p.c.type == CUDA_R_32I && p.out.type == CUDA_R_32I;
  if (!types || p.d.epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types of an int32 product");
  }
  if (p.a.columns % 4 != 0 || p.a.rows % 4 != 0 || p.a.ld % 4 != 0 || p.b.ld % 4 != 0) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "int8: m " + std::to_string(p.a.columns) +
                                                   " and k " + std::to_string(p.a.rows) +
                                                   " must be multiples of 4");
  }
  return CUBLAS_STATUS_SUCCESS;
}

// CUBLAS_STATUS_NOT_SUPPORTED where the library has no such product.
cublasStatus_t supported(const product& p) {
  if (p.d.trans_a != CUBLAS_OP_T || p.d.trans_b != CUBLAS_OP_N) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "only TN products are made here");
  }
  if (p.a.rows != p.b.rows || p.a.columns != p.c.rows || p.b.columns != p.c.columns ||
      p.c.rows != p.out.rows || p.c.columns != p.out.columns) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "dimensions do not fit");
  }
  for (const layout* l : {&p.a, &p.b, &p.c, &p.out}) {
    if (l->ld < static_cast<std::int64_t>(l->rows)) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "leading dimension " + std::to_string(l->ld) +
                                                     " below " + std::to_string(l->rows));
    }
    if (l->rows == 0 || l->columns == 0) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "an empty matrix");
    }
  }
  if (p.d.compute == CUBLAS_COMPUTE_32F) return check_float_product(p);
  if (p.d.compute == CUBLAS_COMPUTE_32I) return check_integer_product(p);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

// Bytes that an address is a multiple of, 16 at most; 0: none.
std::uint32_t alignment_of(const void* p) {
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  return p == nullptr ? 0 : static_cast<std::uint32_t>(at % 16 == 0 ? 16 : at & -at);
}

float bf16(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}
std::uint16_t to_bf16(float x) {
  std::uint32_t b = std::bit_cast<std::uint32_t>(x);
  if (x != x) return 0x7FFF;
  b += 0x7FFF + ((b >> 16) & 1);
  return static_cast<std::uint16_t>(b >> 16);
}

std::uint64_t span(const layout& l) {  // bytes from the first to behind the last element
  return (static_cast<std::uint64_t>(l.ld) * (l.columns - 1) + l.rows) * size_of(l.type);
}

// Operands as the host finds them.
struct operands {
  const std::uint8_t *a, *b, *c;
  std::uint8_t* out;
  const std::uint8_t* bias;  // null: none
};

void multiply_integers(const product& p, const operands& o, std::int32_t alpha, std::int32_t beta) {
  const auto *x = reinterpret_cast<const std::int8_t*>(o.a),
             *y = reinterpret_cast<const std::int8_t*>(o.b);
  const auto* before = reinterpret_cast<const std::int32_t*>(o.c);
  auto* to = reinterpret_cast<std::int32_t*>(o.out);
  for (std::size_t j = 0; j < p.out.columns; ++j) {
    for (std::size_t i = 0; i < p.out.rows; ++i) {
      const std::int8_t *row = x + i * p.a.pitch(), *column = y + j * p.b.pitch();
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < p.a.rows; ++k) sum += std::int32_t{row[k]} * column[k];
      sum *= alpha;
      if (beta != 0) sum += beta * before[j * p.c.pitch() + i];
      to[j * p.out.pitch() + i] = sum;
    }
  }
}

float element(const std::uint8_t* from, cudaDataType type, std::size_t at) {
  if (type == CUDA_R_32F) return reinterpret_cast<const float*>(from)[at];
  return bf16(reinterpret_cast<const std::uint16_t*>(from)[at]);
}

void store(std::uint8_t* to, cudaDataType type, std::size_t at, float value) {
  if (type == CUDA_R_32F) {
    reinterpret_cast<float*>(to)[at] = value;
  } else {
    reinterpret_cast<std::uint16_t*>(to)[at] = to_bf16(value);
  }
}

std::vector<float> widened(const std::uint8_t* from, const layout& l) {
  std::vector<float> wide(l.columns * l.rows);
  for (std::size_t column = 0; column < l.columns; ++column) {
    for (std::size_t k = 0; k < l.rows; ++k) {
      wide[column * l.rows + k] = element(from, l.type, column * l.pitch() + k);
    }
  }
  return wide;
}

// In float64, in eight partial sums.
float dot(const float* x, const float* y, std::size_t count) {
  double part[8] = {};
  std::size_t k = 0;
  for (; k + 8 <= count; k += 8) {
    for (std::size_t e = 0; e < 8; ++e) part[e] += double{x[k + e]} * y[k + e];
  }
  for (; k < count; ++k) part[0] += double{x[k]} * y[k];
  double sum = 0;
  for (const double one : part) sum += one;
  return static_cast<float>(sum);
}

// UNMASK_SOFTGPU_PRODUCTS_TAKE="A B GROWTH": seconds that a product by the first and by the second algorithm seems
// to take, to events; each further product takes GROWTH of that more, as on a card that warms up.
struct pretended_times {
  double seconds[2] = {}, growth = 0;
  std::atomic<std::int64_t> products = 0;
  pretended_times() {
    const char* text = std::getenv("UNMASK_SOFTGPU_PRODUCTS_TAKE");
    if (text == nullptr) return;
    if (std::sscanf(text, "%lf %lf %lf", &seconds[0], &seconds[1], &growth) != 3) {
      complain(std::string("UNMASK_SOFTGPU_PRODUCTS_TAKE is \"") + text + "\"");
    }
  }
  void pass(std::uint32_t number) {
    const auto before = static_cast<double>(products++);
    unmask::softgpu::pretend_seconds(seconds[number] * (1 + growth * before));
  }
};
pretended_times& pretended() {
  static pretended_times times;
  return times;
}

// UNMASK_SOFTGPU_PRODUCTS=wrong: sums of floating-point products are a quarter too large.
float planted_factor() {
  static const char* text = std::getenv("UNMASK_SOFTGPU_PRODUCTS");
  return text != nullptr && std::strcmp(text, "wrong") == 0 ? 1.25F : 1.0F;
}

void multiply_floats(const product& p, const operands& o, float alpha, float beta) {
  const std::vector<float> x = widened(o.a, p.a), y = widened(o.b, p.b);
  const std::size_t depth = p.a.rows;
  for (std::size_t j = 0; j < p.out.columns; ++j) {
    for (std::size_t i = 0; i < p.out.rows; ++i) {
      float sum = dot(&x[i * depth], &y[j * depth], depth) * alpha * planted_factor();
      if (beta != 0) sum += beta * element(o.c, p.c.type, j * p.c.pitch() + i);
      if (o.bias != nullptr) sum += element(o.bias, p.out.type, i);
      store(o.out, p.out.type, j * p.out.pitch() + i, sum);
    }
  }
}

// The operand's bytes; null, and a complaint: they are no device memory. An algorithm that was asked
// for with an alignment serves operands that have it.
std::uint8_t* find(const void* operand, const layout& l, std::uint32_t alignment, char name) {
  const auto at = reinterpret_cast<std::uintptr_t>(operand);
  const std::uint64_t pitch = l.pitch() * size_of(l.type);
  const std::string subject = std::string("operand ") + name;
  if (at % alignment != 0 || (alignment <= 16 && l.columns > 1 && pitch % alignment != 0)) {
    complain(subject + " is not aligned to " + std::to_string(alignment) +
             " bytes, as the algorithm was asked for (pitch " + std::to_string(pitch) + ")");
  }
  void* host = host_address(operand, span(l));
  if (host == nullptr) {
    complain(subject + ": its " + std::to_string(span(l)) + " bytes are no device memory");
  }
  return static_cast<std::uint8_t*>(host);
}

}  // namespace

namespace {

// What a program asks of the host, for UNMASK_SOFTGPU_STATS.
struct calls {
  std::atomic<std::int64_t> products = 0, descriptions = 0, layouts = 0, checks = 0;
  ~calls() {
    if (!unmask::softgpu::options().statistics) return;
    std::fprintf(stderr,
                 "softgpu: cuBLASLt: %lld products, %lld descriptions, %lld layouts, %lld checks\n",
                 static_cast<long long>(products), static_cast<long long>(descriptions),
                 static_cast<long long>(layouts), static_cast<long long>(checks));
  }
} counted;

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = reinterpret_cast<cublasLtHandle_t>(new int(1));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  delete reinterpret_cast<int*>(h);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS         ? "success"
         : s == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
                                            : "an error";
}
std::size_t cublasLtGetVersion() {
  return 130000;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  ++counted.descriptions;
  *d = reinterpret_cast<cublasLtMatmulDesc_t>(new description{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete reinterpret_cast<description*>(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t bytes) {
  auto* own = reinterpret_cast<description*>(d);
  void* to = nullptr;
  std::size_t want = 4;
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      to = &own->trans_a;
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      to = &own->trans_b;
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      to = &own->epilogue;
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      to = &own->bias_type;
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      to = &own->bias;
      want = 8;
      break;
    default:
      complain("attribute " + std::to_string(which));
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (bytes < want) {
    complain("attribute " + std::to_string(which) + " in " + std::to_string(bytes) + " bytes");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(to, value, want);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  if (size_of(type) == 0) {
    complain("matrix type " + std::to_string(type));
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  ++counted.layouts;
  *l = reinterpret_cast<cublasLtMatrixLayout_t>(new layout{type, rows, columns, ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete reinterpret_cast<layout*>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = reinterpret_cast<cublasLtMatmulPreference_t>(new preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete reinterpret_cast<preference*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* value, std::size_t bytes) {
  auto* own = reinterpret_cast<preference*>(p);
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != 8) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&own->workspace, value, 8);
    return CUBLAS_STATUS_SUCCESS;
  }
  const int at = which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (at < 0 || at > 3 || bytes != 4) {
    complain("preference " + std::to_string(which));
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&own->alignment[at], value, 4);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t p, int asked,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  *count = 0;
  const cublasStatus_t s = supported(product_of(d, a, b, c, out));
  if (s != CUBLAS_STATUS_SUCCESS) return s;
  // UNMASK_SOFTGPU_ONE_ANSWER=ROWS: products of so many rows have the first algorithm alone as an answer.
  static const char* text = std::getenv("UNMASK_SOFTGPU_ONE_ANSWER");
  const std::uint64_t rows = reinterpret_cast<layout*>(out)->columns;
  const int answers = text != nullptr && std::to_string(rows) == text ? 1 : 2;
  for (int n = 0; n < answers && n < asked; ++n) {
    algorithm one{};
    one.magic = own_magic;
    std::memcpy(one.alignment, reinterpret_cast<preference*>(p)->alignment, sizeof one.alignment);
    one.number = static_cast<std::uint32_t>(n);
    one.bias_alignment = alignment_of(reinterpret_cast<description*>(d)->bias);
    results[n] = {};
    std::memcpy(&results[n].algo, &one, sizeof one);
    results[n].workspaceSize = n == 0 ? 0 : other_workspace;
    results[n].state = CUBLAS_STATUS_SUCCESS;
    ++*count;
  }
  return CUBLAS_STATUS_SUCCESS;
}
// The second algorithm has larger tiles, and clusters of two.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t which,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  algorithm own;
  std::memcpy(&own, algo, sizeof own);
  if (own.magic != own_magic) return CUBLAS_STATUS_INVALID_VALUE;
  const bool second = own.number != 0;
  const std::uint32_t tile = second ? CUBLASLT_MATMUL_TILE_128x128 : CUBLASLT_MATMUL_TILE_64x64;
  const auto cluster = static_cast<std::uint16_t>(second ? CUBLASLT_CLUSTER_SHAPE_2x1x1
                                                         : CUBLASLT_CLUSTER_SHAPE_1x1x1);
  const std::int32_t parts = 1;
  const auto tell = [&](const auto& what) {
    if (bytes != sizeof what) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, &what, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (which) {
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      return tell(tile);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return tell(cluster);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return tell(parts);
    default:
      complain("algorithm attribute " + std::to_string(which));
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  ++counted.checks;
  algorithm own;
  std::memcpy(&own, algo, sizeof own);
  if (own.magic != own_magic) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = own.number == 0 ? 0 : other_workspace;
  return supported(product_of(d, a, b, c, out));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void* alpha,
                              const void* A, cublasLtMatrixLayout_t a, const void* B,
                              cublasLtMatrixLayout_t b, const void* beta, const void* C,
                              cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t out,
                              const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  ++counted.products;
  const product p = product_of(d, a, b, c, out);
  if (const cublasStatus_t s = supported(p); s != CUBLAS_STATUS_SUCCESS) return s;
  algorithm own;
  std::memcpy(&own, algo, sizeof own);
  if (own.magic != own_magic) return CUBLAS_STATUS_INVALID_VALUE;
  const operands o{find(A, p.a, own.alignment[0], 'A'), find(B, p.b, own.alignment[1], 'B'),
                   find(C, p.c, own.alignment[2], 'C'), find(D, p.out, own.alignment[3], 'D'),
                   nullptr};
  operands all = o;
  if (p.d.epilogue == CUBLASLT_EPILOGUE_BIAS) {
    const void* bias = host_address(p.d.bias, p.out.rows * size_of(p.out.type));
    if (bias == nullptr) return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "bias is no device memory");
    all.bias = static_cast<const std::uint8_t*>(bias);
    if (alignment_of(p.d.bias) < own.bias_alignment) {
      complain("a bias aligned to " + std::to_string(alignment_of(p.d.bias)) +
               " bytes, by an algorithm that was asked for with one of " +
               std::to_string(own.bias_alignment));
    }
  }
  if (o.a == nullptr || o.b == nullptr || o.c == nullptr || o.out == nullptr) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  if (own.number != 0 && (workspace == nullptr || workspace_bytes < other_workspace)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (workspace != nullptr && (host_address(workspace, workspace_bytes) == nullptr ||
                               reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)) {
    complain("workspace");
  }
  const std::vector<unmask::softgpu::library_access> touched = {
      {A, span(p.a), false},
      {B, span(p.b), false},
      {C, span(p.c), false},
      {D, span(p.out), true},
      {workspace, workspace == nullptr ? 0 : workspace_bytes, true}};
  int status = 0;
  if (p.d.compute == CUBLAS_COMPUTE_32I) {
    const auto x = *static_cast<const std::int32_t*>(alpha),
               y = *static_cast<const std::int32_t*>(beta);
    enqueue_host(
        stream,
        [=] {
          multiply_integers(p, all, x, y);
          pretended().pass(own.number);
        },
        touched, &status);
  } else {
    const auto x = *static_cast<const float*>(alpha), y = *static_cast<const float*>(beta);
    enqueue_host(
        stream,
        [=] {
          multiply_floats(p, all, x, y);
          pretended().pass(own.number);
        },
        touched, &status);
  }
  return status == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
