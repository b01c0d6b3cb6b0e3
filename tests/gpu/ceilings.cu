// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The ceilings of a GPU, one JSON object a line: what a copy and what reads alone reach, and how long the
// library's bf16 products y [M, N] = x [M, K] W^T take at the layer shapes of four models, M from 1 to 8192.
// Those are figures of a burst, on a cool card. Then some products run for a second each without a pause
// ("loaded_gemm"), with the mean power and clock of that second, and copy and reads are taken again ("state":
// "loaded"): a decode is such a load.
// Weights rotate through more memory than four times L2, so that each product reads its weights
// from memory as in a model; products are replayed from a graph, so that small ones are not timed
// as launches. Inputs are random, outputs are poisoned with NaN, and sampled outputs are checked
// against float64 sums. What does not fit into the time asked for is named, not dropped silently.
//
//   unmask_ceilings [SECONDS = 60] [REGEX]       REGEX: of MODEL/PART, searched for; all of them without
//
// UNMASK_BENCH_SMALL=1 takes sizes that a GPU in software computes in seconds; their times mean nothing.
//
// Exit codes as of the program: 0, 1 a product is wrong, 3 no GPU.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/devices/nvml.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/roofs.h"

namespace unmask::cuda {
namespace {

using bf16 = __nv_bfloat16;

void check_blas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw environment_error(std::string(call) + ": cuBLASLt status " + std::to_string(status));
  }
}
#define UNMASK_BLAS_CALL(call) check_blas((call), #call)

// One thread a sample: the float64 sum of one output, and the sum of magnitudes for its tolerance.
__global__ void sum_samples(const bf16* x, const bf16* w, int k, const int* row, const int* column,
                            double* sum, double* size) {
  const int s = static_cast<int>(threadIdx.x);
  double total = 0, magnitude = 0;
  for (int i = 0; i < k; ++i) {
    const double product =
        static_cast<double>(__bfloat162float(x[std::size_t{1} * row[s] * k + i])) *
        __bfloat162float(w[std::size_t{1} * column[s] * k + i]);
    total += product;
    magnitude += product < 0 ? -product : product;
  }
  sum[s] = total;
  size[s] = magnitude;
}

// Reads every word once and keeps nothing: the words' exclusive or would have to be one number for a write.
// words [count]; four loads of a thread are under way at a time.
__global__ void __launch_bounds__(512)
    read_kernel(const uint4* words, std::size_t count, uint4* out) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  uint4 all = {};
  const auto take = [&](const uint4& w) {
    all.x ^= w.x;
    all.y ^= w.y;
    all.z ^= w.z;
    all.w ^= w.w;
  };
  for (; i + 3 * stride < count; i += 4 * stride) {
    uint4 word[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) word[j] = __ldcs(words + i + j * stride);
#pragma unroll
    for (int j = 0; j < 4; ++j) take(word[j]);
  }
  for (; i < count; i += stride) take(__ldcs(words + i));
  if (all.x == 0x9E3779B9U && all.y == 0x85EBCA6BU && all.z == 0xC2B2AE35U) *out = all;
}

