// Where compiled kernels are kept between runs, and whether that place can be trusted: machine code is loaded from it, so
// nobody else may be able to write there.
#pragma once
#include <cstdint>
#include <string>

namespace metac {

struct CacheDirectory {
  std::string path;     // empty: run without a cache
  std::string problem;  // why not, for one warning
};

// METAC_CACHE_DIR, else XDG_CACHE_HOME/metac, else HOME/.cache/metac; made with mode 0700 where it is missing. Refused:
// a relative path, a symbolic link, another user's directory, one that group or others can write to.
CacheDirectory find_cache_directory();

// Does the directory lie on a file system where flock cannot be relied on (NFS, SMB, FUSE, ...)?
bool is_remote(const std::string& directory);

// One line on standard error, once per text and process.
void warn_once(const std::string& text);

}  // namespace metac
