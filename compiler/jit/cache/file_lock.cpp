#include "compiler/jit/cache/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>

#include "compiler/support/diagnostic.h"
#include "compiler/support/host_process.h"

namespace metac {
namespace {

int lock_blocking(int file) {
  int result;
  while ((result = flock(file, LOCK_EX)) != 0 && errno == EINTR) {
  }
  return result;
}

// Blocks in flock; a second thread says after 10 s whom this process is waiting for.
int lock_telling(int file, const std::string& path) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  const auto tell = [&] {
    std::unique_lock lock(mutex);
    if (changed.wait_for(lock, std::chrono::seconds(10), [&] { return done; })) return;
    char text[32] = "";
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    notice(concat("waiting for pid ", n > 0 ? text : "?", " compiling ", std::filesystem::path(path).filename().string()));
  };
  std::thread teller;
  try {
    teller = std::thread(tell);
  } catch (const std::system_error&) {  // waits without telling
  }
  int result = lock_blocking(file);
  {
    std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_all();
  if (teller.joinable()) teller.join();
  return result;
}

}  // namespace

FileLock::FileLock(std::string path) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file_ < 0) return;
  if (flock(file_, LOCK_EX | LOCK_NB) != 0 && (errno != EWOULDBLOCK || lock_telling(file_, path_) != 0)) {
    close(file_);
    file_ = -1;
    return;
  }
  std::string pid = std::to_string(getpid());
  if (ftruncate(file_, 0) != 0 || pwrite(file_, pid.data(), pid.size(), 0) < 0) return;  // only the message lacks it then
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  unlink(path_.c_str());
  close(file_);
}

}  // namespace metac
