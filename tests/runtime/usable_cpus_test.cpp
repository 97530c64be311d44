// How many CPUs a quota is worth, read from folders that look like the /proc and /sys of machines and containers.
#include "runtime/process/usable_cpus.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace {

using namespace metac_runtime;

struct Machine {
  const char* what;
  std::map<std::string, std::string> files;
  int64_t granted;
};

const Machine machines[] = {
    {"nothing to read", {}, 0},
    {"v2, no quota", {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "max 100000\n"}}, 0},
    {"v2, a container of its own", {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}, 2},
    {"v2, a part of a CPU counts as one",
     {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "50000 100000\n"}},
     1},
    {"v2, one and a half", {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "150000 100000\n"}}, 2},
    {"v2, the least of the group and those above it",
     {{"/proc/self/cgroup", "0::/a.slice/b.scope\n"},
      {"/sys/fs/cgroup/a.slice/b.scope/cpu.max", "800000 100000\n"},
      {"/sys/fs/cgroup/a.slice/cpu.max", "300000 100000\n"}},
     3},
    {"v2, a host's path whose levels the container does not see",
     {{"/proc/self/cgroup", "0::/docker/0123/x\n"}, {"/sys/fs/cgroup/cpu.max", "400000 100000\n"}},
     4},
    {"v1",
     {{"/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/x\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "250000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"}},
     3},
    {"v1, no quota",
     {{"/proc/self/cgroup", "1:cpu:/\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     0},
    {"v1, a host's path",
     {{"/proc/self/cgroup", "3:cpuacct,cpu:/docker/0123\n"},
      {"/sys/fs/cgroup/cpuacct,cpu/cpu.cfs_quota_us", "100000\n"},
      {"/sys/fs/cgroup/cpuacct,cpu/cpu.cfs_period_us", "50000\n"}},
     2},
    {"both hierarchies",
     {{"/proc/self/cgroup", "1:cpu:/\n0::/\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "500000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/unified/cpu.max", "max 100000\n"}},
     5},
    {"cpuset is not cpu",
     {{"/proc/self/cgroup", "1:cpuset:/\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     0},
    {"nonsense",
     {{"/proc/self/cgroup", "\n::\n0:\n0::\n1:cpu\n0::/" + std::string(3000, 'x') + "\n"},
      {"/sys/fs/cgroup/cpu.max", "-3 zero\n"}},
     0},
};

TEST(UsableCpus, AreThoseThatTheQuotaGrants) {
  for (const Machine& machine : machines) {
    std::string root = testing::TempDir() + "metac-cpus-XXXXXX";
    ASSERT_NE(mkdtemp(root.data()), nullptr);
    for (const auto& [path, text] : machine.files) {
      std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
      std::ofstream(root + path) << text;
    }
    EXPECT_EQ(granted_cpus(root.c_str()), machine.granted) << machine.what;
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    const int64_t bound = CPU_COUNT(&set);
    EXPECT_EQ(usable_cpus(root.c_str()), machine.granted > 0 ? std::min(machine.granted, bound) : bound) << machine.what;
    std::filesystem::remove_all(root);
  }
}

}  // namespace
