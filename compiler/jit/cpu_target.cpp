#include "compiler/jit/cpu_target.h"

#include <unistd.h>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

int64_t cache_bytes(int level_name, int64_t otherwise) {
  long bytes = sysconf(level_name);
  return bytes > 0 ? bytes : otherwise;
}

CpuTarget native_cpu() {
  __builtin_cpu_init();
  CpuTarget cpu;
  if (__builtin_cpu_supports("x86-64-v4")) {
    cpu = cpu_target("x86-64-v4");
    cpu.has_vnni = __builtin_cpu_supports("avx512vnni");
  } else {
    cpu = cpu_target(__builtin_cpu_supports("x86-64-v3") ? "x86-64-v3" : __builtin_cpu_supports("x86-64-v2") ? "x86-64-v2" : "x86-64");
  }
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

bool runs_here(const CpuTarget& cpu) {
  CpuTarget here = native_cpu();
  return cpu.vector_bytes <= here.vector_bytes && (!cpu.has_vnni || here.has_vnni);
}

}  // namespace metac
