// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA runtime's stand-in: launches, within what the card and ptxas' report allow.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/softgpu/runtime_state.h"

namespace unmask::softgpu {

cudaError_t ready(function& f) {
  if (f.code != nullptr) return cudaSuccess;
  if (f.broken) return cudaErrorInvalidDeviceFunction;
  const ptx_module* module = images::all().holding(f.name);
  if (module == nullptr) {
    note_host("no image", f.name);
    return cudaErrorNoKernelImageForDevice;
  }
  try {
    f.code = decode(*module, f.name, images::all().arch(), images::all().variables_of(*module));
  } catch (const std::exception& why) {
    f.broken = true;
    note_host("cannot decode", why.what());
    return cudaErrorInvalidPtx;
  }
  return cudaSuccess;
}

namespace {

struct request {
  function& f;
  dim3 grid, threads;
  std::size_t shared;
  dim3 cluster{0, 0, 0};  // blocks; 0: as the kernel says
  bool early = false;     // it may start before the launch before it has ended
  const kernel& k() const { return *f.code; }
  std::uint64_t thread_count() const { return std::uint64_t{threads.x} * threads.y * threads.z; }
  std::uint64_t warps() const { return (thread_count() + 31) / 32; }
};

cudaError_t refuse(const request& r, cudaError_t error, const std::string& why) {
  note_host("launch refused", r.k().shown + ": " + why);
  return error;
}

cudaError_t check_shape(const request& r) {
  const dim3 &grid = r.grid, &threads = r.threads;
  const std::uint64_t count = r.thread_count();
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || count == 0) {
    return refuse(r, cudaErrorInvalidConfiguration, "nothing to run");
  }
  if (grid.x > 0x7FFFFFFFU || grid.y > 65535 || grid.z > 65535) {
    return refuse(r, cudaErrorInvalidConfiguration, "grid too large");
  }
  if (threads.x > 1024 || threads.y > 1024 || threads.z > 64 || count > 1024) {
    return refuse(r, cudaErrorInvalidConfiguration, "block too large");
  }
  const auto& most = r.k().entry->max_threads;
  const std::int64_t bound = std::int64_t{most[0]} * most[1] * most[2];
  if (most[0] > 0 && static_cast<std::int64_t>(count) > bound) {
    return refuse(
        r, cudaErrorLaunchOutOfResources,
        std::to_string(count) + " threads, __launch_bounds__ says " + std::to_string(bound));
  }
  return cudaSuccess;
}

cudaError_t check_shared_memory(const request& r) {
  if (r.shared > static_cast<std::size_t>(r.f.shared_limit)) {
    return refuse(r, cudaErrorInvalidValue,
                  std::to_string(r.shared) + " bytes of dynamic shared memory, " +
                      std::to_string(r.f.shared_limit) + " are allowed");
  }
  const std::size_t all_of_it = r.k().static_shared_end - shared_base + r.shared;
  if (all_of_it > static_cast<std::size_t>(device().shared_of_block)) {
    return refuse(r, cudaErrorInvalidValue, "shared memory of a block");
  }
  return cudaSuccess;
}

// Registers are handed out in units of 256 to a warp; a multiprocessor has 65536 in four partitions.
cudaError_t check_registers(const request& r) {
  const int registers = images::all().registers_of(r.f.name);
  if (registers == 0) return cudaSuccess;
  const std::uint64_t per_warp = (static_cast<std::uint64_t>(registers) + 7) / 8 * 8 * 32;
  if ((r.warps() + 3) / 4 * 4 * per_warp > 65536 && r.warps() * per_warp > 65536) {
    return refuse(r, cudaErrorLaunchOutOfResources, "registers");
  }
  const int asked = r.k().entry->min_blocks;
  const std::uint64_t by_registers = 65536 / (r.warps() * per_warp);
  // How many blocks are worth having is said for data-centre cards: the 100 KiB of the others hold
  // one of the largest, and it runs alone.
  const bool small = device().shared_of_processor < 128 * 1024;
  const std::uint64_t by_shared = small ? 1U << 31
                                        : static_cast<std::uint64_t>(device().shared_of_processor) /
                                              (r.k().static_shared + r.shared + 1024);
  if (asked > 1 && std::min(by_registers, by_shared) < static_cast<std::uint64_t>(asked)) {
    note_host("fewer blocks per multiprocessor than __launch_bounds__ asks",
              r.k().shown + ": " + std::to_string(by_registers) + " by " +
                  std::to_string(registers) + " registers, " + std::to_string(by_shared) + " by " +
                  std::to_string(r.shared) + " bytes, asked " + std::to_string(asked));
  }
  return cudaSuccess;
}

// The launch's cluster, or the kernel's own.
cudaError_t check_cluster(request& r) {
  const int(&own)[3] = r.k().entry->cluster;
  const dim3 named(static_cast<unsigned>(own[0]), static_cast<unsigned>(own[1]),
                   static_cast<unsigned>(own[2]));
  const auto same = [](const dim3& a, const dim3& b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
  };
  if (r.cluster.x == 0) r.cluster = named.x == 0 ? dim3(1, 1, 1) : named;
  const std::uint64_t blocks = std::uint64_t{r.cluster.x} * r.cluster.y * r.cluster.z;
  if (named.x != 0 && !same(named, r.cluster)) {
    return refuse(r, cudaErrorInvalidClusterSize,
                  "a cluster that is not the one of __cluster_dims__");
  }
  if (blocks == 1) return cudaSuccess;
  if (options().arch < 90) return refuse(r, cudaErrorNotSupported, "no clusters before sm_90");
  if (blocks == 0 || blocks > (r.f.large_clusters ? 16 : 8)) {
    return refuse(r, cudaErrorInvalidClusterSize,
                  "a cluster of " + std::to_string(blocks) + " blocks");
  }
  if (r.grid.x % r.cluster.x != 0 || r.grid.y % r.cluster.y != 0 || r.grid.z % r.cluster.z != 0) {
    return refuse(r, cudaErrorInvalidConfiguration, "a grid that is no multiple of its cluster");
  }
  return cudaSuccess;
}

// $UNMASK_SOFTGPU_GRID="kernel|n": at most n blocks (x), for kernels that run with any number.
void shrink_grid(request& r) {
  static const char* fewer = std::getenv("UNMASK_SOFTGPU_GRID");
  if (fewer == nullptr) return;
  const std::string text = fewer;
  const std::size_t bar = text.rfind('|');
  if (bar == std::string::npos || r.f.name.find(text.substr(0, bar)) == std::string::npos) return;
  const auto most = static_cast<unsigned>(std::atoi(text.c_str() + bar + 1));
  r.grid.x = std::min(r.grid.x, std::max(most / r.cluster.x, 1U) * r.cluster.x);
}

cudaError_t launch(request r, void** arguments, cudaStream_t in) {
  if (const cudaError_t e = ready(r.f); e != cudaSuccess) return e;
  for (const auto check : {check_shape, check_shared_memory, check_registers}) {
    if (const cudaError_t e = check(r); e != cudaSuccess) return e;
  }
  if (const cudaError_t e = check_cluster(r); e != cudaSuccess) return e;
  if (!known(in)) return refuse(r, cudaErrorInvalidResourceHandle, "unknown stream");
  kernel& k = *r.f.code;
  k.registers = images::all().registers_of(r.f.name);
  if (k.entry->parameter_bytes > 4096) return refuse(r, cudaErrorInvalidValue, "parameters");
  std::vector<std::uint8_t> parameters(k.entry->parameter_bytes);
  for (std::size_t n = 0; n < k.entry->parameters.size(); ++n) {
    const ptx_parameter& p = k.entry->parameters[n];
    std::memcpy(parameters.data() + p.offset, arguments[n], p.bytes);
  }
  shrink_grid(r);
  if (options().trace) {
    std::fprintf(stderr, "softgpu: launch %s sm_%d grid %u %u threads %u shared %zu\n",
                 k.shown.c_str(), k.arch, r.grid.x, r.grid.y, r.threads.x, r.shared);
  }
  const launch_shape shape{{r.grid.x, r.grid.y, r.grid.z},
                           {r.threads.x, r.threads.y, r.threads.z},
                           static_cast<std::uint32_t>(r.shared),
                           {r.cluster.x, r.cluster.y, r.cluster.z}};
  const auto run = [&k, shape, parameters] {
    run_launch(k, shape, parameters, &all().running->before);
  };
  return enqueue(stream_of(in), {run, r.early ? work::sort::early_launch : work::sort::launch});
}

}  // namespace
}  // namespace unmask::softgpu

