// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A stand-in for a module of another library (kernels/libraries/way.h) on the GPU in software. It computes attention on
// the host, in the order of a stream, and experts by the steps of CUTLASS' module with a plain product. It fails as
// UNMASK_SOFTGPU_WAY says:
//
//   old          has the interface before this one
//   half         has no experts
//   refuse       plans nothing
//   fail         its calls fail
//   fail_later   calls of attention fail behind the fifth
//   wrong        results are a fifth too large
//   wrong_later  results of attention are, but not those of the first three calls, which are small cases
//   slow         calls of attention take a second and a half, but not the first three
#include "tests/softgpu/way.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/float16.h"
#include "tests/softgpu/runtime.h"

namespace unmask::softgpu_way {

using namespace libraries;

bool planted(const char* fault) {
  const char* text = std::getenv("UNMASK_SOFTGPU_WAY");
  return text != nullptr && std::strcmp(text, fault) == 0;
}

namespace {

constexpr int small_cases = 3, right_calls = 5;

struct attention_plan : any_plan {
  explicit attention_plan(const attention_shape& of) : shape(of) {}
  attention_shape shape;
};

struct host_operands {
  const std::uint16_t *q, *keys, *values;
  std::uint16_t* out;
};

void attend_on_host(const attention_shape& s, const host_operands& o, float times) {
  const std::int64_t group = s.heads / s.kv_heads;
  std::vector<double> weight(static_cast<std::size_t>(s.keys));
  for (std::int64_t r = 0; r < s.sequences * s.rows * s.heads; ++r) {
    const std::int64_t sequence = r / s.heads / s.rows, head = r % s.heads / group;
    const auto row_of = [&](const std::uint16_t* of, std::size_t j) {
      const std::int64_t key = sequence * s.key_rows + static_cast<std::int64_t>(j);
      return of + (key * s.kv_heads + head) * s.dim;
    };
    double total = 0;
    for (std::size_t j = 0; j < weight.size(); ++j) {
      double dot = 0;
      for (std::int64_t d = 0; d < s.dim; ++d) {
        dot += double{from_bf16(o.q[r * s.dim + d])} * from_bf16(row_of(o.keys, j)[d]);
      }
      weight[j] = std::exp(dot * s.scale);
      total += weight[j];
    }
    for (std::int64_t d = 0; d < s.dim; ++d) {
      double sum = 0;
      for (std::size_t j = 0; j < weight.size(); ++j) {
        sum += weight[j] / total * from_bf16(row_of(o.values, j)[d]);
      }
      o.out[r * s.dim + d] = to_bf16(times * static_cast<float>(sum));
    }
  }
}

void* prepare_attention(const attention_shape* shape) {
  return guarded<void*>(nullptr, [&]() -> void* {
    if (planted("refuse")) throw std::runtime_error("the stand-in plans no attention");
    return new attention_plan(*shape);
  });
}

int attend(void* plan, const attention_operands* operands) {
  return guarded(1, [&] {
    static int calls = 0;
    ++calls;
    if (planted("fail") || (planted("fail_later") && calls > right_calls)) {
      throw std::runtime_error("the stand-in fails in call " + std::to_string(calls));
    }
    const attention_shape s = static_cast<const attention_plan*>(plan)->shape;
    const std::size_t row = static_cast<std::size_t>(s.dim) * sizeof(std::uint16_t),
                      rows = static_cast<std::size_t>(s.sequences * s.rows * s.heads) * row,
                      keys = static_cast<std::size_t>(s.sequences * s.key_rows * s.kv_heads) * row;
    const auto at = [](const void* device, std::size_t bytes) {
      void* host = softgpu::host_address(device, bytes);
      if (host == nullptr) throw std::runtime_error("an operand is no device memory, or less");
      return static_cast<std::uint16_t*>(host);
    };
    const host_operands o{at(operands->q, rows), at(operands->keys, keys),
                          at(operands->values, keys), at(operands->out, rows)};
    const bool later = calls > small_cases;
    const float times = planted("wrong") || (planted("wrong_later") && later) ? 1.2F : 1.0F;
    const bool slow = planted("slow") && later;
    int status = 0;
    softgpu::enqueue_host(
        module_stream(),
        [=] {
          if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
          attend_on_host(s, o, times);
        },
        {{operands->q, rows, false},
         {operands->keys, keys, false},
         {operands->values, keys, false},
         {operands->out, rows, true}},
        &status);
    check(static_cast<cudaError_t>(status), "a call of the stand-in");
    return 0;
  });
}

const char* version() {
  return "a stand-in";
}
void release(void* plan) {
  delete static_cast<any_plan*>(plan);
}

}  // namespace
}  // namespace unmask::softgpu_way

const unmask::libraries::library_way* unmask_library_way() {
  using namespace unmask::softgpu_way;
  static const library_way way{planted("old") ? interface_number - 1 : interface_number,
                               version,
                               words_of_last_problem,
                               prepare_attention,
                               planted("half") ? nullptr : prepare_experts,
                               attend,
                               feed_forward,
                               wait_for_module,
                               release};
  return &way;
}
