// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <exception>
#include <vector>

#include "kernels/cuda/device/boxes.h"
#include "kernels/cuda/device/emulator_warpgroups.h"
#include "kernels/cuda/device/traffic.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace unmask::cuda::emulator {

#if defined(__x86_64__)
// Saves the callee-saved registers on the current stack, leaves its pointer in *save and goes on
// where `load` was saved. swapcontext() does the same with two system calls.
extern "C" void unmask_switch_fiber(void** save, void* load);
asm(R"(
.text
.type unmask_switch_fiber,@function
unmask_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size unmask_switch_fiber,.-unmask_switch_fiber
)");
#endif

namespace {

// Nine cache lines more than 64 kB: the tops of stacks that lay a power of two apart would share a
// few sets of the cache, and every switch would wait for memory.
constexpr std::size_t stack_bytes = (std::size_t{64} << 10) + std::size_t{9} * 64;
constexpr std::size_t guard_bytes = 256;
constexpr std::size_t shared_alignment = 1024;
constexpr unsigned char guard_value = 0xA5;
// Shared memory starts undefined. As float and as bfloat16 this is a NaN.
constexpr unsigned char poison = 0xFF;

struct async_copy {
  void* shared;
  const void* global;
  bool valid;
};
void land(const async_copy& c) {
  if (c.valid) {
    std::memcpy(c.shared, c.global, 16);
  } else {
    std::memset(c.shared, 0, 16);
  }
}

// One switchable stack.
struct context {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t machine{};
#endif
};

struct fiber {
  context own;
  unsigned thread = 0;
  bool done = false;
  const unsigned* waits_for = nullptr;  // runs again when *waits_for is no longer `seen`
  unsigned seen = 0;
  bool at_barrier = false;
  std::vector<async_copy> open;
  std::vector<std::vector<async_copy>> groups;  // the oldest first; an empty one costs no memory
  bool unfenced = false;                        // copies have landed that wgmma may not see yet
  bool begun = false;                           // wgmma_begin() since the last commit
};

// A warp's part of a product by its warpgroup.
struct group_product {
  std::array<float*, 32> d;  // by lane
  int columns;
  const unsigned char *a, *b;                 // a: null where registers hold it
  std::array<const std::uint32_t*, 32> held;  // by lane, read when the product takes place
  int apart;  // of 64 columns of b and the next, in bytes; 0: rows of b are columns of the product
  bool adds;  // to what d holds
};

struct warp_meeting {
  int arrived = 0;
  unsigned generation = 0;
  int kind = 0;
  unsigned line = 0;
  std::array<void*, 32> argument{};
  std::vector<group_product> open;
  std::vector<std::vector<group_product>> groups;
  std::vector<std::array<const void*, 2>> issued;  // operands of all its products
};

struct named_barrier {
  unsigned arrived = 0, generation = 0;
};

struct block_state {
  unsigned x = 0, y = 0, rank = 0;  // rank: in its cluster
  extent shape;
  unsigned alive = 0, at_barrier = 0, barrier_generation = 0, barrier_line = 0;
  unsigned read_in = 0;  // phase of the cluster in which a peer last read its memory; 0: none did
  std::vector<fiber> fibers;
  std::vector<warp_meeting> warps;
  std::array<named_barrier, 16> named;
  unsigned char* shared = nullptr;
  std::exception_ptr failure;
};

// Blocks that run at the same time. Without clusters it is one.
struct cluster_state {
  std::vector<block_state> blocks;
  unsigned at_barrier = 0, barrier_line = 0;
  unsigned phase = 0;                 // how often its barrier has opened
  std::vector<unsigned char> memory;  // of all blocks, each between guards
};

// Stacks are kept between launches: mapping them is most of a small launch.
class stack_pool {
 public:
  ~stack_pool() { release(); }
  unsigned char* get(unsigned count) {
    if (count > count_) {
      release();
      void* memory = mmap(nullptr, stack_bytes * count, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw emulation_error("emulator: no memory for thread stacks");
      base_ = static_cast<unsigned char*>(memory);
      count_ = count;
    }
    return base_;
  }

 private:
  void release() {
    if (base_ != nullptr) munmap(base_, stack_bytes * count_);
    base_ = nullptr;
    count_ = 0;
  }
  unsigned char* base_ = nullptr;
  unsigned count_ = 0;
};

thread_local cluster_state* cluster = nullptr;
thread_local block_state* block = nullptr;
thread_local fiber* running = nullptr;
thread_local context scheduler;
thread_local void (*kernel_body)(const void*) = nullptr;
thread_local const void* kernel_argument = nullptr;
thread_local stack_pool stacks;
schedule chosen;

#if defined(__SANITIZE_ADDRESS__)
thread_local const void* host_bottom = nullptr;
thread_local std::size_t host_size = 0;
#endif

// The thread sanitizer counts calls and returns on a stack of its own. First frames of fibers never
// return, so they must not be counted; the calls in between are, in another order.
#if defined(__clang__)
#define UNMASK_NOT_COUNTED __attribute__((disable_sanitizer_instrumentation))
#else
#define UNMASK_NOT_COUNTED
#endif

UNMASK_NOT_COUNTED void switch_to(context& from, context& to) {
#if defined(__x86_64__)
  unmask_switch_fiber(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.machine, &to.machine);
#endif
}

UNMASK_NOT_COUNTED void yield() {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, host_bottom, host_size);
#endif
  switch_to(running->own, scheduler);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &host_bottom, &host_size);
#endif
}

