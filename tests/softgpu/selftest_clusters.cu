// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The GPU in software: launches that start early (griddepcontrol), clusters, copies that report to mbarriers of
// other blocks, and tensor maps. Every right case against values that are computed by hand; every fault is a
// word of the kernel's argument.
#include <cstring>
#include <utility>

#include "tests/softgpu/runtime.h"
#include "tests/softgpu/selftest.h"

#ifdef ON_HOPPER
#define CLUSTER_OF_TWO __cluster_dims__(2, 1, 1)
#else
#define CLUSTER_OF_TWO
#endif

static cudaStream_t stream = nullptr;  // of launches

template <class... Wanted, class... Given>
static void launch(void (*kernel)(Wanted...), dim3 grid, dim3 threads, dim3 cluster, bool early,
                   Given... given) {
  cudaLaunchConfig_t how{};
  cudaLaunchAttribute attributes[2];
  how.gridDim = grid;
  how.blockDim = threads;
  how.attrs = attributes;
  how.stream = stream;
  if (cluster.x != 0) {
    attributes[how.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[how.numAttrs++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
  if (early) {
    attributes[how.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[how.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  const cudaError_t e = cudaLaunchKernelEx(&how, kernel, static_cast<Wanted>(given)...);
  if (e != cudaSuccess) std::printf("launch: %s\n", cudaGetErrorName(e));
  expect(e == cudaSuccess, "launch");
}
constexpr dim3 as_it_says{0, 0, 0};

// ---- launches that start early ----

enum class early {
  right,
  no_wait,
  read_before,
  write_before,
  one_thread,
  one_for_all,
  silent,
  late
};
#ifdef ON_HOPPER
__device__ void let_dependents_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ void wait_for_launches() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
#endif
// to[i] = from[i] + weights[i]; nobody writes weights.
__global__ void chain_kernel(early does, const int* from, const int* weights, int* to) {
#ifdef ON_HOPPER
  const unsigned i = blockIdx.x * 64 + threadIdx.x;
  if (does != early::silent && does != early::late) let_dependents_start();
  const int weight = weights[i];
  int x = 0;
  if (does == early::read_before) x = from[i];
  if (does == early::write_before) to[i] = 0;
  if (does == early::one_thread || does == early::one_for_all) {
    if (threadIdx.x == 0) wait_for_launches();
    if (does == early::one_for_all) __syncthreads();
  } else if (does != early::no_wait) {
    wait_for_launches();
  }
  if (does == early::late) let_dependents_start();
  if (does != early::read_before) x = from[i];
  to[i] = x + weight;
#endif
}

// a to b, b to a, a to b: what the first reads the second writes.
template <early first, early second, early third>
static void check_chain() {
  std::vector<int> numbers(256), weights(256);
  for (int i = 0; i < 256; ++i) {
    numbers[i] = i * 3;
    weights[i] = 1000 + i;
  }
  const int* w = device(weights);
  int *a = device(numbers), *b = device(std::vector<int>(256, -1));
  launch(chain_kernel, 4, 64, as_it_says, false, first, a, w, b);
  launch(chain_kernel, 4, 64, as_it_says, true, second, b, w, a);
  launch(chain_kernel, 4, 64, as_it_says, true, third, a, w, b);
  const auto got = back(b, 256);
  for (int i = 0; i < 256; ++i) expect(got[i] == i * 3 + 3 * (1000 + i), "chain", i);
}

// The second launch has nothing to do with the first, whose results the third reads: before it waits, if it may.
template <early second, early third>
static void check_leap() {
  std::vector<int> numbers(256, 5), weights(256, 7);
  const int* w = device(weights);
  int *a = device(numbers), *b = device(numbers), *c = device(numbers), *d = device(numbers);
  launch(chain_kernel, 4, 64, as_it_says, false, early::right, a, w, b);
  launch(chain_kernel, 4, 64, as_it_says, true, second, c, w, c);
  launch(chain_kernel, 4, 64, as_it_says, true, third, b, w, d);
  const auto got = back(d, 256);
  for (int i = 0; i < 256; ++i) expect(got[i] == 19, "leap", i);
}

// Two launches in a graph that is replayed twice: a to b, b to a.
template <early second>
static void check_recorded() {
  std::vector<int> numbers(256, 5), weights(256, 7);
  const int* w = device(weights);
  int *a = device(numbers), *b = device(numbers);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recorded = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  launch(chain_kernel, 4, 64, as_it_says, false, early::right, a, w, b);
  launch(chain_kernel, 4, 64, as_it_says, true, second, b, w, a);
  cudaStreamEndCapture(stream, &graph);
  expect(cudaGraphInstantiate(&recorded, graph, 0) == cudaSuccess, "graph");
  for (int n = 0; n < 2; ++n) cudaGraphLaunch(recorded, stream);
  const auto got = back(a, 256);
  for (int i = 0; i < 256; ++i) expect(got[i] == 5 + 4 * 7, "graph of launches", i);
  cudaGraphExecDestroy(recorded);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  stream = nullptr;
}

// A library fills what a launch behind it reads.
template <early does>
static void check_behind_library() {
  const std::vector<int> fives(256, 5);
  const int* w = device(fives);
  int *a = device(std::vector<int>(256, 0)), *b = device(std::vector<int>(256, 0));
  int status = 0;
  const auto fill = [a] {
    auto* at = static_cast<int*>(unmask::softgpu::host_address(a, 1024));
    for (int n = 0; n < 256; ++n) at[n] = n;
  };
  unmask::softgpu::enqueue_host(nullptr, fill, {{a, 1024, true}}, &status);
  launch(chain_kernel, 4, 64, as_it_says, true, does, a, w, b);
  const auto got = back(b, 256);
  for (int n = 0; n < 256; ++n) expect(got[n] == n + 5, "behind a library", n);
}

// ---- clusters ----

#ifdef ON_HOPPER
__device__ void arrive_at_cluster(bool relaxed) {
  if (relaxed) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  }
}
__device__ void wait_for_cluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ void meet_cluster(bool relaxed = false) {
  arrive_at_cluster(relaxed);
  wait_for_cluster();
}
__device__ unsigned in_block(const void* p, unsigned rank) {
  unsigned at = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(address(p)), "r"(rank));
  return at;
}
__device__ int load_of_cluster(unsigned at) {
  int x = 0;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(x) : "r"(at) : "memory");
  return x;
}
__device__ void store_to_cluster(unsigned at, int x) {
  asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}
#define SPECIAL(name)                                  \
  [] {                                                 \
    unsigned v;                                        \
    asm volatile("mov.u32 %0, %%" name ";" : "=r"(v)); \
    return v;                                          \
  }()

#endif

enum class exchange {
  right,
  no_first,
  no_middle,
  relaxed,
  no_final,
  twice,
  no_arrival,
  beyond,
  missing
};
struct exchanged {
  int neighbour, generic, got, total;
  unsigned rank, size, cluster, x, y, where;
};
// Every block reads 64 numbers of the next, writes into it, and counts in block 0.
__global__ void exchange_kernel(exchange does, exchanged* out) {
#ifdef ON_HOPPER
  __shared__ int mine[64], got[64], count;
  const unsigned t = threadIdx.x, rank = SPECIAL("cluster_ctarank"),
                 size = SPECIAL("cluster_nctarank"), number = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned next = does == exchange::beyond ? size : (rank + 1) % size;
  mine[t] = static_cast<int>(number * 100 + t);
  if (t == 0) count = 0;
  if (does != exchange::no_first) meet_cluster();
  exchanged e{};
  e.neighbour = load_of_cluster(in_block(&mine[63 - t], next));
  store_to_cluster(in_block(&got[t], next), e.neighbour + 1);
  const int* there = nullptr;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(&mine[t]), "r"(next));
  e.generic = *there;
  asm volatile("getctarank.shared::cluster.u32 %0, %1;"
               : "=r"(e.where)
               : "r"(in_block(mine, next)));
  asm volatile("red.shared::cluster.add.s32 [%0], %1;" ::"r"(in_block(&count, 0)), "r"(1)
               : "memory");
  if (does == exchange::twice) arrive_at_cluster(false);
  if (does == exchange::no_arrival) wait_for_cluster();
  if (does == exchange::missing && rank == 1 && t < 32) {
    asm volatile("bar.sync 1, 64;" ::: "memory");  // the other warp does not come
  }
  if (does != exchange::no_middle) meet_cluster(does == exchange::relaxed);
  e.got = got[t];
  e.total = load_of_cluster(in_block(&count, 0));
  if (does != exchange::no_final) meet_cluster();
  e.rank = rank;
  e.size = size;
  e.cluster = SPECIAL("clusterid.x") + SPECIAL("nclusterid.x") * SPECIAL("clusterid.y");
  e.x = SPECIAL("cluster_ctaid.x");
  e.y = SPECIAL("cluster_ctaid.y");
  out[number * 64 + t] = e;
#endif
}

// 4 x 2 blocks in two clusters of 2 x 2.
template <exchange does>
static void check_exchange() {
  exchanged* out = device(std::vector<exchanged>(8 * 64));
  launch(exchange_kernel, dim3(4, 2), 64, dim3(2, 2), false, does, out);
  const auto all = back(out, 8 * 64);
  for (int n = 0; n < 8 * 64; ++n) {
    const exchanged& e = all[n];
    const unsigned block = n / 64, x = block % 4, y = block / 4, t = n % 64;
    const unsigned rank = x % 2 + 2 * (y % 2), next = (rank + 1) % 4;
    const unsigned there = next / 2 * 4 + x / 2 * 2 + next % 2;  // its number
    expect(e.rank == rank && e.size == 4 && e.cluster == x / 2 && e.x == x % 2 && e.y == y % 2,
           "places of a cluster", n);
    expect(e.where == next, "getctarank", n);
    expect(e.neighbour == static_cast<int>(there * 100 + 63 - t), "ld.shared::cluster", n);
    expect(e.generic == static_cast<int>(there * 100 + t), "mapa.u64", n);
    expect(e.got == static_cast<int>(block * 100 + 63 - t) + 1, "st.shared::cluster", n);
    expect(e.total == 256, "red.shared::cluster", n);
  }
}

// ---- copies that report to mbarriers ----

#ifdef ON_HOPPER
__device__ void arrive_there(std::uint64_t* bar, unsigned rank, bool to_cluster = true) {
  const unsigned at = in_block(bar, rank);
  if (to_cluster) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(at)
                 : "memory");
  } else {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(at) : "memory");
  }
}

