// Random numbers as a function of where they are used: number(seed, stream, index). There is no state to save, nothing
// depends on how many threads draw, and an interrupted run draws the same again.
#pragma once
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace metac::train {

enum class Stream : uint64_t { order = 1, split = 2, flip = 3, crop = 4, adapter = 5 };

// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014): every bit of the result depends on every bit of `x`.
constexpr uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// 64 random bits. `epoch` and `index` say where they are used.
constexpr uint64_t random_bits(int64_t seed, Stream stream, int64_t epoch, int64_t index) {
  return mix(mix(mix(static_cast<uint64_t>(seed) ^ (static_cast<uint64_t>(stream) << 56)) ^ static_cast<uint64_t>(epoch)) ^
             static_cast<uint64_t>(index));
}

// A number in [0, bound), by multiplying: bounds here are far below 2^32, so what is uneven about it is below 2^-32.
constexpr int64_t random_below(uint64_t bits, int64_t bound) {
  return static_cast<int64_t>((static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(bound)) >> 64);
}

// The numbers 0 ... count - 1 in random order (Fisher and Yates).
inline std::vector<int64_t> permutation(int64_t count, int64_t seed, Stream stream, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)],
              order[static_cast<size_t>(random_below(random_bits(seed, stream, epoch, i), i + 1))]);
  return order;
}

}  // namespace metac::train