void resume(fiber& f, [[maybe_unused]] unsigned char* stack) {
  running = &f;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack, stack_bytes);
#endif
  switch_to(scheduler, f.own);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void wait_on(const unsigned* generation) {
  running->waits_for = generation;
  running->seen = *generation;
  yield();
}

void complete_barrier() {
  const unsigned warps = block->shape.threads / 32;
  if (counting()) meet_all(block->rank * warps, warps);
  block->at_barrier = 0;
  ++block->barrier_generation;
}

unsigned alive_in_cluster() {
  unsigned alive = 0;
  for (const block_state& b : cluster->blocks) alive += b.alive;
  return alive;
}
void complete_cluster_barrier() {
  const unsigned warps = block->shape.threads / 32 * block->shape.cluster;
  if (counting()) meet_all(0, warps);
  cluster->at_barrier = 0;
  ++cluster->phase;
}

std::string place_of(const block_state& b) {
  return "block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ")";
}

// The block's last thread has ended: its memory goes.
void end_memory() {
  if (block->read_in == 0 || block->read_in != cluster->phase || block->failure) return;
  block->failure = std::make_exception_ptr(
      emulation_error("emulator: " + place_of(*block) +
                      " ended, and no barrier of the cluster kept it for a block that read its "
                      "memory"));
}

// First frame of every fiber. It never returns: there is nothing below it on its stack.
UNMASK_NOT_COUNTED void fiber_entry() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &host_bottom, &host_size);
#endif
  try {
    kernel_body(kernel_argument);
  } catch (...) {
    if (!block->failure) block->failure = std::current_exception();
  }
  running->done = true;
  if (--block->alive == 0) end_memory();
  if (block->alive > 0 && block->at_barrier == block->alive) complete_barrier();
  if (cluster->at_barrier > 0 && cluster->at_barrier == alive_in_cluster()) {
    complete_cluster_barrier();
  }
  for (;;) yield();
}

void prepare(fiber& f, unsigned char* stack) {
#if defined(__SANITIZE_ADDRESS__)
  // The frames of the fiber that had this stack before were left, not returned from.
  __asan_unpoison_memory_region(stack, stack_bytes);
#endif
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(stack + stack_bytes) - 2;  // as after a call
  *top = reinterpret_cast<void*>(&fiber_entry);
  top -= 6;
  std::memset(top, 0, 6 * sizeof(void*));
  f.own.stack_pointer = top;
#else
  getcontext(&f.own.machine);
  f.own.machine.uc_stack.ss_sp = stack;
  f.own.machine.uc_stack.ss_size = stack_bytes;
  f.own.machine.uc_link = nullptr;
  makecontext(&f.own.machine, fiber_entry, 0);
#endif
}

