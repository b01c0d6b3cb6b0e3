// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The module of cuDNN's attention, libunmask_cudnn.so, compiled against the headers of cuDNN and of its frontend. It is
// not linked with cuDNN: the program opens libcudnn.so.9 before it opens this file.
#include <cudnn_frontend.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "kernels/libraries/module.h"

// The frontend compiles norms of its own at run time, which nobody asks for here: the module opens without NVRTC.
#pragma weak nvrtcCompileProgram
#pragma weak nvrtcCreateProgram
#pragma weak nvrtcDestroyProgram
#pragma weak nvrtcGetCUBIN
#pragma weak nvrtcGetCUBINSize
#pragma weak nvrtcGetProgramLog
#pragma weak nvrtcGetProgramLogSize

namespace unmask::libraries {
namespace {

namespace fe = cudnn_frontend;
using libraries::check;

void check(fe::error_t status, const char* what) {
  if (status.is_good()) return;
  throw std::runtime_error(std::string("cuDNN refuses ") + what + ": " + status.get_message());
}
void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": " + cudnnGetErrorString(status));
}

// Never destroyed, as the stream.
cudnnHandle_t handle() {
  static const cudnnHandle_t one = [] {
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "cudnnCreate");
    check(cudnnSetStream(made, module_stream()), "cudnnSetStream");
    return made;
  }();
  return one;
}

enum operand : std::int64_t { q_id = 1, keys_id, values_id, out_id };

struct plan {
  fe::graph::Graph graph;
  void* workspace = nullptr;
  plan() = default;
  ~plan() { (void)cudaFree(workspace); }
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
};

using numbers = std::vector<std::int64_t>;

fe::graph::Tensor_attributes attributes_of(const char* name, operand id, const numbers& sizes,
                                           const numbers& strides) {
  return fe::graph::Tensor_attributes().set_name(name).set_uid(id).set_dim(sizes).set_stride(
      strides);
}

// cuDNN names dimensions in the order sequence, head, row, element. Strides say how they lie in memory.
void* prepare_attention(const attention_shape* s) {
  return guarded<void*>(nullptr, [&]() -> void* {
    auto made = std::make_unique<plan>();
    fe::graph::Graph& graph = made->graph;
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const numbers rows{s->sequences, s->heads, s->rows, s->dim},
        row_strides{s->rows * s->heads * s->dim, s->dim, s->heads * s->dim, 1},
        keys{s->sequences, s->kv_heads, s->keys, s->dim},
        key_strides{s->key_rows * s->kv_heads * s->dim, s->dim, s->kv_heads * s->dim, 1};
    auto q = graph.tensor(attributes_of("q", q_id, rows, row_strides));
    auto k = graph.tensor(attributes_of("keys", keys_id, keys, key_strides));
    auto v = graph.tensor(attributes_of("values", values_id, keys, key_strides));
    auto [out, statistics] = graph.sdpa(q, k, v,
                                        fe::graph::SDPA_attributes()
                                            .set_name("attention")
                                            .set_generate_stats(false)
                                            .set_attn_scale(s->scale));
    out->set_output(true).set_uid(out_id).set_dim(rows).set_stride(row_strides);
    check(graph.build(handle(), {fe::HeurMode_t::A}), "this attention");
    std::int64_t bytes = 0;
    check(graph.get_workspace_size(bytes), "to name its workspace");
    if (bytes > 0) {
      check(cudaMalloc(&made->workspace, static_cast<std::size_t>(bytes)), "cudaMalloc");
    }
    return made.release();
  });
}

int attend(void* prepared, const attention_operands* o) {
  return guarded(1, [&] {
    auto* const p = static_cast<plan*>(prepared);
    std::unordered_map<std::int64_t, void*> operands{{q_id, const_cast<void*>(o->q)},
                                                     {keys_id, const_cast<void*>(o->keys)},
                                                     {values_id, const_cast<void*>(o->values)},
                                                     {out_id, o->out}};
    check(p->graph.execute(handle(), operands, p->workspace), "a call");
    return 0;
  });
}

const char* version() {
  static const std::string text = "cuDNN " + fe::detail::get_backend_version_string() +
                                  " by its frontend " +
                                  fe::detail::convert_version_to_str(CUDNN_FRONTEND_VERSION);
  return text.c_str();
}

void release(void* prepared) {
  delete static_cast<plan*>(prepared);
}

}  // namespace
}  // namespace unmask::libraries

const unmask::libraries::library_way* unmask_library_way() {
  using namespace unmask::libraries;
  static const library_way way{interface_number,  version,         words_of_last_problem,
                               prepare_attention, nullptr,         attend,
                               nullptr,           wait_for_module, release};
  return &way;
}
