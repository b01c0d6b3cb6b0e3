// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The library path of gemm.h: oneDNN matrix products with weights in the library's own layout.
// Sums are ordered as the library likes, so results depend on the number of rows; it is used only
// when the caller asks for it, and only for f32 weights and many rows.
#include <algorithm>
#include <chrono>
#include <dnnl.hpp>
#include <limits>
#include <map>
#include <unordered_map>

#include "kernels/cpu/gemm_packed.h"

namespace unmask::cpu {

namespace {

using clock = std::chrono::steady_clock;
constexpr int trials = 3;  // of each side, before `automatic` decides

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

class onednn_matrix : public library_matrix {
 public:
  explicit onednn_matrix(const packed_cpu& w) : n_(w.out_features), k_(w.in_features) {
    // The library's layout is the same for every number of rows here; ask with a typical one.
    const auto primitive = describe(chunk_for_layout, k_, n_, false, false);
    dnnl::memory plain(plain_weight(), cpu_engine());
    auto* out = static_cast<float*>(plain.get_data_handle());
    for (std::int64_t k = 0; k < k_; ++k) {
      for (std::int64_t n = 0; n < n_; ++n) out[k * n_ + n] = w.weight_f32(n, k);
    }
    layout_ = primitive.weights_desc();
    weight_ = dnnl::memory(layout_, cpu_engine());
    dnnl::stream stream(cpu_engine());
    dnnl::reorder(plain, weight_).execute(stream, plain, weight_);
    stream.wait();
  }

  // What is known about one kind of call.
  struct plan {
    dnnl::matmul primitive;
    dnnl::memory::desc source, result;
    int tried = 0;  // calls timed so far, own and library in turn
    double own_seconds = std::numeric_limits<double>::infinity();  // best so far
    double library_seconds = std::numeric_limits<double>::infinity();
  };

  plan& plan_of(const tensor_view& x, const tensor_view& y, bool bias, bool accumulate) {
    const key what{x.rows(), x.row_stride, y.row_stride, bias, accumulate};
    auto found = plans_.find(what);
    if (found == plans_.end()) found = plans_.emplace(what, make_plan(what)).first;
    return found->second;
  }

  void multiply(plan& p, const tensor_view& x, const tensor_view& bias, const tensor_view& y) {
    const bool with_bias = bias.data != nullptr;
    std::unordered_map<int, dnnl::memory> arguments;
    arguments.emplace(DNNL_ARG_SRC, dnnl::memory(p.source, cpu_engine(), x.data));
    arguments.emplace(DNNL_ARG_WEIGHTS, weight_);
    arguments.emplace(DNNL_ARG_DST, dnnl::memory(p.result, cpu_engine(), y.data));
    if (with_bias) {
      arguments.emplace(DNNL_ARG_BIAS, dnnl::memory(bias_desc(), cpu_engine(), bias.data));
    }
    p.primitive.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  static constexpr std::int64_t chunk_for_layout = 128;

  struct key {
    std::int64_t rows, x_stride, y_stride;
    bool bias, accumulate;
    auto operator<=>(const key&) const = default;
  };

  dnnl::memory::desc plain_weight() const {
    return {{k_, n_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  }
  dnnl::memory::desc bias_desc() const {
    return {{1, n_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  }
  dnnl::memory::desc weight_desc() const {
    if (weight_) return layout_;
    return {{k_, n_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
  }

  dnnl::matmul::primitive_desc describe(std::int64_t rows, std::int64_t x_stride,
                                        std::int64_t y_stride, bool bias, bool accumulate) const {
    const dnnl::memory::desc source({rows, k_}, dnnl::memory::data_type::f32, {x_stride, 1});
    const dnnl::memory::desc result({rows, n_}, dnnl::memory::data_type::f32, {y_stride, 1});
    dnnl::primitive_attr attributes;
    if (accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const auto d = bias ? dnnl::matmul::desc(source, weight_desc(), bias_desc(), result)
                        : dnnl::matmul::desc(source, weight_desc(), result);
    return {d, attributes, cpu_engine()};
  }

  plan make_plan(const key& what) const {
    const auto d = describe(what.rows, what.x_stride, what.y_stride, what.bias, what.accumulate);
    return {dnnl::matmul(d), d.src_desc(), d.dst_desc()};
  }

  std::int64_t n_, k_;
  dnnl::memory::desc layout_;
  dnnl::memory weight_;
  dnnl::stream stream_{cpu_engine()};
  std::map<key, plan> plans_;
};

}  // namespace

bool library_linear(const tensor_view& x, const packed_cpu& w, const tensor_view& bias,
                    const tensor_view& y, bool accumulate, gemm_path path) {
  if (w.format != weight_format::f32 || x.rows() < library_rows) return false;
  const std::lock_guard<std::mutex> guard(w.library_lock);
  if (w.library == nullptr) {
    try {
      w.library = std::make_unique<onednn_matrix>(w);
    } catch (const dnnl::error&) {
      return false;
    }
  }
  auto& library = static_cast<onednn_matrix&>(*w.library);
  auto& plan = library.plan_of(x, y, bias.data != nullptr, accumulate);
  const bool trial = path == gemm_path::automatic && plan.tried < 2 * trials;
  if (trial) {
    const bool own = plan.tried++ % 2 == 0;
    const auto start = clock::now();
    if (own) {
      own_linear(x, w, bias.data == nullptr ? nullptr : bias.as<float>(), y, accumulate);
    } else {
      library.multiply(plan, x, bias, y);
    }
    const double seconds = std::chrono::duration<double>(clock::now() - start).count();
    double& best = own ? plan.own_seconds : plan.library_seconds;
    best = std::min(best, seconds);
    return true;
  }
  const bool slower = plan.library_seconds >= plan.own_seconds;
  if (path == gemm_path::automatic && slower) return false;
  library.multiply(plan, x, bias, y);
  return true;
}

}  // namespace unmask::cpu
