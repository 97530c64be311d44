// The weights block of a generated library: a mapped file, or the bytes that --embed-weights put into the library.
//
// File: 4096 bytes of header (magic, format, layout id, size), then the block. The layout id is a hash of the program's
// tables: it says that a block belongs to this program, whatever the values in it, so trained weights load too.
#pragma once
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "memory.h"
#include "sha256.h"
#include "status.h"
#include "thread_pool.h"

namespace METAC_RUNTIME_NAMESPACE {

struct WeightsHeader {
  char magic[8];       // "metacwts"
  uint32_t format;     // 1
  uint32_t offset;     // where the block begins: 4096
  int64_t bytes;       // of the block
  char layout[64];     // hexadecimal
  char content[64];    // SHA-256 of the block, hexadecimal
};
constexpr int64_t weights_offset = 4096;
constexpr int64_t most_populated = int64_t{1} << 30;

// Writes a weights file: beside `path` first, then under its name, so that a library that opens it finds the old one or the new one.
inline bool write_weights_file(const char* path, const void* block, int64_t bytes, const char* layout, Failure& failure) {
  char temporary[4096 + 8];
  if (std::snprintf(temporary, sizeof temporary, "%s.tmp", path) >= static_cast<int>(sizeof temporary)) return failure.set(Status::io, "the path of the weights is too long");
  WeightsHeader header = {};
  std::memcpy(header.magic, "metacwts", 8);
  header.format = 1;
  header.offset = static_cast<uint32_t>(weights_offset);
  header.bytes = bytes;
  std::memcpy(header.layout, layout, sizeof header.layout);
  Sha256Sum sum;
  sum.update(block, static_cast<size_t>(bytes));
  sum.finish(header.content);
  static const char padding[weights_offset - sizeof(WeightsHeader)] = {};
  FILE* file = std::fopen(temporary, "wb");
  if (file == nullptr) return failure.set(Status::io, "cannot write %s: %s", temporary, std::strerror(errno));
  bool good = std::fwrite(&header, 1, sizeof header, file) == sizeof header && std::fwrite(padding, 1, sizeof padding, file) == sizeof padding;
  good = good && std::fwrite(block, 1, static_cast<size_t>(bytes), file) == static_cast<size_t>(bytes);
  good = good && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
  good = std::fclose(file) == 0 && good;
  good = good && std::rename(temporary, path) == 0;
  if (good) return true;
  failure.set(Status::io, "cannot write the weights %s: %s", path, std::strerror(errno));
  std::remove(temporary);
  return false;
}

class Weights {
 public:
  Weights() = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights() { close(); }

  const void* block() const { return block_; }

  bool check(const void* file, int64_t size, int64_t bytes, const char* layout, const char* path, Failure& failure) {
    const WeightsHeader* header = static_cast<const WeightsHeader*>(file);
    if (size < weights_offset || std::memcmp(header->magic, "metacwts", 8) != 0 || header->format != 1)
      return failure.set(Status::io, "%s is no weights file of this format", path);
    if (header->bytes != bytes || std::memcmp(header->layout, layout, sizeof(header->layout)) != 0)
      return failure.set(Status::io, "%s holds the weights of another model or another compilation", path);
    if (size - weights_offset < bytes)
      return failure.set(Status::io, "%s is cut short: %lld bytes, expected %lld", path, static_cast<long long>(size), static_cast<long long>(weights_offset + bytes));
    block_ = static_cast<const char*>(file) + weights_offset;
    return true;
  }

  // Maps `path`. Nothing is read before it is used.
  bool open(const char* path, int64_t bytes, const char* layout, Failure& failure) {
    close();
    const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return failure.set(Status::io, "cannot open the weights %s: %s", path, std::strerror(errno));
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
      ::close(file);
      return failure.set(Status::io, "the weights %s are no regular file", path);
    }
    void* map = about.st_size > 0 ? mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    ::close(file);
    if (map == MAP_FAILED) return failure.set(Status::io, "cannot map the weights %s", path);
    mapped_ = map;
    mapped_bytes_ = static_cast<size_t>(about.st_size);
    return check(map, about.st_size, bytes, layout, path, failure);
  }

  // Bytes of the block that every run reads, from a multiple of 4096 on: page tables filled at once cost half of what the faults of
  // the first run would, and all threads fill them.
  void populate(int64_t from, int64_t bytes, ThreadPool& pool) const {
    if (mapped_ == nullptr || bytes <= 0) return;
    Range range = {static_cast<char*>(mapped_) + weights_offset + from, bytes};
    madvise(range.begin, static_cast<size_t>(bytes), MADV_WILLNEED);
    if (bytes <= most_populated) pool.run((bytes + Range::piece - 1) / Range::piece, Range::piece_ns, &Range::populate, &range);
  }

  // Looks for `name` beside the library (or program) that holds `address`, then where an installation has it.
  bool find(const void* address, const char* name, const char* share, int64_t bytes, const char* layout, Failure& failure) {
    Dl_info about;
    if (dladdr(address, &about) == 0 || about.dli_fname == nullptr)
      return failure.set(Status::io, "cannot tell where this library is; give the path of its weights");
    char folder[4096], path[4096 + 256];
    // A program started by name alone is known as that name; the system knows its path.
    if (std::strchr(about.dli_fname, '/') == nullptr) {
      const ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
      folder[length > 0 ? length : 0] = 0;
    } else {
      std::snprintf(folder, sizeof(folder), "%s", about.dli_fname);
    }
    char* slash = std::strrchr(folder, '/');
    if (slash == nullptr) std::snprintf(folder, sizeof(folder), ".");
    else *slash = 0;
    const char* const places[] = {"", "/..", "/../share/", "/../../share/"};
    for (const char* place : places) {
      const bool shared = std::strstr(place, "share") != nullptr;
      std::snprintf(path, sizeof(path), "%s%s%s/%s", folder, place, shared ? share : "", name);
      if (access(path, R_OK) == 0) return open(path, bytes, layout, failure);
    }
    return failure.set(Status::io, "%s is not beside the library (%s) nor in %s/..; give its path", name, folder, folder);
  }

  void close() {
    if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
    mapped_ = nullptr;
    block_ = nullptr;
  }

 private:
  struct Range {
    static constexpr int64_t piece = int64_t{2} << 20, piece_ns = 200000;
    char* begin;
    int64_t bytes;

    static void populate(void* state, int32_t, int64_t first, int64_t last) {
      constexpr int populate_read = 22;  // MADV_POPULATE_READ of Linux 5.14, which older headers lack and older systems refuse
      const Range& range = *static_cast<const Range*>(state);
      const int64_t from = first * piece, to = last * piece < range.bytes ? last * piece : range.bytes;
      madvise(range.begin + from, static_cast<size_t>(to - from), populate_read);
    }
  };

  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  const void* block_ = nullptr;
};

}  // namespace METAC_RUNTIME_NAMESPACE
