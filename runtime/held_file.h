// The weights files that this process has read, each once for all contexts of the library: in memory of the process's own,
// so that nothing that happens to a file later, cut, overwritten or removed, reaches what kernels read. Pieces are read when
// a program first needs them; the file stays open for those.
#pragma once
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <new>

#include "process_lock.h"
#include "weights_file.h"

namespace METAC_RUNTIME_NAMESPACE {

// Can nobody change the file that is open as `file`, whoever they are? Sealed memory, and files under fs-verity or marked
// immutable. Read-only mounts do not count: the file may be writable elsewhere.
inline bool is_unchangeable(int file) {
#ifdef F_GET_SEALS
  constexpr int sealed = F_SEAL_SHRINK | F_SEAL_WRITE;
  if (const int seals = fcntl(file, F_GET_SEALS); seals >= 0 && (seals & sealed) == sealed) return true;
#endif
#if defined(STATX_ATTR_IMMUTABLE)
  constexpr uint64_t verity = 0x100000;  // STATX_ATTR_VERITY of Linux 5.5
  struct statx about;
  if (statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &about) == 0)
    return (about.stx_attributes & about.stx_attributes_mask & (STATX_ATTR_IMMUTABLE | verity)) != 0;
#endif
  return false;
}

// All of [from, from + bytes) of a file. False: the system refuses (errno), or the file ends before (errno 0).
inline bool read_fully(int file, void* to, int64_t bytes, int64_t from) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = pread(file, static_cast<char*>(to) + done, static_cast<size_t>(bytes - done), from + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = 0;
      return false;
    }
    done += n;
  }
  return true;
}

class HeldFile {
 public:
  enum Piece : uint8_t { unread, is_new, is_read, is_checked };  // new: nobody uses it yet

  // That of `file`, which is open and `about` is of: it belongs to the result from then on. `header` is what it begins with.
  // Null: no memory.
  static HeldFile* join(int file, const struct stat& about, const WeightsHeader& header) {
    const ProcessLockHold held(registry_lock);
    for (HeldFile* one = first; one != nullptr; one = one->next_)
      if (one->is(about, header)) {
        ++one->users_;
        ::close(file);
        return one;
      }
    void* const memory = std::malloc(sizeof(HeldFile));
    if (memory == nullptr) return nullptr;
    HeldFile* const made = new (memory) HeldFile(file, about);
    if (!made->take_memory(header)) {
      made->file_ = -1;  // the caller's still
      made->end();
      return nullptr;
    }
    made->next_ = first;
    return first = made;
  }
  HeldFile* join_again() {
    const ProcessLockHold held(registry_lock);
    ++users_;
    return this;
  }
  void leave() {
    const ProcessLockHold held(registry_lock);
    if (--users_ > 0) return;
    for (HeldFile** place = &first; *place != nullptr; place = &(*place)->next_)
      if (*place == this) {
        *place = next_;
        break;
      }
    end();
  }

  // The file as it is in memory: its header, then the pieces that were read.
  const char* data() const { return data_; }
  // What to hold while pieces are read, by one thread or by several for the one that holds it.
  ProcessLock& lock() { return lock_; }
  Piece& piece(int64_t k) { return pieces_[k]; }
  bool read(int64_t from, int64_t bytes) const { return read_fully(file_, data_ + from, bytes, from); }
  // Has somebody written into the file since it was opened? Links and names do not count.
  bool has_changed() const {
    struct stat now;
    return fstat(file_, &now) != 0 || now.st_size != about_.st_size || !same_time(now, about_);
  }

 private:
  static constexpr int64_t huge = int64_t{2} << 20;  // a page of them takes as long as a small one

  HeldFile(int file, const struct stat& about) : file_(file), about_(about) {}

  static bool same_time(const struct stat& a, const struct stat& b) {
    return a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
  }
  bool is(const struct stat& about, const WeightsHeader& header) const {
    return about.st_dev == about_.st_dev && about.st_ino == about_.st_ino && about.st_size == about_.st_size &&
           same_time(about, about_) && std::memcmp(data_, &header, sizeof header) == 0;
  }

  // Address space for the whole file; the system gives memory where it is read to.
  bool take_memory(const WeightsHeader& header) {
    const int64_t size = about_.st_size;
    if (size > most_bytes) return false;
    map_bytes_ = static_cast<size_t>(size + (size >= huge ? huge : 0));
    void* const map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return false;
    map_ = map;
    uintptr_t begin = reinterpret_cast<uintptr_t>(map);
    if (size >= huge) {
      begin = (begin + huge - 1) / huge * huge;
      madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(size), MADV_HUGEPAGE);
    }
    data_ = reinterpret_cast<char*>(begin);
    std::memcpy(data_, &header, sizeof header);
    return pieces_.allocate((header.bytes + piece_of(header.bytes) - 1) / piece_of(header.bytes));
  }
  void end() {
    if (map_ != nullptr) munmap(map_, map_bytes_);
    if (file_ >= 0) ::close(file_);
    this->~HeldFile();
    std::free(this);
  }

  static inline ProcessLock registry_lock;
  static inline HeldFile* first = nullptr;

  ProcessLock lock_;
  int file_;
  const struct stat about_;
  int32_t users_ = 1;
  HeldFile* next_ = nullptr;
  void* map_ = nullptr;
  size_t map_bytes_ = 0;
  char* data_ = nullptr;
  Array<Piece> pieces_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
