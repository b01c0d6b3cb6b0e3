// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/library_gemm.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "harness/base/ranks/group.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/row_buckets.h"
#include "kernels/cuda/tuned_products.h"

namespace unmask::cuda {
namespace {

const cublaslt_functions& library() {
  return cublaslt();
}

void check_library(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw environment_error(std::string("cuBLASLt: ") + call + ": " +
                          library().cublasLtGetStatusString(status));
}
#define UNMASK_LIBRARY_CALL(call) check_library((call), #call)

struct library_deleter {
  void operator()(cublasLtMatmulDesc_t d) const { (void)library().cublasLtMatmulDescDestroy(d); }
  void operator()(cublasLtMatrixLayout_t d) const {
    (void)library().cublasLtMatrixLayoutDestroy(d);
  }
  void operator()(cublasLtMatmulPreference_t d) const {
    (void)library().cublasLtMatmulPreferenceDestroy(d);
  }
};
template <class T>
using library_handle = std::unique_ptr<std::remove_pointer_t<T>, library_deleter>;
using description = library_handle<cublasLtMatmulDesc_t>;
using layout = library_handle<cublasLtMatrixLayout_t>;
using preference = library_handle<cublasLtMatmulPreference_t>;

layout make_layout(cudaDataType type, std::int64_t rows, std::int64_t columns, std::int64_t pitch) {
  cublasLtMatrixLayout_t made = nullptr;
  UNMASK_LIBRARY_CALL(library().cublasLtMatrixLayoutCreate(
      &made, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), pitch));
  return layout(made);
}

// What a tuned choice is valid for.
struct problem {
  std::int64_t n = 0, k = 0, m = 0;
  bool accumulate = false;
  int bias = 0;          // bytes that its address is a multiple of, 16 at most; 0: there is none
  bool aligned = false;  // every operand's rows start at multiples of 16 bytes
  bool half = false;     // the result is bfloat16
  bool int8 = false;     // else the operands are bfloat16
  // Of one of several ranks: m is the product's own, and the library's first answer is taken, the same
  // on equal GPUs. Times would choose another on each, and with it other bits of what ranks repeat.
  bool of_ranks = false;
  auto operator<=>(const problem&) const = default;
};

bool aligned_16(const library_product& p) {
  const auto at = [](const void* q) { return reinterpret_cast<std::uintptr_t>(q) % 16 == 0; };
  return at(p.x) && at(p.w) && at(p.y) && p.depth % (p.int8 ? 16 : 8) == 0 && p.y_stride % 8 == 0;
}

// The library's heuristics look at the bias' address, and their choice holds for no smaller alignment.
int alignment_of_bias(const library_product& p) {
  const auto at = reinterpret_cast<std::uintptr_t>(p.bias);
  int bytes = at == 0 ? 0 : 1;
  while (bytes > 0 && bytes < 16 && at % (2 * static_cast<std::uintptr_t>(bytes)) == 0) bytes *= 2;
  return bytes;
}

std::string safe(std::string text) {
  for (char& c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain) c = '_';
  }
  return text;
}

// <cache>/tune-<gpu>-<driver>-<cublas>.json; empty: there is no place to keep it.
std::filesystem::path tuning_file() {
  int device = 0, driver = 0;
  UNMASK_CUDA_CALL(cudaGetDevice(&device));
  cudaDeviceProp properties{};
  UNMASK_CUDA_CALL(cudaGetDeviceProperties(&properties, device));
  UNMASK_CUDA_CALL(cudaDriverGetVersion(&driver));
  std::filesystem::path folder;
  if (const char* cache = std::getenv("UNMASK_CACHE")) {
    folder = cache;
  } else if (const char* home = std::getenv("HOME")) {
    folder = std::filesystem::path(home) / ".cache" / "unmask";
  } else {
    return {};
  }
  return folder / ("tune-" + safe(properties.name) + "-" + std::to_string(driver) + "-" +
                   std::to_string(library().cublasLtGetVersion()) + ".json");
}

// Calls that are kept prepared at most: in a step of a model with narrowed rows every number of rows
// comes up with each of its products.
constexpr std::size_t most_prepared = 8192;

struct choice {
  cublasLtMatmulAlgo_t algorithm{};
  float microseconds = 0;
};

