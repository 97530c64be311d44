// The weights block of a generated library: a mapped file, a copy of one, or the bytes that --embed-weights put into the
// library.
#pragma once
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "thread_pool.h"
#include "weights_file.h"

namespace METAC_RUNTIME_NAMESPACE {

constexpr int64_t most_populated = int64_t{1} << 30;

class Weights {
 public:
  Weights() = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights() { close(); }

  const void* block() const { return block_; }
  // Of the file that the block is in.
  const WeightsHeader* header() const { return reinterpret_cast<const WeightsHeader*>(block_ - weights_offset); }
  bool is_copied() const { return copied_; }
  // Before they are opened. copied: into memory of this process's own, which nothing that happens to the file touches,
  // instead of pages that all processes share. unchecked: damage is not looked for.
  void choose(bool copied, bool unchecked) {
    copied_ = copied;
    unchecked_ = unchecked;
  }

  bool check(const void* file, int64_t size, int64_t bytes, const char* layout, const char* path, Failure& failure) {
    const WeightsHeader* header = static_cast<const WeightsHeader*>(file);
    if (size < weights_offset || std::memcmp(header->magic, "metacwts", 8) != 0 || header->format != 1)
      return failure.set(Status::io, "%s is no weights file of this format", path);
    if (header->bytes != bytes || std::memcmp(header->layout, layout, sizeof(header->layout)) != 0)
      return failure.set(Status::io, "%s holds the weights of another model or another compilation", path);
    if (size - weights_offset < bytes)
      return failure.set(Status::io, "%s is cut short: %lld bytes, expected %lld", path, static_cast<long long>(size),
                         static_cast<long long>(weights_offset + bytes));
    block_ = static_cast<const char*>(file) + weights_offset;
    bytes_ = bytes;
    std::snprintf(path_, sizeof path_, "%s", path);
    if (unchecked_) return true;
    if (header->piece == 0) return check_content(*header, failure);
    sums_ = header->sums;
    return header->piece == piece_of(bytes) || failure.set(Status::io, "%s is damaged: its header", path);
  }

  // Maps `path`, or copies it. What is mapped is read piece by piece in ready().
  bool open(const char* path, int64_t bytes, const char* layout, Failure& failure) {
    close();
    const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return failure.set(Status::io, "cannot open the weights %s: %s", path, std::strerror(errno));
    struct stat about;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
      ::close(file);
      return failure.set(Status::io, "the weights %s are no regular file", path);
    }
    const int64_t size = about.st_size;
    if (copied_) {
      const bool good = copy(file, size, path, failure);
      ::close(file);
      return good && check(own_.data(), size, bytes, layout, path, failure);
    }
    void* map = size > 0 ? mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    const bool shrank = fstat(file, &about) != 0 || about.st_size < size;
    ::close(file);
    if (map == MAP_FAILED) return failure.set(Status::io, "cannot map the weights %s", path);
    mapped_ = map;
    mapped_bytes_ = static_cast<size_t>(size);
    if (shrank) return failure.set(Status::io, "the weights %s became shorter while they were opened", path);
    return check(map, size, bytes, layout, path, failure);
  }

  // The same weights once more: mapped anew, or those inside the library. Refused where the file is another one by now.
  bool open_again(const Weights& other, Failure& failure) {
    choose(false, other.unchecked_);
    if (other.mapped_ == nullptr)
      return check(other.header(), weights_offset + other.bytes_, other.bytes_, other.header()->layout, other.path_, failure);
    return open(other.path_, other.bytes_, other.header()->layout, failure) &&
           (std::memcmp(header()->content, other.header()->content, sizeof header()->content) == 0 ||
            failure.set(Status::io, "%.300s holds other weights by now", path_));
  }

