#include "compiler/jit/cache/cache_counts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <sstream>

namespace metac {
namespace {

constexpr int64_t most_pending = 256;     // counted in memory
constexpr off_t shorten_bytes = 256 << 10;  // every so many that the file grows by, lines of the same name become one
constexpr const char *made = "compiled", *of_gone = "gone";  // names of no entry

std::string lines_of(const std::map<std::string, int64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) text += name + " " + std::to_string(count) + "\n";
  return text;
}

std::map<std::string, int64_t> sums_in(const std::string& path) {
  std::map<std::string, int64_t> sums;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t count = 0;
    if (words >> name >> count && count > 0 && (name == made || name == of_gone || name.size() == 64)) sums[name] += count;
  }
  return sums;
}

bool write_all(int file, const std::string& text) {
  return write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

// What a parent had counted is the parent's to write.
void CacheCounts::begin() {
  if (process_ == getpid()) return;
  process_ = getpid();
  pending_.clear();
  pending_sum_ = 0;
}

void CacheCounts::found(const std::string& name) {
  if (directory_.empty()) return;
  bool many = false;
  {
    const std::lock_guard lock(mutex_);
    begin();
    ++pending_[name];
    many = ++pending_sum_ >= most_pending;
  }
  if (many) write();
}

void CacheCounts::compiled(int64_t kernels) {
  if (directory_.empty() || kernels == 0) return;
  const std::lock_guard lock(mutex_);
  begin();
  pending_[made] += kernels;
}

std::string CacheCounts::take() {
  const std::lock_guard lock(mutex_);
  begin();
  std::string text = lines_of(pending_);
  pending_.clear();
  pending_sum_ = 0;
  return text;
}

void CacheCounts::write() noexcept {
  try {
    append();
  } catch (const std::bad_alloc&) {  // they are lost
  }
}

void CacheCounts::append() {
  if (directory_.empty()) return;
  const std::string text = take();
  if (text.empty()) return;
  const int file = open(path().c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file < 0) return;
  struct stat status;
  const off_t size = write_all(file, text) && fstat(file, &status) == 0 ? status.st_size : 0;
  close(file);
  if (size / shorten_bytes > std::max<off_t>(0, size - static_cast<off_t>(text.size())) / shorten_bytes) shorten();
}

// Rewrites the file with one line a name, and one for all entries that are gone. What others append to the old one meanwhile
// is lost.
void CacheCounts::shorten() {
  std::map<std::string, int64_t> sums;
  for (const auto& [name, count] : sums_in(path())) {
    const bool is_there = name == made || access((directory_ + "/" + name + ".obj").c_str(), F_OK) == 0;
    sums[is_there ? name : of_gone] += count;
  }
  const std::string fresh = path() + ".tmp";  // one at a time: who finds it there leaves it to the other
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  const bool good = write_all(file, lines_of(sums));
  close(file);
  if (!good || rename(fresh.c_str(), path().c_str()) != 0) unlink(fresh.c_str());
}

CacheCounts::Sums CacheCounts::read() const {
  Sums sums;
  if (directory_.empty()) return sums;
  sums.found = sums_in(path());
  for (const auto& [name, count] : sums.found) sums.all_found += name == made ? 0 : count;
  sums.compiled = sums.found[made];
  sums.found.erase(made), sums.found.erase(of_gone);
  return sums;
}

void CacheCounts::forget() {
  if (directory_.empty()) return;
  take();
  unlink(path().c_str());
}

}  // namespace metac
