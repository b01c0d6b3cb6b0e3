// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/ranks/launch.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <map>
#include <utility>
#include <vector>

#include "harness/base/process.h"
#include "tests/support.h"

namespace unmask {
namespace {

using variables = std::map<std::string, std::string>;

std::optional<rank_place> place_in(const variables& set) {
  return launched_place([&](const char* name) {
    const auto at = set.find(name);
    return at == set.end() ? nullptr : at->second.c_str();
  });
}
std::string refusal_of(const variables& set) {
  return test::message_of([&] { place_in(set); });
}

const variables torchrun = {{"RANK", "1"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "1"},
                            {"MASTER_PORT", "7"},
                            {"LOCAL_WORLD_SIZE", "4"}},
                mpirun = {{"OMPI_COMM_WORLD_RANK", "2"},
                          {"OMPI_COMM_WORLD_SIZE", "3"},
                          {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}},
                mpiexec = {{"PMI_RANK", "0"},
                           {"PMI_SIZE", "2"},
                           {"MPI_LOCALRANKID", "0"},
                           {"MPI_LOCALNRANKS", "2"}},
                srun = {{"SLURM_PROCID", "7"},
                        {"SLURM_STEP_NUM_TASKS", "8"},
                        {"SLURM_LOCALID", "7"},
                        {"SLURM_JOB_ID", "42"},
                        {"SLURM_STEP_ID", "3"}};

variables with(variables all, const variables& more) {
  for (const auto& [name, value] : more) all[name] = value;
  return all;
}
variables without(variables all, const std::string& name) {
  all.erase(name);
  return all;
}

// The one of its number among those that the starting process sees.
TEST(launch, a_rank_that_is_started_sees_one_gpu) {
  const auto of = [](int rank, const variables& set) {
    return gpus_of_rank(rank, [&](const char* name) {
      const auto at = set.find(name);
      return at == set.end() ? nullptr : at->second.c_str();
    });
  };
  EXPECT_EQ(of(1, {}), "1");
  EXPECT_EQ(of(3, {}), "3");
  const variables some = {{"CUDA_VISIBLE_DEVICES", "4,GPU-8f3c,2"}};
  EXPECT_EQ(of(0, some), "4");
  EXPECT_EQ(of(1, some), "GPU-8f3c");
  EXPECT_EQ(of(2, some), "2");
  EXPECT_EQ(of(3, some), "");
  EXPECT_EQ(of(1, {{"CUDA_VISIBLE_DEVICES", ""}}), "");
}

TEST(launch, each_launcher_says_where_a_rank_is) {
  const auto of = [](const variables& set) {
    const rank_place p = place_in(set).value();
    return p.launcher + " " + std::to_string(p.rank) + "/" + std::to_string(p.ranks) + " " +
           std::to_string(p.local_rank) + " " + p.key;
  };
  const std::string parent = "parent-" + std::to_string(::getppid());
  EXPECT_EQ(of(torchrun), "torchrun 1/4 1 7");
  EXPECT_EQ(of(mpirun), "mpirun 2/3 2 " + parent);
  EXPECT_EQ(of(mpiexec), "mpiexec 0/2 0 " + parent);
  EXPECT_EQ(of(srun), "srun 7/8 7 slurm-42.3");
  // The first complete set counts, whatever another launcher around it has set.
  EXPECT_EQ(of(with(srun, mpirun)), "mpirun 2/3 2 " + parent);
  EXPECT_EQ(of(with(srun, {{"PMI_RANK", "7"}, {"PMI_SIZE", "8"}})), "srun 7/8 7 slurm-42.3");
  EXPECT_EQ(of(with(srun, {{"UNMASK_RANKS_KEY", "mine"}})), "srun 7/8 7 mine");
  EXPECT_EQ(command_for(*place_in(srun), 4), "srun --ntasks=4");
  EXPECT_EQ(command_for(*place_in(torchrun), 2), "torchrun --no-python --nproc-per-node=2");
}

// A batch script waits for nobody: srun alone says how many tasks a step has.
TEST(launch, one_process_is_no_launch) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"}}));
  EXPECT_FALSE(place_in(
      with(torchrun,
           {{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "1"}})));
}

TEST(launch, what_is_no_place_is_a_sentence) {
  EXPECT_EQ(refusal_of(without(torchrun, "WORLD_SIZE")),
            "ranks: LOCAL_WORLD_SIZE is set as torchrun sets it, but WORLD_SIZE is not: start all "
            "ranks by torchrun, or unset it");
  EXPECT_EQ(refusal_of({{"OMPI_COMM_WORLD_RANK", "0"}}),
            "ranks: OMPI_COMM_WORLD_RANK is set as mpirun sets it, but OMPI_COMM_WORLD_SIZE, "
            "OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE is not: start all ranks by "
            "mpirun, or unset it");
  EXPECT_EQ(refusal_of(with(torchrun, {{"RANK", "4"}})), "RANK is '4' but must be from 0 to 3");
  EXPECT_EQ(refusal_of(with(srun, {{"SLURM_STEP_NUM_TASKS", "all"}})),
            "SLURM_STEP_NUM_TASKS is 'all' but must be from 1 to 1048576");
}

const variables mpirun_on_two = with(mpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
                srun_on_two = with(srun, {{"SLURM_PROCID", "0"},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_STEP_NUM_NODES", "2"},
                                          {"SLURM_STEP_NODELIST", "node[3-4]"}});

// Where rank 0 is: what MASTER_* says, else what Slurm does.
TEST(launch, ranks_on_several_machines_have_an_address) {
  const auto of = [](const variables& set) {
    const rank_place p = place_in(set).value();
    return p.address + " " + std::to_string(p.port) + " " + std::to_string(p.local_ranks);
  };
  EXPECT_EQ(of(torchrun), " 0 4");  // on one
  EXPECT_EQ(of(srun), " 0 8");
  const variables address = {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  const variables torchrun_on_two = with(with(torchrun, {{"LOCAL_WORLD_SIZE", "2"}}), address);
  EXPECT_EQ(of(torchrun_on_two), "node1 29500 2");
  // torchrun listens there itself, as it says.
  EXPECT_EQ(of(with(torchrun_on_two, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}})), "node1 29501 2");
  EXPECT_EQ(of(with(torchrun_on_two, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})),
            "node1 29500 2");
  EXPECT_EQ(of(with(mpirun_on_two, address)), "node1 29500 2");
  EXPECT_EQ(of(with(with(mpiexec, {{"MPI_LOCALNRANKS", "1"}}), address)), "node1 29500 1");
  EXPECT_EQ(of(srun_on_two), "node3 20042 4");
  EXPECT_EQ(of(with(srun_on_two, {{"SLURM_JOB_ID", "1234567"}})), "node3 34567 4");
  EXPECT_EQ(of(with(srun_on_two, address)), "node1 29500 4");
  // Without a number of nodes, one that is not the first of its machine shows that there are several.
  EXPECT_EQ(of(with(srun, {{"SLURM_LOCALID", "3"}, {"SLURM_STEP_NODELIST", "gpu7,gpu9"}})),
            "gpu7 20042 8");
  EXPECT_EQ(place_in(srun_on_two)->key, "slurm-42.3");
}

