// The weights block of a generated library: a file that this process has read (held_file.h), a copy of the context's own, a
// mapped file, or the bytes that --embed-weights put into the library.
#pragma once
#include <dlfcn.h>

#include "../process/thread_pool.h"
#include "held_file.h"

namespace METAC_RUNTIME_NAMESPACE {

constexpr int64_t most_populated = int64_t{1} << 30;

class Weights {
 public:
  enum Place { shared, own, mapped };  // memory of the process, of the context, of the file

  Weights() = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;
  ~Weights() { close(); }

  const void* block() const { return block_; }
  // Of the file that the block is in.
  const WeightsHeader* header() const { return reinterpret_cast<const WeightsHeader*>(block_ - weights_offset); }
  bool is_mapped() const { return mapped_ != nullptr; }
  bool is_held() const { return held_ != nullptr; }  // by the process, for all its contexts
  bool is_unchecked() const { return unchecked_; }
  const char* path() const { return path_; }  // or "the library"
  // Before they are opened. A file that nobody can change is mapped where it would be shared. unchecked: damage is not
  // looked for.
  void choose(Place place, bool unchecked) {
    place_ = place;
    unchecked_ = unchecked;
  }

  bool check(const void* file, int64_t size, int64_t bytes, const char* layout, const char* path, Failure& failure) {
    const WeightsHeader* header = static_cast<const WeightsHeader*>(file);
    if (!check_header(*header, size, bytes, layout, path, failure)) return false;
    block_ = static_cast<const char*>(file) + weights_offset;
    bytes_ = bytes;
    std::snprintf(path_, sizeof path_, "%s", path);
    if (unchecked_) return true;
    if (header->piece == 0) return check_content(*header, failure);
    sums_ = header->sums;
    return header->piece == piece_of(bytes) || failure.set(Status::io, "%s is damaged: its header", path);
  }

  // What kernels read is there after ready(), but for a copy, which is whole at once.
  bool open(const char* path, int64_t bytes, const char* layout, Failure& failure) {
    close();
    const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return failure.set(Status::io, "cannot open the weights %s: %s", path, std::strerror(errno));
    struct stat about;
    WeightsHeader header = {};
    bool good = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    if (!good) failure.set(Status::io, "the weights %s are no regular file", path);
    good = good &&
           (about.st_size < weights_offset || read_fully(file, &header, weights_offset, 0) || cannot_read(path, failure));
    good = good && check_header(header, about.st_size, bytes, layout, path, failure);
    if (good && place_ == shared && !is_unchangeable(file)) {
      held_ = HeldFile::join(file, about, header);
      if (held_ != nullptr) return open_held(bytes, layout, path, failure);
      good = failure.set(Status::out_of_memory, "no memory for %lld bytes of weights", static_cast<long long>(bytes));
    } else if (good) {
      good = place_ == own ? copy(file, about.st_size, path, failure) : map(file, about.st_size, path, failure);
    }
    ::close(file);
    return good && check(place_ == own ? own_.data() : mapped_, about.st_size, bytes, layout, path, failure);
  }

  // The same weights once more: those that the process has read, mapped anew, or those inside the library. Refused where
  // the file that is mapped is another one by now.
  bool open_again(const Weights& other, Failure& failure) {
    choose(other.mapped_ != nullptr ? mapped : shared, other.unchecked_);
    if (other.held_ != nullptr) {
      close();
      held_ = other.held_->join_again();
      return open_held(other.bytes_, other.header()->layout, other.path_, failure);
    }
    if (other.mapped_ == nullptr)
      return check(other.header(), weights_offset + other.bytes_, other.bytes_, other.header()->layout, other.path_,
                   failure);
    return open(other.path_, other.bytes_, other.header()->layout, failure) &&
           (std::memcmp(header()->content, other.header()->content, sizeof header()->content) == 0 ||
            failure.set(Status::io, "%.300s holds other weights by now", path_));
  }