// One JSON object per line; the algorithm is the library's own 64 bytes, which it documents as
// valid for the same version of it. Lines without in_turn are of an older rule, and not read.
std::string line_of(const problem& p, const choice& c) {
  std::array<unsigned char, sizeof(cublasLtMatmulAlgo_t)> bytes;
  std::memcpy(bytes.data(), &c.algorithm, bytes.size());
  std::string hex;
  for (const unsigned char b : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", b);
    hex += two;
  }
  char text[512];
  std::snprintf(
      text, sizeof text,
      "{\"n\":%lld,\"k\":%lld,\"m\":%lld,\"accumulate\":%d,\"bias\":%d,\"aligned\":%d,"
      "\"half\":%d,\"int8\":%d,\"in_turn\":true,\"microseconds\":%.3f,\"algorithm\":\"%s\"}",
      static_cast<long long>(p.n), static_cast<long long>(p.k), static_cast<long long>(p.m),
      p.accumulate ? 1 : 0, p.bias, p.aligned ? 1 : 0, p.half ? 1 : 0, p.int8 ? 1 : 0,
      static_cast<double>(c.microseconds), hex.c_str());
  return text;
}

bool parse_line(const std::string& line, problem* p, choice* c) {
  long long n = 0, k = 0, m = 0;
  int accumulate = 0, bias = 0, aligned = 0, half = 0, int8 = 0;
  char hex[2 * sizeof(cublasLtMatmulAlgo_t) + 1] = {};
  const int read =
      std::sscanf(line.c_str(),
                  "{\"n\":%lld,\"k\":%lld,\"m\":%lld,\"accumulate\":%d,\"bias\":%d,\"aligned\":%d,"
                  "\"half\":%d,\"int8\":%d,\"in_turn\":true,\"microseconds\":%f,\"algorithm\":"
                  "\"%128[0-9a-f]\"}",
                  &n, &k, &m, &accumulate, &bias, &aligned, &half, &int8, &c->microseconds, hex);
  if (read != 10 || std::strlen(hex) != 2 * sizeof(cublasLtMatmulAlgo_t)) return false;
  std::array<unsigned char, sizeof(cublasLtMatmulAlgo_t)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
    bytes[i] = static_cast<unsigned char>(std::strtoul(two, nullptr, 16));
  }
  std::memcpy(&c->algorithm, bytes.data(), bytes.size());
  *p = {n, k, m, accumulate != 0, bias, aligned != 0, half != 0, int8 != 0};
  return true;
}

// What an algorithm is made of.
template <class T>
T config_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  std::size_t written = 0;
  const cublasStatus_t told = library().cublasLtMatmulAlgoConfigGetAttribute(
      &algorithm, which, &value, sizeof value, &written);
  return told == CUBLAS_STATUS_SUCCESS ? value : T{};
}

