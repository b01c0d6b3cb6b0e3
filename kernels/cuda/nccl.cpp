// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/nccl.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "harness/base/ranks/telling.h"
#include "harness/base/shared_library.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/rank_library.h"

namespace unmask::cuda {
namespace {

constexpr int lowest_version = 21800;      // of communicators that need not block
constexpr double seconds_of_slice = 0.05;  // how often who waits looks around

using seconds_clock = std::chrono::steady_clock;
double seconds_since(seconds_clock::time_point start) {
  return std::chrono::duration<double>(seconds_clock::now() - start).count();
}

nccl_functions open_functions() {
  const shared_library found = open_shared_library(nccl_library());
  if (found.handle == nullptr) {
    throw environment_error("several ranks on GPUs need NCCL, which cannot be opened (tried " +
                            found.tried +
                            "): install it (pip install nvidia-nccl-cu13) or name the file in "
                            "UNMASK_NCCL");
  }
  nccl_functions f;
  f.path = found.path;
#define UNMASK_LOAD(name, result, arguments)                                                 \
  f.name = reinterpret_cast<decltype(f.name)>(dlsym(found.handle, #name));                   \
  if (f.name == nullptr) {                                                                   \
    throw environment_error(f.path + " has no " #name ": several ranks on GPUs need NCCL " + \
                            nccl_version_text(lowest_version) + " or later");                \
  }
  UNMASK_NCCL_FUNCTIONS(UNMASK_LOAD)
#undef UNMASK_LOAD
  if (f.ncclGetVersion(&f.version) != nccl_success || f.version < lowest_version) {
    throw environment_error(f.path + " is NCCL " + nccl_version_text(f.version) +
                            ": several ranks on GPUs need " + nccl_version_text(lowest_version) +
                            " or later; UNMASK_NCCL names another file");
  }
  // Memory of recorded calls is not announced to other ranks: what a rank outgrows is its own affair.
  ::setenv("NCCL_GRAPH_REGISTER", "0", 0);
  return f;
}

// "ncclAllGather of move 7: unhandled system error (Call to connect failed)".
std::string words_of(const std::string& call, int status, nccl_communicator of) {
  const char* last = nccl().ncclGetLastError(of);
  const std::string more = last == nullptr ? "" : last;
  return "NCCL: " + call + ": " + nccl().ncclGetErrorString(status) +
         (more.empty() ? "" : " (" + more + ")");
}

// What ranks tell each other before they join: what must be equal, by these names, and the GPU's place, which
// is on a bus of a machine.
constexpr std::array equal_facts = {"GPU", "driver", "NCCL"};
std::vector<std::string> facts_here() {
  int device = 0, driver = 0;
  UNMASK_CUDA_CALL(cudaGetDevice(&device));
  UNMASK_CUDA_CALL(cudaDriverGetVersion(&driver));
  cudaDeviceProp all{};
  UNMASK_CUDA_CALL(cudaGetDeviceProperties(&all, device));
  std::array<char, 32> bus{};
  UNMASK_CUDA_CALL(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device));
  return {
      std::string(all.name) + " of " + std::to_string(all.multiProcessorCount) + " multiprocessors",
      std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10),
      nccl_version_text(nccl().version), bus.data(), machine_id()};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

constexpr char problem_mark = '!';

// One rank's end of the lines between all GPUs of a group.
class joined_gpu {
 public:
  explicit joined_gpu(rank_group& group);
  ~joined_gpu() {
    alive().erase(std::find(alive().begin(), alive().end(), this));
    abort();
  }
  joined_gpu(const joined_gpu&) = delete;
  joined_gpu& operator=(const joined_gpu&) = delete;

  void gather(const void* from, std::size_t bytes, void* all, cudaStream_t stream) {
    settle(nccl().ncclAllGather(from, all, bytes, nccl_byte, communicator_, stream),
           "ncclAllGather" + of_next_move());
  }
  // Each rank sends all their stretches, itself too, in one group: alone, a call would wait for its
  // counterpart, which comes behind it.
  void deal(const void* from, std::size_t bytes, std::size_t stretch, void* all,
            cudaStream_t stream);
  // Throws rank_failure if NCCL has failed; the others after `waited` seconds of waiting.
  void look_around(double waited) {
    check();
    if (communicator_ != nullptr) look_for(waited, "");
  }
  void check() {
    if (communicator_ == nullptr) return;  // it was told, and nothing of it is under way
    int status = nccl_success;
    if (nccl().ncclCommGetAsyncError(communicator_, &status) != nccl_success ||
        (status != nccl_success && status != nccl_in_progress)) {
      fail("move " + std::to_string(group_.moves_on_device()) + " or one before it", status);
    }
  }
  static std::vector<joined_gpu*>& alive() {
    static auto* all = new std::vector<joined_gpu*>;
    return *all;
  }

 private:
  std::string of_next_move() const {
    return " of move " + std::to_string(group_.moves_on_device() + 1);
  }
  void look_for(double waited, const std::string& call) {
    try {
      group_.look_around(waited, call);
    } catch (...) {
      abort();  // else the stream would wait for ever
      throw;
    }
  }
  std::vector<std::string> told_by_all();
  void compare(const std::vector<std::string>& told) const;
  void connect();
  // Waits while the call is under way.
  void settle(int status, const std::string& call) {
    const auto start = seconds_clock::now();
    auto looked = start;
    while (status == nccl_in_progress) {
      if (nccl().ncclCommGetAsyncError(communicator_, &status) != nccl_success) break;
      std::this_thread::yield();
      if (status != nccl_in_progress || seconds_since(looked) < seconds_of_slice) continue;
      looked = seconds_clock::now();
      look_for(seconds_since(start), call);
    }
    if (status != nccl_success) fail(call, status);
  }
  [[noreturn]] void fail(const std::string& call, int status) {
    const std::string words =
        "rank " + std::to_string(group_.rank()) + ": " + words_of(call, status, communicator_);
    abort();
    group_.give_up(words);
  }
  void abort() {
    if (communicator_ != nullptr) (void)nccl().ncclCommAbort(std::exchange(communicator_, nullptr));
  }

  rank_group& group_;
  nccl_id id_{};
  nccl_communicator communicator_ = nullptr;
};

// Facts of every rank; a problem of one is that of all, so that nobody waits for it.
std::vector<std::string> joined_gpu::told_by_all() {
  std::string mine;
  try {
    for (const std::string& fact : facts_here()) mine += fact + "\n";
    if (group_.rank() == 0) {
      const int status = nccl().ncclGetUniqueId(&id_);
      if (status != nccl_success) {
        throw environment_error(words_of("ncclGetUniqueId", status, nullptr));
      }
    }
  } catch (const error& problem) {
    mine = problem_mark + std::string(problem.what());
  }
  std::vector<std::string> told = group_.gather(mine);
  for (std::size_t r = 0; r < told.size(); ++r) {
    if (!told[r].empty() && told[r][0] == problem_mark) {
      throw environment_error("rank " + std::to_string(r) + ": " + told[r].substr(1));
    }
  }
  return told;
}

void joined_gpu::compare(const std::vector<std::string>& told) const {
  constexpr std::size_t place = equal_facts.size();
  std::vector<std::vector<std::string>> all;
  for (const std::string& text : told) all.push_back(lines_of(text));
  for (std::size_t r = 1; r < all.size(); ++r) {
    for (std::size_t i = 0; i < place; ++i) {
      if (all[r].at(i) == all[0].at(i)) continue;
      throw environment_error("rank " + std::to_string(r) + " has another " + equal_facts[i] +
                              " than rank 0 (" + all[r].at(i) + ", not " + all[0].at(i) +
                              "): what ranks repeat has equal bits on equal ones only");
    }
    for (std::size_t before = 0; before < r; ++before) {
      const bool on_another = all[r].at(place + 1) != all[before].at(place + 1);
      if (on_another || all[r].at(place) != all[before].at(place)) continue;
      throw environment_error("ranks " + std::to_string(before) + " and " + std::to_string(r) +
                              " have the same GPU, " + all[r].at(place) +
                              ": each needs one of its own, the only one in its "
                              "CUDA_VISIBLE_DEVICES");
    }
  }
}

void joined_gpu::connect() {
  nccl_config config;
  const int status =
      nccl().ncclCommInitRankConfig(&communicator_, group_.size(), id_, group_.rank(), &config);
  settle(status, "ncclCommInitRankConfig of " + std::to_string(group_.size()) + " ranks");
}

void joined_gpu::deal(const void* from, std::size_t bytes, std::size_t stretch, void* all,
                      cudaStream_t stream) {
  const auto bytes_of = [&](int rank) {
    return std::min(bytes, stretch * static_cast<std::size_t>(rank + 1)) -
           std::min(bytes, stretch * static_cast<std::size_t>(rank));
  };
  std::string failed;
  int status = nccl_success;
  const auto note = [&](const char* call, int said) {
    if (status != nccl_success || said == nccl_success || said == nccl_in_progress) return;
    status = said;
    failed = call;
  };
  note("ncclGroupStart", nccl().ncclGroupStart());
  const std::size_t mine = bytes_of(group_.rank());
  for (int r = 0; r < group_.size() && status == nccl_success; ++r) {
    const std::size_t at = stretch * static_cast<std::size_t>(r), theirs = bytes_of(r);
    if (theirs > 0) {  // an empty stretch does not travel
      note("ncclSend", nccl().ncclSend(static_cast<const char*>(from) + at, theirs, nccl_byte, r,
                                       communicator_, stream));
    }
    if (mine > 0) {
      note("ncclRecv", nccl().ncclRecv(static_cast<char*>(all) + at, mine, nccl_byte, r,
                                       communicator_, stream));
    }
  }
  const int end = nccl().ncclGroupEnd();  // also if a call failed: groups are the thread's
  if (status != nccl_success) fail(failed + of_next_move(), status);
  settle(end, "ncclGroupEnd" + of_next_move());
}

joined_gpu::joined_gpu(rank_group& group) : group_(group) {
  compare(told_by_all());
  group.from_first(&id_, sizeof id_);
  connect();
  alive().push_back(this);
}

joined_gpu& gpu_of(rank_group& group) {
  if (group.of_device() == nullptr) group.of_device() = std::make_shared<joined_gpu>(group);
  return *static_cast<joined_gpu*>(group.of_device().get());
}

recorded_moves& noted() {
  static recorded_moves moves;
  return moves;
}

// A move that brings `received` bytes, now or whenever its recording is repeated.
template <class F>
void counted_move(rank_group& group, std::uint64_t received, bool recorded, const F& move) {
  if (!recorded) {
    const telling heard(group, received);
    move();
    group.count_on_device(1, received);
    return;
  }
  move();
  noted().group = &group;
  ++noted().calls;
  noted().bytes += received;
}

}  // namespace

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

const nccl_functions& nccl() {
  static const nccl_functions functions = open_functions();
  return functions;
}

void require_rank_library() {
  (void)nccl();
}
std::string rank_library_version() {
  return nccl_version_text(nccl().version);
}

void gather_by_nccl(rank_group& group, const void* from, std::size_t bytes, void* all,
                    cudaStream_t stream, bool recorded) {
  const std::uint64_t received = bytes * static_cast<std::size_t>(group.size() - 1);
  counted_move(group, received, recorded, [&] { gpu_of(group).gather(from, bytes, all, stream); });
}

void deal_by_nccl(rank_group& group, const void* from, std::size_t bytes, std::size_t stretch,
                  void* all, cudaStream_t stream, bool recorded) {
  const std::size_t first = std::min(bytes, stretch * static_cast<std::size_t>(group.rank()));
  const std::uint64_t received =
      (std::min(bytes, first + stretch) - first) * static_cast<std::size_t>(group.size() - 1);
  counted_move(group, received, recorded,
               [&] { gpu_of(group).deal(from, bytes, stretch, all, stream); });
}

recorded_moves take_recorded_moves() {
  return std::exchange(noted(), {});
}

void count_recorded(const recorded_moves& moves) {
  if (moves.group != nullptr) moves.group->count_on_device(moves.calls, moves.bytes);
}

void wait_for_stream(cudaStream_t stream) {
  if (joined_gpu::alive().empty()) {
    UNMASK_CUDA_CALL(cudaStreamSynchronize(stream));
    return;
  }
  const auto start = seconds_clock::now();
  auto looked = start;
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) {
      for (joined_gpu* gpu : joined_gpu::alive()) gpu->check();
      return;
    }
    if (status != cudaErrorNotReady) UNMASK_CUDA_CALL(status);
    if (seconds_since(looked) < seconds_of_slice) continue;
    looked = seconds_clock::now();
    for (joined_gpu* gpu : joined_gpu::alive()) gpu->look_around(seconds_since(start));
  }
}

}  // namespace unmask::cuda
