// A file that is there whole or not at all: written beside its name under one that nobody can know before, and renamed.
// Whoever opens the file finds the old content or the new one; where writing fails, nothing is left behind.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "../status.h"

namespace METAC_RUNTIME_NAMESPACE {

class WholeFile {
 public:
  WholeFile() = default;
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;
  ~WholeFile() { forget(); }

  // A fresh file in the folder of `path`: never one that is there already, nor what a link there points to. It gets its name
  // from commit().
  bool open(const char* path, Failure& failure) {
    forget();
    const char* const slash = std::strrchr(path, '/');
    const int folder = slash == nullptr ? 0 : static_cast<int>(slash + 1 - path);
    if (std::strlen(path) >= sizeof path_)
      return failure.set(Status::io, "cannot write %.200s...: the path is too long", path);
    std::memcpy(path_, path, std::strlen(path) + 1);
    for (int attempt = 0; file_ < 0 && attempt < 100; ++attempt) {
      uint64_t number = 0;
      if (getrandom(&number, sizeof number, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof number))
        number = reinterpret_cast<uintptr_t>(this) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(getpid() + attempt);
      std::snprintf(temporary_, sizeof temporary_, "%.*s.%.100s.%016llx.tmp", folder, path, path + folder,
                    static_cast<unsigned long long>(number));
      file_ = ::open(temporary_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      if (file_ < 0 && errno != EEXIST) break;
    }
    return file_ >= 0 || failed(failure);
  }

  bool write(const void* data, size_t bytes, Failure& failure) {
    for (const char* at = static_cast<const char*>(data); bytes > 0;) {
      const ssize_t done = ::write(file_, at, bytes < (size_t{1} << 30) ? bytes : size_t{1} << 30);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return failed(failure);
      if (done == 0) return errno = ENOSPC, failed(failure);
      at += done;
      bytes -= static_cast<size_t>(done);
    }
    return true;
  }

  // durable: content and name outlive a power failure, as far as the file system can.
  bool commit(Failure& failure, bool durable = true) {
    if (durable && fsync(file_) != 0 && errno != EINVAL && errno != EROFS) return failed(failure);
    const int closed = ::close(file_);
    file_ = -1;
    if (closed != 0 || std::rename(temporary_, path_) != 0) {
      failed(failure);
      unlink(temporary_);
      return false;
    }
    if (!durable) return true;
    char* const slash = std::strrchr(path_, '/');
    if (slash != nullptr) slash[slash == path_ ? 1 : 0] = 0;
    const int folder = ::open(slash != nullptr ? path_ : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return true;
    fsync(folder);  // file systems that cannot do it have no better way
    ::close(folder);
    return true;
  }

 private:
  bool failed(Failure& failure) { return failure.set(Status::io, "cannot write %.400s: %s", path_, std::strerror(errno)); }
  void forget() {
    if (file_ < 0) return;
    ::close(file_);
    unlink(temporary_);
    file_ = -1;
  }

  char path_[4096] = "", temporary_[4096 + 160] = "";
  int file_ = -1;
};

}  // namespace METAC_RUNTIME_NAMESPACE
