// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The module of CUTLASS' grouped product, libunmask_cutlass.so, for Hopper. It is compiled with NDEBUG: CUTLASS' asserts
// are calls, for which ptxas serialises wgmma.
#ifndef NDEBUG
#error "CUTLASS without NDEBUG is slow: its asserts serialise wgmma"
#endif

#include <cutlass/cutlass.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/version.h>
#include <array>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/epilogue/dispatch_policy.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/dispatch_policy.hpp>
#include <cutlass/gemm/group_array_problem_shape.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "kernels/libraries/experts_steps.h"

namespace unmask::libraries {
namespace {

using shape_of_group = cute::Shape<int, int, int>;
using element = cutlass::bfloat16_t;
constexpr int alignment = 8;  // elements of 16 bytes

using libraries::check;
void check(cutlass::Status status, const char* what) {
  if (status == cutlass::Status::kSuccess) return;
  throw std::runtime_error(std::string("CUTLASS refuses ") + what + ": " +
                           cutlassGetStatusString(status));
}

// A grouped product with tiles of one shape.
class tiled_product {
 public:
  virtual ~tiled_product() = default;
  virtual void multiply(cudaStream_t stream) = 0;
};

template <class Tile, class Cluster, class Mainloop, class Epilogue>
class product_in_tiles : public tiled_product {
  using rows = cutlass::layout::RowMajor;
  using columns = cutlass::layout::ColumnMajor;
  using epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, rows*, alignment,
      element, rows*, alignment, Epilogue>::CollectiveOp;
  using mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, element, rows*, alignment, element,
      columns*, alignment, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename epilogue::SharedStorage))>,
      Mainloop>::CollectiveOp;
  using kernel =
      cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<shape_of_group>,
                                           mainloop, epilogue>;
  using adapter = cutlass::gemm::device::GemmUniversalAdapter<kernel>;
  using stride_a = typename kernel::InternalStrideA;
  using stride_w = typename kernel::InternalStrideB;
  using stride_d = typename kernel::InternalStrideD;

 public:
  explicit product_in_tiles(const grouped_product<shape_of_group>& g) {
    typename adapter::Arguments arguments;
    arguments.mode = cutlass::gemm::GemmUniversalMode::kGrouped;
    arguments.problem_shape = {g.experts, g.shape, nullptr};  // known on the device alone
    arguments.mainloop.ptr_A = reinterpret_cast<const element**>(g.a);
    arguments.mainloop.dA = on_device<stride_a>(g.experts, g.k);
    arguments.mainloop.ptr_B = reinterpret_cast<const element**>(g.w);
    arguments.mainloop.dB = on_device<stride_w>(g.experts, g.k);
    arguments.epilogue.thread.alpha = 1.0F;
    arguments.epilogue.thread.beta = 0.0F;
    arguments.epilogue.ptr_C = nullptr;
    arguments.epilogue.dC = on_device<stride_d>(g.experts, g.n);
    arguments.epilogue.ptr_D = reinterpret_cast<element**>(g.d);
    arguments.epilogue.dD = arguments.epilogue.dC;
    check(cudaGetDevice(&arguments.hw_info.device_id), "cudaGetDevice");
    arguments.hw_info.sm_count =
        cutlass::KernelHardwareInfo::query_device_multiprocessor_count(arguments.hw_info.device_id);
    check(adapter::can_implement(arguments), "these products");
    void* workspace = allocate(adapter::get_workspace_size(arguments));
    check(product_.initialize(arguments, workspace, module_stream()), "to prepare these products");
    check(cudaStreamSynchronize(module_stream()), "cudaStreamSynchronize");
  }
  ~product_in_tiles() override {
    for (void* p : memory_) (void)cudaFree(p);
  }
  product_in_tiles(const product_in_tiles&) = delete;
  product_in_tiles& operator=(const product_in_tiles&) = delete;

  void multiply(cudaStream_t stream) override { check(product_.run(stream), "a call"); }