#endif

enum class ring {
  right,
  too_many,
  too_few,
  parity,
  no_proxy_fence,
  own_scope,
  no_init_fence,
  other_bar
};
// Two blocks send each other 32 numbers by st.async, then twice those by a bulk copy, then a 7 behind a remote
// arrival.
CLUSTER_OF_TWO __global__ void ring_kernel(ring does, const int* from, int* out) {
#ifdef ON_HOPPER
  __shared__ __align__(16) int tile[32], sent[32], kept[32];
  __shared__ std::uint64_t full, copied, read;
  const unsigned lane = threadIdx.x % 32, rank = SPECIAL("cluster_ctarank"), peer = rank ^ 1;
  if (threadIdx.x == 0) {
    init(&full, 1);
    init(&copied, 1);
    init(&read, 1);
    if (does != ring::no_init_fence) fence_init();
  }
  __syncthreads();
  meet_cluster(does != ring::no_init_fence);
  int got = 0;
  if (threadIdx.x == 0) {
    expect_bytes(&full, does == ring::too_many ? 192 : does == ring::too_few ? 64 : 128);
    expect_bytes(&copied, 128);
  }
  if (threadIdx.x >= 32) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(
            in_block(&tile[lane], peer)),
        "r"(from[rank * 32 + lane]), "r"(in_block(&full, peer))
        : "memory");
  } else {
    wait(&full, does == ring::parity ? 1 : 0);
    sent[lane] = 2 * tile[(lane + 1) % 32];
    if (does != ring::no_proxy_fence) fence_proxy();
    __syncwarp();
    if (lane == 0) {
      asm volatile(
          "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(in_block(kept, peer)),
          "r"(address(sent)), "r"(128),
          "r"(does == ring::other_bar ? address(&copied) : in_block(&copied, peer))
          : "memory");
    }
    wait(&copied, 0);
    got = kept[lane];
    __syncwarp();
    if (lane == 0) arrive_there(&read, peer, does != ring::own_scope);
    wait(&read, 0);
    store_to_cluster(in_block(&kept[lane], peer), 7);
  }
  meet_cluster();
  if (threadIdx.x < 32) out[rank * 32 + lane] = got + kept[lane];
