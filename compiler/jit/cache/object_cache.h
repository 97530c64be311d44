// Compiled objects on disk, by content. One file an entry, named by the SHA-256 of its key:
//
//   "MTCO" | u32 version | u64 key bytes | u64 object bytes | key | object | SHA-256 of all before, in hexadecimal
//
// The key is the whole input of the compilation (compiler, arguments, text), and the whole key is compared after the
// name matched. An entry appears by rename from a file beside it, so a reader sees a whole entry or none, whatever was
// killed when; power loss can leave a short file, which the checksum finds. What fails the check is set aside (*.bad),
// told once, and compiled again. Why no database: docs/decisions/kernel_cache.md.
//
// While one process compiles a key, others that want it sleep in flock on <name>.lock: the kernel frees the lock of a
// killed holder. Where flock cannot be relied on, everyone compiles for himself and the renames do no harm.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/jit/cache/cache_counts.h"

namespace metac {

class FileLock;

struct CacheStatistics {
  int64_t hits = 0, misses = 0, damaged = 0;
};

struct CacheSummary {
  std::string directory, problem;
  int64_t entries = 0, bytes = 0, limit = 0;
  int64_t found = 0, compiled = 0;  // times that entries were found and kernels compiled, by all processes that have ended
};

struct CacheEntry {
  std::string name, kind;  // kind: "kernel", "module", "headers", "library", "training program"; "" where it cannot be read
  int64_t bytes = 0, found = 0;
  double made_s = -1, used_s = 0;  // seconds ago; -1: the file system does not know
};

class ObjectCache {
 public:
  // An empty directory: every lookup misses, nothing is stored.
  explicit ObjectCache(std::string directory);
  // The one that the environment names (cache_directory.h); says once why where there is none.
  static ObjectCache& of_user();

  // The object of `key`: from disk, or from make(), then stored. Errors of the disk are warnings. Thread-safe.
  std::string get_or_make(const std::string& key, const std::function<std::string()>& make);

  std::optional<std::string> load(const std::string& key);
  // By the entry's name alone: for entries that name others. The name is the hash of the key, which is looked at.
  std::optional<std::string> load_named(const std::string& name);
  void store(const std::string& key, const std::string& object);
  static std::string name_of(const std::string& key);
  // For who makes several entries at once: the lock of processes and threads that make the same. Null: there is none.
  std::unique_ptr<FileLock> lock(const std::string& what) const;
  void count(int64_t found, int64_t made);
  void write_counts() { counts_.write(); }

  CacheSummary summary() const;
  std::vector<CacheEntry> list() const;  // the most recently used first
  int64_t limit() const;          // bytes; the least recently used entries go when it is exceeded
  int64_t set_limit(int64_t bytes);  // kept in the directory; returns the bytes freed. Throws CompileError
  int64_t evict(int64_t limit);   // returns the bytes freed; sweeps temporary files older than an hour
  int64_t clear();
  int64_t evict_unused(double seconds);  // those that nobody has used for so long; returns the bytes freed
  CacheStatistics statistics() const;

 private:
  struct Entry;
  std::vector<Entry> entries() const;
  template <typename Condition>
  int64_t remove_if(const Condition& condition);
  std::string path_of(const std::string& name) const { return directory_ + "/" + name + ".obj"; }
  template <typename HasKey>
  std::optional<std::string> load_entry(const std::string& name, const HasKey& has_key);

  std::string directory_;
  CacheCounts counts_;
  bool locks_ = true;  // flock can be relied on
};

}  // namespace metac
