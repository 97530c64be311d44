#include "compiler/jit/cache/cache_directory.h"

#include <sys/vfs.h>

#include <mutex>
#include <set>

#include "compiler/program/program.h"
#include "compiler/support/host_process.h"
#include "runtime/files/cache_directory.h"

namespace metac {
CacheDirectory find_cache_directory() {
  char path[PATH_MAX];
  rt::Failure failure;
  if (rt::find_cache_directory(path, failure)) return {path, ""};
  return {"", failure.message};
}

bool is_remote(const std::string& directory) {
  struct statfs status;
  if (statfs(directory.c_str(), &status) != 0) return true;
  switch (static_cast<uint32_t>(status.f_type)) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFF534D42:  // CIFS
    case 0xFE534D42:  // SMB2
    case 0x65735546:  // FUSE: sshfs among others
    case 0x5346414F:  // AFS
    case 0x00C36400:  // Ceph
    case 0x01021997:  // 9p
    case 0x0BD00BD0:  // Lustre
      return true;
  }
  return false;
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string>& told = *new std::set<std::string>;  // threads may still warn when a process ends
  std::lock_guard lock(mutex);
  if (told.insert(text).second) notice("warning: " + text);
}

}  // namespace metac