#endif
}

template <ring does>
static void check_ring() {
  std::vector<int> numbers(64);
  for (int n = 0; n < 64; ++n) numbers[n] = 10 * n + 3;
  int* out = device(std::vector<int>(64, -1));
  ring_kernel<<<2, 64>>>(does, device(numbers), out);
  const auto got = back(out, 64);
  // What a block sends comes back to it, doubled.
  for (int n = 0; n < 64; ++n) {
    expect(got[n] == 2 * numbers[n / 32 * 32 + (n + 1) % 32] + 7, "st.async, bulk copy to a peer",
           n);
  }
}

enum class cast { right, own_empty, one_block, half, no_final, beyond };
// Rounds of 64 numbers into two stages of both blocks: each block fetches a half, for both.
CLUSTER_OF_TWO __global__ void multicast_kernel(cast does, const int* from, int rounds, int* sums) {
#ifdef ON_HOPPER
  __shared__ __align__(16) int stage[2][64];
  __shared__ std::uint64_t full[2], empty[2];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32,
                 rank = SPECIAL("cluster_ctarank");
  if (threadIdx.x == 0) {
    for (int n = 0; n < 2; ++n) {
      init(&full[n], 1);
      init(&empty[n], does == cast::own_empty ? 2 : 4);
    }
    fence_init();
  }
  meet_cluster(true);
  int sum = 0;
  for (int n = 0; n < rounds; ++n) {
    const int s = n % 2, parity = n / 2 % 2;
    if (threadIdx.x == 0) {
      wait(&empty[s], parity ^ 1);
      expect_bytes(&full[s], does == cast::half ? 128 : 256);
      const unsigned mask = does == cast::one_block ? 1 : does == cast::beyond ? 7 : 3;
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
          "[%0], "
          "[%1], %2, [%3], %4;" ::"r"(address(&stage[s][rank * 32])),
          "l"(from + n * 64 + rank * 32), "r"(128), "r"(address(&full[s])),
          "h"(static_cast<unsigned short>(mask))
          : "memory");
    } else if (warp > 0) {
      wait(&full[s], parity);
      sum += stage[s][lane] * 3 + stage[s][63 - lane];
      __syncwarp();
      if (lane == 0) {
        arrive_there(&empty[s], rank);
        if (does != cast::own_empty) arrive_there(&empty[s], rank ^ 1);
      }
    }
  }
  if (does != cast::no_final) meet_cluster();
  if (warp > 0) sums[(rank * 2 + warp - 1) * 32 + lane] = sum;
