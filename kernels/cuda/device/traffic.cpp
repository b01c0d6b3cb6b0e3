// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device/traffic.h"

#include <algorithm>
#include <array>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kernels/cuda/device/emulator.h"

namespace unmask::cuda::emulator {
namespace {

using address = std::uintptr_t;

// Where an access goes.
enum class target : std::uint8_t { device, host, shared, own, elsewhere };

struct range {
  address begin = 0, end = 0;
  bool holds(address a) const { return a >= begin && a < end; }
};

struct home {
  std::size_t bytes;
  memory_home where;
};
std::map<address, home>& homes() {
  static auto* all = new std::map<address, home>;  // still there when static tensors go
  return *all;
}

// One lane's load or store.
struct access {
  address site, at;
  std::uint32_t bytes;
  std::uint8_t lane;
  bool write;
  target to;
  std::uint32_t turn;  // how often the lane has passed the site since the warp last met
};

class counter {
 public:
  device_traffic total;

  void begin(const char* name, std::size_t blocks, range arguments) {
    kernel_ = &total.kernels[name];
    ++kernel_->launches;
    kernel_->blocks += blocks;
    ++total.launches;
    arguments_ = arguments;
    read_.clear();
    written_.clear();
  }
  void end() {
    kernel_->read.touched += read_.size() * sector_bytes;
    kernel_->written.touched += written_.size() * sector_bytes;
    kernel_ = nullptr;
  }
  bool in_launch() const { return kernel_ != nullptr; }
  kernel_traffic& kernel() { return *kernel_; }

  void block(range shared, range stacks, unsigned warps) {
    shared_ = shared;
    stacks_ = stacks;
    warps_.resize(std::max<std::size_t>(warps, warps_.size()));
    for (auto& w : warps_) w.clear();
    in_block_ = true;
  }
  void end_block() {
    meet_all(0, static_cast<unsigned>(warps_.size()));
    in_block_ = false;
  }
  bool in_block() const { return in_block_; }

  void see(address at, std::size_t bytes, bool write, address site, unsigned thread) {
    const target to = target_of(at);
    if (to == target::own) return;
    std::vector<access>& seen = warps_[thread / 32];
    const auto lane = static_cast<std::uint8_t>(thread % 32);
    if (joined(seen, at, bytes, write, site, lane)) return;
    seen.push_back({site, at, static_cast<std::uint32_t>(bytes), lane, write, to, 0});
  }

  void meet(unsigned warp) {
    std::vector<access>& seen = warps_[warp];
    if (seen.empty()) return;
    std::stable_sort(seen.begin(), seen.end(),
                     [](const access& a, const access& b) { return a.site < b.site; });
    for (std::size_t first = 0; first < seen.size();) {
      std::size_t last = first;
      std::array<std::uint32_t, 32> turns{};
      while (last < seen.size() && seen[last].site == seen[first].site) {
        seen[last].turn = turns[seen[last].lane]++;
        ++last;
      }
      std::stable_sort(seen.begin() + static_cast<std::ptrdiff_t>(first),
                       seen.begin() + static_cast<std::ptrdiff_t>(last),
                       [](const access& a, const access& b) {
                         return std::pair(a.turn, a.lane) < std::pair(b.turn, b.lane);
                       });
      for (std::size_t i = first; i < last;) {
        std::size_t j = i;
        while (j < last && seen[j].turn == seen[i].turn) ++j;
        request({seen.begin() + static_cast<std::ptrdiff_t>(i),
                 seen.begin() + static_cast<std::ptrdiff_t>(j)});
        i = j;
      }
      first = last;
    }
    seen.clear();
  }
  void meet_all(unsigned first, unsigned warps) {
    for (unsigned w = first; w < first + warps; ++w) meet(w);
  }

