// What kernel text includes, for the tests of this folder.
#pragma once
#define METAC_PRELUDE_NO_USING
#include "runtime/device/prelude.h"

namespace m = metac_runtime;

#if defined(__AVX512BF16__)
typedef m::f32x16 FloatVector;
inline bool device_runs_here() {
  return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
}
#elif defined(__AVX512F__)
typedef m::f32x16 FloatVector;
inline bool device_runs_here() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"); }
#elif defined(__AVX2__)
typedef m::f32x8 FloatVector;
inline bool device_runs_here() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
typedef m::f32x4 FloatVector;
inline bool device_runs_here() { return true; }
#endif
