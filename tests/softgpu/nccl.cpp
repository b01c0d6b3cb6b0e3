// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A stand-in for NCCL between processes that each have a GPU in software: bytes go through shared memory, in
// the order of a stream, and a call that waits for another rank does not return its stream. It checks what
// nccl.h and the guide ask of a program: calls of equal length, which all ranks capture or none; sends and
// receives in groups, each with its counterpart. A group is of one communicator and stream, with one send to
// each rank and one receive from each. It fails as UNMASK_SOFTGPU_NCCL says:
//
//   version                 is 2.10.3
//   other_version:RANK      is 2.27.9 for the process of the card of this number
//   refuse:RANK             CommInitRankConfig fails
//   absent:RANK             CommInitRankConfig of this rank never joins the others
//   error:RANK:CALL         the communicator of this rank fails behind its call (1, 2, ...)
//   stuck:RANK:CALL         this rank's GPU never comes to its call
//   reversed:RANK           parts arrive in the reverse order on this rank
//   own_first:RANK          this rank's own part is first
//   swapped                 parts 1 and 2 change places on every rank
//   twice:RANK              its first part is also its second
//   own_width:RANK          this rank gets an eighth less of every part than was sent
//   launched:RANK           this rank's calls are taken for launched ones, whatever captured them
//   misdealt:RANK           what this rank sends to ranks 0 and 1 changes places
//   shorter:RANK            this rank sends each rank 4 bytes less than it was told
//   ungrouped:RANK          this rank's groups are not heard of
//
// UNMASK_SOFTGPU_NCCL_BEGAN names a file that is made when a rank is absent or stuck.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/softgpu/runtime.h"

namespace {

using unmask::softgpu::enqueue_host;
using unmask::softgpu::host_address;
using unmask::softgpu::library_note;
using unmask::softgpu::not_yet;

enum result { success = 0, system_error = 2, invalid_argument = 4, in_progress = 7 };  // nccl.h
constexpr int most_ranks = 64;
constexpr std::size_t piece = std::size_t{1} << 20, head_room = std::size_t{1} << 17;
constexpr std::size_t room = head_room + 2 * most_ranks * piece;

struct shared_head {
  std::atomic<int> joined;
  struct one {
    std::atomic<std::uint64_t> written;  // pieces
    // Of the calls that the last two of them belong to, in turn:
    std::atomic<std::uint64_t> bytes[2];           // gathered, or sent_in_group
    std::atomic<std::uint64_t> to[2][most_ranks];  // bytes that a group sends each rank
    std::atomic<bool> recorded[2];                 // whether a graph repeats it
  } of[most_ranks];
};
static_assert(sizeof(shared_head) <= head_room);
constexpr std::uint64_t sent_in_group = ~std::uint64_t{0};

// UNMASK_SOFTGPU_NCCL, read once.
struct fault {
  std::string what;
  int rank = -1;
  std::uint64_t call = 0;
  bool is(const char* name, int of) const { return what == name && (rank < 0 || rank == of); }
};
const fault& planted() {
  static const fault one = [] {
    const char* text = std::getenv("UNMASK_SOFTGPU_NCCL");
    fault f;
    if (text == nullptr) return f;
    char what[32] = {};
    unsigned long long call = 0;
    std::sscanf(text, "%31[a-z_]:%d:%llu", what, &f.rank, &call);
    f.what = what;
    f.call = call;
    return f;
  }();
  return one;
}

void note_beginning() {
  const char* file = std::getenv("UNMASK_SOFTGPU_NCCL_BEGAN");
  const int made = file == nullptr ? -1 : ::open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  if (made >= 0) ::close(made);
}

bool is_card(int number) {
  char bus[32] = {}, want[32] = {};
  std::snprintf(want, sizeof want, "0000:%02x:00.0", static_cast<unsigned>(number));
  return cudaDeviceGetPCIBusId(bus, sizeof bus, 0) == cudaSuccess && std::strcmp(bus, want) == 0;
}

struct id {
  char bytes[128];
};
struct config {
  std::size_t size;
  unsigned magic, version;
  int blocking;
};

struct communicator {
  int rank = 0, ranks = 0;
  shared_head* shared = nullptr;
  std::uint64_t done = 0, pieces = 0;
  bool aborted = false, failed = false;
  std::string last_error;

