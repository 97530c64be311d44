// An advisory lock between processes that dies with its holder.
#pragma once
#include <string>

namespace metac {

class FileLock {
 public:
  // Takes the lock, sleeping while another process or thread holds it; says so once after 10 s. Where it cannot be taken
  // (read-only disk, no lock daemon) the caller goes on without.
  explicit FileLock(std::string path);
  ~FileLock();  // removes the file: whoever waits on it looks at the result first, so a second holder does no harm
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Held: even a lock taken at once may come right after its last holder's release, so look again whether the work is done.
  bool held() const { return file_ >= 0; }

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace metac
