// The folder in which a user's processes leave each other what is costly to find again: compiled kernels (compiler/jit), and
// which algorithms of a GPU's libraries were the fastest (cuda/algorithm_file.h).
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "../status.h"

namespace METAC_RUNTIME_NAMESPACE {

// METAC_CACHE_DIR, else XDG_CACHE_HOME/metac, else HOME/.cache/metac; made with mode 0700 where it is missing. Refused
// (false, and why): a relative path, a symbolic link, another user's directory, one that group or others can write to.
inline bool find_cache_directory(char (&path)[PATH_MAX], Failure& failure) {
  const char* from = nullptr;
  path[0] = 0;
  for (const char* name : {"METAC_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) {
    const char* const value = secure_getenv(name);
    if (value == nullptr || value[0] == 0) continue;
    from = name;
    const char* const rest = std::strcmp(name, "HOME") == 0             ? "/.cache/metac"
                             : std::strcmp(name, "XDG_CACHE_HOME") == 0 ? "/metac"
                                                                        : "";
    if (snprintf(path, sizeof path, "%s%s", value, rest) >= static_cast<int>(sizeof path))
      return failure.set(Status::io, "%s is too long a path", from);
    break;
  }
  if (from == nullptr) return failure.set(Status::io, "neither METAC_CACHE_DIR nor HOME is set");
  if (path[0] != '/') return failure.set(Status::io, "%s is not an absolute path: \"%s\"", from, path);
  for (size_t length = std::strlen(path); length > 1 && path[length - 1] == '/';) path[--length] = 0;

  struct stat status;
  if (lstat(path, &status) != 0) {
    // mkdir -p; parents that are there are taken as they are.
    for (char* end = path;;) {
      end = std::strchr(end + 1, '/');
      if (end != nullptr) *end = 0;
      const bool good = mkdir(path, 0700) == 0 || errno == EEXIST || errno == EROFS || errno == EACCES;
      if (end != nullptr) *end = '/';
      if (!good) return failure.set(Status::io, "cannot make cache dir %s: %s", path, std::strerror(errno));
      if (end == nullptr) break;
    }
    if (stat(path, &status) != 0)
      return failure.set(Status::io, "cannot make cache dir %s: %s", path, std::strerror(errno == ENOENT ? EACCES : errno));
    if (lstat(path, &status) != 0) return failure.set(Status::io, "cannot use cache dir %s: %s", path, std::strerror(errno));
  }
  const char* const advice = "; set METAC_CACHE_DIR";
  if (S_ISLNK(status.st_mode)) return failure.set(Status::io, "cache dir %s is a symbolic link%s", path, advice);
  if (!S_ISDIR(status.st_mode)) return failure.set(Status::io, "cache dir %s is not a directory%s", path, advice);
  if (status.st_uid != geteuid()) return failure.set(Status::io, "cache dir %s belongs to another user%s", path, advice);
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return failure.set(Status::io, "cache dir %s is writable by others%s", path, advice);
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