  char* area(int of) const {
    const std::size_t at = (pieces % 2) * most_ranks + static_cast<std::size_t>(of);
    return reinterpret_cast<char*>(shared) + head_room + at * piece;
  }
};

std::string error_without_communicator;

void complain(const std::string& what) {
  library_note("NCCL", what);
}

// The rank whose part arrives as that of `r`.
int part_for(const communicator& c, int r) {
  const fault& f = planted();
  if (f.is("reversed", c.rank)) return c.ranks - 1 - r;
  if (f.is("own_first", c.rank)) return r == 0 ? c.rank : r <= c.rank ? r - 1 : r;
  if (f.is("swapped", c.rank) && (r == 1 || r == 2) && c.ranks > 2) return 3 - r;
  if (f.is("twice", c.rank) && r == 1) return 0;
  return r;
}

// One call or group under way; what a graph repeats begins anew.
class moving {
 public:
  moving(communicator* c, bool recorded) : c_(c), recorded_(recorded) {}
  virtual ~moving() = default;
  moving(const moving&) = delete;
  moving& operator=(const moving&) = delete;

  void run() {
    if (c_->aborted) return;
    const fault& f = planted();
    if (f.is("stuck", c_->rank) && c_->done + 1 >= f.call) {
      note_beginning();
      throw not_yet();
    }
    if (!begun_) {
      begun_ = true;
      written_ = false;
      begin();
    }
    while (!over()) move();
    begun_ = false;
    ++c_->done;
    if (f.is("error", c_->rank) && c_->done == f.call) c_->failed = true;
  }

 protected:
  virtual void begin() = 0;
  virtual bool over() const = 0;
  virtual std::uint64_t bytes() const = 0;  // shared_head::one
  // Of one piece: into this rank's area; what another rank does instead; out of all areas.
  virtual void write() = 0;
  virtual void compare(int rank) const = 0;
  virtual void read() = 0;

  shared_head::one& of(int rank) const { return c_->shared->of[rank]; }
  std::size_t turn() const { return c_->pieces % 2; }
  // An eighth less on a rank that is to get too little.
  std::size_t arriving(std::size_t n) const {
    return planted().is("own_width", c_->rank) ? n - n / 8 : n;
  }

  communicator* c_;

 private:
  static std::string said(std::uint64_t n) {
    return n == sent_in_group ? "sends in a group" : "gathers " + std::to_string(n) + " bytes";
  }
  void move() {
    if (!written_) {
      write();
      of(c_->rank).bytes[turn()] = bytes();
      of(c_->rank).recorded[turn()] = recorded_;
      of(c_->rank).written = c_->pieces + 1;
      written_ = true;
    }
    for (int r = 0; r < c_->ranks; ++r) {
      if (of(r).written <= c_->pieces) throw not_yet();
    }
    for (int r = 0; r < c_->ranks; ++r) {
      if (of(r).bytes[turn()] != bytes()) {
        complain("rank " + std::to_string(r) + " " + said(of(r).bytes[turn()]) + " and rank " +
                 std::to_string(c_->rank) + " " + said(bytes()));
      } else {
        compare(r);
      }
      if (of(r).recorded[turn()] != recorded_) {
        complain("one of ranks " + std::to_string(r) + " and " + std::to_string(c_->rank) +
                 " launches a call that the other has captured");
      }
    }
    read();
    ++c_->pieces;
    written_ = false;
  }

  bool recorded_, begun_ = false, written_ = false;
};

class gathering : public moving {
 public:
  gathering(communicator* c, bool recorded, const char* from, char* to, std::size_t bytes)
      : moving(c, recorded), from_(from), to_(to), bytes_(bytes) {}

 private:
  void begin() override { at_ = 0; }
  bool over() const override { return at_ >= bytes_; }
  std::uint64_t bytes() const override { return bytes_; }
  std::size_t next() const { return std::min(piece, bytes_ - at_); }
  void write() override { std::memcpy(c_->area(c_->rank), from_ + at_, next()); }
  void compare(int) const override {}
  void read() override {
    for (int r = 0; r < c_->ranks; ++r) {
      std::memcpy(to_ + static_cast<std::size_t>(r) * bytes_ + at_, c_->area(part_for(*c_, r)),
                  arriving(next()));
    }
    at_ += next();
  }

  const char* from_;
  char* to_;
  std::size_t bytes_, at_ = 0;
};

// Sends and receives, with a part of every area for each rank.
class grouped : public moving {
 public:
  struct sent {
    const char* from = nullptr;
    std::size_t bytes = 0;
  };
  struct received {
    char* to = nullptr;
    std::size_t bytes = 0;
  };
  // By rank; nothing if there is none.
  using sends = std::vector<sent>;
  using receives = std::vector<received>;

  grouped(communicator* c, bool recorded, sends all_sent, receives all_received)
      : moving(c, recorded), sends_(std::move(all_sent)), receives_(std::move(all_received)) {
    if (!planted().is("shorter", c->rank)) return;
    for (sent& s : sends_) s.bytes -= std::min<std::size_t>(s.bytes, 4);
  }

