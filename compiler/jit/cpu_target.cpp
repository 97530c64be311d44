#include "compiler/jit/cpu_target.h"

#include <unistd.h>

#include <algorithm>

#include "compiler/codegen/cpu_variant.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

int64_t cache_bytes(int level_name, int64_t otherwise) {
  long bytes = sysconf(level_name);
  return bytes > 0 ? bytes : otherwise;
}

// The built-in function takes literals alone.
bool has_here(const std::string& feature) {
  __builtin_cpu_init();
#define METAC_FEATURE(name) \
  if (feature == name) return __builtin_cpu_supports(name);
  METAC_FEATURE("x86-64")
  METAC_FEATURE("x86-64-v2")
  METAC_FEATURE("x86-64-v3")
  METAC_FEATURE("x86-64-v4")
  METAC_FEATURE("sse3") METAC_FEATURE("ssse3") METAC_FEATURE("sse4.1") METAC_FEATURE("sse4.2") METAC_FEATURE("popcnt")
      METAC_FEATURE("avx") METAC_FEATURE("avx2") METAC_FEATURE("fma") METAC_FEATURE("bmi") METAC_FEATURE("bmi2")
          METAC_FEATURE("avx512f") METAC_FEATURE("avx512bw") METAC_FEATURE("avx512cd") METAC_FEATURE("avx512dq")
              METAC_FEATURE("avx512vl") METAC_FEATURE("avx512vnni")
#undef METAC_FEATURE
                  METAC_ASSERT(false, "a feature that no CPU is asked for: ", feature);
  return false;
}

CpuTarget native_cpu() {
  CpuTarget cpu = best_cpu(has_here);
  cpu.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, cpu.l1_bytes);
  cpu.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, cpu.l2_bytes);
  return cpu;
}

}  // namespace

CpuTarget cpu_target(const std::string& name) {
  if (name == "native") return native_cpu();
  CpuTarget cpu;
  cpu.name = name;
  cpu.has_vnni = false;
  if (name == "x86-64-v4+vnni") {
    cpu.name = "x86-64-v4";
    cpu.has_vnni = true;
  } else if (name == "x86-64-v3") {
    cpu.vector_bytes = 32;
  } else if (name == "x86-64" || name == "x86-64-v2") {
    cpu.vector_bytes = 16;
    cpu.has_fma = false;
  } else if (name != "x86-64-v4") {
    fail("--cpu ", quoted(name), " is not known; known are native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4+vnni");
  }
  return cpu;
}

// Both the features by name and the level as a whole, which has more of them than every compiler can name.
bool runs_on(const CpuFeatures& has, const CpuTarget& cpu) {
  if (cpu.name != "x86-64" && !has(cpu.name)) return false;
  const std::vector<std::string> needed = needed_features(cpu);
  return std::all_of(needed.begin(), needed.end(), has);
}

CpuTarget best_cpu(const CpuFeatures& has) {
  for (const char* name : {"x86-64-v4+vnni", "x86-64-v4", "x86-64-v3", "x86-64-v2"})
    if (CpuTarget cpu = cpu_target(name); runs_on(has, cpu)) return cpu;
  return cpu_target("x86-64");
}

bool runs_here(const CpuTarget& cpu) { return runs_on(has_here, cpu); }

}  // namespace metac