 private:
  void* allocate(std::size_t bytes) {
    void* p = nullptr;
    check(cudaMalloc(&p, bytes), "cudaMalloc");
    memory_.push_back(p);
    return p;
  }
  // Rows of all groups have the same length.
  template <class Stride>
  Stride* on_device(int groups, int length) {
    Stride one{};
    cute::get<0>(one) = length;
    const std::vector<Stride> all(static_cast<std::size_t>(groups), one);
    void* p = allocate(all.size() * sizeof(Stride));
    check(cudaMemcpy(p, all.data(), all.size() * sizeof(Stride), cudaMemcpyHostToDevice),
          "cudaMemcpy");
    return static_cast<Stride*>(p);
  }

  adapter product_;
  std::vector<void*> memory_;
};

using cute::_1;
using cute::_128;
using cute::_2;
using cute::_256;
using cute::_64;
using large_tiles = product_in_tiles<cute::Shape<_128, _256, _64>, cute::Shape<_2, _1, _1>,
                                     cutlass::gemm::KernelPtrArrayTmaWarpSpecializedCooperative,
                                     cutlass::epilogue::PtrArrayTmaWarpSpecializedCooperative>;
using tiles_in_turn = product_in_tiles<cute::Shape<_128, _128, _64>, cute::Shape<_2, _1, _1>,
                                       cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong,
                                       cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong>;
using tiles_of_few_rows = product_in_tiles<cute::Shape<_64, _128, _128>, cute::Shape<_1, _1, _1>,
                                           cutlass::gemm::KernelPtrArrayTmaWarpSpecializedPingpong,
                                           cutlass::epilogue::PtrArrayTmaWarpSpecializedPingpong>;

// The fastest of three shapes of tiles, which the first call finds out.
class products {
 public:
  using shape = shape_of_group;
  explicit products(const grouped_product<shape>& g)
      : all_{std::make_unique<large_tiles>(g), std::make_unique<tiles_in_turn>(g),
             std::make_unique<tiles_of_few_rows>(g)} {}

  void multiply(cudaStream_t stream) {
    if (fastest_ == nullptr) fastest_ = choose(stream);
    fastest_->multiply(stream);
  }

 private:
  tiled_product* choose(cudaStream_t stream) {
    constexpr int calls = 5;
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    tiled_product* best = nullptr;
    float least = 0;
    for (const auto& candidate : all_) {
      candidate->multiply(stream);  // loads its code
      check(cudaEventRecord(begin, stream), "cudaEventRecord");
      for (int c = 0; c < calls; ++c) candidate->multiply(stream);
      check(cudaEventRecord(end, stream), "cudaEventRecord");
      check(cudaEventSynchronize(end), "grouped products");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
      if (best == nullptr || milliseconds < least) {
        best = candidate.get();
        least = milliseconds;
      }
    }
    (void)cudaEventDestroy(begin);
    (void)cudaEventDestroy(end);
    return best;
  }

  std::array<std::unique_ptr<tiled_product>, 3> all_;
  tiled_product* fastest_ = nullptr;
};

void* prepare(const experts_shape* s) {
  return guarded<void*>(nullptr, [&]() -> void* {
    int device = 0, major = 0, minor = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
          "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
          "cudaDeviceGetAttribute");
    if (major != 9 || minor != 0) {
      throw std::runtime_error("this module has code for compute capability 9.0 only");
    }
    return new experts_plan<products>(*s);
  });
}

int feed_forward(void* plan, const experts_operands* operands) {
  return guarded(1, [&] {
    static_cast<experts_plan<products>*>(plan)->call(*operands);
    return 0;
  });
}
void release(void* plan) {
  delete static_cast<experts_plan<products>*>(plan);
}

const char* version() {
  static const std::string text = "CUTLASS " + std::to_string(CUTLASS_MAJOR) + "." +
                                  std::to_string(CUTLASS_MINOR) + "." +
                                  std::to_string(CUTLASS_PATCH);
  return text.c_str();
}

}  // namespace
}  // namespace unmask::libraries

const unmask::libraries::library_way* unmask_library_way() {
  using namespace unmask::libraries;
  static const library_way way{interface_number, version,         words_of_last_problem,
                               nullptr,          prepare,         nullptr,
                               feed_forward,     wait_for_module, release};
  return &way;
}