 private:
  void begin() override {
    at_ = 0;
    longest_ = 1;  // until all have told
  }
  bool over() const override { return at_ >= longest_; }
  std::uint64_t bytes() const override { return sent_in_group; }
  std::size_t part() const { return piece / static_cast<std::size_t>(c_->ranks); }
  std::size_t next(std::size_t of_all) const {
    return of_all > at_ ? std::min(part(), of_all - at_) : 0;
  }
  void write() override {
    for (std::size_t r = 0; r < sends_.size(); ++r) {
      const std::size_t place = r < 2 && planted().is("misdealt", c_->rank) ? 1 - r : r;
      const std::size_t n = next(sends_[r].bytes);
      if (n > 0) std::memcpy(c_->area(c_->rank) + place * part(), sends_[r].from + at_, n);
      of(c_->rank).to[turn()][r] = sends_[r].bytes;
    }
  }
  void compare(int rank) const override {
    const std::uint64_t told = of(rank).to[turn()][c_->rank];
    const std::size_t wanted = receives_[static_cast<std::size_t>(rank)].bytes;
    if (told == wanted) return;
    complain("rank " + std::to_string(rank) + " sends " + std::to_string(told) + " bytes to rank " +
             std::to_string(c_->rank) + ", which receives " + std::to_string(wanted));
  }
  void read() override {
    const auto own = static_cast<std::size_t>(c_->rank);
    for (int r = 0; r < c_->ranks; ++r) {
      const received& to = receives_[static_cast<std::size_t>(r)];
      const std::size_t n = arriving(next(to.bytes));
      if (n > 0) std::memcpy(to.to + at_, c_->area(part_for(*c_, r)) + own * part(), n);
      for (int other = 0; other < c_->ranks; ++other) {
        longest_ = std::max<std::uint64_t>(longest_, of(r).to[turn()][other]);
      }
    }
    at_ += part();
  }

  sends sends_;
  receives receives_;
  std::size_t at_ = 0;
  std::uint64_t longest_ = 1;
};

// What a thread has called since ncclGroupStart.
struct open_group {
  int depth = 0;
  communicator* c = nullptr;  // null: nothing
  void* stream = nullptr;
  grouped::sends sends;
  grouped::receives receives;
  std::vector<unmask::softgpu::library_access> accesses;
};
thread_local open_group group;

bool all_joined(const communicator& c) {
  return c.shared->joined >= c.ranks;
}

bool is_captured(const communicator& c, void* stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  (void)cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture);
  return capture != cudaStreamCaptureStatusNone && !planted().is("launched", c.rank);
}

int queue(const std::shared_ptr<moving>& call, void* stream,
          std::vector<unmask::softgpu::library_access> accesses) {
  int status = 0;
  enqueue_host(
      stream, [call] { call->run(); }, std::move(accesses), &status);
  return status == 0 ? success : system_error;
}

// Whether ncclSend or ncclRecv may join the thread's group, into which it then writes.
bool joins_group(const std::string& call, communicator* c, int peer, void* stream,
                 const void* host) {
  const auto refuse = [&](const std::string& why) {
    complain(call + why);
    return false;
  };
  if (group.depth == 0 || planted().is("ungrouped", c->rank)) {
    return refuse(" outside a group: it waits for its counterpart, which comes behind it");
  }
  if (!all_joined(*c)) return refuse(" on a communicator whose initialisation is in progress");
  if (peer < 0 || peer >= c->ranks) return refuse(" of rank " + std::to_string(peer));
  if (host == nullptr) return refuse(": no device memory, or less");
  if (group.c == nullptr) {
    group.c = c;
    group.stream = stream;
    group.sends.resize(static_cast<std::size_t>(c->ranks));
    group.receives.resize(static_cast<std::size_t>(c->ranks));
  }
  if (group.c != c || group.stream != stream) return refuse(" of another communicator or stream");
  return true;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const bool other = planted().what == "other_version" && is_card(planted().rank);
  *version = planted().what == "version" ? 21003 : other ? 22709 : 22809;
  return success;
}
const char* ncclGetErrorString(int status) {
  return status == success            ? "no error"
         : status == system_error     ? "unhandled system error"
         : status == invalid_argument ? "invalid argument"
         : status == in_progress      ? "NCCL operation in progress"
                                      : "an error";
}
const char* ncclGetLastError(void* of) {
  return of == nullptr ? error_without_communicator.c_str()
                       : static_cast<communicator*>(of)->last_error.c_str();
}