  // Bytes of the block that every run reads: page tables filled at once cost half of what the faults of the first run would,
  // and all threads fill them, and look for damage. False: there is some.
  bool ready(int64_t from, int64_t bytes, ThreadPool& pool, Failure& failure) const {
    if (bytes <= 0 || (mapped_ == nullptr && sums_ == nullptr)) return true;
    const int64_t piece = piece_of(bytes_);
    Range range(block_, bytes_, piece, mapped_ != nullptr && (sums_ != nullptr || bytes <= most_populated), sums_);
    if (mapped_ != nullptr) {
      const int64_t page = from / weights_offset * weights_offset;
      madvise(const_cast<char*>(block_) + page, static_cast<size_t>(from + bytes - page), MADV_WILLNEED);
    }
    range.first = from / piece;
    pool.run((from + bytes - 1) / piece - range.first + 1, Range::piece_ns, &Range::work, &range);
    if (range.shrank.load()) return failure.set(Status::io, "the weights %.300s became shorter while they were read", path_);
    const int64_t found = range.damaged.load();
    return found < 0 || damaged(found * piece, range.bytes_of(found), failure);
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
    if (slash == nullptr)
      std::snprintf(folder, sizeof(folder), ".");
    else
      *slash = 0;
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
    sums_ = nullptr;
  }

 private:
  // Pieces of the block, from `first` on.
  struct Range {
    static constexpr int64_t piece_ns = 100000;
    const char* block;
    int64_t block_bytes, piece;
    bool populates;
    const uint64_t* sums;
    int64_t first = 0;
    std::atomic<int64_t> damaged{-1};
    std::atomic<bool> shrank{false};

    Range(const char* block, int64_t block_bytes, int64_t piece, bool populates, const uint64_t* sums)
        : block(block), block_bytes(block_bytes), piece(piece), populates(populates), sums(sums) {}
    int64_t bytes_of(int64_t k) const { return block_bytes - k * piece < piece ? block_bytes - k * piece : piece; }

    static void work(void* state, int32_t, int64_t begin, int64_t end) {
      constexpr int populate_read =
          22;  // MADV_POPULATE_READ of Linux 5.14, which older headers lack and older systems refuse
      Range& range = *static_cast<Range*>(state);
      for (int64_t k = range.first + begin; k < range.first + end; ++k) {
        char* const from = const_cast<char*>(range.block) + k * range.piece;
        const int64_t bytes = range.bytes_of(k);
        // EFAULT: the end of the file is not where it was, and reading would end the process.
        if (range.populates && madvise(from, static_cast<size_t>(bytes), populate_read) != 0 && errno == EFAULT)
          range.shrank = true;
        if (range.sums != nullptr && !range.shrank && checksum_of(from, bytes) != range.sums[k]) range.damaged = k;
      }
    }
  };

  bool copy(int file, int64_t size, const char* path, Failure& failure) {
    if (!own_.reserve(size))
      return failure.set(Status::out_of_memory, "no memory for %lld bytes of weights", static_cast<long long>(size));
    for (int64_t done = 0; done < size;) {
      const ssize_t n = pread(file, static_cast<char*>(own_.data()) + done, static_cast<size_t>(size - done), done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failure.set(Status::io, "cannot read the weights %s: %s", path, std::strerror(errno));
      if (n == 0) return failure.set(Status::io, "the weights %s became shorter while they were read", path);
      done += n;
    }
    return true;
  }
  bool check_content(const WeightsHeader& header, Failure& failure) const {
    char content[64];
    Sha256Sum sum;
    sum.update(block_, static_cast<size_t>(bytes_));
    sum.finish(content);
    return std::memcmp(content, header.content, sizeof content) == 0 || damaged(0, bytes_, failure);
  }
  bool damaged(int64_t from, int64_t bytes, Failure& failure) const {
    return failure.set(Status::io, "%.300s is damaged: bytes %lld to %lld are not what was written", path_,
                       static_cast<long long>(weights_offset + from),
                       static_cast<long long>(weights_offset + from + bytes - 1));
  }

  bool copied_ = false, unchecked_ = false;
  Block own_;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  const char* block_ = nullptr;
  int64_t bytes_ = 0;
  const uint64_t* sums_ = nullptr;  // null: not checked piece by piece
  char path_[512] = "";
};

}  // namespace METAC_RUNTIME_NAMESPACE
