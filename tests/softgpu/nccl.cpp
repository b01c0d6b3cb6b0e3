// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A stand-in for NCCL between processes that each have a GPU in software: bytes go through shared memory, in
// the order of a stream, and a call that waits for another rank does not return its stream. It checks what
// nccl.h and the guide ask of a program: calls of equal length, which all ranks capture or none. It fails as
// UNMASK_SOFTGPU_NCCL says:
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
#include <vector>

#include "tests/softgpu/runtime.h"

namespace {

using unmask::softgpu::enqueue_host;
using unmask::softgpu::host_address;
using unmask::softgpu::library_note;
using unmask::softgpu::not_yet;

enum result { success = 0, system_error = 2, invalid_argument = 4, in_progress = 7 };  // nccl.h
constexpr int most_ranks = 64;
constexpr std::size_t piece = std::size_t{1} << 20, head_room = std::size_t{1} << 16;
constexpr std::size_t room = head_room + 2 * most_ranks * piece;

struct shared_head {
  std::atomic<int> joined;
  struct one {
    std::atomic<std::uint64_t> written;   // pieces
    std::atomic<std::uint64_t> bytes[2];  // of the calls that the last ones belong to, in turn
    std::atomic<bool> recorded[2];        // whether these are repeated by a graph
  } of[most_ranks];
};

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
  std::uint64_t issued = 0, done = 0, pieces = 0;
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

// One call under way; what a graph repeats begins anew.
struct gathering {
  communicator* c;
  const char* from;
  char* to;
  std::size_t bytes;
  bool recorded;
  std::size_t at = 0;
  bool begun = false, written = false;

  void run() {
    if (c->aborted) return;
    const fault& f = planted();
    if (f.is("stuck", c->rank) && c->done + 1 >= f.call) {
      note_beginning();
      throw not_yet();
    }
    if (!begun) {
      begun = true;
      at = 0;
      written = false;
    }
    while (at < bytes) move();
    begun = false;
    ++c->done;
    if (f.is("error", c->rank) && c->done == f.call) c->failed = true;
  }

 private:
  void move() {
    const std::size_t n = std::min(piece, bytes - at);
    shared_head& h = *c->shared;
    if (!written) {
      std::memcpy(c->area(c->rank), from + at, n);
      h.of[c->rank].bytes[c->pieces % 2] = bytes;
      h.of[c->rank].recorded[c->pieces % 2] = recorded;
      h.of[c->rank].written = c->pieces + 1;
      written = true;
    }
    for (int r = 0; r < c->ranks; ++r) {
      if (h.of[r].written <= c->pieces) throw not_yet();
      const std::uint64_t of = h.of[r].bytes[c->pieces % 2];
      if (of != bytes) {
        complain("rank " + std::to_string(r) + " gathers " + std::to_string(of) +
                 " bytes and rank " + std::to_string(c->rank) + " " + std::to_string(bytes));
      }
      if (h.of[r].recorded[c->pieces % 2] != recorded) {
        complain("one of ranks " + std::to_string(r) + " and " + std::to_string(c->rank) +
                 " launches a call that the other has captured");
      }
    }
    for (int r = 0; r < c->ranks; ++r) {
      const std::size_t less = planted().is("own_width", c->rank) ? n / 8 : 0;
      std::memcpy(to + static_cast<std::size_t>(r) * bytes + at, c->area(part_for(*c, r)),
                  n - less);
    }
    ++c->pieces;
    written = false;
    at += n;
  }
};

bool all_joined(const communicator& c) {
  return c.shared->joined >= c.ranks;
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
  ++c->issued;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  (void)cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture);
  const bool recorded =
      capture != cudaStreamCaptureStatusNone && !planted().is("launched", c->rank);
  const auto call = std::make_shared<gathering>(gathering{c, source, target, count, recorded});
  int status = 0;
  enqueue_host(
      stream, [call] { call->run(); }, {{from, count, false}, {to, ranks * count, true}}, &status);
  return status == 0 ? success : system_error;
}

}  // extern "C"