#endif
}

template <cast does>
static void check_multicast() {
  constexpr int rounds = 7;
  std::vector<int> numbers(rounds * 64);
  for (int n = 0; n < rounds * 64; ++n) numbers[n] = n * n % 1009;
  int* sums = device(std::vector<int>(128, -1));
  multicast_kernel<<<2, 96>>>(does, device(numbers), rounds, sums);
  const auto got = back(sums, 128);
  for (int t = 0; t < 128; ++t) {
    int sum = 0;
    for (int n = 0; n < rounds; ++n) {
      sum += numbers[n * 64 + t % 32] * 3 + numbers[n * 64 + 63 - t % 32];
    }
    expect(got[t] == sum, "multicast", t);
  }
}

// ---- tensor maps ----

enum class box {
  right,
  bytes,
  read_before,
  beyond,
  dimensions,
  shared_address,
  map_address,
  map,
  outside
};
struct box_request {
  box does;
  int dimensions, x, y, z, bytes, expected;
  bool both_ways;  // back to global memory, three places further in x
};
__global__ void box_kernel(const __grid_constant__ CUtensorMap map, const CUtensorMap* other,
                           box_request r, unsigned char* out) {
#ifdef ON_HOPPER
  extern __shared__ __align__(1024) unsigned char room[];
  __shared__ std::uint64_t bar;
  unsigned char* to = room + (r.does == box::shared_address ? 64 : 0);
  if (threadIdx.x == 0) {
    init(&bar, 1);
    fence_init();
  }
  __syncthreads();
  const bool named = r.does == box::map_address || r.does == box::map;
  const CUtensorMap* by = named ? other : &map;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(by) : "memory");
    expect_bytes(&bar, r.expected);
    if (r.dimensions == 2) {
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
          "[%1, "
          "{%2, %3}], [%4];" ::"r"(address(to)),
          "l"(by), "r"(r.x), "r"(r.y), "r"(address(&bar))
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
          "{%2, "
          "%3, %4}], [%5];" ::"r"(address(to)),
          "l"(by), "r"(r.x), "r"(r.y), "r"(r.z), "r"(address(&bar))
          : "memory");
    }
  }
  if (r.does != box::read_before) wait(&bar, 0);
  for (int n = static_cast<int>(threadIdx.x); n < r.bytes; n += 32) out[n] = to[n];
  if (r.both_ways && threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
            by),
        "r"(r.x + 3), "r"(r.y), "r"(address(to))
        : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
