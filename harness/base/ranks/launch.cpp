// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/launch.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/process.h"
#include "harness/base/ranks/tcp.h"
#include "harness/base/ranks/words.h"

namespace unmask {
namespace {

struct launcher {
  const char *name, *rank, *ranks, *local_rank, *local_ranks;  // local_ranks null: it does not say
  const char* machines;  // says how many; null: local_ranks does
  const char* command;   // in front of the number of ranks
};
constexpr std::array<launcher, 4> launchers = {
    {{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr,
      "torchrun --no-python --nproc-per-node="},
     {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr, "mpirun -n "},
     {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr,
      "mpiexec -n "},
     {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
      "SLURM_STEP_NUM_NODES", "srun --ntasks="}}};

std::vector<const char*> variables_of(const launcher& l) {
  std::vector<const char*> all = {l.rank, l.ranks, l.local_rank};
  if (l.local_ranks != nullptr) all.push_back(l.local_ranks);
  return all;
}

// Variables of a launcher that are not set.
std::vector<std::string> missing_of(const launcher& l, const variable_reader& variable) {
  std::vector<std::string> missing;
  for (const char* name : variables_of(l)) {
    if (variable(name) == nullptr) missing.emplace_back(name);
  }
  return missing;
}

int number_in(const char* name, const variable_reader& variable, int least, int most) {
  const std::string text = variable(name);
  int number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || number < least ||
      number > most) {
    throw usage_error(std::string(name) + " is '" + text + "' but must be from " +
                      std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

std::string key_of(const launcher& l, const variable_reader& variable) {
  for (const char* name : {"UNMASK_RANKS_KEY", "MASTER_PORT"}) {
    if (const char* given = variable(name); given != nullptr && *given != '\0') return given;
  }
  const char *job = variable("SLURM_JOB_ID"), *step = variable("SLURM_STEP_ID");
  if (std::string(l.name) == "srun" && job != nullptr && step != nullptr) {
    return std::string("slurm-") + job + "." + step;
  }
  return "parent-" + std::to_string(::getppid());
}

// ---- several machines ----

bool is_set(const char* name, const variable_reader& variable) {
  const char* given = variable(name);
  return given != nullptr && *given != '\0';
}

constexpr int highest_port = 65535;

// torchrun itself listens at MASTER_PORT if it says so; rank 0 then has the next one.
int master_port(const variable_reader& variable) {
  const char* agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  const int above = agent != nullptr && std::string(agent) == "True" ? 1 : 0;
  return number_in("MASTER_PORT", variable, 1, highest_port - above) + above;
}

// Slurm says where a step is; of every job the port is another one.
void take_address_of_slurm(rank_place& place, const variable_reader& variable) {
  if (place.address.empty() && is_set("SLURM_STEP_NODELIST", variable)) {
    place.address = first_machine(variable("SLURM_STEP_NODELIST"));
  }
  if (place.port == 0 && is_set("SLURM_JOB_ID", variable)) {
    place.port = 20000 + number_in("SLURM_JOB_ID", variable, 0, INT_MAX) % 20000;
  }
}

void take_address(rank_place& place, const launcher& l, const variable_reader& variable) {
  if (is_set("MASTER_ADDR", variable)) place.address = variable("MASTER_ADDR");
  if (is_set("MASTER_PORT", variable)) place.port = master_port(variable);
  if (place.launcher == "srun") take_address_of_slurm(place, variable);
  std::vector<std::string> missing;
  if (place.address.empty()) missing.emplace_back("MASTER_ADDR");
  if (place.port == 0) missing.emplace_back("MASTER_PORT");
  if (missing.empty()) return;
  throw usage_error("ranks: " + place.launcher + " started " + std::to_string(place.ranks) +
                    " ranks on several machines (" +
                    (l.local_ranks != nullptr ? l.local_ranks : l.local_rank) + "), and " +
                    joined_names(missing) + (missing.size() == 1 ? " is" : " are") +
                    " not set: MASTER_ADDR and MASTER_PORT say where rank 0 is to listen");
}

// Of a launcher that does not say how many ranks are here, their mean.
bool is_on_several(rank_place& place, const launcher& l, const variable_reader& variable) {
  if (place.local_ranks > 0) return place.local_ranks < place.ranks;
  const int machines = l.machines != nullptr && is_set(l.machines, variable)
                           ? number_in(l.machines, variable, 1, 1 << 20)
                           : 1;
  place.local_ranks = (place.ranks + machines - 1) / machines;
  return machines > 1 || place.local_rank != place.rank;
}

rank_place place_of(const launcher& l, const variable_reader& variable) {
  rank_place place{.launcher = l.name, .ranks_variable = l.ranks, .key = key_of(l, variable)};
  place.ranks = number_in(l.ranks, variable, 1, 1 << 20);
  place.rank = number_in(l.rank, variable, 0, place.ranks - 1);
  place.local_ranks =
      l.local_ranks != nullptr ? number_in(l.local_ranks, variable, 1, place.ranks) : 0;
  const int most = place.local_ranks > 0 ? place.local_ranks : place.ranks;
  place.local_rank = number_in(l.local_rank, variable, 0, most - 1);
  if (is_on_several(place, l, variable)) take_address(place, l, variable);
  return place;
}

// A batch script without srun has these too.
bool is_batch_script(const launcher& l, const variable_reader& variable) {
  return std::string(l.name) == "srun" && variable(l.ranks) == nullptr;
}

}  // namespace

std::optional<rank_place> launched_place(const variable_reader& variable) {
  for (const launcher& l : launchers) {
    if (!missing_of(l, variable).empty()) continue;
    const rank_place place = place_of(l, variable);
    if (place.ranks == 1) return std::nullopt;
    return place;
  }
  for (const launcher& l : launchers) {
    const std::vector<std::string> missing = missing_of(l, variable);
    if (missing.size() == variables_of(l).size() || is_batch_script(l, variable)) continue;
    std::string there;
    for (const char* name : variables_of(l)) {
      if (variable(name) != nullptr) there = name;
    }
    throw usage_error("ranks: " + there + " is set as " + l.name + " sets it, but " +
                      joined_names(missing) + " is not: start all ranks by " + l.name +
                      ", or unset it");
  }
  return std::nullopt;
}

bool is_started_rank() {
  return std::getenv(follows_whom) != nullptr || launched_place().has_value();
}

std::optional<rank_place> launched_place() {
  return launched_place([](const char* name) { return std::getenv(name); });
}

std::string gpus_of_rank(int rank, const variable_reader& variable) {
  const char* visible = variable("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return std::to_string(rank);
  std::istringstream all(visible);
  std::string one;
  for (int r = 0; std::getline(all, one, ','); ++r) {
    if (r == rank) return one;
  }
  return "";
}

std::string gpus_of_rank(int rank) {
  return gpus_of_rank(rank, [](const char* name) { return std::getenv(name); });
}

std::string command_for(const rank_place& place, int ranks) {
  for (const launcher& l : launchers) {
    if (place.launcher == l.name) return l.command + std::to_string(ranks);
  }
  return place.launcher;
}

std::string first_machine(const std::string& list) {
  std::string name;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      name += list[i];
      continue;
    }
    const std::size_t end = list.find(']', i), first = list.find_first_of("-,]", i);
    name += list.substr(i + 1, first - i - 1);
    if (end == std::string::npos) break;
    i = end;
  }
  return name;
}

// ---- the note ----

std::string note_file(const std::string& key) {
  std::string name = key;
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '.' || c == '-';
    if (!plain) c = '_';
  }
  return "/dev/shm/unmask-ranks-" + std::to_string(::getuid()) + "-" + name;
}

namespace {

// "PID FILE"; process 0: nothing of that kind is there.
struct note {
  int process = 0;
  std::string memory;
};

note read_note(const std::string& file) {
  std::ifstream in(file);
  note found;
  if (!(in >> found.process)) return {};
  std::getline(in >> std::ws, found.memory);
  return found;
}

}  // namespace

rank_note::rank_note(const std::string& key, const rank_memory& memory) : file_(note_file(key)) {
  const note before = read_note(file_);
  if (before.process != ::getpid() && is_alive(before.process)) {
    throw environment_error("ranks: " + file_ + " is of process " + std::to_string(before.process) +
                            ", which runs: another run has this key; UNMASK_RANKS_KEY names one");
  }
  const std::string fresh = file_ + "." + std::to_string(::getpid());
  const int to = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const std::string text = std::to_string(::getpid()) + " " + memory.file() + "\n";
  const bool written =
      to >= 0 && ::write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (to >= 0) ::close(to);
  if (!written || std::rename(fresh.c_str(), file_.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    ::unlink(fresh.c_str());
    throw environment_error("ranks: cannot write " + file_ + ": " + why);
  }
}

rank_note::~rank_note() {
  if (read_note(file_).process == ::getpid()) ::unlink(file_.c_str());
}

std::shared_ptr<rank_memory> noted_memory(const std::string& key, double patience) {
  using clock = std::chrono::steady_clock;
  const std::string file = note_file(key);
  const auto start = clock::now();
  for (;;) {
    const note found = read_note(file);
    if (is_alive(found.process)) return rank_memory::open(found.memory);
    const double waited = std::chrono::duration<double>(clock::now() - start).count();
    if (patience > 0 && waited >= patience) {
      const std::string why =
          found.process == 0
              ? file + " is not there"
              : file + " is of process " + std::to_string(found.process) + ", which has ended";
      throw environment_error("ranks: rank 0 did not start within " + short_text(patience) +
                              " s: " + why);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// ---- the group ----

namespace {

// Rank 0's end, while the note leads the others to it.
struct noted_ranks {
  explicit noted_ranks(const rank_place& place)
      : noted_ranks(place, rank_memory::create(place.ranks)) {}
  noted_ranks(const rank_place& place, const std::shared_ptr<rank_memory>& memory)
      : group(memory, 0), note(place.key, *memory) {}
  rank_group group;
  rank_note note;
};

std::shared_ptr<rank_group> lead_by_memory(const rank_place& place) {
  const auto all = std::make_shared<noted_ranks>(place);
  rank_group* group = &all->group;
  group->watch([group, by = place.launcher](int rank) -> std::string {
    const int process = group->process(rank);
    if (process == 0 || is_alive(process)) return "";
    return "rank " + std::to_string(rank) + " (process " + std::to_string(process) +
           ") has ended; " + by + " started it";
  });
  return {all, group};
}

std::shared_ptr<rank_group> follow_by_memory(const rank_place& place) {
  const auto group =
      std::make_shared<rank_group>(noted_memory(place.key, ranks_patience()), place.rank);
  if (group->size() != place.ranks) {
    group->give_up("rank " + std::to_string(place.rank) + " is one of " +
                   std::to_string(place.ranks) + " (" + place.ranks_variable + "), and rank 0 of " +
                   std::to_string(group->size()));
  }
  const int first = group->process(0);
  group->watch([first](int rank) -> std::string {
    if (rank != 0 || is_alive(first)) return "";
    return "rank 0 (process " + std::to_string(first) + ") has ended";
  });
  return group;
}

std::shared_ptr<rank_group> join_by_tcp(const rank_place& place) {
  const tcp_job job{.rank = place.rank,
                    .ranks = place.ranks,
                    .ranks_variable = place.ranks_variable,
                    .key = place.key};
  const double patience = ranks_patience();
  if (place.rank > 0) {
    return std::make_shared<rank_group>(
        transport_of_tcp_rank(place.address, place.port, job, patience));
  }
  tcp_listener at(place.address, place.port);
  return std::make_shared<rank_group>(transport_of_tcp_rank_0(std::move(at), job, patience));
}

}  // namespace

std::shared_ptr<rank_group> join_ranks(const rank_place& place) {
  if (!place.on_one_machine()) return join_by_tcp(place);
  return place.rank == 0 ? lead_by_memory(place) : follow_by_memory(place);
}

}  // namespace unmask