[[noreturn]] void report_deadlock(const block_state& b) {
  unsigned at_barrier = 0, in_collective = 0, done = 0;
  for (const fiber& f : b.fibers) {
    done += f.done;
    at_barrier += !f.done && f.at_barrier;
    in_collective += !f.done && !f.at_barrier;
  }
  throw emulation_error("emulator: " + place_of(b) + " hangs: " + std::to_string(at_barrier) +
                        " threads wait at a barrier, " + std::to_string(in_collective) +
                        " in a warp collective, " + std::to_string(done) + " have ended");
}

// Gives each thread of the block that can go on a turn, and returns whether there was one.
bool take_turns(block_state& b, unsigned char* stack, std::uint32_t& random) {
  const unsigned threads = b.shape.threads, warps = threads / 32;
  bool progress = false;
  unsigned rotation = 0;
  block = &b;
  if (random != 0) {
    random = random * 1664525U + 1013904223U;
    rotation = random >> 8;
  }
  for (unsigned i = 0; i < threads; ++i) {
    const unsigned t = random != 0 ? (i / 32 + rotation) % warps * 32 + (i + rotation / 7) % 32 : i;
    fiber& f = b.fibers[t];
    if (f.done || (f.waits_for != nullptr && *f.waits_for == f.seen)) continue;
    f.waits_for = nullptr;
    progress = true;
    resume(f, stack + stack_bytes * t);
    if (b.failure) std::rethrow_exception(b.failure);
    // Greedy: start over, so that the first warps run on before the later ones begin.
    if (chosen.greedy && i % 32 == 31) break;
  }
  return progress;
}

void run_cluster(cluster_state& c, unsigned char* stack) {
  std::uint32_t random = chosen.seed;
  for (;;) {
    const block_state* alive = nullptr;
    bool progress = false;
    for (std::size_t i = 0; i < c.blocks.size(); ++i) {
      block_state& b = c.blocks[chosen.backwards ? c.blocks.size() - 1 - i : i];
      if (b.alive == 0) continue;
      alive = &b;
      progress = take_turns(b, stack + stack_bytes * b.shape.threads * b.rank, random) || progress;
      if (chosen.greedy && progress) break;
    }
    if (alive == nullptr) break;
    if (!progress && !land_boxes()) report_deadlock(*alive);
  }
  if (land_boxes()) throw emulation_error("emulator: a copy to a block that has ended");
}

// The blocks of a cluster before their first turn; `first` is the x of the first.
void begin(cluster_state& c, unsigned first, unsigned y, unsigned char* stack) {
  c.at_barrier = c.phase = 0;
  cluster = &c;
  forget_boxes();
  for (block_state& b : c.blocks) {
    b.x = first + b.rank;
    b.y = y;
    b.alive = b.shape.threads;
    b.at_barrier = b.read_in = 0;
    b.fibers.assign(b.shape.threads, {});
    b.warps.assign(b.shape.threads / 32, {});
    b.named.fill({});
    std::memset(b.shared - guard_bytes, guard_value, guard_bytes);
    std::memset(b.shared, poison, b.shape.shared_bytes);
    std::memset(b.shared + b.shape.shared_bytes, guard_value, guard_bytes);
    for (unsigned t = 0; t < b.shape.threads; ++t) {
      b.fibers[t].thread = t;
      prepare(b.fibers[t], stack + stack_bytes * (b.rank * b.shape.threads + t));
    }
  }
}

// What shows only when all threads have ended.
void check_end(const block_state& b) {
  for (std::size_t w = 0; w < b.warps.size(); ++w) {
    if (b.warps[w].issued.size() != b.warps[w / 4 * 4].issued.size()) {
      throw emulation_error("emulator: " + place_of(b) + ": wgmma in some warps of a group");
    }
  }
  const auto intact = [](const unsigned char* p) {
    return std::all_of(p, p + guard_bytes, [](unsigned char c) { return c == guard_value; });
  };
  if (!intact(b.shared - guard_bytes) || !intact(b.shared + b.shape.shared_bytes)) {
    throw emulation_error("emulator: " + place_of(b) + " wrote outside its shared memory");
  }
}