#endif
}

using encoder = decltype(&cuTensorMapEncodeTiled);
static encoder find_encoder() {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult how{};
  expect(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                          &how) == cudaSuccess &&
             how == cudaDriverEntryPointSuccess,
         "cuTensorMapEncodeTiled by name");
  return reinterpret_cast<encoder>(f);
}

// A tensor of bfloat16-sized numbers, rows further apart than they are long, and the box of one copy.
struct tensor {
  std::vector<cuuint64_t> sizes, strides;  // elements; bytes
  std::vector<cuuint32_t> box;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  cuuint32_t step = 1;
  CUresult encode(void* data, CUtensorMap* map) const {
    const std::vector<cuuint32_t> steps(sizes.size(), step);
    return find_encoder()(map, type, static_cast<cuuint32_t>(sizes.size()), data, sizes.data(),
                          strides.data(), box.data(), steps.data(), interleave, swizzle,
                          CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
  }
  int box_bytes() const {
    cuuint32_t n = 2;
    for (const cuuint32_t b : box) n *= b;
    return static_cast<int>(n);
  }
};

const CUtensorMap* map_of(const std::uint16_t* numbers) {
  const tensor t{{64, 64}, {128}, {64, 64}, CU_TENSOR_MAP_SWIZZLE_128B};
  alignas(64) CUtensorMap map;
  expect(t.encode(const_cast<std::uint16_t*>(numbers), &map) == CUDA_SUCCESS, "map of 64 x 64");
  return device(std::vector<CUtensorMap>{map});
}

// Where chunk c (16 bytes) of row r of the box goes: rows of 128, 64 or 32 bytes, eight rows, four or two of
// which make 128 bytes and change places alike.
static int chunk_place(CUtensorMapSwizzle swizzle, int row_bytes, int r, int c) {
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B) c ^= r % 8;
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_64B) c ^= r / 2 % 4;
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_32B) c ^= r / 4 % 2;
  return r * row_bytes + c * 16;
}

static void check_box(const tensor& t, box_request r, int missing_bytes = 0) {
  const bool deep = t.sizes.size() > 2;
  const int width = static_cast<int>(t.sizes[0]), height = static_cast<int>(t.sizes[1]),
            depth = deep ? static_cast<int>(t.sizes[2]) : 1;
  const int pitch = static_cast<int>(t.strides[0] / 2),
            plane = deep ? static_cast<int>(t.strides[1] / 2) : pitch * height;
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(plane) * depth - (pitch - width));
  for (std::size_t n = 0; n < numbers.size(); ++n)
    numbers[n] = static_cast<std::uint16_t>(n * 7 + 1);
  if (r.does == box::outside) numbers.resize(numbers.size() / 2);
  std::uint16_t* data = device(numbers);
  alignas(64) CUtensorMap map, two[2];
  expect(t.encode(data, &map) == CUDA_SUCCESS, "cuTensorMapEncodeTiled");
  std::memset(two, 0, sizeof two);
  std::memcpy(reinterpret_cast<char*>(two) + (r.does == box::map_address ? 32 : 0), &map,
              r.does == box::map ? 64 : sizeof map);
  auto* raw = device(std::vector<CUtensorMap>{two[0], two[1]});
  const auto* other = reinterpret_cast<const CUtensorMap*>(reinterpret_cast<char*>(raw) +
                                                           (r.does == box::map_address ? 32 : 0));
  r.dimensions = r.does == box::dimensions ? 5 - static_cast<int>(t.sizes.size())
                                           : static_cast<int>(t.sizes.size());
  r.bytes = t.box_bytes();
  r.expected = r.bytes - missing_bytes;
  auto* out = device(std::vector<unsigned char>(static_cast<std::size_t>(r.bytes)));
  const int room = r.does == box::beyond ? r.bytes / 2 : r.bytes + 128;
  box_kernel<<<1, 32, static_cast<unsigned>(room)>>>(map, other, r, out);
  const auto got = back(out, static_cast<std::size_t>(r.bytes));
  const int row_bytes = static_cast<int>(t.box[0]) * 2, rows = r.bytes / row_bytes;
  for (int n = 0; n < rows * row_bytes / 2; ++n) {
    const int row = n / (row_bytes / 2), column = n % (row_bytes / 2);
    const int x = r.x + column, y = r.y + row % static_cast<int>(t.box[1]),
              z = deep ? r.z + row / static_cast<int>(t.box[1]) : 0;
    const bool in = x >= 0 && x < width && y >= 0 && y < height && z >= 0 && z < depth;
    const std::uint16_t outside = t.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE ? 0 : 0x7FFF;
    const std::uint16_t want =
        in ? static_cast<std::uint16_t>((static_cast<std::size_t>(z) * plane + y * pitch + x) * 7 +
                                        1)
           : outside;
    std::uint16_t is = 0;
    std::memcpy(&is, &got[chunk_place(t.swizzle, row_bytes, row, column / 8) + column % 8 * 2], 2);
    expect(is == want, "box of a tensor", n);
  }
  if (!r.both_ways) return;
  // The box is there again three places further, what is outside of the tensor is nowhere.
  const auto now = back(data, numbers.size());
  for (int n = 0; n < static_cast<int>(numbers.size()); ++n) {
    const int x = n % pitch - 3 - r.x, y = n / pitch - r.y;
    const bool moved = n % pitch < width && x >= 0 && x < static_cast<int>(t.box[0]) && y >= 0 &&
                       y < static_cast<int>(t.box[1]);
    expect(now[n] == numbers[moved ? n - 3 : n], "box to a tensor", n);
  }
}