template <class T>
class buffer {
 public:
  explicit buffer(std::size_t n) : n_(n) {
    UNMASK_CUDA_CALL(cudaMalloc(reinterpret_cast<void**>(&data_), n * sizeof(T)));
  }
  ~buffer() { (void)cudaFree(data_); }
  buffer& operator=(buffer&&) = delete;
  T* data() const { return data_; }
  std::size_t bytes() const { return n_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

struct product_shape {
  const char* model;
  const char* part;
  int n, k;
};

// Sizes from the models' published config.json.
constexpr product_shape shapes[] = {
    {"square", "8192", 8192, 8192},
    {"llada-8b", "qkv", 12288, 4096},
    {"llada-8b", "attention_output", 4096, 4096},
    {"llada-8b", "gate_up", 24576, 4096},
    {"llada-8b", "down", 4096, 12288},
    {"llada-8b", "lm_head", 126464, 4096},
    {"dream-7b", "qkv", 4608, 3584},
    {"dream-7b", "attention_output", 3584, 3584},
    {"dream-7b", "gate_up", 37888, 3584},
    {"dream-7b", "down", 3584, 18944},
    {"dream-7b", "lm_head", 152064, 3584},
    {"sdar-8b", "qkv", 6144, 4096},
    {"sdar-8b", "lm_head", 151936, 4096},
    {"llada2-mini", "qkv", 3072, 2048},
    {"llada2-mini", "expert_gate_up", 1024, 2048},
    {"llada2-mini", "expert_down", 2048, 512},
};
// Run for a second each: gate and up, down of SDAR-8B (as of LLaDA-8B) where FOCUS' batches are, and the largest.
struct loaded_shape {
  product_shape shape;
  int m;
};
constexpr loaded_shape loaded_shapes[] = {
    {{"square", "8192", 8192, 8192}, 8192},      {{"sdar-8b", "gate_up", 24576, 4096}, 192},
    {{"sdar-8b", "gate_up", 24576, 4096}, 256},  {{"sdar-8b", "gate_up", 24576, 4096}, 320},
    {{"sdar-8b", "gate_up", 24576, 4096}, 512},  {{"sdar-8b", "gate_up", 24576, 4096}, 1024},
    {{"sdar-8b", "gate_up", 24576, 4096}, 2048}, {{"sdar-8b", "down", 4096, 12288}, 192},
    {{"sdar-8b", "down", 4096, 12288}, 256},     {{"sdar-8b", "down", 4096, 12288}, 320},
    {{"sdar-8b", "down", 4096, 12288}, 512},     {{"sdar-8b", "down", 4096, 12288}, 1024},
    {{"sdar-8b", "down", 4096, 12288}, 2048},
};
constexpr int row_counts[] = {1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
constexpr int most_head_rows = 1024;  // the head sees candidates, not every row
constexpr int launches = 20, samples = 64, repetitions = 9;
constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

class product {
 public:
  product(cublasLtHandle_t handle, int m, const product_shape& s, std::size_t rotate_bytes)
      : handle_(handle),
        m_(m),
        n_(s.n),
        k_(s.k),
        copies_(std::min<std::size_t>(
            launches, 1 + rotate_bytes / (sizeof(bf16) * std::size_t{1} * s.n * s.k))),
        x_(std::size_t{1} * m * s.k),
        w_(copies_ * s.n * s.k),
        y_(std::size_t{1} * m * s.n),
        workspace_(workspace_bytes) {
    for (const buffer<bf16>* b : {&x_, &w_}) {
      const unsigned seed = b == &x_ ? 1 : 2;
      UNMASK_CUDA_CALL(launch_fill_random({b->data(), b->bytes() / sizeof(bf16), seed}, nullptr));
    }
    UNMASK_CUDA_CALL(cudaMemset(y_.data(), 0xFF, y_.bytes()));  // NaN in bf16
    // Column-major eyes see W^T [k, n], x^T [k, m], y^T [n, m].
    UNMASK_BLAS_CALL(
        cublaslt().cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transpose = CUBLAS_OP_T;
    UNMASK_BLAS_CALL(cublaslt().cublasLtMatmulDescSetAttribute(
        operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof transpose));
    UNMASK_BLAS_CALL(cublaslt().cublasLtMatrixLayoutCreate(&a_, CUDA_R_16BF, k_, n_, k_));
    UNMASK_BLAS_CALL(cublaslt().cublasLtMatrixLayoutCreate(&b_, CUDA_R_16BF, k_, m_, k_));
    UNMASK_BLAS_CALL(cublaslt().cublasLtMatrixLayoutCreate(&c_, CUDA_R_16BF, n_, m_, n_));
    UNMASK_CUDA_CALL(cudaStreamCreate(&stream_));
  }
  ~product() {
    cublaslt().cublasLtMatrixLayoutDestroy(a_);
    cublaslt().cublasLtMatrixLayoutDestroy(b_);
    cublaslt().cublasLtMatrixLayoutDestroy(c_);
    cublaslt().cublasLtMatmulDescDestroy(operation_);
    (void)cudaStreamDestroy(stream_);
  }
  product& operator=(product&&) = delete;

  // Seconds of one product: the best algorithm of the library's eight proposals, median of a burst.
  double measure() { return time(best_algorithm(), repetitions); }

  // Seconds of one product in the second half of so many seconds without a pause, and what the device did in
  // that half.
  double measure_loaded(double seconds, const energy_meter& meter, device_load& under) {
    const cublasLtMatmulAlgo_t algorithm = best_algorithm();
    const double one = time(algorithm, 2) * launches;
    const int half = std::max(1, static_cast<int>(0.5 * seconds / one));
    (void)time(algorithm, half);
    load_sampler load(meter);
    const double taken = time(algorithm, half);
    under = load.finish();
    return taken;
  }

  // Largest error of the sampled outputs in units of what bf16 rounding and float32 sums allow.
  double worst_error() const {
    std::vector<int> rows(samples), columns(samples);
    for (int s = 0; s < samples; ++s) {
      rows[s] = static_cast<int>((s * 2654435761ULL) % m_);
      columns[s] = static_cast<int>((s * 40503ULL * 65537ULL + 12345) % n_);
    }
    rows.back() = m_ - 1;
    columns.back() = n_ - 1;
    buffer<int> row(samples), column(samples);
    buffer<double> sum(samples), size(samples);
    UNMASK_CUDA_CALL(cudaMemcpy(row.data(), rows.data(), row.bytes(), cudaMemcpyHostToDevice));
    UNMASK_CUDA_CALL(
        cudaMemcpy(column.data(), columns.data(), column.bytes(), cudaMemcpyHostToDevice));
    // The last launch of a replay used the copy below.
    const std::size_t last = (launches - 1) % copies_;
    sum_samples<<<1, samples>>>(x_.data(), w_.data() + last * n_ * k_, k_, row.data(),
                                column.data(), sum.data(), size.data());
    UNMASK_CUDA_CALL(cudaGetLastError());
    std::vector<double> want(samples), scale(samples);
    UNMASK_CUDA_CALL(cudaMemcpy(want.data(), sum.data(), sum.bytes(), cudaMemcpyDeviceToHost));
    UNMASK_CUDA_CALL(cudaMemcpy(scale.data(), size.data(), size.bytes(), cudaMemcpyDeviceToHost));
    double worst = 0;
    for (int s = 0; s < samples; ++s) {
      bf16 got{};
      UNMASK_CUDA_CALL(cudaMemcpy(&got, y_.data() + std::size_t{1} * rows[s] * n_ + columns[s],
                                  sizeof got, cudaMemcpyDeviceToHost));
      const double allowed = std::fabs(want[s]) / 256 + scale[s] * 1e-5;
      const double error = std::fabs(__bfloat162float(got) - want[s]) / allowed;
      worst = error == error ? std::max(worst, error) : INFINITY;  // a NaN that stayed is wrong
    }
    return worst;
  }

  double bytes() const { return 2.0 * (1.0 * m_ * k_ + 1.0 * n_ * k_ + 1.0 * m_ * n_); }
  double flops() const { return 2.0 * m_ * n_ * k_; }

 private:
  cublasLtMatmulAlgo_t best_algorithm() {
    cublasLtMatmulPreference_t wish = nullptr;
    UNMASK_BLAS_CALL(cublaslt().cublasLtMatmulPreferenceCreate(&wish));
    UNMASK_BLAS_CALL(cublaslt().cublasLtMatmulPreferenceSetAttribute(
        wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof workspace_bytes));
    cublasLtMatmulHeuristicResult_t found[8];
    int count = 0;
    UNMASK_BLAS_CALL(cublaslt().cublasLtMatmulAlgoGetHeuristic(handle_, operation_, a_, b_, c_, c_,
                                                               wish, 8, found, &count));
    cublaslt().cublasLtMatmulPreferenceDestroy(wish);
    double best = INFINITY;
    int winner = -1;
    for (int i = 0; i < count; ++i) {
      const double seconds = time(found[i].algo, 2);
      if (seconds < best) {
        best = seconds;
        winner = i;
      }
    }
    if (winner < 0) throw environment_error("cuBLASLt proposes no algorithm");
    return found[winner].algo;
  }

  // Median of `times` replays.
  double time(const cublasLtMatmulAlgo_t& algorithm, int times) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    const float one = 1, zero = 0;
    UNMASK_CUDA_CALL(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < launches && status == CUBLAS_STATUS_SUCCESS; ++i) {
      const bf16* weight = w_.data() + (static_cast<std::size_t>(i) % copies_) * n_ * k_;
      status = cublaslt().cublasLtMatmul(handle_, operation_, &one, weight, a_, x_.data(), b_,
                                         &zero, y_.data(), c_, y_.data(), c_, &algorithm,
                                         workspace_.data(), workspace_bytes, stream_);
    }
    UNMASK_CUDA_CALL(cudaStreamEndCapture(stream_, &graph));
    if (status != CUBLAS_STATUS_SUCCESS) {  // a proposal may not support this capture
      (void)cudaGraphDestroy(graph);
      return INFINITY;
    }
    UNMASK_CUDA_CALL(cudaGraphInstantiate(&replay, graph, 0));
    cudaEvent_t begin = nullptr, end = nullptr;
    UNMASK_CUDA_CALL(cudaEventCreate(&begin));
    UNMASK_CUDA_CALL(cudaEventCreate(&end));
    UNMASK_CUDA_CALL(cudaGraphLaunch(replay, stream_));  // warm
    std::vector<double> seconds;
    for (int r = 0; r < times; ++r) {
      UNMASK_CUDA_CALL(cudaEventRecord(begin, stream_));
      UNMASK_CUDA_CALL(cudaGraphLaunch(replay, stream_));
      UNMASK_CUDA_CALL(cudaEventRecord(end, stream_));
      UNMASK_CUDA_CALL(cudaEventSynchronize(end));
      float milliseconds = 0;
      UNMASK_CUDA_CALL(cudaEventElapsedTime(&milliseconds, begin, end));
      seconds.push_back(milliseconds * 1e-3 / launches);
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    (void)cudaGraphExecDestroy(replay);
    (void)cudaGraphDestroy(graph);
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }

  cublasLtHandle_t handle_;
  int m_, n_, k_;
  std::size_t copies_;
  buffer<bf16> x_, w_, y_;
  buffer<char> workspace_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// Bytes per second of reads alone, the best of nine.
double measure_reads(const device_properties& device, bool small) {
  const buffer<uint4> words(
      small ? 1000
            : std::max<std::size_t>(std::size_t{8} * device.l2_bytes, std::size_t{256} << 20) /
                  sizeof(uint4));
  const buffer<uint4> out(1);
  UNMASK_CUDA_CALL(cudaMemset(words.data(), 1, words.bytes()));
  cudaEvent_t begin = nullptr, end = nullptr;
  UNMASK_CUDA_CALL(cudaEventCreate(&begin));
  UNMASK_CUDA_CALL(cudaEventCreate(&end));
  const int blocks = small ? 2 : 4 * device.multiprocessors;
  float best = INFINITY;
  for (int r = 0; r < (small ? 1 : repetitions + 2); ++r) {
    UNMASK_CUDA_CALL(cudaEventRecord(begin));
    read_kernel<<<blocks, 512>>>(words.data(), words.bytes() / sizeof(uint4), out.data());
    UNMASK_CUDA_CALL(cudaGetLastError());
    UNMASK_CUDA_CALL(cudaEventRecord(end));
    UNMASK_CUDA_CALL(cudaEventSynchronize(end));
    float milliseconds = 0;
    UNMASK_CUDA_CALL(cudaEventElapsedTime(&milliseconds, begin, end));
    best = std::min(best, milliseconds);
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return static_cast<double>(words.bytes()) / (best * 1e-3);
}

// "burst" or "loaded": what memory reaches now. The copy checks itself.
void print_memory(const device_properties& device, const char* state, bool small) {
  if (!small) {
    const copy_roof copy = measure_copy_roof(0);
    std::printf(
        "{\"kind\":\"copy\",\"state\":\"%s\",\"device\":\"%s\",\"bytes_per_second\":%.6g,"
        "\"median_bytes_per_second\":%.6g}\n",
        state, device.name.c_str(), copy.bytes_per_second, copy.median_bytes_per_second);
  }
  std::printf("{\"kind\":\"read\",\"state\":\"%s\",\"bytes_per_second\":%.6g}\n", state,
              measure_reads(device, small));
  std::fflush(stdout);
}

class ceilings {
 public:
  ceilings(device_properties device, double budget, const std::string& cases, bool small)
      : device_(std::move(device)), budget_(budget), cases_(cases), small_(small) {
    UNMASK_BLAS_CALL(cublaslt().cublasLtCreate(&handle_));
  }
  ~ceilings() { cublaslt().cublasLtDestroy(handle_); }
  ceilings& operator=(ceilings&&) = delete;

  int run() {
    print_memory(device_, "burst", small_);
    for (const product_shape& shape : shapes) {
      for (const int m : row_counts) {
        if (std::strcmp(shape.part, "lm_head") == 0 && m > most_head_rows) continue;
        if (std::strcmp(shape.model, "square") == 0 && m != (small_ ? 8 : 8192)) continue;
        if (small_ && m > 8) continue;  // all are of one size there
        if (takes(shape)) measure(shape, m, false);
      }
    }
    bool loaded = false;
    for (const loaded_shape& l : loaded_shapes) {
      if (!takes(l.shape)) continue;
      measure(l.shape, l.m, true);
      if (!loaded) print_memory(device_, "loaded", small_);  // the first is the largest
      loaded = true;
    }
    std::printf("{\"kind\":\"end\",\"wrong\":%d,\"left_out\":%d,\"seconds\":%.3g}\n", wrong_,
                left_out_, spent());
    return wrong_ > 0 ? 1 : 0;
  }

 private:
  bool takes(const product_shape& s) const {
    return std::regex_search(std::string(s.model) + "/" + s.part, cases_);
  }
  double spent() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  void measure(product_shape shape, int m, bool loaded) {
    if (spent() > budget_) {
      ++left_out_;
      return;
    }
    if (small_) {
      m = std::min(m, 8);
      shape.n = shape.k = 64;
    }
    product p(handle_, m, shape, small_ ? 0 : 4 * device_.l2_bytes);
    device_load under;
    const energy_meter meter(device_.pci_bus_id);
    const double seconds = loaded ? p.measure_loaded(small_ ? 0 : 1, meter, under) : p.measure();
    const double error = p.worst_error();
    wrong_ += !(error <= 1);
    std::printf(
        "{\"kind\":\"%s\",\"model\":\"%s\",\"part\":\"%s\",\"m\":%d,\"n\":%d,\"k\":%d,"
        "\"seconds\":%.6g,\"flops\":%.6g,\"bytes\":%.6g,\"error\":%.3g,\"right\":%s",
        loaded ? "loaded_gemm" : "gemm", shape.model, shape.part, m, shape.n, shape.k, seconds,
        p.flops(), p.bytes(), std::isfinite(error) ? error : -1.0, error <= 1 ? "true" : "false");
    if (under.watts) std::printf(",\"watts_mean\":%.4g", *under.watts);
    if (under.sm_clock_mhz) std::printf(",\"clock_mhz_mean\":%.5g", *under.sm_clock_mhz);
    if (under.throttled_share) std::printf(",\"throttled_share\":%.3g", *under.throttled_share);
    std::printf("}\n");
    std::fflush(stdout);
  }

  device_properties device_;
  double budget_;
  std::regex cases_;
  bool small_;
  cublasLtHandle_t handle_ = nullptr;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int wrong_ = 0, left_out_ = 0;
};

int run(double budget, const std::string& cases) {
  const report machine = query();
  if (machine.devices.empty()) {
    std::fprintf(stderr, "%s\n", machine.note.c_str());
    return 3;
  }
  const char* small = std::getenv("UNMASK_BENCH_SMALL");
  return ceilings(machine.devices.front(), budget, cases,
                  small != nullptr && std::strcmp(small, "1") == 0)
      .run();
}

}  // namespace
}  // namespace unmask::cuda

int unmask_ceilings_main(int argc, char** argv) {
  try {
    return unmask::cuda::run(argc > 1 ? std::atof(argv[1]) : 60, argc > 2 ? argv[2] : "");
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "unmask_ceilings: %s\n", failure.what());
    return 3;
  }
}

// Weak: the GPU check's one program (multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_ceilings_main(argc, argv);
}
