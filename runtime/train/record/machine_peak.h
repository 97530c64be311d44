// What this machine can do at most, for --profile: float32 multiply-adds a second on registers alone, bytes a second read
// from memory.
#pragma once
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "../../process/usable_cpus.h"

namespace metac::train {

struct MachinePeak {
  double operations = 1, bytes = 1;  // a second, all threads together
};

namespace peak {

constexpr int chains = 12;  // independent accumulators: as many as the units take at once, and some
constexpr int64_t block_elements = int64_t{32} << 20;

// Multiply-adds of `lanes()` floats, `chains` a step; and the sum of a block.
struct Work {
  int lanes;
  float (*multiply_add)(int64_t steps);
  float (*sum)(const float* begin, int64_t count);
};

#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline float multiply_add_512(int64_t steps) {
  __m512 m = _mm512_set1_ps(0.999f), a[chains];
  for (int k = 0; k < chains; ++k) a[k] = _mm512_set1_ps(1.0f + static_cast<float>(k));
  for (int64_t s = 0; s < steps; ++s)
#pragma GCC unroll 12
    for (int k = 0; k < chains; ++k) a[k] = _mm512_fmadd_ps(a[k], m, m);
  for (int k = 1; k < chains; ++k) a[0] = _mm512_add_ps(a[0], a[k]);
  return _mm512_cvtss_f32(a[0]);
}
__attribute__((target("avx512f"))) inline float sum_512(const float* x, int64_t count) {
  __m512 s[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
  for (int64_t i = 0; i + 64 <= count; i += 64)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) s[k] = _mm512_add_ps(s[k], _mm512_loadu_ps(x + i + 16 * k));
  return _mm512_cvtss_f32(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
}
__attribute__((target("avx2,fma"))) inline float multiply_add_256(int64_t steps) {
  __m256 m = _mm256_set1_ps(0.999f), a[chains];
  for (int k = 0; k < chains; ++k) a[k] = _mm256_set1_ps(1.0f + static_cast<float>(k));
  for (int64_t s = 0; s < steps; ++s)
#pragma GCC unroll 12
    for (int k = 0; k < chains; ++k) a[k] = _mm256_fmadd_ps(a[k], m, m);
  for (int k = 1; k < chains; ++k) a[0] = _mm256_add_ps(a[0], a[k]);
  return _mm256_cvtss_f32(a[0]);
}
__attribute__((target("avx2"))) inline float sum_256(const float* x, int64_t count) {
  __m256 s[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  for (int64_t i = 0; i + 32 <= count; i += 32)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) s[k] = _mm256_add_ps(s[k], _mm256_loadu_ps(x + i + 8 * k));
  return _mm256_cvtss_f32(_mm256_add_ps(_mm256_add_ps(s[0], s[1]), _mm256_add_ps(s[2], s[3])));
}
#endif

// What every compiler makes something of, on any machine.
using Four = float __attribute__((vector_size(16)));
inline float multiply_add_128(int64_t steps) {
  const Four m = {0.999f, 0.999f, 0.999f, 0.999f};
  Four a[chains] = {};
  for (int64_t s = 0; s < steps; ++s)
#pragma GCC unroll 12
    for (int k = 0; k < chains; ++k) a[k] = a[k] * m + m;
  for (int k = 1; k < chains; ++k) a[0] += a[k];
  return a[0][0];
}
inline float sum_128(const float* x, int64_t count) {
  Four s[4] = {};
  for (int64_t i = 0; i + 16 <= count; i += 16)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) s[k] += Four{x[i + 4 * k], x[i + 4 * k + 1], x[i + 4 * k + 2], x[i + 4 * k + 3]};
  return (s[0] + s[1] + s[2] + s[3])[0];
}

inline Work work_of_this_machine() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {16, multiply_add_512, sum_512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {8, multiply_add_256, sum_256};
#endif
  return {4, multiply_add_128, sum_128};
}

// Seconds in which every thread does its part, the best of some.
template <typename Part>
double best_time(int threads, Part part) {
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back([&, t] { part(t); });
    part(0);
    for (std::thread& other : others) other.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds < best) best = seconds;
  }
  return best;
}

}  // namespace peak

// threads 0: one per CPU. Takes a tenth of a second and 128 MiB.
inline MachinePeak measure_machine_peak(int threads) {
  if (threads <= 0) threads = METAC_RUNTIME_NAMESPACE::usable_cpus();
  const peak::Work work = peak::work_of_this_machine();
  std::vector<float> kept(static_cast<size_t>(threads) * 16);  // what is computed is used
  constexpr int64_t steps = 1'000'000;
  MachinePeak found;
  found.operations = 2.0 * work.lanes * peak::chains * static_cast<double>(steps) * threads /
                     peak::best_time(threads, [&](int t) { kept[static_cast<size_t>(t) * 16] = work.multiply_add(steps); });
  const std::vector<float> block(static_cast<size_t>(peak::block_elements), 1.0f);
  const int64_t share = peak::block_elements / threads;
  found.bytes = 4.0 * static_cast<double>(share) * threads / peak::best_time(threads, [&](int t) {
                  kept[static_cast<size_t>(t) * 16] += work.sum(block.data() + share * t, share);
                });
  volatile float sink = 0;
  for (const float v : kept) sink = v;
  static_cast<void>(sink);
  return found;
}

}  // namespace metac::train