// Memory without a name, which others open by this process.
int ncclGetUniqueId(id* made) {
  const int file = ::memfd_create("softgpu-nccl", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(room)) != 0) return system_error;
  *made = {};
  std::snprintf(made->bytes, sizeof made->bytes, "/proc/%d/fd/%d", static_cast<int>(::getpid()),
                file);
  return success;
}

int ncclCommInitRankConfig(void** made, int ranks, id of, int rank, const config* how) {
  if (how == nullptr || how->magic != 0xCAFEBEEFU || how->version < 21400 || how->size < 24 ||
      (how->blocking != 0 && how->blocking != 1)) {
    complain("ncclConfig_t is not what NCCL_CONFIG_INITIALIZER makes");
    return invalid_argument;
  }
  if (ranks < 1 || ranks > most_ranks || rank < 0 || rank >= ranks) return invalid_argument;
  if (planted().is("refuse", rank)) {
    error_without_communicator = "Call to connect failed: Connection refused";
    return system_error;
  }
  const int file = ::open(of.bytes, O_RDWR | O_CLOEXEC);
  void* memory =
      file < 0 ? MAP_FAILED : ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) ::close(file);
  if (memory == MAP_FAILED) return system_error;
  auto* c = new communicator;
  c->rank = rank;
  c->ranks = ranks;
  c->shared = static_cast<shared_head*>(memory);
  if (planted().is("absent", rank)) {
    note_beginning();
  } else {
    ++c->shared->joined;
  }
  *made = c;
  if (how->blocking == 0) return in_progress;
  while (!all_joined(*c)) ::usleep(200);
  return success;
}
int ncclCommGetAsyncError(void* of, int* status) {
  auto* c = static_cast<communicator*>(of);
  if (c->failed) c->last_error = "NET/Socket : peer closed the connection";
  *status = c->failed ? system_error : all_joined(*c) ? success : in_progress;
  return success;
}
// What is under way returns without having moved anything.
int ncclCommAbort(void* of) {
  static_cast<communicator*>(of)->aborted = true;  // its calls may be in a stream still
  return success;
}

int ncclAllGather(const void* from, void* to, std::size_t count, int type, void* of, void* stream) {
  auto* c = static_cast<communicator*>(of);
  if (type != 0) return invalid_argument;  // ncclInt8 alone is asked for here
  if (!all_joined(*c)) complain("a call on a communicator whose initialisation is in progress");
  const auto ranks = static_cast<std::size_t>(c->ranks);
  const auto* source = static_cast<const char*>(host_address(from, count));
  auto* target = static_cast<char*>(host_address(to, ranks * count));
  if (source == nullptr || target == nullptr) {
    complain("ncclAllGather of " + std::to_string(count) + " bytes: no device memory, or less");
    return invalid_argument;
  }
  if (group.depth > 0) complain("ncclAllGather in a group, which this stand-in does not know");
  const auto call = std::make_shared<gathering>(c, is_captured(*c, stream), source, target, count);
  return queue(call, stream, {{from, count, false}, {to, ranks * count, true}});
}

int ncclGroupStart() {
  ++group.depth;
  return success;
}
int ncclSend(const void* from, std::size_t count, int type, int peer, void* of, void* stream) {
  auto* c = static_cast<communicator*>(of);
  const auto* source = static_cast<const char*>(host_address(from, count));
  if (type != 0 || !joins_group("ncclSend", c, peer, stream, source)) return invalid_argument;
  grouped::sent& to = group.sends[static_cast<std::size_t>(peer)];
  if (to.from != nullptr) complain("two sends to rank " + std::to_string(peer) + " in a group");
  to = {source, count};
  group.accesses.push_back({from, count, false});
  return success;
}
int ncclRecv(void* to, std::size_t count, int type, int peer, void* of, void* stream) {
  auto* c = static_cast<communicator*>(of);
  auto* target = static_cast<char*>(host_address(to, count));
  if (type != 0 || !joins_group("ncclRecv", c, peer, stream, target)) return invalid_argument;
  grouped::received& from = group.receives[static_cast<std::size_t>(peer)];
  if (from.to != nullptr) {
    complain("two receives from rank " + std::to_string(peer) + " in a group");
  }
  from = {target, count};
  group.accesses.push_back({to, count, true});
  return success;
}
int ncclGroupEnd() {
  if (group.depth == 0) {
    complain("ncclGroupEnd without ncclGroupStart");
    return invalid_argument;
  }
  if (--group.depth > 0) return success;
  open_group all = std::exchange(group, {});
  if (all.c == nullptr) return success;
  const auto call = std::make_shared<grouped>(all.c, is_captured(*all.c, all.stream),
                                              std::move(all.sends), std::move(all.receives));
  return queue(call, all.stream, std::move(all.accesses));
}

}  // extern "C"
