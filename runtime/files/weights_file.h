// What a weights file looks like, and how it is written.
//
// 4096 bytes of header (magic, format, layout id, size, hashes, checksums of the pieces of the block), then the block. The
// layout id is a hash of the program's tables: it says that a block belongs to this program, whatever the values in it, so
// trained weights load too. The checksums find what a disk, a copy or a program has damaged when a context is made; they are
// no proof against malice.
#pragma once
#include "../memory.h"
#include "sha256.h"
#include "whole_file.h"

namespace METAC_RUNTIME_NAMESPACE {

struct WeightsHeader {
  char magic[8];     // "metacwts"
  uint32_t format;   // 1
  uint32_t offset;   // where the block begins: 4096
  int64_t bytes;     // of the block
  char layout[64];   // hexadecimal
  char content[64];  // SHA-256 of the block, hexadecimal
  int64_t piece;     // bytes of the block that one checksum is of, the last one's may be fewer; 0: none, the file is of an
                     // older writer
  uint64_t sums[492];
};
static_assert(sizeof(WeightsHeader) == 4096);
constexpr int64_t weights_offset = sizeof(WeightsHeader);

// A MiB, or as much more as few checksums want.
inline int64_t piece_of(int64_t bytes) {
  int64_t piece = int64_t{1} << 20;
  while ((bytes + piece - 1) / piece > static_cast<int64_t>(sizeof(WeightsHeader::sums) / sizeof(uint64_t))) piece *= 2;
  return piece;
}

// As fast as memory is read. Every step is a bijection of the state and of what is read, so that damage within eight bytes
// is always found. Eight sums are on their way at once, in registers whatever the compiler's options.
inline uint64_t checksum_of(const void* data, int64_t bytes) {
  constexpr uint64_t odd = 0x9e3779b97f4a7c15u;
  const char* at = static_cast<const char*>(data);
  const uint64_t start = odd * static_cast<uint64_t>(bytes + 1);
  uint64_t a = start, b = start + 1, c = start + 2, d = start + 3, e = start + 4, f = start + 5, g = start + 6,
           h = start + 7;
  const auto mix = [](uint64_t & sum, const char* from) __attribute__((always_inline)) {
    uint64_t word;
    std::memcpy(&word, from, sizeof word);
    sum = (sum ^ word) * odd;
    sum = sum << 29 | sum >> 35;
  };
  const auto mix_all = [&](const char* from) __attribute__((always_inline)) {
    mix(a, from), mix(b, from + 8), mix(c, from + 16), mix(d, from + 24), mix(e, from + 32), mix(f, from + 40),
        mix(g, from + 48), mix(h, from + 56);
  };
  int64_t left = bytes;
  for (; left >= 64; left -= 64, at += 64) mix_all(at);
  char rest[64] = {};
  if (left > 0) std::memcpy(rest, at, static_cast<size_t>(left)), mix_all(rest);
  uint64_t sum = 0;
  const uint64_t parts[] = {a, b, c, d, e, f, g, h};
  for (const uint64_t part : parts) {
    sum = (sum ^ part) * odd;
    sum ^= sum >> 32;
  }
  return sum;
}

// All of a header but its checksums. `content`: the SHA-256 of the block.
inline void begin_weights_header(WeightsHeader& header, int64_t bytes, const char* layout, const char* content) {
  header = WeightsHeader();
  std::memcpy(header.magic, "metacwts", 8);
  header.format = 1;
  header.offset = static_cast<uint32_t>(weights_offset);
  header.bytes = bytes;
  std::memcpy(header.layout, layout, sizeof header.layout);
  std::memcpy(header.content, content, sizeof header.content);
  header.piece = piece_of(bytes);
}

inline bool write_weights_file(const char* path, const void* block, int64_t bytes, const char* layout, Failure& failure) {
  char content[64];
  Sha256Sum sum;
  sum.update(block, static_cast<size_t>(bytes));
  sum.finish(content);
  WeightsHeader header;
  begin_weights_header(header, bytes, layout, content);
  for (int64_t from = 0, k = 0; from < bytes; from += header.piece, ++k)
    header.sums[k] =
        checksum_of(static_cast<const char*>(block) + from, bytes - from < header.piece ? bytes - from : header.piece);
  WholeFile file;
  return file.open(path, failure) && file.write(&header, sizeof header, failure) &&
         file.write(block, static_cast<size_t>(bytes), failure) && file.commit(failure);
}

}  // namespace METAC_RUNTIME_NAMESPACE
