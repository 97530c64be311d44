// SHA-256 (FIPS 180-4), for the content hash in a weights file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

class Sha256Sum {
 public:
  void update(const void* data, size_t bytes) {
    const unsigned char* at = static_cast<const unsigned char*>(data);
    total_ += bytes;
    while (bytes > 0) {
      const size_t take = bytes < 64 - used_ ? bytes : 64 - used_;
      std::memcpy(block_ + used_, at, take);
      at += take, bytes -= take, used_ += take;
      if (used_ == 64) digest_block();
    }
  }

  // 64 hexadecimal digits, without an end. Nothing can be added afterwards.
  void finish(char* digits) {
    const uint64_t bits = total_ * 8;
    const unsigned char one = 0x80, zero = 0;
    update(&one, 1);
    while (used_ != 56) update(&zero, 1);
    unsigned char length[8];
    for (int k = 0; k < 8; ++k) length[k] = static_cast<unsigned char>(bits >> (56 - 8 * k));
    update(length, 8);
    for (int k = 0; k < 64; ++k) digits[k] = "0123456789abcdef"[state_[k / 8] >> (28 - 4 * (k % 8)) & 15];
  }

 private:
  static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

  void digest_block() {
    static const uint32_t rounds[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t w[64];
    for (int k = 0; k < 16; ++k)
      w[k] = static_cast<uint32_t>(block_[4 * k]) << 24 | static_cast<uint32_t>(block_[4 * k + 1]) << 16 |
             static_cast<uint32_t>(block_[4 * k + 2]) << 8 | block_[4 * k + 3];
    for (int k = 16; k < 64; ++k)
      w[k] = w[k - 16] + w[k - 7] + (turn(w[k - 15], 7) ^ turn(w[k - 15], 18) ^ w[k - 15] >> 3) +
             (turn(w[k - 2], 17) ^ turn(w[k - 2], 19) ^ w[k - 2] >> 10);
    uint32_t s[8];
    std::memcpy(s, state_, sizeof s);
    for (int k = 0; k < 64; ++k) {
      const uint32_t first =
          s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + rounds[k] + w[k];
      const uint32_t second =
          (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      for (int i = 7; i > 0; --i) s[i] = s[i - 1];
      s[4] += first;
      s[0] = first + second;
    }
    for (int k = 0; k < 8; ++k) state_[k] += s[k];
    used_ = 0;
  }

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  unsigned char block_[64] = {};
  size_t used_ = 0;
  uint64_t total_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
