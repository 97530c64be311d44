// Random numbers by position: Philox 4x64 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). The number at an index depends on the seed and the index alone, so a stream is the same for any number of
// threads, and going back in it costs nothing.
#pragma once
#include <cstdint>

#ifndef METAC_RUNTIME_NAMESPACE
#define METAC_RUNTIME_NAMESPACE metac_runtime
#endif

namespace METAC_RUNTIME_NAMESPACE {

// The first word of the block of counter index + 1 under the key (seed, 0): numpy.random.Philox(key=seed, counter=index)
// gives the same.
inline uint64_t random_word(uint64_t seed, uint64_t index) {
  __extension__ typedef unsigned __int128 Wide;
  uint64_t c[4] = {index + 1, index + 1 == 0 ? 1u : 0u, 0, 0}, k[2] = {seed, 0};
  for (int round = 0; round < 10; ++round) {
    const Wide a = Wide{0xD2E7470EE14C6C93u} * c[0], b = Wide{0xCA5A826395121157u} * c[2];
    const uint64_t next[4] = {static_cast<uint64_t>(b >> 64) ^ c[1] ^ k[0], static_cast<uint64_t>(b),
                              static_cast<uint64_t>(a >> 64) ^ c[3] ^ k[1], static_cast<uint64_t>(a)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k[0] += 0x9E3779B97F4A7C15u;
    k[1] += 0xBB67AE8584CAA73Bu;
  }
  return c[0];
}

// In [0, 1), of 53 bits.
inline double random_uniform(uint64_t seed, uint64_t index) {
  return static_cast<double>(random_word(seed, index) >> 11) * 0x1p-53;
}

}  // namespace METAC_RUNTIME_NAMESPACE