TEST(launch, the_first_machine_of_a_list_is_that_of_rank_0) {
  for (const auto& [list, first] :
       std::vector<std::pair<std::string, std::string>>{{"node1", "node1"},
                                                        {"node1,node2", "node1"},
                                                        {"node[3-5,9],gpu1", "node3"},
                                                        {"node[007,009-012]", "node007"},
                                                        {"rack[1-2]node[4-6]", "rack1node4"},
                                                        {"node[8]-ib,other", "node8-ib"},
                                                        {"node[3", "node3"},
                                                        {"", ""}}) {
    EXPECT_EQ(first_machine(list), first) << list;
  }
}

TEST(launch, half_an_address_is_a_sentence) {
  EXPECT_EQ(refusal_of(mpirun_on_two),
            "ranks: mpirun started 3 ranks on several machines (OMPI_COMM_WORLD_LOCAL_SIZE), and "
            "MASTER_ADDR, MASTER_PORT are not set: MASTER_ADDR and MASTER_PORT say where rank 0 is "
            "to listen");
  EXPECT_EQ(refusal_of(with(mpirun_on_two, {{"MASTER_PORT", "29500"}})),
            "ranks: mpirun started 3 ranks on several machines (OMPI_COMM_WORLD_LOCAL_SIZE), and "
            "MASTER_ADDR is not set: MASTER_ADDR and MASTER_PORT say where rank 0 is to listen");
  EXPECT_EQ(refusal_of(without(without(srun_on_two, "SLURM_STEP_NODELIST"), "SLURM_JOB_ID")),
            "ranks: srun started 8 ranks on several machines (SLURM_LOCALID), and MASTER_ADDR, "
            "MASTER_PORT are not set: MASTER_ADDR and MASTER_PORT say where rank 0 is to listen");
  EXPECT_EQ(refusal_of(with(mpirun_on_two, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "0"}})),
            "MASTER_PORT is '0' but must be from 1 to 65535");
  EXPECT_EQ(refusal_of(with(mpirun_on_two, {{"MASTER_ADDR", "node1"},
                                            {"MASTER_PORT", "65535"},
                                            {"TORCHELASTIC_USE_AGENT_STORE", "True"}})),
            "MASTER_PORT is '65535' but must be from 1 to 65534");
}

// A process that has ended and was waited for.
int ended_process() {
  child_process gone({"true"}, "/dev/null", "/dev/null");
  const int process = static_cast<int>(gone.pid());
  gone.let_end(5);
  return process;
}

TEST(launch, a_note_leads_to_the_memory_and_goes_with_its_run) {
  const std::string key = "test/" + std::to_string(::getpid()), file = note_file(key);
  EXPECT_EQ(file.find('/', std::string("/dev/shm/").size()), std::string::npos);
  const auto memory = rank_memory::create(3);
  {
    // What a run that was killed left behind is replaced.
    std::ofstream(file) << ended_process() << " /proc/1/fd/3\n";
    const rank_note note(key, *memory);
    EXPECT_EQ(noted_memory(key, 1)->ranks(), 3);
  }
  EXPECT_FALSE(std::ifstream(file).good());
}

TEST(launch, a_stale_note_is_a_sentence) {
  const std::string key = "stale-" + std::to_string(::getpid()), file = note_file(key);
  const auto memory = rank_memory::create(2);
  EXPECT_EQ(test::message_of([&] { noted_memory(key, 0.05); }),
            "ranks: rank 0 did not start within 0.05 s: " + file + " is not there");
  const std::string gone = std::to_string(ended_process());
  std::ofstream(file) << gone << " /proc/" << gone << "/fd/3\n";
  EXPECT_EQ(test::message_of([&] { noted_memory(key, 0.05); }),
            "ranks: rank 0 did not start within 0.05 s: " + file + " is of process " + gone +
                ", which has ended");
  const std::string parent = std::to_string(::getppid());
  std::ofstream(file) << parent << " /proc/" << parent << "/fd/3\n";
  EXPECT_EQ(test::message_of([&] { const rank_note second(key, *memory); }),
            "ranks: " + file + " is of process " + parent +
                ", which runs: another run has this key; UNMASK_RANKS_KEY names one");
  ::unlink(file.c_str());
}

}  // namespace
}  // namespace unmask
