// The weights files that this process has read, each once for all contexts of the library: in memory of the process's own,
// so that nothing that happens to a file later, cut, overwritten or removed, reaches what kernels read. Pieces are read when
// a program first needs them; the file stays open for those.
#pragma once
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <new>

#include "../process/shared_by_contexts.h"
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

class HeldFile : public SharedByContexts<HeldFile> {
 public:
  enum Piece : uint8_t { unread, is_new, is_read, is_checked };  // new: nobody uses it yet

  // That of `file`, which is open and `about` is of: it belongs to the result from then on. `header` is what it begins with.
  // Null: no memory.
  static HeldFile* join(int file, const struct stat& about, const WeightsHeader& header) {
    HeldFile* fresh = nullptr;
    HeldFile* const one = find_or_make([&](const HeldFile& other) { return other.is(about, header); },
                                       [&] { return fresh = make(file, about, header); });
    if (one != nullptr && one != fresh) ::close(file);
    return one;
  }

  // The file as it is in memory: its header, then the pieces that were read.
  const char* data() const { return memory_.data(); }
  // Of the block. Under the lock, by one thread or by several for the one that holds it.
  Piece& piece(int64_t k) { return pieces_[k]; }
  bool read(int64_t from, int64_t bytes) const { return read_fully(file_, memory_.data() + from, bytes, from); }
  // Has somebody written into the file since it was opened? Links and names do not count.
  bool has_changed() const {
    struct stat now;
    return fstat(file_, &now) != 0 || now.st_size != about_.st_size || !same_time(now, about_);
  }

  // Those who need the block only for a while say so: behind the last of them its memory goes back, and pieces that are
  // needed again are read again.
  void begin_passing_use() {
    const ProcessLockHold held(lock());
    ++passing_users_;
  }
  void end_passing_use() {
    const ProcessLockHold held(lock());
    if (--passing_users_ > 0) return;
    for (int64_t k = 0; k < pieces_.size(); ++k) pieces_[k] = unread;
    madvise(memory_.data() + weights_offset, static_cast<size_t>(about_.st_size - weights_offset), MADV_DONTNEED);
  }

 private:
  friend SharedByContexts;

  HeldFile(int file, const struct stat& about) : file_(file), about_(about) {}
  ~HeldFile() {
    if (file_ >= 0) ::close(file_);
  }

  static bool same_time(const struct stat& a, const struct stat& b) {
    return a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
  }
  bool is(const struct stat& about, const WeightsHeader& header) const {
    return about.st_dev == about_.st_dev && about.st_ino == about_.st_ino && about.st_size == about_.st_size &&
           same_time(about, about_) && std::memcmp(memory_.data(), &header, sizeof header) == 0;
  }

  static HeldFile* make(int file, const struct stat& about, const WeightsHeader& header) {
    void* const memory = std::malloc(sizeof(HeldFile));
    if (memory == nullptr) return nullptr;
    HeldFile* const made = new (memory) HeldFile(file, about);
    const int64_t pieces = (header.bytes + piece_of(header.bytes) - 1) / piece_of(header.bytes);
    if (!made->memory_.take(about.st_size) || !made->pieces_.allocate(pieces)) {
      made->file_ = -1;  // the caller's still
      end(made);
      return nullptr;
    }
    std::memcpy(made->memory_.data(), &header, sizeof header);
    return made;
  }

  int file_;
  const struct stat about_;
  int32_t passing_users_ = 0;
  AddressSpace memory_;
  Array<Piece> pieces_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
