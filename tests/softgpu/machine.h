// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A GPU in software: runs one launch of a kernel, block after block, its warps in turns; if blocks wait for
// each other, several at a time, and those of a cluster always. A warp's
// lanes run in lock-step and part at branches; they meet again where their ways meet (the immediate
// post-dominator). Every access is checked against the allocations. What is asynchronous on a GPU
// (cp.async, wgmma) happens here as late as it may.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/softgpu/ptx.h"
#include "tests/softgpu/runtime.h"
#include "tests/softgpu/settings.h"

namespace unmask::softgpu {

struct dim3_t {
  std::uint32_t x = 1, y = 1, z = 1;
};

// ---- device memory ----
struct access_record {                  // of one byte of global memory, for races
  std::uint64_t written = 0, read = 0;  // launch << 24 | block & 0xFFFFFF, 0: never
  std::uint32_t write_epoch = 0, read_epoch = 0;
  std::uint32_t write_clock = 0;  // of the warp that wrote
  std::uint16_t write_warp = 0, read_warp = 0;
  bool atomic = false, many = false;
};
struct allocation {
  std::uintptr_t begin = 0, end = 0;  // as kernels see it
  std::ptrdiff_t to_host = 0;         // what is added to find the bytes
  enum class home : std::uint8_t { device, pinned, managed, constant } where = home::device;
  std::vector<access_record> records;
};
class memory {
 public:
  static memory& all();
  // Device memory lies in pages that the host cannot touch at the address that it is given.
  allocation* take(std::size_t bytes, allocation::home where);
  bool release(std::uintptr_t address);
  allocation* find(std::uintptr_t address);
  std::size_t used() const { return used_; }
  std::size_t capacity = static_cast<std::size_t>(device().memory_gib) << 30;

