// 128 bits that stand for a structure: what was appended in which order. Two structures that differ have the same hash about
// as often as memory flips a bit unseen, so equal hashes are taken for equal structures.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace metac::lazy {

struct StructureHash {
  uint64_t low = 0x243f6a8885a308d3, high = 0x13198a2e03707344;

  // Two multiplications of 64 by 64 bits, folded, each with what the other half was before.
  void mix(uint64_t word) {
    const uint64_t before = low;
    low = folded(low ^ word, 0xa0761d6478bd642f ^ high);
    high = folded(high ^ word ^ 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3 ^ before);
  }
  void mix_bytes(std::string_view bytes) {
    mix(bytes.size());
    uint64_t word = 0;
    int filled = 0;
    for (const char c : bytes) {
      word = word << 8 | static_cast<unsigned char>(c);
      if (++filled < 8) continue;
      mix(word);
      word = 0, filled = 0;
    }
    if (filled > 0) mix(word);
  }
  bool operator==(const StructureHash& other) const { return low == other.low && high == other.high; }

 private:
  static uint64_t folded(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
};

}  // namespace metac::lazy

template <>
struct std::hash<metac::lazy::StructureHash> {
  size_t operator()(const metac::lazy::StructureHash& key) const { return static_cast<size_t>(key.low); }
};
