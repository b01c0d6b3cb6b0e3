// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA runtime's stand-in: memory and copies.
#include <cstring>

#include "tests/softgpu/runtime_state.h"

namespace unmask::softgpu {
namespace {

const char* type_name(allocation::home h) {
  return h == allocation::home::device   ? "device"
         : h == allocation::home::pinned ? "pinned"
                                         : "managed";
}
// The bytes of a side of a copy; null: not what the kind of copy says.
std::uint8_t* side(const void* p, std::size_t bytes, bool on_device, const char* call) {
  allocation* a = memory::all().find(reinterpret_cast<std::uintptr_t>(p));
  if (a == nullptr) {
    if (!on_device || options().pageable) {
      if (on_device) note_host("host memory as a device pointer", call);
      return static_cast<std::uint8_t*>(const_cast<void*>(p));
    }
    note_host("not device memory", call);
    return nullptr;
  }
  if (!on_device && a->where == allocation::home::device) {
    note_host("device memory as a host pointer", call);
    return nullptr;
  }
  if (reinterpret_cast<std::uintptr_t>(p) + bytes > a->end) {
    note_host("copy over the end",
              std::string(call) + " of " + std::to_string(bytes) + " bytes, " +
                  std::to_string(a->end - reinterpret_cast<std::uintptr_t>(p)) +
                  " are left of an allocation of " + type_name(a->where) + " memory");
    return nullptr;
  }
  return static_cast<std::uint8_t*>(const_cast<void*>(p)) + a->to_host;
}
bool pinned(const void* p) {
  const allocation* a = memory::all().find(reinterpret_cast<std::uintptr_t>(p));
  return a != nullptr && a->where != allocation::home::device;
}

}  // namespace
}  // namespace unmask::softgpu

using namespace unmask::softgpu;

extern "C" {

static cudaError_t allocate(void** p, std::size_t bytes, allocation::home where, const char* call) {
  if (refused(call)) return cudaErrorStreamCaptureUnsupported;
  allocation* a = memory::all().take(bytes, where);
  if (a == nullptr) return result(cudaErrorMemoryAllocation);
  *p = reinterpret_cast<void*>(a->begin);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  return allocate(p, bytes, allocation::home::device, "cudaMalloc");
}
cudaError_t cudaMallocManaged(void** p, std::size_t bytes, unsigned) {
  return allocate(p, bytes, allocation::home::managed, "cudaMallocManaged");
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  return allocate(p, bytes, allocation::home::pinned, "cudaHostAlloc");
}
cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  if (refused("cudaFree")) return cudaErrorStreamCaptureUnsupported;
  const cudaError_t e = drain_all();  // waits for the device
  allocation* a = memory::all().find(reinterpret_cast<std::uintptr_t>(p));
  if (a == nullptr || a->where == allocation::home::pinned) {
    note_host("cudaFree", "of memory that cudaMalloc did not give");
    return result(cudaErrorInvalidValue);
  }
  memory::all().release(reinterpret_cast<std::uintptr_t>(p));
  return result(e);
}
cudaError_t cudaFreeHost(void* p) {
  if (p == nullptr) return cudaSuccess;
  if (refused("cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
  if (!memory::all().release(reinterpret_cast<std::uintptr_t>(p))) {
    note_host("cudaFreeHost", "of memory that cudaHostAlloc did not give");
    return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  *a = cudaPointerAttributes{};
  const allocation* of = memory::all().find(reinterpret_cast<std::uintptr_t>(p));
  if (of == nullptr) {
    a->type = cudaMemoryTypeUnregistered;
  } else {
    a->type = of->where == allocation::home::pinned    ? cudaMemoryTypeHost
              : of->where == allocation::home::managed ? cudaMemoryTypeManaged
                                                       : cudaMemoryTypeDevice;
  }
  return cudaSuccess;
}

static cudaError_t fill(void* p, int value, std::size_t bytes, stream& s) {
  std::uint8_t* to = side(p, bytes, true, "cudaMemset");
  if (to == nullptr) return cudaErrorInvalidValue;
  return enqueue(s, [to, value, bytes] { std::memset(to, value, bytes); });
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t s) {
  return result(fill(p, value, bytes, stream_of(s)));
}
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  if (refused("cudaMemset")) return cudaErrorStreamCaptureUnsupported;
  return result(fill(p, value, bytes, all().standard));
}

static cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                        stream& s, bool wait) {
  if (bytes == 0) return cudaSuccess;
  ++all().copies;
  const auto on_device = [](const void* p) {
    const allocation* a = memory::all().find(reinterpret_cast<std::uintptr_t>(p));
    return a != nullptr && a->where == allocation::home::device;
  };
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (kind == cudaMemcpyDefault) {
    to_device = on_device(to);
    from_device = on_device(from);
  }
  if (to_device && !from_device) all().to_device_bytes += bytes;
  if (from_device && !to_device) all().to_host_bytes += bytes;
  std::uint8_t* d = side(to, bytes, to_device, "cudaMemcpy to");
  const std::uint8_t* f = side(from, bytes, from_device, "cudaMemcpy from");
  if (d == nullptr || f == nullptr) return cudaErrorInvalidValue;
  if (!to_device && !from_device) {
    std::memcpy(d, f, bytes);
    return cudaSuccess;
  }
  cudaError_t e = cudaSuccess;
  if (to_device && !from_device && !pinned(from)) {  // staged before the call returns
    if (s.capture != nullptr)
      note_host("pageable memory in a capture",
                "its address is kept: the copy reads it when the graph runs");
    auto staged = std::make_shared<std::vector<std::uint8_t>>(f, f + bytes);
    e = enqueue(s, [d, staged] { std::memcpy(d, staged->data(), staged->size()); });
  } else {
    e = enqueue(s, [d, f, bytes] { std::memmove(d, f, bytes); });
  }
  if (e != cudaSuccess) return e;
  if (wait || (from_device && !to_device && !pinned(to) && s.capture == nullptr)) e = drain(s);
  return e;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s) {
  return result(copy(to, from, bytes, kind, stream_of(s), false));
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (refused("cudaMemcpy")) return cudaErrorStreamCaptureUnsupported;
  return result(copy(to, from, bytes, kind, all().standard, true));
}

}  // extern "C"