// The library's M runs over the columns of y, its N over the rows. Tiles that are no multiples of 32 are unknown here.
struct named_size {
  int name;
  std::int64_t columns, rows;
};
#define UNMASK_TILE(m, n) \
  { CUBLASLT_MATMUL_TILE_##m##x##n, m, n }
constexpr named_size tiles[] = {
    UNMASK_TILE(64, 32),   UNMASK_TILE(64, 64),   UNMASK_TILE(64, 96),   UNMASK_TILE(64, 128),
    UNMASK_TILE(64, 160),  UNMASK_TILE(64, 192),  UNMASK_TILE(64, 256),  UNMASK_TILE(64, 320),
    UNMASK_TILE(64, 384),  UNMASK_TILE(64, 512),  UNMASK_TILE(96, 64),   UNMASK_TILE(96, 128),
    UNMASK_TILE(96, 192),  UNMASK_TILE(96, 256),  UNMASK_TILE(128, 32),  UNMASK_TILE(128, 64),
    UNMASK_TILE(128, 96),  UNMASK_TILE(128, 128), UNMASK_TILE(128, 160), UNMASK_TILE(128, 192),
    UNMASK_TILE(128, 256), UNMASK_TILE(128, 320), UNMASK_TILE(128, 384), UNMASK_TILE(160, 64),
    UNMASK_TILE(160, 128), UNMASK_TILE(160, 192), UNMASK_TILE(160, 256), UNMASK_TILE(192, 32),
    UNMASK_TILE(192, 64),  UNMASK_TILE(192, 96),  UNMASK_TILE(192, 128), UNMASK_TILE(192, 160),
    UNMASK_TILE(192, 192), UNMASK_TILE(192, 256), UNMASK_TILE(256, 32),  UNMASK_TILE(256, 64),
    UNMASK_TILE(256, 96),  UNMASK_TILE(256, 128), UNMASK_TILE(256, 160), UNMASK_TILE(256, 192),
    UNMASK_TILE(256, 256), UNMASK_TILE(320, 64),  UNMASK_TILE(320, 128), UNMASK_TILE(384, 64),
    UNMASK_TILE(384, 128), UNMASK_TILE(512, 64),  UNMASK_TILE(512, 128)};
#undef UNMASK_TILE
#define UNMASK_CLUSTER(m, n) \
  { CUBLASLT_CLUSTER_SHAPE_##m##x##n##x1, m, n }
constexpr named_size clusters[] = {UNMASK_CLUSTER(2, 1), UNMASK_CLUSTER(4, 1), UNMASK_CLUSTER(8, 1),
                                   UNMASK_CLUSTER(1, 2), UNMASK_CLUSTER(1, 4), UNMASK_CLUSTER(1, 8),
                                   UNMASK_CLUSTER(2, 2), UNMASK_CLUSTER(4, 2), UNMASK_CLUSTER(2, 4),
                                   UNMASK_CLUSTER(4, 4)};
#undef UNMASK_CLUSTER

product_tile tile_of(const cublasLtMatmulAlgo_t& algorithm) {
  product_tile t;
  const auto tile =
      static_cast<int>(config_of<std::uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID));
  if (const auto* at = std::ranges::find(tiles, tile, &named_size::name); at != std::end(tiles)) {
    t.columns = at->columns;
    t.rows = at->rows;
  }
  const auto cluster =
      static_cast<int>(config_of<std::uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  if (const auto* at = std::ranges::find(clusters, cluster, &named_size::name);
      at != std::end(clusters)) {
    t.across = at->columns;
    t.down = at->rows;
  }
  t.parts = std::max(1, config_of<std::int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  return t;
}

struct event_pair {
  cudaEvent_t start = nullptr, stop = nullptr;
  event_pair() {
    UNMASK_CUDA_CALL(cudaEventCreate(&start));
    UNMASK_CUDA_CALL(cudaEventCreate(&stop));
  }
  ~event_pair() {
    (void)cudaEventDestroy(start);
    (void)cudaEventDestroy(stop);
  }
  event_pair& operator=(event_pair&&) = delete;
};

}  // namespace

struct library_gemm::impl {
  cudaStream_t stream = nullptr;  // of the product at hand
  void* workspace = nullptr;
  cublasLtHandle_t handle = nullptr;
  std::filesystem::path file;
  std::map<problem, choice> tuned;          // by bucket of M
  std::map<problem, choice> tuned_exactly;  // by M, where the bucket's choice does not run

  // Everything about one call but the algorithm. Row-major y = x W^T is, read column-major,
  // y^T [N, M] = W^T^T [N, K] x^T [K, M].
  struct call {
    description what;
    layout w, x, y;
    cublasLtMatmulAlgo_t algorithm{};  // once it is chosen and fits
    const void* bias = nullptr;        // that `what` has
  };
  // By the very M and the distance of y's rows. Making one costs four descriptors and a check, which the
  // products of all layers and steps share.
  std::map<std::pair<problem, std::int64_t>, call> prepared;

  static void set(const call& c, cublasLtMatmulDescAttributes_t which, const auto& value) {
    UNMASK_LIBRARY_CALL(
        library().cublasLtMatmulDescSetAttribute(c.what.get(), which, &value, sizeof value));
  }
  call prepare(const library_product& p, std::int64_t rows) const {
    cublasLtMatmulDesc_t made = nullptr;
    const cudaDataType operand = p.int8 ? CUDA_R_8I : CUDA_R_16BF;
    const cudaDataType result = p.int8 ? CUDA_R_32I : p.y_bf16 ? CUDA_R_16BF : CUDA_R_32F;
    UNMASK_LIBRARY_CALL(library().cublasLtMatmulDescCreate(
        &made, p.int8 ? CUBLAS_COMPUTE_32I : CUBLAS_COMPUTE_32F, p.int8 ? CUDA_R_32I : CUDA_R_32F));
    call c{description(made), make_layout(operand, p.depth, p.columns, p.depth),
           make_layout(operand, p.depth, rows, p.depth),
           make_layout(result, p.columns, rows, p.y_stride)};
    set(c, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (p.bias != nullptr) {
      set(c, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(c, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
      set(c, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, result);
      c.bias = p.bias;
    }
    return c;
  }
  void run(const library_product& p, const call& c, const cublasLtMatmulAlgo_t& algorithm,
           void* y) const {
    const float one = 1, zero = 0;
    const std::int32_t whole_one = 1, whole_zero = 0;
    const auto factor = [&](bool yes) -> const void* {  // of the sums' type
      if (p.int8) return yes ? &whole_one : &whole_zero;
      return yes ? &one : &zero;
    };
    UNMASK_LIBRARY_CALL(library().cublasLtMatmul(
        handle, c.what.get(), factor(true), p.w, c.w.get(), p.x, c.x.get(), factor(p.accumulate), y,
        c.y.get(), y, c.y.get(), &algorithm, workspace, workspace_bytes, stream));
  }

  void load() {
    file = tuning_file();
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      problem p;
      choice c;
      if (parse_line(line, &p, &c)) tuned[p] = c;
    }
  }
  void keep(const problem& p, const choice& c) const {
    if (file.empty()) return;
    std::error_code ignored;  // a choice that cannot be kept is made again next time
    std::filesystem::create_directories(file.parent_path(), ignored);
    std::ofstream(file, std::ios::app) << line_of(p, c) << '\n';
  }

  // Copies of a product's weights that together overflow any L2 cache: in a step the weights of other
  // layers lie between two uses, and a product that finds its own there would look better than it
  // is. As many as there is room for.
  class turning_weights {
   public:
    turning_weights(const library_product& p, cudaStream_t stream) : all_{p.w} {
      constexpr std::size_t enough = std::size_t{256} << 20;
      const std::size_t bytes = static_cast<std::size_t>(p.columns) *
                                static_cast<std::size_t>(p.depth) * (p.int8 ? 1 : 2);
      for (std::size_t total = bytes; total < enough && all_.size() < 32; total += bytes) {
        void* copy = nullptr;
        if (cudaMalloc(&copy, bytes) != cudaSuccess) {
          (void)cudaGetLastError();
          break;
        }
        all_.push_back(copy);
        UNMASK_CUDA_CALL(cudaMemcpyAsync(copy, p.w, bytes, cudaMemcpyDeviceToDevice, stream));
      }
    }
    ~turning_weights() {
      for (std::size_t i = 1; i < all_.size(); ++i) (void)cudaFree(const_cast<void*>(all_[i]));
    }
    turning_weights& operator=(turning_weights&&) = delete;
    const void* next() { return all_[turn_++ % all_.size()]; }

   private:
    std::vector<const void*> all_;
    std::size_t turn_ = 0;
  };

  bool fits(const call& c, const choice& with) const {
    cublasLtMatmulHeuristicResult_t fit{};
    return with.microseconds >= 0 &&
           library().cublasLtMatmulAlgoCheck(handle, c.what.get(), c.w.get(), c.x.get(), c.y.get(),
                                             c.y.get(), &with.algorithm,
                                             &fit) == CUBLAS_STATUS_SUCCESS &&
           fit.workspaceSize <= workspace_bytes;
  }

  // What was chosen for the next smaller and the next larger number of rows of this product so far.
  std::vector<choice> neighbours_of(const problem& p) const {
    const choice *below = nullptr, *above = nullptr;
    for (const auto& [other, with] : tuned) {  // by n, k and m
      problem same = other;
      same.m = p.m;
      if (same != p || with.microseconds < 0) continue;
      if (other.m < p.m) below = &with;
      if (other.m > p.m && above == nullptr) above = &with;
    }
    std::vector<choice> all;
    for (const choice* one : {below, above}) {
      if (one != nullptr) all.push_back(*one);
    }
    return all;
  }

  // The library's answers for this call, the one that it holds for the best first; none: it has none. Its answers
  // for one number of rows lack algorithms that it has for the next (448 rows of SDAR-8B's gate and up took a tenth
  // longer than 464), so what was chosen there stands behind them.
  std::vector<cublasLtMatmulAlgo_t> candidates(const library_product& p, const call& c,
                                               const problem& key) const {
    cublasLtMatmulPreference_t made = nullptr;
    UNMASK_LIBRARY_CALL(library().cublasLtMatmulPreferenceCreate(&made));
    const preference wish(made);
    const std::size_t room = workspace_bytes;
    UNMASK_LIBRARY_CALL(library().cublasLtMatmulPreferenceSetAttribute(
        made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
    const bool aligned = aligned_16(p);
    const auto align = [&](cublasLtMatmulPreferenceAttributes_t which, std::uint32_t element) {
      const std::uint32_t bytes = aligned ? 16 : element;
      UNMASK_LIBRARY_CALL(
          library().cublasLtMatmulPreferenceSetAttribute(made, which, &bytes, sizeof bytes));
    };
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p.int8 ? 4 : 2);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p.int8 ? 4 : 2);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p.y_bf16 ? 2 : 4);
    align(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p.y_bf16 ? 2 : 4);
    std::array<cublasLtMatmulHeuristicResult_t, 16> found{};
    int count = 0;
    const cublasStatus_t asked = library().cublasLtMatmulAlgoGetHeuristic(
        handle, c.what.get(), c.w.get(), c.x.get(), c.y.get(), c.y.get(), made,
        static_cast<int>(found.size()), found.data(), &count);
    std::vector<cublasLtMatmulAlgo_t> all;
    if (asked == CUBLAS_STATUS_NOT_SUPPORTED) return all;
    check_library(asked, "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < count; ++i) all.push_back(found[static_cast<std::size_t>(i)].algo);
    for (const choice& near : neighbours_of(key)) {
      const auto is_there = [&](const cublasLtMatmulAlgo_t& algorithm) {
        return std::memcmp(&algorithm, &near.algorithm, sizeof algorithm) == 0;
      };
      if (std::ranges::none_of(all, is_there) && fits(c, near)) all.push_back(near.algorithm);
    }
    return all;
  }

  // Times the candidates on this product's own operands, into a result of their own: a trial must
  // not add to y. Of ranks: takes the first untimed. Negative time: there is none.
  choice tune(const library_product& p, const call& c, const problem& key) const {
    std::vector<cublasLtMatmulAlgo_t> all = candidates(p, c, key);
    choice best;
    best.microseconds = -1;
    if (all.empty()) return best;
    if (key.of_ranks) return {all[0], 0};
    const std::size_t bytes =
        static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.y_stride) * sizeof(float);
    void* trial = nullptr;
    UNMASK_CUDA_CALL(cudaMalloc(&trial, bytes));
    const std::unique_ptr<void, void (*)(void*)> owner(trial, [](void* m) { (void)cudaFree(m); });
    UNMASK_CUDA_CALL(cudaMemsetAsync(trial, 0, bytes, stream));
    turning_weights weights(p, stream);
    const auto try_once = [&](const cublasLtMatmulAlgo_t& algorithm) {
      library_product turn = p;
      turn.w = weights.next();
      run(turn, c, algorithm, trial);
    };
    std::erase_if(all, [&](const cublasLtMatmulAlgo_t& algorithm) {
      try {
        try_once(algorithm);
        return false;
      } catch (const error&) {
        return true;  // a heuristic that does not run here is no candidate
      }
    });
    if (all.empty()) return best;
    const std::vector<timed_algorithm> timed = time_in_turn(p, all, try_once);
    const std::size_t at = best_of(timed);
    return {all[at], static_cast<float>(timed[at].seconds * 1e6)};
  }

  // Seconds of a call of each, in turn: a card is as warm for one as for the other. Forwards and backwards, as the
  // later one of a turn finds a warmer card.
  template <class Try>
  std::vector<timed_algorithm> time_in_turn(const library_product& p,
                                            const std::vector<cublasLtMatmulAlgo_t>& all,
                                            const Try& try_once) const {
    constexpr int turns = 6, calls = 3;
    std::vector<timed_algorithm> timed;
    for (const cublasLtMatmulAlgo_t& algorithm : all) {
      timed.push_back(
          {0, bytes_read(tile_of(algorithm), p.rows, p.columns, p.depth, p.int8 ? 1 : 2)});
    }
    std::deque<event_pair> events(all.size());
    for (int turn = 0; turn < turns; ++turn) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::size_t at = turn % 2 == 0 ? i : all.size() - 1 - i;
        UNMASK_CUDA_CALL(cudaEventRecord(events[at].start, stream));
        for (int n = 0; n < calls; ++n) try_once(all[at]);
        UNMASK_CUDA_CALL(cudaEventRecord(events[at].stop, stream));
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        UNMASK_CUDA_CALL(cudaEventSynchronize(events[i].stop));
        float milliseconds = 0;
        UNMASK_CUDA_CALL(cudaEventElapsedTime(&milliseconds, events[i].start, events[i].stop));
        timed[i].seconds += static_cast<double>(milliseconds) * 1e-3 / (turns * calls);
      }
    }
    return timed;
  }

  const cublasLtMatmulAlgo_t* algorithm_for(const library_product& p, const problem& exact,
                                            const call& c);
};

library_gemm::library_gemm(void* workspace) : impl_(std::make_unique<impl>()) {
  impl_->workspace = workspace;
  UNMASK_LIBRARY_CALL(library().cublasLtCreate(&impl_->handle));
  impl_->load();
}

library_gemm::~library_gemm() {
  if (impl_->handle != nullptr) (void)library().cublasLtDestroy(impl_->handle);
}

// The algorithm for this call, which fits its M; null: there is none. The first product of a bucket is
// tuned for all of it.
const cublasLtMatmulAlgo_t* library_gemm::impl::algorithm_for(const library_product& p,
                                                              const problem& exact, const call& c) {
  problem key = exact;
  if (!key.of_ranks) key.m = row_bucket(p.rows);
  const auto tune_now = [&] {  // waits: what is being recorded must have run before
    cudaStreamCaptureStatus recording{};
    UNMASK_CUDA_CALL(cudaStreamIsCapturing(stream, &recording));
    if (recording != cudaStreamCaptureStatusNone) {
      throw std::logic_error("a product is tuned while it is recorded");
    }
    return tune(p, c, key);
  };
  auto known = tuned.find(key);
  if (known == tuned.end()) {
    known = tuned.emplace(key, tune_now()).first;
    if (known->second.microseconds >= 0 && !key.of_ranks) keep(key, known->second);
  }
  if (fits(c, known->second)) return &known->second.algorithm;
  auto own = tuned_exactly.find(exact);  // this M does not suit the bucket's choice
  if (own == tuned_exactly.end()) own = tuned_exactly.emplace(exact, tune_now()).first;
  return fits(c, own->second) ? &own->second.algorithm : nullptr;
}

bool library_gemm::multiply(const library_product& p, void* stream) {
  impl_->stream = static_cast<cudaStream_t>(stream);
  const problem exact{p.columns,
                      p.depth,
                      p.rows,
                      p.accumulate,
                      alignment_of_bias(p),
                      aligned_16(p),
                      p.y_bf16,
                      p.int8,
                      current_ranks() != nullptr};
  const std::pair shape{exact, p.y_stride};
  auto at = impl_->prepared.find(shape);
  if (at == impl_->prepared.end()) {
    impl::call made = impl_->prepare(p, p.rows);
    const cublasLtMatmulAlgo_t* algorithm = impl_->algorithm_for(p, exact, made);
    if (algorithm == nullptr) return false;
    made.algorithm = *algorithm;
    if (impl_->prepared.size() >= most_prepared) impl_->prepared.clear();
    at = impl_->prepared.emplace(shape, std::move(made)).first;
  }
  impl::call& c = at->second;
  if (c.bias != p.bias) {  // of another layer
    impl::set(c, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    c.bias = p.bias;
  }
  impl_->run(p, c, c.algorithm, p.y);
  return true;
}

}  // namespace unmask::cuda