 private:
  std::map<std::uintptr_t, std::unique_ptr<allocation>> owned_;
  std::multimap<std::size_t, std::uintptr_t> free_;
  std::uintptr_t hidden_ = 0, seen_ = 0;
  std::size_t next_ = 0, used_ = 0;
};

// ---- decoded kernels ----
struct warp;
struct instruction;
using runner = void (*)(warp&, const instruction&);

struct operand {
  static constexpr std::uint8_t registers = 0, constants = 1, nowhere = 2;
  std::uint8_t bank = registers;
  std::uint8_t bytes = 0;  // 0: predicate
  bool negated = false;
  std::uint32_t at = 0;
};

struct instruction {
  enum class sort : std::uint8_t { plain, branch, leave, barrier, warp_barrier };
  runner run = nullptr;
  sort what = sort::plain;
  bool aligned = false;  // all lanes of the warp must be there
  bool guarded = false, guard_negated = false;
  std::uint32_t guard = 0;
  const operand* o = nullptr;
  std::uint16_t count = 0, outputs = 0;  // operands; the first `outputs` are written
  std::int64_t offset = 0;               // of an address
  int target = -1, meet = -1;            // of a branch
  std::uint32_t extra = 0, extra2 = 0;
  int line = 0, place = -1;
  std::uint32_t index = 0;
  bool register_use = true;  // false: wgmma, which has rules of its own
};

struct kernel {
  std::string name, shown;
  int arch = 0;
  std::unique_ptr<ptx_entry> entry;
  std::vector<instruction> code;
  std::deque<std::vector<operand>> pools;
  std::vector<std::uint8_t> constants;
  std::size_t register_bytes = 0;
  std::uint32_t static_shared = 0, static_shared_end = 0, dynamic_align = 1, local_bytes = 0;
  struct special {
    std::string name;
    operand to;
  };
  std::vector<special> specials;
  bool has_wgmma = false;
  bool proxy_reads = false;             // the asynchronous proxy reads its shared memory
  bool meets_blocks = false;            // it waits for what other blocks do
  int registers = 0;                    // of a thread at its launch, as ptxas reported; 0: unknown
  std::vector<std::uint64_t> executed;  // warps that executed an instruction
  std::uint64_t launches = 0, warp_instructions = 0, lane_instructions = 0;
};
constexpr std::uint32_t shared_base = 1024;  // the first KiB of a block's window is the system's
constexpr std::uint64_t shared_window = std::uint64_t{0x4} << 40;
constexpr std::uint64_t local_window = std::uint64_t{0x5} << 40;
constexpr std::uint64_t parameter_window = std::uint64_t{0x6} << 40;
// Shared memory of a cluster's block: its rank and one in these bits; 0: the block's own.
constexpr std::uint32_t rank_shift = 24, shared_mask = (1U << rank_shift) - 1;
std::unique_ptr<kernel> decode(const ptx_module& module, const std::string& entry, int arch,
                               const std::map<std::string, std::uint64_t>& variables);
void find_meetings(kernel& k);
// %tid.x and the like, %laneid, %warpid.
bool is_special_register(const std::string& name);

// ---- execution ----
struct fault : std::runtime_error {  // the launch ends
  fault(int error, const std::string& what) : std::runtime_error(what), status(error) {}
  int status;  // a cudaError_t
};

struct copy_request {
  std::uint32_t to;
  std::uintptr_t from;  // host's
  std::uint8_t bytes, valid;
};
struct bulk_store {   // cp.async.bulk from shared to global memory
  std::uintptr_t to;  // host's
  std::uint32_t from, bytes;
};
struct wgmma_request {
  const instruction* i;
  std::uint64_t a = 0, b = 0;
  bool add = true, done = false;
};
struct shared_record {  // of four bytes, for races
  std::uint32_t write_epoch = 0, read_epoch = 0, write_turn = 0, read_turn = 0;
  std::uint32_t write_clock = 0, fence_clock = 0;  // of the warp that wrote
  std::uint16_t writer = 0;                        // thread
  std::uint16_t read_warp = 0;                     // the last
  std::uint8_t rank = 0;                           // the writer's block in the cluster
  std::uint32_t read_warps = 0, read_lanes = 0;
  bool atomic = false;  // the last write, and all reads of its epoch
};

// What a warp knows of others: everything that warp n did before its clock was now[n]. Barriers hand it on;
// two accesses of which neither warp knows the other's race with each other (Lamport 1978, Mattern 1988).
// The last is 1 if the launches before have ended (griddepcontrol.wait).
using clocks = std::array<std::uint32_t, 34>;  // of 32 warps, of bulk copies, and of launches
constexpr std::uint16_t bulk_thread = 32 * 32;
constexpr std::size_t launches_clock = 33;
void learn(clocks& mine, const clocks& others);

// What a warp knows of those of other blocks, by the number of the block (grid.cpp).
using block_clocks = std::map<std::uint64_t, clocks>;
void learn(block_clocks& mine, const block_clocks& others);

// Launches of a stream, by number, from `first` to before `last`.
struct launch_range {
  std::uint64_t first = 0, last = 0;
  bool empty() const { return first >= last; }
  bool holds(std::uint64_t launch) const { return first <= launch && launch < last; }
};
// Launches that may still be at work before griddepcontrol.wait, and behind it (dependents.cpp).
struct early_start {
  launch_range before_wait, behind_wait;
  bool followed = false;  // the next launch of the stream may start before this one has ended
};

// What blocks of one launch have told each other.
struct grid_state {
  std::map<std::uint64_t, block_clocks> released;  // by atomics behind a fence, at this address
  int wakes = 0;                                   // since a warp last did more than to ask again
  early_start early;
  bool followed_accesses = false;  // global memory's are kept for griddepcontrol's rules
  bool triggers = false;           // launch_dependents was executed
  bool waited = false;             // griddepcontrol.wait was
  bool triggered_late = false;     // a block let dependents start, or ended, when it had waited
};

struct block;
struct cluster;
struct frame {
  int pc, meet;
  std::uint32_t lanes;
};
struct warp {
  std::uint8_t* base[2] = {nullptr, nullptr};
  std::uint32_t active = 0;  // of the instruction at hand
  std::uint32_t lanes = 0, left = 0;
  block* in = nullptr;
  const kernel* k = nullptr;
  int index = 0;
  // waiting: at a barrier. blocked: its instruction cannot go on yet and is tried again.
  enum class state : std::uint8_t { ready, waiting, blocked, done } is = state::ready;
  int barrier = 0;
  const char* blocked_by = "";
  int waited_at = -1;                  // the mbarrier.try_wait that said no last
  std::uint32_t blocked_place = 0;     // of its mbarrier
  std::uint32_t dependency_lanes = 0;  // that executed griddepcontrol.wait
  // Lanes that came to barrier.cluster in this phase, that have not waited for it; how many were passed.
  std::uint32_t cluster_arrived = 0, cluster_waits = 0;
  std::uint64_t cluster_phase = 0, cluster_passed = 0;
  int registers = 0;              // of a thread now; 0: unknown
  block_clocks others, released;  // released: as the last fence found it
  struct {
    int by = -1;  // the ld.acquire that was executed last, and what it found where
    std::uint64_t address = 0, value = 0;
  } asked;
  std::vector<frame> ways;
  std::vector<copy_request> open[32];
  std::deque<std::vector<copy_request>> groups[32];
  std::vector<bulk_store> stores[32];
  std::deque<std::vector<bulk_store>> store_groups[32];
  std::vector<wgmma_request> products;
  std::deque<std::vector<wgmma_request>> product_groups;
  std::size_t product_count = 0;
  bool fenced = false;  // a wgmma.fence was executed
  std::uint64_t clock = 0, fence_clock = 0;
  std::vector<std::uint64_t> touched;  // per register (64 bytes): when, by what is no wgmma
  std::vector<std::uint8_t> busy;      // per register: 1 a result, 2 an operand in flight
  std::uint32_t turn = 1;              // warp barriers so far
  clocks now{};
  allocation* last = nullptr;
  template <class T>
  T* at(const operand& o) const {
    return reinterpret_cast<T*>(base[o.bank] + o.at);
  }
  std::uint32_t mask(const operand& o) const {
    const std::uint32_t m = *at<std::uint32_t>(o);
    return o.negated ? ~m : m;
  }
  int thread(int lane) const { return index * 32 + lane; }
};

struct launch_shape {
  dim3_t grid, threads;
  std::uint32_t dynamic_shared = 0;
  dim3_t cluster{};  // blocks
};

// A barrier that is named by number: bar.sync waits there, bar.arrive goes on.
struct named_barrier {
  std::uint32_t arrived = 0;  // threads that do not wait
  std::uint32_t threads = 0;  // that open it; 0: all of the block
  clocks brought{};           // by those who have come
  block_clocks others;
};

// An mbarrier of shared memory: `pending` arrivals and `bytes` of copies are still to come in this phase.
struct mbarrier {
  std::uint32_t count = 0, pending = 0;
  std::int64_t bytes = 0;
  std::uint64_t phase = 0;  // phases that are complete
  int maker = 0;            // thread that made it, at which clock of its warp
  std::uint32_t made = 0;
  bool fenced = false;             // the bulk engine may know it
  std::uint64_t fenced_phase = 0;  // of the cluster's barrier
  // What a phase hands on: clocks of the block, what its warps know of other blocks, and what warps of
  // other blocks release to the cluster.
  struct knowledge {
    clocks own{};
    block_clocks others, peers;
  };
  knowledge brought, passed;  // in this phase, by the one before
};
// A copy by the bulk engine into the shared memory of one block.
struct bulk_copy {
  struct piece {
    std::uint32_t to, bytes;
    std::uintptr_t from;  // host's; 0: it is filled
  };
  std::vector<piece> pieces;
  std::uint32_t to = 0, bytes = 0, barrier = 0;  // the whole of it, and who is told
  std::vector<std::uint8_t> fill;                // of an element
  std::vector<std::uint8_t> data;                // st.async: what is written
  int thread =
      -1;  // of cp.async: it arrives at the mbarrier, and what its warp knew when it said so
  clocks known{};
};
// What a warp of another block of the cluster did to shared memory of this one.
struct peer_access {
  std::uint32_t rank = 0, clock = 0;
  int warp = 0, lane = 0;
  const instruction* i = nullptr;
};
// Blocks that share their memory. They are there at the same time (clusters.cpp).
struct cluster {
  std::vector<block*> blocks;    // by rank
  std::uint64_t phase = 0;       // phases of barrier.cluster that are complete
  block_clocks brought, passed;  // in this phase, by the one before
};

struct block {
  static constexpr std::uint8_t written = 1, copy_on_its_way = 2;  // of a shared byte's flags
  static constexpr std::uint8_t read_by_copy = 4;
  const kernel* k = nullptr;
  launch_shape shape;
  dim3_t place;
  std::uint64_t number = 0, launch = 0;
  grid_state* grid = nullptr;
  cluster* with = nullptr;
  std::uint32_t rank = 0;  // in the cluster
  bool ended = false, triggered = false, waited = false;
  std::vector<std::uint8_t>* parameters = nullptr;
  std::uint32_t shared_end = 0;
  std::vector<std::uint8_t> shared, flags;
  std::vector<std::uint16_t> unfenced;  // thread + 1 that wrote without a proxy fence
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> writes;  // per thread, unfenced
  std::vector<shared_record> records;
  std::vector<std::uint8_t> local;
  std::vector<std::uint32_t> read_clocks;  // [word, warp]: clock of the warp's last read
  std::uint32_t epoch = 1;
  std::uint32_t common_epoch = 1;  // of the last barrier of all warps
  std::uint32_t first_epoch = 1;   // of this block in this place
  std::unordered_map<std::uint32_t, std::vector<peer_access>> peer_reads;  // by word
  std::vector<peer_access> touched;  // the last access of each warp of other blocks
  std::map<std::uint32_t, mbarrier> mbarriers;
  std::vector<bulk_copy> copies;  // that have not landed
  std::uint32_t copy_clock = 0;
  std::uint32_t coin = 1;  // whether a barrier opens early
  std::array<named_barrier, 16> barriers{};
  std::int64_t free_registers = 0;                // given by setmaxnreg.dec
  std::vector<std::uint32_t> register_moves[32];  // counts, in the order of each warpgroup
  std::vector<warp> warps;
  std::vector<std::uint64_t> group_log[8];  // products of each warpgroup
};

// Launches are numbered from 1.
std::uint64_t next_launch();
// What a launch leaves to the next of its stream, and finds from the one before (dependents.cpp).
struct launches_before {
  early_start early;  // of the launch that is next to run
  launch_range at_start,
      at_end;  // that may be at work when the one behind starts, when this one ended
};
// Runs the launch. Throws fault.
void run_launch(kernel& k, const launch_shape& shape, std::vector<std::uint8_t> parameters,
                launches_before* before);

// ---- findings ----
[[noreturn]] void fail(const warp& w, const instruction& i, int lane, int status,
                       const std::string& what);
[[noreturn]] void fail_launch(const kernel& k, int status, const std::string& what);
void note(const warp& w, const instruction& i, int lane, const char* kind, const std::string& what);
void note_host(const char* kind, const std::string& what);
std::uint64_t findings();
std::string demangled(const std::string& name);
// Into the folder of $UNMASK_SOFTGPU_COVERAGE: what was executed; `others` are kernels that never ran.
void write_coverage(const std::vector<kernel*>& kernels, const std::vector<std::string>& others);

// ---- memory access by lanes (memory.cpp) ----
enum class space : std::uint8_t { generic, global, shared, local, parameter, cluster };
// The host's address of `bytes` bytes; checks bounds and alignment and notes the access.
std::uint8_t* reach(warp& w, const instruction& i, int lane, space s, std::uint64_t address,
                    std::uint32_t bytes, bool write, bool atomic = false);
void shared_written(warp& w, const instruction& i, int lane, block& b, std::uint32_t at,
                    std::uint32_t bytes, bool atomic = false);
void shared_read(warp& w, const instruction& i, int lane, block& b, std::uint32_t at,
                 std::uint32_t bytes, bool async_proxy = false);
void commit_copies(warp& w, std::uint32_t lanes);
void wait_copies(warp& w, const instruction& i, std::uint32_t lanes, std::size_t left);
void proxy_fence(warp& w, std::uint32_t lanes);
// ---- blocks that wait for each other (grid.cpp) ----
void fence_for_blocks(warp& w);
void release_at(warp& w, std::uint64_t address);
void acquire_load(warp& w, const instruction& i);
// Whether this warp knows that warp n of another block did what it did at this clock.
bool knows_of(const warp& w, std::uint64_t block, int n, std::uint32_t clock);
bool asks_again(const warp& w);
// Lets those ask again who would find what they found before; false: that was tried, and none went on.
bool wake(const std::vector<cluster*>& running);
// Whether it knows what warp n of this block did at this clock: its own block's, or another's.
bool knows(const warp& w, const block& of, int n, std::uint32_t clock);
// How other blocks' clocks name a block.
std::uint64_t name_of(const block& b);
// ---- clusters (clusters.cpp) ----
// The block that a shared::cluster address is of; what is no place of a peer that is there is found.
block& block_at(warp& w, const instruction& i, int lane, std::uint64_t address);
block& peer_of(warp& w, const instruction& i, int lane, std::uint32_t rank);
// The block's warps have all ended: its memory is gone.
void end_of_block(block& b);
// ---- launches that start before others have ended (dependents.cpp) ----
void begin_early(grid_state& grid, const early_start& early);
void leave_to_next(const grid_state& grid, std::uint64_t launch, launches_before* before);
void leave_to_next(const std::vector<library_access>& accesses, launches_before* before);
void look_for_early_access(warp& w, const instruction& i, int lane, std::uint64_t address,
                           std::uint32_t bytes, bool write);
void share_dependency(warp& w);  // at a barrier: all who pass it have waited
struct early_counts {
  std::uint64_t launches = 0, before_silent = 0, never_waited = 0;
};
const early_counts& counted_early();
// ---- barriers by number, registers that move (barriers.cpp) ----
void wait_at_barrier(warp& w, const instruction& i, std::uint32_t lanes);
void arrive_at_barrier(warp& w, const instruction& i);
// Opens one barrier that is complete, if no warp can run; false: none is.
bool open_barrier(block& b);
void give_registers(warp& w, const instruction& i);
void take_registers(warp& w, const instruction& i);
// ---- barriers in shared memory (mbarrier.cpp) ----
// One of the copies that are under way lands; false: there is none.
bool land_some_copy(block& b);
// All cp.async of a thread that an mbarrier waits for.
void land_copies_of(block& b, int thread);
void fence_mbarriers(warp& w, std::uint32_t lanes);
void note_copies_in_flight(const warp& w, const instruction& i);
// A bulk copy is about to write what others may have written or may still read.
void bulk_overwrites(warp& w, const instruction& i, int lane, block& b, std::uint32_t at,
                     std::uint32_t bytes);
// A copy writes these bytes: who may still use them?
void look_for_users(const warp& w, const instruction& i, int lane, const block& b, std::uint32_t at,
                    std::uint32_t bytes);
// Where the warps of a cluster wait, if none of them can go on.
std::string where_warps_wait(const cluster& c);

void wgmma_wait(warp& w, std::size_t left);
void wgmma_issue(warp& w, const instruction& i);

}  // namespace unmask::softgpu
