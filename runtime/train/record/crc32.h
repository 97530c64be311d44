// CRC-32 as gzip, zip and PNG have it (polynomial 0xEDB88320, reflected), eight bytes at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace metac::train {

struct Crc32Table {
  uint32_t rows[8][256];
  constexpr Crc32Table() : rows() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320u : 0u);
      rows[0][byte] = value;
    }
    for (int row = 1; row < 8; ++row)
      for (uint32_t byte = 0; byte < 256; ++byte)
        rows[row][byte] = (rows[row - 1][byte] >> 8) ^ rows[0][rows[row - 1][byte] & 0xff];
  }
};

// Of `bytes` more bytes behind those that gave `crc` (0: none yet). Reads words in the order of a little-endian machine.
inline uint32_t crc32(const void* data, size_t bytes, uint32_t crc = 0) {
  static constexpr Crc32Table table;
  const unsigned char* at = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    uint32_t low, high;
    std::memcpy(&low, at, 4);
    std::memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = table.rows[7][low & 0xff] ^ table.rows[6][low >> 8 & 0xff] ^ table.rows[5][low >> 16 & 0xff] ^
          table.rows[4][low >> 24] ^ table.rows[3][high & 0xff] ^ table.rows[2][high >> 8 & 0xff] ^
          table.rows[1][high >> 16 & 0xff] ^ table.rows[0][high >> 24];
  }
  for (; bytes > 0; ++at, --bytes) crc = (crc >> 8) ^ table.rows[0][(crc ^ *at) & 0xff];
  return ~crc;
}

}  // namespace metac::train
