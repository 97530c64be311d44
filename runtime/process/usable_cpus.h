// How many threads are worth starting: the CPUs that the process may run on, or as many as the CPU time that control groups
// (containers, service managers) grant it would keep busy, whichever are fewer.
#pragma once
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

// The first line of a file below `root`; false: there is none.
inline bool read_first_line(const char* root, const char* path, char* line, int size) {
  char whole[4096];
  if (std::snprintf(whole, sizeof whole, "%s%s", root, path) >= static_cast<int>(sizeof whole)) return false;
  FILE* const file = std::fopen(whole, "re");
  if (file == nullptr) return false;
  const bool read = std::fgets(line, size, file) != nullptr;
  std::fclose(file);
  return read;
}

// The CPUs that a group's quota is worth, the last one in part; 0: it has none. `version` is that of the hierarchy.
inline int64_t cpus_of_group(const char* root, const char* group, int version) {
  char path[2048], line[128] = "";
  long long quota = 0, period = 0;
  if (version == 2) {
    std::snprintf(path, sizeof path, "%s/cpu.max", group);  // "200000 100000", "max 100000"
    if (!read_first_line(root, path, line, sizeof line) || std::sscanf(line, "%lld %lld", &quota, &period) != 2) return 0;
  } else {
    std::snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", group);  // -1: none
    if (!read_first_line(root, path, line, sizeof line) || std::sscanf(line, "%lld", &quota) != 1) return 0;
    std::snprintf(path, sizeof path, "%s/cpu.cfs_period_us", group);
    if (!read_first_line(root, path, line, sizeof line) || std::sscanf(line, "%lld", &period) != 1) return 0;
  }
  if (quota <= 0 || period <= 0) return 0;
  return quota / period + (quota % period != 0);
}

// The least that any group from `group` (absolute, below one of the places where a hierarchy is mounted) up to the root
// grants; 0: no quota. A container may see its host's path while its own group is mounted as the root: levels that are not
// there are passed over.
inline int64_t cpus_of_hierarchy(const char* root, const char* mount, const char* group, int version) {
  char path[1536];
  int64_t least = 0;
  if (std::snprintf(path, sizeof path, "%s%s", mount, group) >= static_cast<int>(sizeof path))
    std::snprintf(path, sizeof path, "%s", mount);
  for (size_t top = std::strlen(mount);;) {
    size_t length = std::strlen(path);
    while (length > top && path[length - 1] == '/') path[--length] = 0;
    const int64_t cpus = cpus_of_group(root, path, version);
    if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
    if (length <= top) return least;
    *std::strrchr(path, '/') = 0;
  }
}

// What the control groups of this process grant in CPUs; 0: all. `root` stands before every path that is read: a folder in
// tests.
inline int64_t granted_cpus(const char* root = "") {
  char path[64 + 4096];
  if (std::snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= static_cast<int>(sizeof path)) return 0;
  FILE* const groups = std::fopen(path, "re");
  if (groups == nullptr) return 0;
  int64_t least = 0;
  char line[2048];
  while (std::fgets(line, sizeof line, groups) != nullptr) {  // "0::/group", "4:cpu,cpuacct:/group"
    line[std::strcspn(line, "\n")] = 0;
    char* const controllers = std::strchr(line, ':');
    char* const group = controllers != nullptr ? std::strchr(controllers + 1, ':') : nullptr;
    if (group == nullptr) continue;
    *group = 0;
    const bool unified = std::strcmp(line, "0:") == 0;
    bool cpu = false;
    for (const char* name = controllers + 1; name != nullptr && !cpu; name = std::strchr(name, ',')) {
      name += *name == ',';
      cpu = std::strncmp(name, "cpu", 3) == 0 && (name[3] == 0 || name[3] == ',');
    }
    if (!unified && !cpu) continue;
    static const char* const first_mounts[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct",
                                               "/sys/fs/cgroup/cpuacct,cpu"};
    static const char* const second_mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    const char* const* const mounts = unified ? second_mounts : first_mounts;
    for (int k = 0; k < (unified ? 2 : 3); ++k) {
      const int64_t cpus = cpus_of_hierarchy(root, mounts[k], group + 1, unified ? 2 : 1);
      if (cpus > 0 && (least == 0 || cpus < least)) least = cpus;
    }
  }
  std::fclose(groups);
  return least;
}

// How many CPUs this process may use, quotas included; at least 1.
inline int32_t usable_cpus(const char* root = "") {
  cpu_set_t set;
  CPU_ZERO(&set);
  int64_t cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const int64_t granted = granted_cpus(root);
  if (granted > 0 && granted < cpus) cpus = granted;
  return cpus > 0 ? static_cast<int32_t>(cpus) : 1;
}

}  // namespace METAC_RUNTIME_NAMESPACE