  // Lanes of shared memory meet in banks of 4 bytes; `bytes` per lane make 128 bytes a pass.
  void shared_request(std::vector<address> at, std::uint32_t bytes) {
    const std::size_t lanes_a_pass = std::max<std::size_t>(1, 128 / std::max(bytes, 4U));
    for (std::size_t first = 0; first < at.size(); first += lanes_a_pass) {
      std::array<std::vector<address>, 32> banks;
      const std::size_t last = std::min(at.size(), first + lanes_a_pass);
      for (std::size_t i = first; i < last; ++i) {
        for (address word = at[i] / 4; word <= (at[i] + bytes - 1) / 4; ++word) {
          std::vector<address>& bank = banks[word % 32];
          if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
        }
      }
      std::size_t waves = 1;
      for (const auto& bank : banks) waves = std::max(waves, bank.size());
      kernel_->shared_waves += waves;
      kernel_->shared_excess += waves - 1;
    }
  }

 private:
  target target_of(address at) {
    if (shared_.holds(at)) return target::shared;
    if (stacks_.holds(at) || arguments_.holds(at)) return target::own;
    for (const allocation& a : recent_) {
      if (a.at.holds(at)) return a.to;
    }
    auto after = homes().upper_bound(at);
    if (after == homes().begin()) return target::elsewhere;
    --after;
    if (at >= after->first + after->second.bytes) return target::elsewhere;
    allocation& found = recent_[oldest_++ % recent_.size()];
    found.at = {after->first, after->first + after->second.bytes};
    found.to = after->second.where == memory_home::device ? target::device : target::host;
    return found.to;
  }

  // Parts of one struct, which the host compiler loads one after the other: different instructions,
  // neighbouring addresses, together an aligned whole of at most 16 bytes.
  static bool joined(std::vector<access>& seen, address at, std::size_t bytes, bool write,
                     address site, std::uint8_t lane) {
    const std::size_t look_back = std::min<std::size_t>(seen.size(), 4);
    for (std::size_t i = 0; i < look_back; ++i) {
      access& before = seen[seen.size() - 1 - i];
      if (before.lane != lane) return false;
      const std::size_t both = before.bytes + bytes, whole = both <= 8 ? 8 : 16;
      if (before.write == write && before.site != site && before.at + before.bytes == at &&
          bytes >= 4 && both <= 16 && before.at % whole == 0) {
        before.bytes = static_cast<std::uint32_t>(both);
        return true;
      }
    }
    return false;
  }

  struct span {
    std::vector<access>::const_iterator first, last;
  };
  void request(const span& lanes) {
    if (lanes.first->to == target::elsewhere) {
      ++kernel_->elsewhere;
      return;
    }
    if (lanes.first->to == target::shared) {
      std::vector<address> at;
      std::uint32_t widest = 4;
      for (auto a = lanes.first; a != lanes.last; ++a) {
        at.push_back(a->at);
        widest = std::max(widest, a->bytes);
      }
      shared_request(std::move(at), widest);
      return;
    }
    std::vector<range> pieces;
    for (auto a = lanes.first; a != lanes.last; ++a) pieces.push_back({a->at, a->at + a->bytes});
    std::sort(pieces.begin(), pieces.end(),
              [](const range& a, const range& b) { return a.begin < b.begin; });
    std::uint64_t bytes = 0, sectors = 0;
    address covered = 0, next_sector = 0;
    auto& touched = lanes.first->write ? written_ : read_;
    for (const range& p : pieces) {
      const address from = std::max(p.begin, covered);
      if (p.end > from) bytes += p.end - from;
      covered = std::max(covered, p.end);
      for (address s = std::max(p.begin / sector_bytes, next_sector);
           s <= (p.end - 1) / sector_bytes; ++s) {
        ++sectors;
        touched.insert(s);
        next_sector = s + 1;
      }
    }
    memory_traffic& to = lanes.first->write ? kernel_->written : kernel_->read;
    const std::uint64_t needed = (bytes + sector_bytes - 1) / sector_bytes;
    ++to.requests;
    to.bytes += bytes;
    to.sectors += sectors;
    to.excess += sectors - needed;
    to.uncoalesced += sectors >= 2 * needed && sectors > needed + 1;
    if (lanes.first->to == target::host) kernel_->host_bytes += bytes;
  }

  kernel_traffic* kernel_ = nullptr;
  bool in_block_ = false;
  range arguments_, shared_, stacks_;
  struct allocation {
    range at;
    target to = target::device;
  };
  std::array<allocation, 8> recent_;  // more than the operands of most kernels
  std::size_t oldest_ = 0;
  std::vector<std::vector<access>> warps_;
  std::unordered_set<address> read_, written_;

