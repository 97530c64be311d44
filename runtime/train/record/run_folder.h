// The folder of a run, held by one program at a time.
#pragma once
#include <sys/file.h>

#include "checkpoint.h"

namespace metac::train {

// Where the files of a run are.
class RunFiles {
 public:
  explicit RunFiles(std::string path) : path_(std::move(path)), checkpoints_(path_ + "/checkpoints") {}

  const std::string& path() const { return path_; }
  const CheckpointFolder& checkpoints() const { return checkpoints_; }
  std::string log() const { return path_ + "/log.jsonl"; }
  std::string curves() const { return path_ + "/curves.svg"; }
  std::string best() const { return path_ + "/best.safetensors"; }

 private:
  std::string path_;
  CheckpointFolder checkpoints_;
};

class RunFolder : public RunFiles {
 public:
  explicit RunFolder(const std::string& path) : RunFiles(path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) fail("cannot make the folder ", path, ": ", error.message());
    const std::string lock = path + "/.lock";
    lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (lock_ < 0) fail("cannot write in ", path, ": ", system_reason());
    // Where the file system knows no locks, the run goes on without.
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(lock_);
      fail("another program is training in ", path, "; --out names another folder");
    }
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder() { ::close(lock_); }

  void clear() const {
    std::error_code error;
    for (const int64_t step : checkpoints().list(true)) std::filesystem::remove(checkpoints().path(step), error);
    std::filesystem::remove(best(), error);
    std::filesystem::remove(log(), error);
  }

 private:
  int lock_ = -1;
};

}  // namespace metac::train