static const tensor flat{{100, 40}, {208}, {64, 16}, CU_TENSOR_MAP_SWIZZLE_128B};
template <box does>
static void check_planted_box() {
  box_request r{does, 0, 5, 3, 0, 0, 0, false};
  if (does == box::outside) r.y = 15;
  if (does == box::bytes) r.x = 60;  // 24 of 64 columns are outside, and arrive as zeros
  check_box(flat, r, does == box::bytes ? 24 * 2 * 16 : 0);
}

static void check_boxes() {
  const box_request at{box::right, 0, 5, 3, 0, 0, 0, false};
  tensor t = flat;
  check_box(t, at);
  check_box(t, {box::right, 0, -7, 30, 0, 0, 0, false});  // over two edges
  t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  check_box(t, {box::right, 0, 61, -2, 0, 0, 0, false});
  t = {{100, 40}, {208}, {32, 20}, CU_TENSOR_MAP_SWIZZLE_64B};
  check_box(t, at);
  t = {{100, 40}, {208}, {16, 20}, CU_TENSOR_MAP_SWIZZLE_32B};
  check_box(t, at);
  t = {{100, 40}, {208}, {40, 9}};
  check_box(t, at);
  t = {{48, 10, 6}, {96, 1008}, {64, 4, 3}, CU_TENSOR_MAP_SWIZZLE_128B};
  check_box(t, {box::right, 0, 0, 7, 4, 0, 0, false});
  // Rows 1 to 4 as they came, moved; the last columns fall out.
  t = {{50, 12}, {112}, {40, 4}};
  check_box(t, {box::right, 0, 11, 1, 0, 0, 0, true});
}

// What the driver refuses, one rule at a time.
static void check_map_limits() {
  int refused = 0, asked = 0;
  alignas(64) CUtensorMap room[2];
  std::uint16_t* data = device(std::vector<std::uint16_t>(100 * 104));
  const auto refuses = [&](const tensor& t, void* from, CUtensorMap* map) {
    ++asked;
    refused += t.encode(from, map) == CUDA_ERROR_INVALID_VALUE;
  };
  const auto with = [&](auto change) {
    tensor t = flat;
    change(t);
    refuses(t, data, room);
  };
  refuses(flat, data, reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(room) + 16));
  refuses(flat, data + 4, room);
  with([](tensor& t) { t.strides[0] = 200; });
  with([](tensor& t) { t.strides[0] = cuuint64_t{1} << 40; });
  with([](tensor& t) { t.sizes[1] = 0; });
  with([](tensor& t) { t.sizes[1] = (cuuint64_t{1} << 32) + 1; });
  with([](tensor& t) { t.box[1] = 0; });
  with([](tensor& t) { t.box[1] = 257; });
  with([](tensor& t) { t.box[0] = 65; });
  with([](tensor& t) { t.box[0] = 72; });  // 144 bytes, more than the swizzle
  with([](tensor& t) { t.step = 9; });
  with([](tensor& t) { t.step = 0; });
  with([](tensor& t) {
    t.type = CU_TENSOR_MAP_DATA_TYPE_UINT16;
    t.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  });
  with([](tensor& t) {
    t.sizes.assign(6, 16);
    t.strides.assign(5, 32);
    t.box.assign(6, 8);
  });
  std::printf("%d of %d maps are refused\n", refused, asked);
}