// Blocks with their memory, each at a multiple of shared_alignment.
cluster_state blocks_of(const extent& shape) {
  cluster_state c;
  c.blocks.resize(shape.cluster);
  const std::size_t each = (shape.shared_bytes + 2 * guard_bytes + shared_alignment - 1) /
                           shared_alignment * shared_alignment;
  c.memory.resize(each * shape.cluster + guard_bytes + shared_alignment);
  const auto start = reinterpret_cast<std::uintptr_t>(c.memory.data()) + guard_bytes;
  auto* shared = reinterpret_cast<unsigned char*>((start + shared_alignment - 1) /
                                                  shared_alignment * shared_alignment);
  for (unsigned rank = 0; rank < shape.cluster; ++rank) {
    c.blocks[rank].shape = shape;
    c.blocks[rank].rank = rank;
    c.blocks[rank].shared = shared + each * rank;
  }
  return c;
}

}  // namespace

void set_schedule(const schedule& choice) {
  chosen = choice;
}
void run(const extent& shape, void (*body)(const void*), const void* argument) {
  if (shape.threads == 0 || shape.threads % 32 != 0 || shape.threads > 1024) {
    throw emulation_error("emulator: a block needs 32, 64, ... 1024 threads, not " +
                          std::to_string(shape.threads));
  }
  if (shape.cluster == 0 || shape.cluster > 8 || shape.grid_x % shape.cluster != 0) {
    throw emulation_error("emulator: " + std::to_string(shape.grid_x) + " blocks in clusters of " +
                          std::to_string(shape.cluster));
  }
  const unsigned threads = shape.threads * shape.cluster, clusters = shape.grid_x / shape.cluster;
  unsigned char* stack = stacks.get(threads);
  kernel_body = body;
  kernel_argument = argument;
  cluster_state c = blocks_of(shape);
  const unsigned char* memory = c.blocks.front().shared;
  const auto bytes = static_cast<std::size_t>(c.blocks.back().shared - memory) + shape.shared_bytes;
  struct restore {
    ~restore() {
      cluster = nullptr;
      block = nullptr;
      if (counting()) note_block_end();  // an exception left the block
    }
  } at_end;
  for (unsigned y = 0; y < shape.grid_y; ++y) {
    for (unsigned x = 0; x < clusters; ++x) {
      begin(c, (chosen.backwards ? clusters - 1 - x : x) * shape.cluster,
            chosen.backwards ? shape.grid_y - 1 - y : y, stack);
      if (counting()) note_block(memory, bytes, stack, stack_bytes * threads, threads / 32);
      run_cluster(c, stack);
      if (counting()) note_block_end();
      for (const block_state& b : c.blocks) check_end(b);
    }
  }
}

unsigned thread_index() {
  return running->thread;
}
unsigned thread_of_cluster() {
  return block->rank * block->shape.threads + running->thread;
}
unsigned rank_in_cluster() {
  return block->rank;
}
unsigned block_index() {
  return block->x;
}
unsigned block_index_y() {
  return block->y;
}
unsigned grid_size() {
  return block->shape.grid_x;
}
unsigned grid_size_y() {
  return block->shape.grid_y;
}
unsigned block_size() {
  return block->shape.threads;
}
unsigned char* shared_base() {
  return block->shared;
}
std::size_t shared_size() {
  return block->shape.shared_bytes;
}

void fail(const std::string& what) {
  throw emulation_error("emulator: " + place_of(*block) + ", thread " +
                        std::to_string(running->thread) + ": " + what);
}

void rendezvous(int kind, void* argument, void (*complete)(void** arguments), const where& place) {
  warp_meeting& w = block->warps[running->thread / 32];
  if (w.arrived > 0 && (w.kind != kind || w.line != place.line)) {
    fail("divergent warp collectives, on lines " + std::to_string(w.line) + " and " +
         std::to_string(place.line) + " of " + place.file);
  }
  w.kind = kind;
  w.line = place.line;
  w.argument[running->thread % 32] = argument;
  if (++w.arrived < 32) {
    wait_on(&w.generation);
    return;
  }
  complete(w.argument.data());
  if (counting()) meet(thread_of_cluster() / 32);
  w.arrived = 0;
  ++w.generation;
}

