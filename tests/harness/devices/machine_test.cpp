// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "harness/base/files.h"
#include "harness/devices/cgroup.h"
#include "harness/devices/environment.h"
#include "harness/devices/machine_use.h"

namespace unmask {
namespace {

// A root of files as the kernel shows them; only what a case needs.
class made_root {
 public:
  void put(const std::string& file, const std::string& text) {
    write_file(folder_.path() / file, text);
  }
  cgroup_limits limits() const { return read_cgroup_limits(folder_.path()); }
  std::filesystem::path path() const { return folder_.path(); }

 private:
  scratch_folder folder_;
};

constexpr const char* version_1 =
    "30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
constexpr const char* version_2 = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

TEST(cgroup, a_quota_of_version_1_is_that_of_the_process_own_group) {
  made_root root;
  root.put("proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/unmask_case\n0::/\n");
  root.put("proc/self/mountinfo", version_1);
  root.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/unmask_case/cpu.cfs_quota_us", "20000\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/unmask_case/cpu.cfs_period_us", "100000\n");
  root.put("sys/fs/cgroup/cpu,cpuacct/unmask_case/cpu.stat",
           "nr_periods 172\nnr_throttled 59\nthrottled_time 1900000000\n");
  root.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  const cgroup_limits found = root.limits();
  EXPECT_DOUBLE_EQ(found.cpus, 0.2);
  EXPECT_DOUBLE_EQ(found.period_seconds, 0.1);
  EXPECT_EQ(throttled_periods(found.cpu_stat), 59);
  EXPECT_EQ(found.memory_bytes, 1073741824U);
}

// systemd-run --scope, or a step of a Slurm job: the limit is of a group above that of the process.
TEST(cgroup, a_limit_of_any_group_above_counts_and_the_smallest_wins) {
  made_root root;
  root.put("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n");
  root.put("proc/self/mountinfo", version_2);
  const std::string job = "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/";
  root.put(job + "cpu.max", "150000 50000\n");
  root.put(job + "memory.max", "4294967296\n");
  root.put(job + "step_0/cpu.max", "max 100000\n");
  root.put(job + "step_0/memory.max", "max\n");
  root.put(job + "step_0/user/task_0/cpu.max", "400000 100000\n");
  root.put(job + "step_0/user/task_0/memory.max", "8589934592\n");
  const cgroup_limits found = root.limits();
  EXPECT_DOUBLE_EQ(found.cpus, 3);
  EXPECT_DOUBLE_EQ(found.period_seconds, 0.05);
  EXPECT_EQ(found.cpu_stat, root.path() / (job + "cpu.stat"));
  EXPECT_EQ(found.memory_bytes, 4294967296U);
}

TEST(cgroup, a_container_sees_its_own_group_as_the_root) {
  made_root own;  // with a namespace of its own
  own.put("proc/self/cgroup", "0::/\n");
  own.put("proc/self/mountinfo", version_2);
  own.put("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_DOUBLE_EQ(own.limits().cpus, 2);
  made_root bound;  // without one, and with its group mounted as the root
  bound.put("proc/self/cgroup", "2:cpu,cpuacct:/docker/abc\n");
  bound.put("proc/self/mountinfo",
            "30 24 0:26 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n");
  bound.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  bound.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(bound.limits().cpus, 0.5);
}

TEST(cgroup, no_limit_and_no_files_are_no_limit) {
  made_root root;
  EXPECT_EQ(root.limits().cpus, 0);
  root.put("proc/self/cgroup", "0::/../../elsewhere\nodd\n::\n");
  root.put("proc/self/mountinfo", std::string(version_2) + "odd - \n - cgroup2\n");
  root.put("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(root.limits().cpus, 0);
  EXPECT_EQ(root.limits().memory_bytes, 0U);
  EXPECT_EQ(throttled_periods(root.path() / "none"), 0);
}

machine_use use_of(double seconds, double own, double other) {
  return {.seconds = seconds,
          .own_seconds = own,
          .other_seconds = other,
          .processors = 2,
          .threads = 2};
}

// The three cases that were measured on two cores: quiet 0.89 of both threads' time, 0.50 next to one
// process that spins, and 2 of 8 s of a process that was stopped.
TEST(machine_use, a_disturbance_is_told_from_a_quiet_machine) {
  EXPECT_EQ(disturbance(use_of(10, 0.89 * 20, 0.2), false), "");
  EXPECT_EQ(disturbance(use_of(10, 10, 9.6), false),
            "other work on the machine took about 50 % of the processors");
  const std::string stopped = disturbance(use_of(8, 0.89 * 4, 0.1), false);
  EXPECT_NE(stopped.find("had about 20 % of its threads' time"), std::string::npos) << stopped;
  EXPECT_EQ(disturbance(use_of(8, 0.89 * 4, 0.1), true), "") << "it waits for a GPU";
  // Idle time has steps of 10 ms: of 0.1 s it says nothing, the process's own time does.
  EXPECT_EQ(disturbance(use_of(0.1, 0.17, 0.03), false), "");
  EXPECT_NE(disturbance(use_of(0.1, 0.1, 0.1), false), "");
  EXPECT_EQ(disturbance({}, false), "") << "nothing was watched";
  // Sixteen threads, of which a small model keeps four busy: nobody else had the processors.
  machine_use wide = use_of(10, 40, 1);
  wide.processors = wide.threads = 16;
  EXPECT_EQ(disturbance(wide, false), "");
  wide.own_seconds = 5;  // not even one thread ran all the time
  EXPECT_NE(disturbance(wide, false), "");
  machine_use throttled = use_of(10, 17, 0);
  throttled.throttled_seconds = 5.9;
  EXPECT_EQ(disturbance(throttled, false),
            "a CPU quota stopped the process in about 60 % of the time");
}

// Nine quiet passes and a stopped one are one span.
TEST(machine_use, spans_add_up) {
  machine_use all;
  for (int i = 0; i < 9; ++i) all += use_of(1, 1.78, 0.02);
  all += use_of(26.1, 1.78, 0.5);
  EXPECT_DOUBLE_EQ(all.seconds, 35.1);
  EXPECT_NEAR(all.own_share(), 17.8 / 70.2, 1e-12);
  EXPECT_NE(disturbance(all, false), "");
}

// A child that spins while this process sleeps: its processor time by wait4() is other work.
TEST(machine_use, another_process_is_seen) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (std::atomic<unsigned long> i = 0;; ++i) {
    }
  }
  const machine_watch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  const machine_use use = watch.stop();
  ::kill(child, SIGKILL);
  rusage of_child{};
  int status = 0;
  ASSERT_EQ(::wait4(child, &status, 0, &of_child), child);
  if (!std::isfinite(use.other_seconds)) GTEST_SKIP() << "NOT RUN: needs /proc/stat by processor";
  const double spun = static_cast<double>(of_child.ru_utime.tv_sec) +
                      1e-6 * static_cast<double>(of_child.ru_utime.tv_usec);
  EXPECT_GE(use.other_seconds, spun - 0.1);
  EXPECT_LT(use.own_seconds, 0.1);
  EXPECT_GE(use.seconds, 0.6);
}

TEST(machine_use, the_own_time_is_that_of_all_threads) {
  const machine_watch watch;
  std::thread worker([] {
    const std::clock_t begin =
        std::clock();  // of the whole process, which has no other thread at work
    while (std::clock() - begin < CLOCKS_PER_SEC / 5) {
    }
  });
  worker.join();
  EXPECT_GE(watch.stop().own_seconds, 0.199);
}

}  // namespace
}  // namespace unmask