// A grid that is no multiple of its cluster, clusters that are too large, and one that is not the kernel's.
static void check_cluster_limits() {
  int refused = 0;
  const auto refuses = [&](auto kernel, dim3 grid, dim3 cluster, auto... arguments) {
    cudaLaunchConfig_t how{};
    cudaLaunchAttribute a{};
    how.gridDim = grid;
    how.blockDim = 64;
    how.attrs = &a;
    how.numAttrs = 1;
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim = {cluster.x, cluster.y, cluster.z};
    refused += cudaLaunchKernelEx(&how, kernel, arguments...) != cudaSuccess;
  };
  exchanged* out = device(std::vector<exchanged>(16 * 64));
  refuses(exchange_kernel, 3, 2, exchange::right, out);
  refuses(exchange_kernel, 16, 16, exchange::right, out);
  refuses(ring_kernel, 4, 4, ring::right, static_cast<const int*>(nullptr),
          static_cast<int*>(nullptr));
  std::printf("%d of 3 clusters are refused\n", refused);
}

const std::vector<planted_case> cluster_cases = {
    {"dependent_no_wait", check_chain<early::right, early::no_wait, early::right>},
    {"dependent_read", check_chain<early::right, early::right, early::read_before>},
    {"dependent_write", check_chain<early::right, early::write_before, early::right>},
    {"dependent_one_thread", check_chain<early::right, early::one_thread, early::right>},
    {"dependent_leap", check_leap<early::no_wait, early::right>},
    {"dependent_silent", check_chain<early::silent, early::silent, early::right>},
    {"dependent_recorded", check_recorded<early::no_wait>},
    {"dependent_library", check_behind_library<early::no_wait>},
    {"cluster_no_first", check_exchange<exchange::no_first>},
    {"cluster_no_middle", check_exchange<exchange::no_middle>},
    {"cluster_relaxed", check_exchange<exchange::relaxed>},
    {"cluster_no_final", check_exchange<exchange::no_final>},
    {"cluster_twice", check_exchange<exchange::twice>},
    {"cluster_no_arrival", check_exchange<exchange::no_arrival>},
    {"cluster_beyond", check_exchange<exchange::beyond>},
    {"cluster_missing", check_exchange<exchange::missing>},
    {"cluster_limits", check_cluster_limits},
    {"ring_too_many", check_ring<ring::too_many>},
    {"ring_too_few", check_ring<ring::too_few>},
    {"ring_parity", check_ring<ring::parity>},
    {"ring_no_proxy_fence", check_ring<ring::no_proxy_fence>},
    {"ring_own_scope", check_ring<ring::own_scope>},
    {"ring_no_init_fence", check_ring<ring::no_init_fence>},
    {"ring_other_bar", check_ring<ring::other_bar>},
    {"multicast_own_empty", check_multicast<cast::own_empty>},
    {"multicast_one_block", check_multicast<cast::one_block>},
    {"multicast_half", check_multicast<cast::half>},
    {"multicast_no_final", check_multicast<cast::no_final>},
    {"multicast_beyond", check_multicast<cast::beyond>},
    {"box_bytes", check_planted_box<box::bytes>},
    {"box_read_before", check_planted_box<box::read_before>},
    {"box_beyond", check_planted_box<box::beyond>},
    {"box_dimensions", check_planted_box<box::dimensions>},
    {"box_shared_address", check_planted_box<box::shared_address>},
    {"box_map_address", check_planted_box<box::map_address>},
    {"box_map", check_planted_box<box::map>},
    {"box_outside", check_planted_box<box::outside>},
    {"map_limits", check_map_limits}};

void check_clusters() {
  check_chain<early::right, early::right, early::right>();
  check_chain<early::right, early::one_for_all, early::late>();
  check_leap<early::late,
             early::read_before>();  // all have waited for the first when the third starts
  check_recorded<early::right>();
  check_behind_library<early::right>();
  check_exchange<exchange::right>();
  check_ring<ring::right>();
  check_multicast<cast::right>();
  check_boxes();
}
