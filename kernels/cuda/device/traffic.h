// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the kernels of the emulator do to memory. For programs that watch them, the kernels' files are
// compiled with calls around every load and store (cmake/UnmaskOperations.cmake), so the addresses are
// the kernels' own, and nothing is declared beside them. The lanes of a warp are put together at each collective and
// barrier: the n-th time that they pass the same instruction is one request of the warp, which
// touches whole sectors of 32 bytes as on a GPU. A value that the host compiler keeps in a register
// is not loaded again, as on a GPU; parts of a struct that it loads one by one are one access.
//
// Counted at the level of requests, before any cache: `sectors` is what the L1 is asked for,
// `touched` what must come from, or go to, memory if every cache were large enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace unmask::cuda::emulator {

// False in builds without tests, to which the emulator belongs.
bool is_built();
// False in a program that does not watch its kernels, in builds with sanitizers, which use the same calls
// for themselves, and with other compilers than GCC: launches, waits and products are counted there,
// accesses are not.
bool sees_accesses();
inline bool kernels_are_watched = false;  // true before main() if they are (watched.cpp)

inline constexpr std::uint64_t sector_bytes = 32;

struct memory_traffic {
  std::uint64_t requests = 0;  // of warps
  std::uint64_t bytes = 0;     // asked for; lanes that ask for the same ones count once
  std::uint64_t sectors = 0;   // of all requests
  std::uint64_t excess = 0;    // of those, more than the bytes need
  // Requests with at least twice the sectors that their bytes need.
  std::uint64_t uncoalesced = 0;
  std::uint64_t touched = 0;  // bytes in distinct sectors, launch by launch
};

struct kernel_traffic {
  std::uint64_t launches = 0, blocks = 0;
  memory_traffic read, written;     // global memory
  std::uint64_t host_bytes = 0;     // of it in pinned or managed memory, which lies across the bus
  std::uint64_t elsewhere = 0;      // accesses to none of the backend's memory: constants
  std::uint64_t shared_waves = 0;   // passes that shared memory takes to serve its requests
  std::uint64_t shared_excess = 0;  // of those, for lanes that meet in a bank
  std::uint64_t matrix_loads = 0;   // ldmatrix.x4, by warps
  std::uint64_t products = 0;       // mma, by warps
  double operations = 0;            // of tensor cores, a multiply-add is two; the library's too
  std::uint64_t collectives = 0, barriers = 0;
  void add(const kernel_traffic& other);
};

// Of everything between begin and end.
struct device_traffic {
  std::map<std::string, kernel_traffic> kernels;  // by the name of the launch
  std::uint64_t launches = 0;  // kernels, the library's products among them; fills and copies not
  std::uint64_t waits = 0;     // the host waited for something that it had queued
  std::uint64_t copies = 0, copied_bytes = 0;    // from the host
  std::uint64_t fetches = 0, fetched_bytes = 0;  // copies to the host
  std::uint64_t fills = 0;
  // What the host asked the runtime for: launches, graphs, copies, fills and waits. A graph is one call.
  std::uint64_t calls = 0;
};

// Counts what this thread runs, until end_counting. Fibers are threads of this thread. Without
// accesses, launches, copies, fills and waits alone are counted, which costs no time.
void begin_counting(bool accesses = true);
device_traffic end_counting();
// Whether accesses are counted. Every load of every kernel asks.
inline constinit thread_local bool accesses_count = false;
inline bool counting() {
  return accesses_count;
}

// -- called by the queue --
enum class memory_home : std::uint8_t { device, host };
void note_memory(const void* start, std::size_t bytes, memory_home home);
void forget_memory(const void* start);
void begin_launch(const char* name, std::size_t blocks, const void* arguments, std::size_t bytes);
void end_launch();
// A product [rows, depth] x [columns, depth]^T that a library computes on a GPU.
void note_library_product(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                          std::size_t in_bytes, std::size_t out_bytes, bool accumulate);
void note_wait();
void note_copy(std::size_t bytes);
void note_fetch(std::size_t bytes);
void note_call();
void note_fill(std::size_t bytes);

// -- called by the emulator, while counting() --
void note_access(const void* address, std::size_t bytes, bool write, const void* site);
// A block, or the blocks of a cluster, whose warps are counted one after the other.
void note_block(const unsigned char* shared, std::size_t bytes, const unsigned char* stacks,
                std::size_t stack_bytes, unsigned warps);
void note_block_end();
void meet(unsigned warp);                        // its lanes stand at a collective
void meet_all(unsigned first, unsigned warps);   // at a barrier
void note_matrix_load(const void* const* rows);  // [32] addresses in shared memory
void note_product(double operations);

}  // namespace unmask::cuda::emulator