void barrier(const where& place) {
  if (block->at_barrier > 0 && block->barrier_line != place.line) {
    fail("divergent barriers, on lines " + std::to_string(block->barrier_line) + " and " +
         std::to_string(place.line) + " of " + place.file);
  }
  block->barrier_line = place.line;
  if (++block->at_barrier == block->alive) {
    complete_barrier();
    return;
  }
  running->at_barrier = true;
  wait_on(&block->barrier_generation);
  running->at_barrier = false;
}

void cluster_barrier(const where& place) {
  cluster_state& c = *cluster;
  if (c.at_barrier > 0 && c.barrier_line != place.line) {
    fail("divergent barriers of a cluster, on lines " + std::to_string(c.barrier_line) + " and " +
         std::to_string(place.line) + " of " + place.file);
  }
  c.barrier_line = place.line;
  if (++c.at_barrier == alive_in_cluster()) {
    complete_cluster_barrier();
    return;
  }
  running->at_barrier = true;
  wait_on(&c.phase);
  running->at_barrier = false;
}

bool copies_land_at_once() {
  return chosen.eager_copies;
}
void wait_for_change(const unsigned* word) {
  running->at_barrier = true;
  wait_on(word);
  running->at_barrier = false;
}

const void* of_peer(const void* own, std::size_t bytes, unsigned rank) {
  return of_peer(own, bytes, rank, bytes);
}
const void* of_peer(const void* own, std::size_t bytes, unsigned rank, std::size_t alignment) {
  const auto* byte = static_cast<const unsigned char*>(own);
  if (byte < block->shared || byte + bytes > block->shared + block->shape.shared_bytes) {
    fail("an address outside the block's shared memory");
  }
  if (reinterpret_cast<std::uintptr_t>(own) % alignment != 0) {
    fail("a shared address not aligned to " + std::to_string(alignment));
  }
  if (rank >= cluster->blocks.size()) {
    fail("there is no block " + std::to_string(rank) + " in the cluster");
  }
  block_state& peer = cluster->blocks[rank];
  if (cluster->phase == 0) fail("reads a block of the cluster that may not have begun");
  if (peer.alive == 0) fail("reads a block of the cluster that has ended");
  if (&peer != block) peer.read_in = cluster->phase;
  return peer.shared + (byte - block->shared);
}

namespace {
struct joining {
  int id, threads;
  bool opened;
  unsigned seen;
};
void join(void** all) {
  const auto* first = static_cast<const joining*>(all[0]);
  named_barrier& b = block->named[static_cast<std::size_t>(first->id)];
  b.arrived += 32;
  if (b.arrived > static_cast<unsigned>(first->threads)) {
    fail("barrier " + std::to_string(first->id) + " of more threads than it names");
  }
  const bool opened = b.arrived == static_cast<unsigned>(first->threads);
  if (opened) b = {0, b.generation + 1};
  for (int l = 0; l < 32; ++l) {
    auto* mine = static_cast<joining*>(all[l]);
    if (mine->id != first->id || mine->threads != first->threads) fail("lanes at two barriers");
    mine->opened = opened;
    mine->seen = b.generation;
  }
}
}  // namespace

void named_barrier_at(int id, int threads, bool waits, const where& place) {
  if (id < 1 || id > 15 || threads % 32 != 0) fail("barrier " + std::to_string(id));
  joining mine{id, threads, false, 0};
  rendezvous(10, &mine, join, place);
  const unsigned& generation = block->named[static_cast<std::size_t>(id)].generation;
  if (waits && !mine.opened && generation == mine.seen) wait_on(&generation);
}

void check_shared(const void* p, std::size_t bytes) {
  const auto* byte = static_cast<const unsigned char*>(p);
  if (byte < block->shared || byte + bytes > block->shared + block->shape.shared_bytes) {
    fail("an address outside the block's shared memory");
  }
  if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) fail("a shared address not aligned to 16");
}

