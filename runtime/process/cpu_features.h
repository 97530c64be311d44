// What the processor has and the system lets programs use, by cpuid. The compilers' own __builtin_cpu_supports is no more
// than what the run-time library says that a program is linked with, and zig's says that no processor has anything.
#pragma once
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstring>

#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

struct CpuFeature {
  char name[12];        // as __builtin_cpu_supports spells it
  unsigned leaf, part;  // of cpuid
  int word;             // of its answer: 0 eax, 1 ebx, 2 ecx
  int bit;
  unsigned state;  // registers that the system must keep: 0 those of SSE, which every system keeps; 6 AVX; 0xe6 AVX-512;
                   // 0x600e6 tiles
};

// Those that an instruction set of metac asks for.
constexpr CpuFeature cpu_features[] = {
    {"sse3", 1, 0, 2, 0, 0},           {"ssse3", 1, 0, 2, 9, 0},           {"sse4.1", 1, 0, 2, 19, 0},
    {"sse4.2", 1, 0, 2, 20, 0},        {"popcnt", 1, 0, 2, 23, 0},         {"fma", 1, 0, 2, 12, 6},
    {"avx", 1, 0, 2, 28, 6},           {"bmi", 7, 0, 1, 3, 0},             {"avx2", 7, 0, 1, 5, 6},
    {"bmi2", 7, 0, 1, 8, 0},           {"avx512f", 7, 0, 1, 16, 0xe6},     {"avx512dq", 7, 0, 1, 17, 0xe6},
    {"avx512cd", 7, 0, 1, 28, 0xe6},   {"avx512bw", 7, 0, 1, 30, 0xe6},    {"avx512vl", 7, 0, 1, 31, 0xe6},
    {"avx512vnni", 7, 0, 2, 11, 0xe6}, {"avx512bf16", 7, 1, 0, 5, 0xe6},   {"avx512vbmi", 7, 0, 2, 1, 0xe6},
    {"amx-bf16", 7, 0, 3, 22, 0x600e6}, {"amx-tile", 7, 0, 3, 24, 0x600e6}, {"amx-int8", 7, 0, 3, 25, 0x600e6}};

// Linux keeps the tile registers for processes that have asked for them, as this does: all threads may use them then.
inline bool may_use_tiles() {
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

// False for a name that is none of these.
inline bool has_cpu_feature(const char* name) {
#if defined(__x86_64__)
  for (const CpuFeature& feature : cpu_features) {
    if (std::strcmp(feature.name, name) != 0) continue;
    unsigned words[4] = {}, kept = 0, above = 0;
    if (__get_cpuid(1, &words[0], &words[1], &words[2], &words[3]) == 0) return false;
    const bool asks_system = (words[2] >> 27 & 1) != 0;  // xgetbv is there
    if (feature.state != 0 && !asks_system) return false;
    if (feature.state != 0) __asm__ volatile("xgetbv" : "=a"(kept), "=d"(above) : "c"(0));
    if (__get_cpuid_count(feature.leaf, feature.part, &words[0], &words[1], &words[2], &words[3]) == 0) return false;
    constexpr unsigned tiles = 1u << 18;
    return (words[feature.word] >> feature.bit & 1) != 0 && (kept & feature.state) == feature.state &&
           ((feature.state & tiles) == 0 || may_use_tiles());
  }
#else
  static_cast<void>(name);
#endif
  return false;
}

}  // namespace METAC_RUNTIME_NAMESPACE
