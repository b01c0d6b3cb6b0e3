// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The steps of CUTLASS' module around a plain product: the same plan, rows, gate and sums, executed.
#include <memory>

#include "kernels/libraries/experts_steps.h"
#include "tests/softgpu/way.h"

namespace unmask::softgpu_way {

struct group_shape {
  int m, n, k;
};

// A block for each expert and 32 columns, a thread for each element of a column in turn.
__global__ void plain_product_kernel(libraries::grouped_product<group_shape> g, float times) {
  const int e = static_cast<int>(blockIdx.y);
  const group_shape s = g.shape[e];
  const int column = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  if (column >= s.n) return;
  for (int row = static_cast<int>(threadIdx.y); row < s.m; row += static_cast<int>(blockDim.y)) {
    float sum = 0;
    for (int i = 0; i < s.k; ++i) {
      sum += libraries::low_of(g.a[e][row * s.k + i]) * libraries::low_of(g.w[e][column * s.k + i]);
    }
    g.d[e][row * s.n + column] = static_cast<std::uint16_t>(libraries::rounded(times * sum));
  }
}

class plain_products {
 public:
  using shape = group_shape;
  explicit plain_products(const libraries::grouped_product<shape>& g) : product_(g) {}
  void multiply(cudaStream_t stream) {
    const float times = planted("wrong") ? 1.2F : 1.0F;
    const dim3 blocks(static_cast<unsigned>((product_.n + 31) / 32),
                      static_cast<unsigned>(product_.experts));
    plain_product_kernel<<<blocks, dim3(32, 4), 0, stream>>>(product_, times);
    libraries::check(cudaGetLastError(), "plain product");
  }

 private:
  libraries::grouped_product<shape> product_;
};

namespace {
struct experts : any_plan {
  explicit experts(const libraries::experts_shape& shape) : steps(shape) {}
  libraries::experts_plan<plain_products> steps;
};
}  // namespace

void* prepare_experts(const libraries::experts_shape* shape) {
  return libraries::guarded<void*>(nullptr, [&]() -> void* {
    if (planted("refuse")) throw std::runtime_error("the stand-in plans no experts");
    return static_cast<any_plan*>(new experts(*shape));
  });
}
int feed_forward(void* plan, const libraries::experts_operands* operands) {
  return libraries::guarded(1, [&] {
    if (planted("fail")) throw std::runtime_error("the stand-in fails");
    static_cast<experts*>(static_cast<any_plan*>(plan))->steps.call(*operands);
    return 0;
  });
}

}  // namespace unmask::softgpu_way