void copy_async(void* shared, const void* global, bool valid) {
  check_shared(shared, 16);
  if (reinterpret_cast<std::uintptr_t>(global) % 16 != 0) fail("cp.async from unaligned memory");
  if (valid && counting()) note_access(global, 16, false, __builtin_return_address(0));
  const async_copy copy{shared, global, valid};
  if (chosen.eager_copies) {
    land(copy);
  } else {
    running->open.push_back(copy);
  }
}
void copy_commit() {
  running->groups.push_back(std::move(running->open));
  running->open.clear();
}
void copy_wait(std::size_t groups_left) {
  auto& groups = running->groups;
  while (groups.size() > groups_left) {
    for (const async_copy& c : groups.front()) land(c);
    running->unfenced = running->unfenced || !groups.front().empty();
    groups.erase(groups.begin());
  }
}

namespace {

// Element k of a row of a swizzled wgmma operand (nvidia.h).
float operand_at(const unsigned char* tile, int row, int k) {
  auto at = static_cast<std::size_t>(tile - block->shared) + row * 128U + k * 2U;
  at ^= (at >> 7 & 7U) << 4;
  std::uint16_t half = 0;
  std::memcpy(&half, block->shared + at, 2);
  return emulated::float_bits(static_cast<std::uint32_t>(half) << 16);
}

// Element k of row r of fragments as those of mma_16816.
float held_at(const group_product& p, int r, int k) {
  const auto lane = static_cast<std::size_t>(r % 8 * 4 + k % 8 / 2),
             word = static_cast<std::size_t>(r / 8 + k / 8 * 2);
  const std::uint32_t pair = p.held[lane][word];
  return emulated::float_bits(k % 2 == 0 ? pair << 16 : pair & 0xFFFF0000U);
}

void multiply(const group_product& p, unsigned warp) {
  constexpr int rows = 16, depth = 16;
  if (counting()) note_product(2.0 * rows * p.columns * depth);
  static thread_local float a[rows][depth], b[192][depth];
  for (int k = 0; k < depth; ++k) {
    for (int r = 0; r < rows; ++r) {
      a[r][k] = p.a == nullptr ? held_at(p, r, k)
                               : operand_at(p.a, static_cast<int>(warp % 4) * rows + r, k);
    }
    for (int c = 0; c < p.columns; ++c) {
      b[c][k] =
          p.apart == 0 ? operand_at(p.b, c, k) : operand_at(p.b + c / 64 * p.apart, k, c % 64);
    }
  }
  for (int l = 0; l < 32; ++l) {
    for (int i = 0; i < p.columns / 2; ++i) {
      const int row = l / 4 + (i >> 1 & 1) * 8, column = i / 4 * 8 + l % 4 * 2 + (i & 1);
      float sum = p.adds ? p.d[static_cast<std::size_t>(l)][i] : 0.0F;
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[column][k];
      p.d[static_cast<std::size_t>(l)][i] = sum;
    }
  }
}

struct operands {
  float* d;
  int columns;
  const void *a, *b;
  const std::uint32_t* held = nullptr;
  int apart = 0;
  bool adds = true;
};
void issue_product(void** all) {
  const auto* first = static_cast<const operands*>(all[0]);
  group_product p{{},
                  first->columns,
                  static_cast<const unsigned char*>(first->a),
                  static_cast<const unsigned char*>(first->b),
                  {},
                  first->apart,
                  first->adds};
  for (std::size_t l = 0; l < 32; ++l) {
    const auto* mine = static_cast<const operands*>(all[l]);
    if (mine->a != first->a || mine->b != first->b || mine->apart != first->apart) {
      fail("wgmma with other operands in another lane");
    }
    p.d[l] = mine->d;
    p.held[l] = mine->held;
  }
  for (const fiber& f : block->fibers) {
    if (f.unfenced) fail("wgmma reads what was copied without fence_shared_copies()");
  }
  const unsigned warp = running->thread / 32;
  for (unsigned l = 0; l < 32; ++l) {
    if (!block->fibers[warp * 32 + l].begun) fail("wgmma without wgmma_begin()");
  }
  // One product is that of four warps, which must name the same operands.
  if (block->warps.size() < warp / 4 * 4 + 4) fail("wgmma by fewer than four warps");
  auto& issued = block->warps[warp].issued;
  issued.push_back({p.a, p.b});
  for (unsigned w = warp / 4 * 4; w < warp / 4 * 4 + 4; ++w) {
    const auto& others = block->warps[w].issued;
    if (others.size() >= issued.size() && others[issued.size() - 1] != issued.back()) {
      fail("wgmma with other operands in another warp");
    }
  }
  if (chosen.eager_copies) {
    multiply(p, warp);
  } else {
    block->warps[warp].open.push_back(p);
  }
}
void check_operand(const void* tile, std::size_t rows, std::size_t columns) {
  check_shared(tile, (rows - 1) * 128 + columns * 2);
  const auto at = static_cast<std::size_t>(static_cast<const unsigned char*>(tile) - block->shared);
  if (at % 1024 > 128 - columns * 2 || at % 32 != 0) {
    fail("a wgmma operand that starts at no multiple of 1024");
  }
}
void commit_products(void**) {
  warp_meeting& w = block->warps[running->thread / 32];
  w.groups.push_back(std::move(w.open));
  w.open.clear();
  const unsigned first = running->thread / 32 * 32;
  for (unsigned l = 0; l < 32; ++l) block->fibers[first + l].begun = false;
}
void wait_for_products(void** all) {
  warp_meeting& w = block->warps[running->thread / 32];
  while (w.groups.size() > *static_cast<const std::size_t*>(all[0])) {
    for (const group_product& p : w.groups.front()) multiply(p, running->thread / 32);
    w.groups.erase(w.groups.begin());
  }
}

}  // namespace

}  // namespace unmask::cuda::emulator