  // Bytes of the block that every run reads: all threads read them or fill their page tables, which costs half of what the
  // faults of the first run would, and look for damage. False: there is some.
  bool ready(int64_t from, int64_t bytes, ThreadPool& pool, Failure& failure) const {
    if (bytes <= 0 || (mapped_ == nullptr && held_ == nullptr && sums_ == nullptr)) return true;
    if (held_ != nullptr) return ready_held(from, bytes, pool, failure);
    const bool populates = mapped_ != nullptr && (sums_ != nullptr || bytes <= most_populated);
    if (mapped_ != nullptr) {
      const int64_t page = from / weights_offset * weights_offset;
      madvise(const_cast<char*>(block_) + page, static_cast<size_t>(from + bytes - page), MADV_WILLNEED);
    }
    Range range(*this, from, populates);
    pool.run((from + bytes - 1) / range.piece - range.first + 1, Range::piece_ns, &Range::work, &range);
    return judge(range, failure);
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

  // As long as one of a block is there, its bytes that were made ready stay; behind the last one they are read anew when
  // they are next needed. Without any, they stay.
  class PassingUse {
   public:
    PassingUse() = default;
    explicit PassingUse(const Weights& weights) { begin(weights); }
    ~PassingUse() {
      if (file_.get() != nullptr) file_->end_passing_use();
    }
    void begin(const Weights& weights) {
      if (weights.held_ == nullptr) return;
      file_.take(weights.held_->join_again());
      file_->begin_passing_use();
    }

   private:
    Joined<HeldFile> file_;
  };

  void close() {
    if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
    if (held_ != nullptr) held_->leave();
    mapped_ = nullptr;
    held_ = nullptr;
    block_ = nullptr;
    sums_ = nullptr;
  }

 private:
  // Pieces of the block, from `first` on.
  struct Range {
    static constexpr int64_t piece_ns = 100000;
    const Weights& weights;
    const int64_t piece;
    const int64_t first;
    const bool populates;
    std::atomic<int64_t> damaged{-1};
    std::atomic<bool> shrank{false};
    std::atomic<int> refused{0};  // errno

    Range(const Weights& weights, int64_t from, bool populates)
        : weights(weights), piece(piece_of(weights.bytes_)), first(from / piece), populates(populates) {}
    int64_t bytes_of(int64_t k) const { return std::min(weights.bytes_ - k * piece, piece); }

    static void work(void* state, int32_t, int64_t begin, int64_t end) {
      constexpr int populate_read =
          22;  // MADV_POPULATE_READ of Linux 5.14, which older headers lack and older systems refuse
      Range& range = *static_cast<Range*>(state);
      const Weights& weights = range.weights;
      for (int64_t k = range.first + begin; k < range.first + end; ++k) {
        char* const from = const_cast<char*>(weights.block_) + k * range.piece;
        const int64_t bytes = range.bytes_of(k);
        if (weights.held_ != nullptr && !range.read(k, bytes)) continue;
        // EFAULT: the end of the file is not where it was, and reading would end the process.
        if (range.populates && madvise(from, static_cast<size_t>(bytes), populate_read) != 0 && errno == EFAULT)
          range.shrank = true;
        if (weights.sums_ == nullptr || range.shrank) continue;
        if (weights.held_ != nullptr && weights.held_->piece(k) == HeldFile::is_checked) continue;
        const bool good = checksum_of(from, bytes) == weights.sums_[k];
        if (!good) range.damaged = k;
        if (weights.held_ != nullptr && good) weights.held_->piece(k) = HeldFile::is_checked;
      }
    }

   private:
    bool read(int64_t k, int64_t bytes) {
      HeldFile& file = *weights.held_;
      if (file.piece(k) != HeldFile::unread) return true;
      if (!file.read(weights_offset + k * piece, bytes)) {
        if (errno == 0)
          shrank = true;
        else
          refused = errno;
        return false;
      }
      file.piece(k) = HeldFile::is_new;
      return true;
    }
  };

  bool check_header(const WeightsHeader& header, int64_t size, int64_t bytes, const char* layout, const char* path,
                    Failure& failure) const {
    if (size < weights_offset || std::memcmp(header.magic, "metacwts", 8) != 0 || header.format != 1)
      return failure.set(Status::io, "%s is no weights file of this format", path);
    if (header.bytes != bytes || std::memcmp(header.layout, layout, sizeof header.layout) != 0)
      return failure.set(Status::io, "%s holds the weights of another model or another compilation", path);
    return size - weights_offset >= bytes ||
           failure.set(Status::io, "%s is cut short: %lld bytes, expected %lld", path, static_cast<long long>(size),
                       static_cast<long long>(weights_offset + bytes));
  }

  // A file of an older writer, which has one hash of all, is read at once.
  bool open_held(int64_t bytes, const char* layout, const char* path, Failure& failure) {
    block_ = held_->data() + weights_offset;
    bytes_ = bytes;
    std::snprintf(path_, sizeof path_, "%s", path);
    ThreadPool alone;
    return (header()->piece != 0 || unchecked_ || ready_held(0, bytes, alone, failure)) &&
           check(held_->data(), weights_offset + bytes, bytes, layout, path, failure);
  }
  bool ready_held(int64_t from, int64_t bytes, ThreadPool& pool, Failure& failure) const {
    const ProcessLockHold hold(held_->lock());
    Range range(*this, from, false);
    int64_t count = (from + bytes - 1) / range.piece - range.first + 1;
    bool reads = false, works = false;
    for (int64_t k = range.first; k < range.first + count; ++k) {
      reads |= held_->piece(k) == HeldFile::unread;
      works |= held_->piece(k) != HeldFile::is_checked;
    }
    if (!works) return true;
    // Not on the caller's pool, whose threads may wait for this lock in calls of their own.
    if (pool.is_callers())
      Range::work(&range, 0, 0, count);
    else
      pool.run(count, Range::piece_ns, &Range::work, &range);
    bool good = judge(range, failure);
    if (good && reads && sums_ == nullptr && held_->has_changed())
      good = failure.set(Status::io, "the weights %.300s changed while they were read", path_);
    // What is not to be used is read anew by who comes next; what others use already stays.
    for (int64_t k = range.first; k < range.first + count; ++k)
      if (held_->piece(k) == HeldFile::is_new) held_->piece(k) = good ? HeldFile::is_read : HeldFile::unread;
    return good;
  }
  bool judge(const Range& range, Failure& failure) const {
    if (range.refused.load() != 0) {
      errno = range.refused.load();
      return cannot_read(path_, failure);
    }
    if (range.shrank.load()) return failure.set(Status::io, "the weights %.300s became shorter while they were read", path_);
    const int64_t found = range.damaged.load();
    return found < 0 || damaged(found * range.piece, range.bytes_of(found), failure);
  }

  bool map(int file, int64_t size, const char* path, Failure& failure) {
    void* const map = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, file, 0);
    struct stat about;
    const bool shrank = fstat(file, &about) != 0 || about.st_size < size;
    if (map == MAP_FAILED) return failure.set(Status::io, "cannot map the weights %s", path);
    mapped_ = map;
    mapped_bytes_ = static_cast<size_t>(size);
    return !shrank || failure.set(Status::io, "the weights %s became shorter while they were opened", path);
  }
  bool copy(int file, int64_t size, const char* path, Failure& failure) {
    if (!own_.reserve(size))
      return failure.set(Status::out_of_memory, "no memory for %lld bytes of weights", static_cast<long long>(size));
    return read_fully(file, own_.data(), size, 0) || cannot_read(path, failure);
  }
  // errno says why; 0: the file ends.
  static bool cannot_read(const char* path, Failure& failure) {
    if (errno == 0) return failure.set(Status::io, "the weights %.300s became shorter while they were read", path);
    return failure.set(Status::io, "cannot read the weights %.300s: %s", path, std::strerror(errno));
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

  Place place_ = shared;
  bool unchecked_ = false;
  Block own_;
  HeldFile* held_ = nullptr;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  const char* block_ = nullptr;
  int64_t bytes_ = 0;
  const uint64_t* sums_ = nullptr;  // null: not checked piece by piece
  char path_[512] = "";
};

}  // namespace METAC_RUNTIME_NAMESPACE
