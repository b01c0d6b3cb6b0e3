// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/memory.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/base/ranks/words.h"

namespace unmask {
namespace {

constexpr std::uint64_t magic_of_memory = 0x756e6d61736b5233U;  // of this layout
constexpr std::size_t area_bytes = rank_transport::largest_move, head_bytes = std::size_t{1} << 16;

struct memory_head {
  std::uint64_t layout;
  std::int32_t ranks;
  std::atomic<std::uint32_t> arrived, generation;
  std::atomic<std::uint32_t> failed, told;  // somebody writes words; they are there
  char words[rank_transport::longest_words];
  struct one {
    std::atomic<std::uint32_t> joined;
    std::atomic<std::int32_t> process;
    std::atomic<std::uint64_t> moves;            // that it has come to
    std::atomic<std::uint64_t> moves_on_device;  // that it has queued
  } of[most_ranks];
};
static_assert(sizeof(memory_head) <= head_bytes);

std::size_t bytes_for(int ranks) {
  return head_bytes + 2 * static_cast<std::size_t>(ranks) * area_bytes;
}

// Returns when the word changes, when somebody wakes, or after a slice.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t is) {
  const timespec slice{0, static_cast<long>(seconds_of_slice * 1e9)};
  syscall(SYS_futex, &word, FUTEX_WAIT, is, &slice, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

[[noreturn]] void no_memory(const std::string& what, int descriptor = -1) {
  const std::string reason = std::strerror(errno);
  if (descriptor >= 0) ::close(descriptor);
  throw environment_error("ranks: shared memory " + what + ": " + reason);
}

void* map_shared(int descriptor, std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) no_memory("cannot be mapped", descriptor);
  return memory;
}

}  // namespace

// ---- memory ----

rank_memory::rank_memory(void* memory, std::size_t bytes, int ranks, int descriptor)
    : memory_(memory), bytes_(bytes), ranks_(ranks), descriptor_(descriptor) {}

rank_memory::~rank_memory() {
  ::munmap(memory_, bytes_);
  ::close(descriptor_);
}

std::string rank_memory::file() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor_);
}

std::shared_ptr<rank_memory> rank_memory::create(int ranks) {
  const int descriptor = ::memfd_create("unmask-ranks", MFD_CLOEXEC);
  if (descriptor < 0) no_memory("cannot be made");
  const std::size_t bytes = bytes_for(ranks);
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    no_memory("cannot be made", descriptor);
  }
  void* memory = map_shared(descriptor, bytes);
  auto* head = static_cast<memory_head*>(memory);  // zeros, as the system gives it
  head->ranks = ranks;
  head->layout = magic_of_memory;
  return std::shared_ptr<rank_memory>(new rank_memory(memory, bytes, ranks, descriptor));
}

std::shared_ptr<rank_memory> rank_memory::open(const std::string& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) no_memory(file + " is not there");
  const auto refuse = [&] {
    ::close(descriptor);
    throw environment_error("ranks: " + file + " is no memory of ranks of this program");
  };
  struct stat about {};
  if (::fstat(descriptor, &about) != 0 || about.st_size < static_cast<off_t>(head_bytes)) refuse();
  const auto bytes = static_cast<std::size_t>(about.st_size);
  void* memory = map_shared(descriptor, bytes);
  const auto* head = static_cast<const memory_head*>(memory);
  const int ranks = head->layout == magic_of_memory ? head->ranks : 0;
  if (ranks < 1 || ranks > most_ranks || bytes != bytes_for(ranks)) {
    ::munmap(memory, bytes);
    refuse();
  }
  return std::shared_ptr<rank_memory>(new rank_memory(memory, bytes, ranks, descriptor));
}

// ---- a rank's end ----

namespace {

class memory_transport final : public rank_transport {
 public:
  memory_transport(std::shared_ptr<rank_memory> memory, int rank)
      : rank_transport(rank, memory->ranks()), memory_(std::move(memory)) {
    if (rank < 0 || rank >= ranks() || head().of[rank].joined.exchange(1) != 0) {
      throw environment_error("ranks: rank " + std::to_string(rank) + " of " +
                              std::to_string(ranks()) + " is there already");
    }
    head().of[rank].process = static_cast<std::int32_t>(::getpid());
  }

  std::string name() const override { return "shared memory"; }
  int process(int rank) const override { return head().of[rank].process; }

  void deal(const void* mine, std::size_t bytes, const stretch_of_rank& of, void* all,
            std::size_t apart, const waiting_check& check) override {
    std::memcpy(area(rank()), mine, bytes);
    meet(check);
    const rank_stretch own = of(rank());
    for (int r = 0; r < ranks() && own.first < own.end; ++r) {
      std::memcpy(static_cast<char*>(all) + static_cast<std::size_t>(r) * apart,
                  area(r) + own.first, own.end - own.first);
    }
    turn_ = 1 - turn_;
  }

  void from_first(void* bytes, std::size_t count, const waiting_check& check) override {
    if (rank() == 0) std::memcpy(area(0), bytes, count);
    meet(check);
    if (rank() != 0) std::memcpy(bytes, area(0), count);
    turn_ = 1 - turn_;
  }

  void count_on_device(std::uint64_t moves) override { head().of[rank()].moves_on_device = moves; }
  std::uint64_t on_device(int rank) const override { return head().of[rank].moves_on_device; }

  void fail(const std::string& words) override {
    memory_head& h = head();
    if (h.failed.exchange(1) == 0) {
      const std::size_t n = std::min(words.size(), longest_words - 1);
      std::memcpy(h.words, words.data(), n);
      h.words[n] = '\0';
      h.told = 1;
    }
    wake_all(h.generation);
  }
  std::string failure() const override {
    const memory_head& h = head();
    if (h.failed == 0) return "";
    // Who failed writes its words, unless it was killed just then.
    const timespec moment{0, 1'000'000};
    for (int i = 0; i < 100 && h.told == 0; ++i) ::nanosleep(&moment, nullptr);
    return h.told == 0 ? "a rank failed" : h.words;
  }

 private:
  memory_head& head() const { return *static_cast<memory_head*>(memory_->address()); }
  char* area(int rank) const {
    const std::size_t place = static_cast<std::size_t>(turn_) * static_cast<std::size_t>(ranks()) +
                              static_cast<std::size_t>(rank);
    return static_cast<char*>(memory_->address()) + head_bytes + place * area_bytes;
  }
  // All come to this move, or nobody goes on.
  void meet(const waiting_check& check) {
    memory_head& h = head();
    h.of[rank()].moves = ++moves_;
    const std::uint32_t turn = h.generation;
    if (h.failed != 0) throw rank_failure(failure());
    if (h.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(ranks())) {
      h.arrived = 0;
      h.generation.fetch_add(1);
      wake_all(h.generation);
      return;
    }
    const double start = seconds_now();
    while (h.generation == turn) {
      sleep_while(h.generation, turn);
      if (h.generation != turn) return;
      check(seconds_now() - start, [&](int r) {
        return h.of[r].moves >= moves_ ? rank_presence::there : rank_presence::absent;
      });
    }
  }

  std::shared_ptr<rank_memory> memory_;
  int turn_ = 0;
  std::uint64_t moves_ = 0;
};

}  // namespace

std::unique_ptr<rank_transport> transport_by_memory(std::shared_ptr<rank_memory> memory, int rank) {
  return std::make_unique<memory_transport>(std::move(memory), rank);
}

}  // namespace unmask
