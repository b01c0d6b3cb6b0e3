// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/launch.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/process.h"

namespace unmask {
namespace {

struct launcher {
  const char *name, *rank, *ranks, *local_rank, *local_ranks;  // local_ranks null: it does not say
  const char* command;                                         // in front of the number of ranks
};
constexpr std::array<launcher, 4> launchers = {
    {{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
      "torchrun --no-python --nproc-per-node="},
     {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun -n "},
     {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "mpiexec -n "},
     {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "srun --ntasks="}}};

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

rank_place place_of(const launcher& l, const variable_reader& variable) {
  rank_place place{.launcher = l.name, .ranks_variable = l.ranks, .key = key_of(l, variable)};
  place.ranks = number_in(l.ranks, variable, 1, 1 << 20);
  place.rank = number_in(l.rank, variable, 0, place.ranks - 1);
  place.local_ranks =
      l.local_ranks != nullptr ? number_in(l.local_ranks, variable, 1, place.ranks) : 0;
  const int most = place.local_ranks > 0 ? place.local_ranks : place.ranks;
  place.local_rank = number_in(l.local_rank, variable, 0, most - 1);
  const bool here_alone =
      place.local_ranks == 0 ? place.local_rank == place.rank : place.local_ranks == place.ranks;
  if (!here_alone) {
    throw usage_error("ranks: " + place.launcher + " started " + std::to_string(place.ranks) +
                      " ranks on several machines (" +
                      (l.local_ranks != nullptr ? l.local_ranks : l.local_rank) +
                      "): ranks of a model share the memory of one");
  }
  return place;
}

// A batch script without srun has these too.
bool is_batch_script(const launcher& l, const variable_reader& variable) {
  return std::string(l.name) == "srun" && variable(l.ranks) == nullptr;
}

std::string short_text(double number) {
  char text[32];
  return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "%.4g", number))};
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
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

}  // namespace unmask