namespace unmask::cuda::emulated {

void fence_shared_copies() {
  emu::running->unfenced = false;
}
void wgmma_begin_products() {
  emu::running->begun = true;
}
void wgmma_64x144x16(float (&d)[72], const void* a, const void* b, const emu::where& place) {
  emu::operands mine{d, 144, a, b};
  emu::check_operand(a, 64, 16);
  emu::check_operand(b, 144, 16);
  emu::rendezvous(7, &mine, emu::issue_product, place);
}
void wgmma_64x64x16(float (&d)[8][4], const void* a, const void* b, const emu::where& place) {
  emu::operands mine{&d[0][0], 64, a, b};
  emu::check_operand(a, 64, 16);
  emu::check_operand(b, 64, 16);
  emu::rendezvous(7, &mine, emu::issue_product, place);
}
void wgmma_64x128x16(float (&d)[16][4], const std::uint32_t (&a)[4], const void* b, int apart,
                     const emu::where& place) {
  emu::operands mine{&d[0][0], 128, nullptr, b, a, apart};
  emu::check_operand(b, 16, 64);
  emu::check_operand(static_cast<const unsigned char*>(b) + apart, 16, 64);
  emu::rendezvous(7, &mine, emu::issue_product, place);
}
void wgmma_tile_of(float* d, int columns, bool adds, const wgmma_place& a, const wgmma_place& b,
                   const emu::where& place) {
  emu::operands mine{d, columns, a.tile, b.tile, nullptr, 0, adds};
  emu::check_operand(a.tile, 64, 16);
  emu::check_operand(b.tile, static_cast<std::size_t>(columns), 16);
  emu::rendezvous(7, &mine, emu::issue_product, place);
}
void wgmma_values_of(float* d, int columns, const std::uint32_t* a, const wgmma_place& b,
                     const emu::where& place) {
  emu::operands mine{d, columns, nullptr, b.tile, a, b.apart};
  for (int c = 0; c < columns; c += 64) emu::check_operand(b.tile + c / 64 * b.apart, 16, 64);
  emu::rendezvous(7, &mine, emu::issue_product, place);
}
void wgmma_commit(const emu::where& place) {
  emu::rendezvous(8, nullptr, emu::commit_products, place);
}
void wgmma_wait_for(int groups_left, const emu::where& place) {
  auto left = static_cast<std::size_t>(groups_left);
  emu::rendezvous(9, &left, emu::wait_for_products, place);
}

}  // namespace unmask::cuda::emulated
