#include "compiler/jit/cache_directory.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// mkdir -p with mode 0700; existing parents are taken as they are.
bool make_directories(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string prefix = path.substr(0, end);
    if (mkdir(prefix.c_str(), 0700) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES) return false;
    if (end == std::string::npos) break;
  }
  struct stat status;
  return stat(path.c_str(), &status) == 0 || (errno = errno == ENOENT ? EACCES : errno, false);
}

}  // namespace

CacheDirectory find_cache_directory() {
  std::string path = environment("METAC_CACHE_DIR"), from = "METAC_CACHE_DIR";
  if (path.empty() && !environment("XDG_CACHE_HOME").empty()) path = environment("XDG_CACHE_HOME") + "/metac", from = "XDG_CACHE_HOME";
  if (path.empty() && !environment("HOME").empty()) path = environment("HOME") + "/.cache/metac", from = "HOME";
  if (path.empty()) return {"", "neither METAC_CACHE_DIR nor HOME is set"};
  if (path[0] != '/') return {"", concat(from, " is not an absolute path: ", quoted(path))};
  while (path.size() > 1 && path.back() == '/') path.pop_back();

  struct stat status;
  if (lstat(path.c_str(), &status) != 0) {
    if (!make_directories(path)) return {"", concat("cannot make cache dir ", path, ": ", std::strerror(errno))};
    if (lstat(path.c_str(), &status) != 0) return {"", concat("cannot use cache dir ", path, ": ", std::strerror(errno))};
  }
  std::string advice = "; set METAC_CACHE_DIR";
  if (S_ISLNK(status.st_mode)) return {"", concat("cache dir ", path, " is a symbolic link", advice)};
  if (!S_ISDIR(status.st_mode)) return {"", concat("cache dir ", path, " is not a directory", advice)};
  if (status.st_uid != geteuid()) return {"", concat("cache dir ", path, " belongs to another user", advice)};
  if (status.st_mode & (S_IWGRP | S_IWOTH)) return {"", concat("cache dir ", path, " is writable by others", advice)};
  return {path, ""};
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
  static std::set<std::string> told;
  std::lock_guard lock(mutex);
  if (told.insert(text).second) std::fprintf(stderr, "metac: warning: %s\n", text.c_str());
}

}  // namespace metac