 public:
  void forget_recent() { recent_.fill({}); }
};

// Looked at by every load of every kernel: a pointer, not an object with a constructor.
thread_local counter* current = nullptr;
// Host code of the kernels' files, such as the library's stand-in, loads and stores too.
thread_local bool in_counted_block = false;

address number(const void* p) {
  return reinterpret_cast<address>(p);
}

void add(memory_traffic& to, const memory_traffic& other) {
  to.requests += other.requests;
  to.bytes += other.bytes;
  to.sectors += other.sectors;
  to.excess += other.excess;
  to.uncoalesced += other.uncoalesced;
  to.touched += other.touched;
}

}  // namespace

bool is_built() {
  return true;
}
bool sees_accesses() {
  return kernels_are_watched;
}

void kernel_traffic::add(const kernel_traffic& other) {
  launches += other.launches;
  blocks += other.blocks;
  emulator::add(read, other.read);
  emulator::add(written, other.written);
  host_bytes += other.host_bytes;
  elsewhere += other.elsewhere;
  shared_waves += other.shared_waves;
  shared_excess += other.shared_excess;
  matrix_loads += other.matrix_loads;
  products += other.products;
  operations += other.operations;
  collectives += other.collectives;
  barriers += other.barriers;
}

void begin_counting(bool accesses) {
  delete current;
  accesses_count = accesses;
  current = new counter;
}
device_traffic end_counting() {
  const std::unique_ptr<counter> done(current);
  current = nullptr;
  accesses_count = in_counted_block = false;
  return done ? std::move(done->total) : device_traffic{};
}

void note_memory(const void* start, std::size_t bytes, memory_home where) {
  homes()[number(start)] = {bytes, where};
  if (current != nullptr) current->forget_recent();
}
void forget_memory(const void* start) {
  homes().erase(number(start));
  if (current != nullptr) current->forget_recent();
}
void begin_launch(const char* name, std::size_t blocks, const void* arguments, std::size_t bytes) {
  if (current != nullptr) {
    current->begin(name, blocks, {number(arguments), number(arguments) + bytes});
  }
}
void end_launch() {
  if (current != nullptr && current->in_launch()) current->end();
}
void note_library_product(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                          std::size_t in_bytes, std::size_t out_bytes, bool accumulate) {
  if (current == nullptr) return;
  const auto m = static_cast<std::uint64_t>(rows), n = static_cast<std::uint64_t>(columns),
             k = static_cast<std::uint64_t>(depth);
  kernel_traffic& kernel = current->total.kernels["library_product"];
  ++kernel.launches;
  ++current->total.launches;
  const std::uint64_t in = (m + n) * k * in_bytes, out = m * n * out_bytes;
  kernel.read.bytes += in + (accumulate ? out : 0);
  kernel.read.touched += in + (accumulate ? out : 0);
  kernel.written.bytes += out;
  kernel.written.touched += out;
  kernel.operations +=
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
void note_wait() {
  if (current != nullptr) ++current->total.waits;
}
void note_copy(std::size_t bytes) {
  if (current == nullptr) return;
  ++current->total.copies;
  current->total.copied_bytes += bytes;
}
void note_fetch(std::size_t bytes) {
  if (current == nullptr) return;
  ++current->total.fetches;
  current->total.fetched_bytes += bytes;
}
void note_call() {
  if (current != nullptr) ++current->total.calls;
}
void note_fill(std::size_t) {
  if (current != nullptr) ++current->total.fills;
}

void note_access(const void* at, std::size_t bytes, bool write, const void* site) {
  if (current == nullptr || !current->in_block() || bytes == 0) return;
  current->see(number(at), bytes, write, number(site), thread_of_cluster());
}
void note_block(const unsigned char* shared, std::size_t bytes, const unsigned char* stacks,
                std::size_t stack_bytes, unsigned warps) {
  if (current == nullptr || !current->in_launch()) return;
  current->block({number(shared), number(shared) + bytes},
                 {number(stacks), number(stacks) + stack_bytes}, warps);
  in_counted_block = accesses_count;
}
void meet(unsigned warp) {
  if (current == nullptr || !current->in_block()) return;
  ++current->kernel().collectives;
  current->meet(warp);
}
void meet_all(unsigned first, unsigned warps) {
  if (current == nullptr || !current->in_block()) return;
  ++current->kernel().barriers;
  current->meet_all(first, warps);
}
void note_block_end() {
  in_counted_block = false;
  if (current != nullptr && current->in_block()) current->end_block();
}
void note_matrix_load(const void* const* rows) {
  if (current == nullptr || !current->in_block()) return;
  ++current->kernel().matrix_loads;
  std::vector<address> at;
  for (int lane = 0; lane < 32; ++lane) at.push_back(number(rows[lane]));
  current->shared_request(std::move(at), 16);
}
void note_product(double operations) {
  if (current == nullptr || !current->in_block()) return;
  ++current->kernel().products;
  current->kernel().operations += operations;
}

}  // namespace unmask::cuda::emulator

// What the compiler calls around the loads and stores of files compiled with -fsanitize=thread. The
// names are its; the sanitizer's own library is not linked.
#if defined(UNMASK_CAN_SEE_ACCESSES)
namespace emu = unmask::cuda::emulator;
#define UNMASK_SEEN(name, bytes, write)                                \
  void name(void* at) {                                                \
    if (emu::in_counted_block) {                                       \
      emu::note_access(at, bytes, write, __builtin_return_address(0)); \
    }                                                                  \
  }
extern "C" {
UNMASK_SEEN(__tsan_read1, 1, false)
UNMASK_SEEN(__tsan_read2, 2, false)
UNMASK_SEEN(__tsan_read4, 4, false)
UNMASK_SEEN(__tsan_read8, 8, false)
UNMASK_SEEN(__tsan_read16, 16, false)
UNMASK_SEEN(__tsan_write1, 1, true)
UNMASK_SEEN(__tsan_write2, 2, true)
UNMASK_SEEN(__tsan_write4, 4, true)
UNMASK_SEEN(__tsan_write8, 8, true)
UNMASK_SEEN(__tsan_write16, 16, true)
UNMASK_SEEN(__tsan_volatile_read1, 1, false)
UNMASK_SEEN(__tsan_volatile_read2, 2, false)
UNMASK_SEEN(__tsan_volatile_read4, 4, false)
UNMASK_SEEN(__tsan_volatile_read8, 8, false)
UNMASK_SEEN(__tsan_volatile_write1, 1, true)
UNMASK_SEEN(__tsan_volatile_write2, 2, true)
UNMASK_SEEN(__tsan_volatile_write4, 4, true)
UNMASK_SEEN(__tsan_volatile_write8, 8, true)
UNMASK_SEEN(__tsan_unaligned_read2, 2, false)
UNMASK_SEEN(__tsan_unaligned_read4, 4, false)
UNMASK_SEEN(__tsan_unaligned_read8, 8, false)
UNMASK_SEEN(__tsan_unaligned_read16, 16, false)
UNMASK_SEEN(__tsan_unaligned_write2, 2, true)
UNMASK_SEEN(__tsan_unaligned_write4, 4, true)
UNMASK_SEEN(__tsan_unaligned_write8, 8, true)
UNMASK_SEEN(__tsan_unaligned_write16, 16, true)
void __tsan_read_range(void* at, std::size_t bytes) {
  if (emu::in_counted_block) emu::note_access(at, bytes, false, __builtin_return_address(0));
}
void __tsan_write_range(void* at, std::size_t bytes) {
  if (emu::in_counted_block) emu::note_access(at, bytes, true, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
// Host code of the same files: reference counts and guards of statics.
std::uint8_t __tsan_atomic8_load(const volatile std::uint8_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_load(const volatile std::uint32_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
std::uint64_t __tsan_atomic64_load(const volatile std::uint64_t* at, int) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
std::uint32_t __tsan_atomic32_fetch_add(volatile std::uint32_t* at, std::uint32_t value, int) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
}
#undef UNMASK_SEEN
#endif
