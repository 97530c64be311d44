// What kernel text includes, for the tests of this folder.
#pragma once
#define METAC_PRELUDE_NO_USING
#include "runtime/device/prelude.h"

namespace m = metac_runtime;

#if defined(__AMX_TILE__)
#include "runtime/process/cpu_features.h"
typedef m::f32x16 FloatVector;
inline bool device_runs_here() {
  for (const char* feature : {"avx512bf16", "avx512vbmi", "amx-tile", "amx-int8", "amx-bf16"})
    if (!m::has_cpu_feature(feature)) return false;
  return true;
}
#elif defined(__AVX512BF16__)
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
