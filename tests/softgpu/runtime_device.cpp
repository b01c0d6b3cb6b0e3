// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA runtime's stand-in: the card, registration of kernels, and their attributes.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/softgpu/runtime_state.h"

namespace {

// Numbers of the cards that CUDA_VISIBLE_DEVICES leaves of those of the machine, up to the first that it
// does not have. One process computes on the first of them alone.
std::vector<int> visible_cards() {
  std::vector<int> all;
  const int cards = unmask::softgpu::options().devices;
  const char* only = std::getenv("CUDA_VISIBLE_DEVICES");
  if (only == nullptr) {
    for (int card = 0; card < cards; ++card) all.push_back(card);
    return all;
  }
  for (const char* at = only; *at != '\0';) {
    char* end = nullptr;
    const long card = std::strtol(at, &end, 10);
    if (end == at || card < 0 || card >= cards) break;
    all.push_back(static_cast<int>(card));
    at = *end == ',' ? end + 1 : end;
  }
  return all;
}
bool is_visible(int device) {
  return device >= 0 && device < static_cast<int>(visible_cards().size());
}

// Whether this process computes on the card of that number.
bool is_own_card(int number) {
  const std::vector<int> cards = visible_cards();
  return !cards.empty() && cards[0] == number;
}

// Of the card that this process computes on; one that is unlike the others has one less.
int processors() {
  const int asked = unmask::softgpu::options().multiprocessors;
  const bool unlike = is_own_card(unmask::softgpu::options().unlike);
  return (asked > 0 ? asked : unmask::softgpu::device().multiprocessors) - (unlike ? 1 : 0);
}

}  // namespace

using namespace unmask::softgpu;

extern "C" {

void** __cudaRegisterFatBinary(
    void*) {  // machine code: the machine reads the PTX files of the build
  static int one;
  return reinterpret_cast<void**>(&one);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) {
  return 1;
}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  auto f = std::make_unique<function>();
  f->name = name;
  all().functions[host] = std::move(f);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}

cudaError_t cudaGetDeviceCount(int* n) {
  *n = static_cast<int>(visible_cards().size());
  return *n > 0 ? cudaSuccess : result(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* n) {
  *n = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int n) {
  return n == 0 ? cudaSuccess : result(cudaErrorInvalidDevice);
}
cudaError_t cudaRuntimeGetVersion(int* v) {
  *v = 13000;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* v) {
  *v = is_own_card(unmask::softgpu::options().new_driver) ? 13010 : 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!is_visible(device)) return result(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                visible_cards()[static_cast<std::size_t>(device)]);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (!is_visible(device)) return result(cudaErrorInvalidDevice);
  const card& own = unmask::softgpu::device();
  *p = cudaDeviceProp{};
  std::snprintf(p->name, sizeof p->name, "%s", own.name);
  p->totalGlobalMem = memory::all().capacity;
  p->major = options().arch / 10;
  p->minor = options().arch % 10;
  p->multiProcessorCount = processors();
  p->l2CacheSize = own.l2_bytes;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = own.threads_of_processor;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = static_cast<std::size_t>(own.shared_of_block);
  p->sharedMemPerMultiprocessor = static_cast<std::size_t>(own.shared_of_processor);
  p->reservedSharedMemPerBlock = 1024;
  p->maxGridSize[0] = 0x7FFFFFFF;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->memoryBusWidth = own.bus_bits;
  p->ECCEnabled = own.ecc ? 1 : 0;
  p->unifiedAddressing = p->managedMemory = p->concurrentManagedAccess = 1;
  p->pageableMemoryAccess = options().pageable ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr which, int) {
  const card& own = unmask::softgpu::device();
  switch (which) {
    case cudaDevAttrMultiProcessorCount:
      *v = processors();
      break;
    case cudaDevAttrPageableMemoryAccess:
      *v = options().pageable ? 1 : 0;
      break;
    case cudaDevAttrClockRate:
      *v = own.clock_khz;
      break;
    case cudaDevAttrMemoryClockRate:
      *v = own.memory_clock_khz;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *v = own.bus_bits;
      break;
    case cudaDevAttrEccEnabled:
      *v = own.ecc ? 1 : 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *v = own.shared_of_block;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *v = options().arch / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *v = options().arch % 10;
      break;
    default:
      note_host("unknown attribute", std::to_string(static_cast<int>(which)));
      return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (refused("cudaDeviceSynchronize")) return cudaErrorStreamCaptureUnsupported;
  return result(drain_all());
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* host) {
  const auto found = all().functions.find(host);
  if (found == all().functions.end()) return result(cudaErrorInvalidDeviceFunction);
  function& f = *found->second;
  const cudaError_t e = ready(f);
  if (e != cudaSuccess) return result(e);
  *a = cudaFuncAttributes{};
  a->sharedSizeBytes = f.code->static_shared;
  a->maxThreadsPerBlock = f.code->entry->max_threads[0] > 0 ? f.code->entry->max_threads[0] : 1024;
  const int registers = images::all().registers_of(f.name);
  a->numRegs = registers == 0 ? 32 : registers;
  // compute_80's PTX, compiled for this very card, is what a card above 8.0 runs of it.
  a->ptxVersion = f.code->arch;
  a->binaryVersion = options().arch;
  a->maxDynamicSharedSizeBytes = f.shared_limit;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* host, cudaFuncAttribute which, int value) {
  const auto found = all().functions.find(host);
  if (found == all().functions.end()) return result(cudaErrorInvalidDeviceFunction);
  function& f = *found->second;
  const cudaError_t e = ready(f);
  if (e != cudaSuccess) return result(e);
  if (which == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    f.large_clusters = value != 0;
    return cudaSuccess;
  }
  if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return result(cudaErrorInvalidValue);
  const int optin = device().shared_of_block;
  if (value < 0 || value + static_cast<int>(f.code->static_shared) > optin) {
    note_host("attribute refused",
              f.code->shown + ": " + std::to_string(value) + " bytes of dynamic shared memory");
    return result(cudaErrorInvalidValue);
  }
  f.shared_limit = value;
  return cudaSuccess;
}

// The driver's functions that the project asks for by name.
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* how) {
  const bool is_known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = is_known ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
  if (how != nullptr)
    *how = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (!is_known) note_host("unknown driver function", name);
  return is_known ? cudaSuccess : result(cudaErrorSymbolNotFound);
}

}  // extern "C"
