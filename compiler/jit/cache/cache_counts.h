// How often entries of the kernel cache were found, and kernels compiled, by all processes: kept in the cache's folder, in a
// file "hits" to which every process appends what it has counted, one write at a time:
//
//   <name of an entry> <times found>
//   gone <times found>                   entries that are there no more
//   compiled <kernels>
//
// A process counts in memory and writes at its end, and now and then before. What a killed one had not written is lost, and
// a line that cannot be read is passed over: these are figures for people, and nothing depends on them.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace metac {

class CacheCounts {
 public:
  // An empty directory: nothing is counted.
  explicit CacheCounts(std::string directory) : directory_(std::move(directory)) {}
  CacheCounts(const CacheCounts&) = delete;
  CacheCounts& operator=(const CacheCounts&) = delete;
  ~CacheCounts() { write(); }

  // Thread-safe, as all that follow.
  void found(const std::string& name);
  void compiled(int64_t kernels);
  void write() noexcept;  // what was counted since; in a forked child what the child has counted

  struct Sums {
    std::map<std::string, int64_t> found;     // by the entry's name
    int64_t all_found = 0, compiled = 0;      // also of entries that are gone
  };
  Sums read() const;  // of all processes, as far as they have written
  void forget();      // from now on all are 0

 private:
  std::string path() const { return directory_ + "/hits"; }
  void begin();
  std::string take();
  void append();
  void shorten();

  const std::string directory_;
  mutable std::mutex mutex_;
  std::map<std::string, int64_t> pending_;
  int64_t pending_sum_ = 0;
  pid_t process_ = 0;  // whose they are
};

}  // namespace metac
