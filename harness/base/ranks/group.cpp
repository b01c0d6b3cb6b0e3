// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/group.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/base/ranks/telling.h"

namespace unmask {
namespace {

constexpr std::uint64_t magic = 0x756e6d61736b5233U;  // of this layout
constexpr std::size_t area_bytes = std::size_t{1} << 20, head_bytes = std::size_t{1} << 16;
constexpr std::size_t longest_words = 512;
constexpr long slice_ns = 50'000'000;  // how often who waits looks around

std::size_t bytes_for(int ranks) {
  return head_bytes + 2 * static_cast<std::size_t>(ranks) * area_bytes;
}

double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Returns when the word changes, when somebody wakes, or after a slice.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t is) {
  const timespec slice{0, slice_ns};
  syscall(SYS_futex, &word, FUTEX_WAIT, is, &slice, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::string short_text(double number) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.4g", number))};
}

std::string number_list(const std::vector<int>& ranks) {
  std::string all;
  for (const int r : ranks) all += (all.empty() ? "" : ", ") + std::to_string(r);
  return (ranks.size() == 1 ? "rank " : "ranks ") + all;
}

thread_local rank_group* in_force = nullptr;

}  // namespace

namespace {

double seconds_of(const char* variable, double otherwise) {
  const char* given = std::getenv(variable);
  if (given == nullptr || *given == '\0') return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(given, &end);
  if (*end != '\0' || !(seconds >= 0) || seconds > 1e9) {
    throw usage_error(std::string(variable) + " is '" + given +
                      "' but must be a number of seconds from 0 (for ever) on");
  }
  return seconds;
}

}  // namespace

double ranks_patience() {
  return seconds_of(patience_variable, 60);
}
double ranks_loading_patience() {
  return seconds_of(loading_patience_variable, 600);
}

struct rank_group::header {
  std::uint64_t layout;
  std::int32_t ranks;
  std::atomic<std::uint32_t> arrived, generation;
  std::atomic<std::uint32_t> failed, told;  // somebody writes words; they are there
  char words[longest_words];
  struct one {
    std::atomic<std::uint32_t> joined;
    std::atomic<std::int32_t> process;
    std::atomic<std::uint64_t> moves;            // that it has come to
    std::atomic<std::uint64_t> moves_on_device;  // that it has queued
  } of[most_ranks];
};

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

namespace {

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

std::shared_ptr<rank_memory> rank_memory::create(int ranks) {
  const int descriptor = ::memfd_create("unmask-ranks", MFD_CLOEXEC);
  if (descriptor < 0) no_memory("cannot be made");
  const std::size_t bytes = bytes_for(ranks);
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    no_memory("cannot be made", descriptor);
  }
  void* memory = map_shared(descriptor, bytes);
  auto* head = static_cast<rank_group::header*>(memory);  // zeros, as the system gives it
  head->ranks = ranks;
  head->layout = magic;
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
  const auto* head = static_cast<const rank_group::header*>(memory);
  const int ranks = head->layout == magic ? head->ranks : 0;
  if (ranks < 1 || ranks > most_ranks || bytes != bytes_for(ranks)) {
    ::munmap(memory, bytes);
    refuse();
  }
  return std::shared_ptr<rank_memory>(new rank_memory(memory, bytes, ranks, descriptor));
}

// ---- a rank's end ----

rank_group::rank_group(std::shared_ptr<rank_memory> memory, int rank)
    : memory_(std::move(memory)), rank_(rank), patience_(ranks_patience()) {
  static_assert(sizeof(header) <= head_bytes);
  if (rank < 0 || rank >= size() || head().of[rank].joined.exchange(1) != 0) {
    throw environment_error("ranks: rank " + std::to_string(rank) + " of " +
                            std::to_string(size()) + " is there already");
  }
  head().of[rank].process = static_cast<std::int32_t>(::getpid());
}

rank_group::~rank_group() = default;

int rank_group::size() const {
  return memory_->ranks();
}

int rank_group::process(int rank) const {
  return head().of[rank].process;
}

rank_group::header& rank_group::head() const {
  return *static_cast<header*>(memory_->memory_);
}

char* rank_group::area(int rank) const {
  const std::size_t place = static_cast<std::size_t>(turn_) * static_cast<std::size_t>(size()) +
                            static_cast<std::size_t>(rank);
  return static_cast<char*>(memory_->memory_) + head_bytes + place * area_bytes;
}

void rank_group::fail(const std::string& words) {
  header& h = head();
  if (h.failed.exchange(1) == 0) {
    const std::size_t n = std::min(words.size(), longest_words - 1);
    std::memcpy(h.words, words.data(), n);
    h.words[n] = '\0';
    h.told = 1;
  }
  wake_all(h.generation);
}

std::string rank_group::failure() const {
  const header& h = head();
  if (h.failed == 0) return "";
  return h.told == 0 ? "a rank failed" : h.words;
}

void rank_group::give_up(const std::string& words) {
  fail(words);
  throw rank_failure(failure());
}

// All come to this move, or nobody goes on.
void rank_group::meet() {
  header& h = head();
  h.of[rank_].moves = ++moves_;
  const std::uint32_t turn = h.generation;
  if (h.failed != 0) throw rank_failure(failure());
  if (h.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(size())) {
    h.arrived = 0;
    h.generation.fetch_add(1);
    wake_all(h.generation);
    return;
  }
  const double start = seconds_now();
  while (h.generation == turn) {
    sleep_while(h.generation, turn);
    if (h.generation != turn) return;
    look_for(
        seconds_now() - start, [&](int r) { return h.of[r].moves >= moves_; }, "answer", "a move");
  }
}

void rank_group::look_for(double waited, const std::function<bool(int rank)>& has_come,
                          const std::string& what, const std::string& move) {
  if (head().failed != 0) throw rank_failure(failure());
  for (int r = 0; ended_ && r < size(); ++r) {
    if (const std::string why = r == rank_ ? "" : ended_(r); !why.empty()) give_up(why);
  }
  if (patience_ <= 0 || waited < patience_) return;
  std::vector<int> silent, waiting;
  for (int r = 0; r < size(); ++r) (has_come(r) ? waiting : silent).push_back(r);
  const std::string within = " within " + short_text(patience_) + " s";
  const std::string how = std::string(" (") + patience_set_by_ + " sets the seconds)";
  if (silent.empty())
    give_up(move + " did not end" + within + ", to which all ranks have come" + how);
  give_up(number_list(silent) + " did not " + what + within + " while " + number_list(waiting) +
          " waited" + how);
}

void rank_group::count_on_device(std::uint64_t calls, std::uint64_t bytes) {
  moves_on_device_ += calls;
  head().of[rank_].moves_on_device = moves_on_device_;
  received_ += bytes;
  traffic_.calls += calls;
  traffic_.bytes += bytes;
}

void rank_group::look_around(double waited, const std::string& named) {
  const std::string move =
      named.empty() ? "move " + std::to_string(moves_on_device_) + " of the devices" : named;
  look_for(
      waited, [&](int r) { return head().of[r].moves_on_device >= moves_on_device_; },
      "come to " + move, move);
}

void rank_group::gather(const void* mine, std::size_t bytes, void* all) {
  move(mine, bytes, {0, bytes, bytes}, all);
}

void rank_group::deal(const void* mine, std::size_t bytes, std::size_t stretch, void* all) {
  const std::size_t first = std::min(bytes, static_cast<std::size_t>(rank_) * stretch);
  move(mine, bytes, {first, std::min(bytes, first + stretch), stretch}, all);
}

void rank_group::move(const void* mine, std::size_t bytes, const wanted& of, void* all) {
  const std::uint64_t others = (of.end - of.first) * static_cast<std::size_t>(size() - 1);
  const telling heard(*this, others);
  const double start = seconds_now();
  exchange(mine, bytes, of, all);
  ++traffic_.calls;
  traffic_.bytes += others;
  traffic_.seconds += seconds_now() - start;
}

void rank_group::exchange(const void* mine, std::size_t bytes, const wanted& of, void* all) {
  received_ += (of.end - of.first) * static_cast<std::size_t>(size() - 1);
  for (std::size_t at = 0; at < bytes; at += area_bytes) {
    const std::size_t n = std::min(area_bytes, bytes - at);
    std::memcpy(area(rank_), static_cast<const char*>(mine) + at, n);
    meet();
    const std::size_t from = std::max(of.first, at), to = std::min(of.end, at + n);
    for (int r = 0; r < size() && from < to; ++r) {
      char* place = static_cast<char*>(all) + static_cast<std::size_t>(r) * of.apart;
      std::memcpy(place + (from - of.first), area(r) + (from - at), to - from);
    }
    turn_ = 1 - turn_;
  }
}

std::vector<std::string> rank_group::gather(const std::string& text) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::uint64_t length = text.size();
  std::vector<std::uint64_t> lengths(ranks);
  exchange(&length, sizeof length, lengths.data());
  const std::size_t room = *std::max_element(lengths.begin(), lengths.end());
  std::string mine = text, all(ranks * room, '\0');
  mine.resize(room);
  exchange(mine.data(), room, all.data());
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) texts.push_back(all.substr(r * room, lengths[r]));
  return texts;
}

int rank_group::first_other(std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(size()));
  exchange(&mine, sizeof mine, all.data());
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (all[r] != all[0]) return static_cast<int>(r);
  }
  return 0;
}

void rank_group::from_first(void* bytes, std::size_t count) {
  for (std::size_t at = 0; at < count; at += area_bytes) {
    const std::size_t n = std::min(area_bytes, count - at);
    char* place = static_cast<char*>(bytes) + at;
    if (rank_ == 0) std::memcpy(area(0), place, n);
    meet();
    if (rank_ != 0) std::memcpy(place, area(0), n);
    turn_ = 1 - turn_;
  }
}

double rank_group::from_first(double value) {
  from_first(&value, sizeof value);
  return value;
}

std::string rank_group::from_first(const std::string& text) {
  std::uint64_t length = text.size();
  from_first(&length, sizeof length);
  std::string all = rank_ == 0 ? text : std::string(length, '\0');
  from_first(all.data(), all.size());
  return all;
}

// ---- in force ----

rank_group* current_ranks() {
  return in_force;
}

ranks_in_force::ranks_in_force(rank_group* group) : before_(in_force) {
  in_force = group;
}
ranks_in_force::~ranks_in_force() {
  in_force = before_;
}

}  // namespace unmask