using namespace unmask::softgpu;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 threads, std::size_t shared, void* in) {
  all().calls.push_back({grid, threads, shared, in});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* threads, std::size_t* shared, void* in) {
  if (all().calls.empty()) return cudaErrorMissingConfiguration;
  const auto c = all().calls.back();
  all().calls.pop_back();
  *grid = c.grid;
  *threads = c.threads;
  *shared = c.shared;
  *static_cast<void**>(in) = c.in;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* k, const void* host) {
  const auto found = all().functions.find(host);
  if (found == all().functions.end()) return result(cudaErrorInvalidDeviceFunction);
  *k = reinterpret_cast<cudaKernel_t>(found->second.get());
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 threads, void** arguments,
                               std::size_t shared, cudaStream_t in) {
  return result(launch({*reinterpret_cast<function*>(k), grid, threads, shared}, arguments, in));
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* host, void** arguments) {
  const auto found = all().functions.find(host);
  if (found == all().functions.end()) return result(cudaErrorInvalidDeviceFunction);
  request r{*found->second, how->gridDim, how->blockDim, how->dynamicSmemBytes};
  for (unsigned n = 0; n < how->numAttrs; ++n) {
    const cudaLaunchAttribute& a = how->attrs[n];
    if (a.id == cudaLaunchAttributeClusterDimension) {
      r.cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
      if (r.cluster.x == 0) return result(cudaErrorInvalidClusterSize);
    } else if (a.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
      r.early = a.val.programmaticStreamSerializationAllowed != 0;
    } else {
      note_host("unknown launch attribute", std::to_string(static_cast<int>(a.id)));
      return result(cudaErrorInvalidValue);
    }
  }
  if (r.early && options().arch < 90) {
    note_host("launch refused", "no programmatic stream serialization before sm_90");
    return result(cudaErrorNotSupported);
  }
  return result(launch(r, arguments, how->stream));
}
cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 threads, void** arguments,
                             std::size_t shared, cudaStream_t in) {
  const auto found = all().functions.find(host);
  if (found == all().functions.end()) return result(cudaErrorInvalidDeviceFunction);
  return result(launch({*found->second, grid, threads, shared}, arguments, in));
}

}  // extern "C"
