#include "compiler/jit/cache/object_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "compiler/jit/cache/cache_directory.h"
#include "compiler/jit/cache/file_lock.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"
#include "compiler/support/host_process.h"

namespace metac {
namespace {

namespace fs = std::filesystem;

constexpr char magic[4] = {'M', 'T', 'C', 'O'};
constexpr uint32_t version = 1;
constexpr size_t head_bytes = 4 + 4 + 8 + 8, digest_bytes = 64;
constexpr int64_t default_limit = int64_t{1} << 30;
constexpr auto temporary_lifetime = std::chrono::hours(1);

std::atomic<int64_t> hits, misses, damaged;

std::string frame(const std::string& key, const std::string& object) {
  std::string out(magic, sizeof magic);
  uint64_t sizes[2] = {key.size(), object.size()};
  out.append(reinterpret_cast<const char*>(&version), sizeof version);
  out.append(reinterpret_cast<const char*>(sizes), sizeof sizes);
  out += key;
  out += object;
  return out + sha256_hex(out);
}

enum class Verdict { good, other_key, damaged };

// `has_key`: is this the key of what was looked for?
template <typename HasKey>
Verdict unframe(const std::string& bytes, const HasKey& has_key, std::string& object) {
  if (bytes.size() < head_bytes + digest_bytes) return Verdict::damaged;
  std::string_view body(bytes.data(), bytes.size() - digest_bytes);
  if (sha256_hex(body) != std::string_view(bytes).substr(body.size())) return Verdict::damaged;
  uint32_t found_version;
  uint64_t sizes[2];
  std::memcpy(&found_version, bytes.data() + 4, sizeof found_version);
  std::memcpy(sizes, bytes.data() + 8, sizeof sizes);
  if (std::memcmp(bytes.data(), magic, sizeof magic) != 0 || found_version != version) return Verdict::damaged;
  if (sizes[0] > body.size() || sizes[1] > body.size() || head_bytes + sizes[0] + sizes[1] != body.size())
    return Verdict::damaged;
  if (!has_key(std::string_view(bytes).substr(head_bytes, sizes[0]))) return Verdict::other_key;
  object = bytes.substr(head_bytes + sizes[0], sizes[1]);
  return Verdict::good;
}

// The whole file, or nothing where it cannot be opened or read. Never blocks on what is no regular file.
std::optional<std::string> read_entry(const std::string& path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  struct stat status;
  std::string bytes;
  bool good = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  if (good) {
    bytes.resize(status.st_size);
    size_t done = 0;
    while (done < bytes.size()) {
      ssize_t n = read(file, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      done += n;
    }
    bytes.resize(done);
  }
  close(file);
  return good ? std::optional(std::move(bytes)) : std::nullopt;
}

// Writes beside `path`, then renames. False: errno says why, nothing is left behind.
bool publish(const std::string& path, const std::string& bytes) {
  std::string temporary = path + ".XXXXXX.tmp";
  int file = mkostemps(temporary.data(), 4, O_CLOEXEC);
  if (file < 0) return false;
  bool good = true;
  for (size_t done = 0; good && done < bytes.size();) {
    ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    good = n > 0;
    if (good) done += n;
  }
  int error = errno;
  if (close(file) != 0) good = false, error = errno;
  if (good && rename(temporary.c_str(), path.c_str()) == 0) return true;
  if (good) error = errno;
  unlink(temporary.c_str());
  errno = error;
  return false;
}

double seconds_between(fs::file_time_type earlier, fs::file_time_type later) {
  return std::chrono::duration<double>(later - earlier).count();
}

double seconds_since_made(const fs::path& path) {
  struct statx status;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) != 0 || !(status.stx_mask & STATX_BTIME))
    return -1;
  return std::max(0.0, static_cast<double>(now.tv_sec - status.stx_btime.tv_sec) +
                           static_cast<double>(now.tv_nsec - static_cast<int64_t>(status.stx_btime.tv_nsec)) / 1e9);
}

// By how its key begins.
std::string kind_of(const fs::path& path) {
  char bytes[head_bytes + 24] = "";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const ssize_t count = file < 0 ? 0 : pread(file, bytes, sizeof bytes, 0);
  if (file >= 0) close(file);
  if (count <= static_cast<ssize_t>(head_bytes)) return "";
  const std::string_view key(bytes + head_bytes, static_cast<size_t>(count) - head_bytes);
  for (const auto& [begin, kind] : {std::pair("kernel\n", "kernel"),
                                    {"program\n", "program"},
                                    {"metac ", "module"},
                                    {"precompiled prelude", "headers"},
                                    {"project object", "library"},
                                    {"training program", "training program"}})
    if (key.starts_with(begin)) return kind;
  return "";
}

}  // namespace

struct ObjectCache::Entry {
  fs::path path;
  int64_t bytes;
  fs::file_time_type used;
};

ObjectCache::ObjectCache(std::string directory) : directory_(std::move(directory)), counts_(directory_) {
  if (!directory_.empty()) locks_ = !is_remote(directory_);
}

ObjectCache& ObjectCache::of_user() {
  // Never destroyed: threads may still compile when a process ends.
  static ObjectCache& cache = [&]() -> ObjectCache& {
    CacheDirectory found = find_cache_directory();
    if (found.path.empty()) warn_once("kernels are not cached: " + found.problem);
    // The program may lie in libmetac, where atexit does nothing (compiler/library/no_static_destructors.cpp).
    if (!is_guest()) on_exit([](int, void*) { of_user().write_counts(); }, nullptr);
    return *new ObjectCache(found.path);
  }();
  return cache;
}

std::string ObjectCache::name_of(const std::string& key) { return sha256_hex(key); }

template <typename HasKey>
std::optional<std::string> ObjectCache::load_entry(const std::string& name, const HasKey& has_key) {
  if (directory_.empty()) return std::nullopt;
  std::string path = path_of(name), object;
  std::optional<std::string> bytes = read_entry(path);
  if (!bytes) return std::nullopt;
  switch (unframe(*bytes, has_key, object)) {
    case Verdict::good:
      utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // "used now"; on a read-only disk it just ages
      counts_.found(name);
      return object;
    case Verdict::damaged:
      ++damaged;
      warn_once("a kernel cache entry is damaged and is compiled again; it is kept as " + path + ".bad");
      rename(path.c_str(), (path + ".bad").c_str());
      return std::nullopt;
    case Verdict::other_key:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> ObjectCache::load(const std::string& key) {
  return load_entry(name_of(key), [&](std::string_view found) { return found == key; });
}

std::optional<std::string> ObjectCache::load_named(const std::string& name) {
  if (name.size() != digest_bytes || name.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  return load_entry(name, [&](std::string_view found) { return sha256_hex(found) == name; });
}

std::unique_ptr<FileLock> ObjectCache::lock(const std::string& what) const {
  if (directory_.empty() || !locks_) return nullptr;
  return std::make_unique<FileLock>(path_of(name_of(what)) + ".lock");
}

void ObjectCache::count(int64_t found, int64_t made) {
  hits += found, misses += made;
  counts_.compiled(made);
}

void ObjectCache::store(const std::string& key, const std::string& object) {
  if (directory_.empty()) return;
  if (!publish(path_of(name_of(key)), frame(key, object))) {
    warn_once(concat("kernels are not cached: cannot write to ", directory_, ": ", std::strerror(errno)));
    return;
  }
  // A look at the whole directory costs some milliseconds: one store in 32 does it.
  static std::atomic<int> stores;
  if (stores++ % 32 == 0) evict(limit());
}

std::string ObjectCache::get_or_make(const std::string& key, const std::function<std::string()>& make) {
  if (std::optional<std::string> object = load(key)) return ++hits, *object;
  const std::unique_ptr<FileLock> held = lock(key);
  if (held && held->held())
    if (std::optional<std::string> object = load(key)) return ++hits, *object;
  count(0, 1);
  std::string object = make();
  store(key, object);
  return object;
}

std::vector<ObjectCache::Entry> ObjectCache::entries() const {
  std::vector<Entry> result;
  if (directory_.empty()) return result;
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    std::string extension = it->path().extension();
    if (extension != ".obj" && extension != ".tmp" && extension != ".bad" && extension != ".lock") continue;
    std::error_code gone;
    int64_t bytes = static_cast<int64_t>(it->file_size(gone));
    fs::file_time_type used = it->last_write_time(gone);
    if (!gone) result.push_back({it->path(), bytes, used});
  }
  return result;
}

int64_t ObjectCache::evict(int64_t limit) {
  std::vector<Entry> all = entries();
  // The oldest first; what no lookup can find any more goes after its hour whatever the limit.
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  int64_t total = 0, freed = 0;
  for (const Entry& entry : all) total += entry.bytes;
  fs::file_time_type old = fs::file_time_type::clock::now() - temporary_lifetime;
  for (const Entry& entry : all) {
    bool is_entry = entry.path.extension() == ".obj";
    if (is_entry ? total <= limit : entry.used > old) continue;
    std::error_code error;
    if (fs::remove(entry.path, error)) total -= entry.bytes, freed += entry.bytes;
  }
  return freed;
}

template <typename Condition>
int64_t ObjectCache::remove_if(const Condition& condition) {
  int64_t freed = 0;
  for (const Entry& entry : entries()) {
    std::error_code error;
    if (condition(entry) && fs::remove(entry.path, error)) freed += entry.bytes;
  }
  return freed;
}

int64_t ObjectCache::clear() {
  counts_.forget();
  return remove_if([](const Entry&) { return true; });
}

int64_t ObjectCache::evict_unused(double seconds) {
  const fs::file_time_type now = fs::file_time_type::clock::now();
  return remove_if([&](const Entry& entry) { return seconds_between(entry.used, now) > seconds; });
}

int64_t ObjectCache::limit() const {
  if (std::optional<std::string> text = read_entry(directory_ + "/limit")) {
    char* end = nullptr;
    int64_t bytes = std::strtoll(text->c_str(), &end, 10);
    if (end != text->c_str() && bytes >= 0) return bytes;
  }
  return default_limit;
}

int64_t ObjectCache::set_limit(int64_t bytes) {
  if (directory_.empty()) fail("there is no kernel cache: ", find_cache_directory().problem);
  if (!publish(directory_ + "/limit", std::to_string(bytes) + "\n"))
    fail("cannot write to ", directory_, ": ", std::strerror(errno));
  return evict(bytes);
}

CacheSummary ObjectCache::summary() const {
  CacheSummary result;
  result.directory = directory_;
  if (directory_.empty()) result.problem = find_cache_directory().problem;
  for (const Entry& entry : entries()) {
    result.entries += entry.path.extension() == ".obj";
    result.bytes += entry.bytes;
  }
  result.limit = limit();
  const CacheCounts::Sums counts = counts_.read();
  result.found = counts.all_found, result.compiled = counts.compiled;
  return result;
}

std::vector<CacheEntry> ObjectCache::list() const {
  const CacheCounts::Sums counts = counts_.read();
  const fs::file_time_type now = fs::file_time_type::clock::now();
  std::vector<CacheEntry> result;
  for (const Entry& entry : entries()) {
    if (entry.path.extension() != ".obj") continue;
    CacheEntry& row = result.emplace_back();
    row.name = entry.path.stem();
    row.kind = kind_of(entry.path);
    row.bytes = entry.bytes;
    row.used_s = std::max(0.0, seconds_between(entry.used, now));
    row.made_s = seconds_since_made(entry.path);
    if (const auto found = counts.found.find(row.name); found != counts.found.end()) row.found = found->second;
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const CacheEntry& a, const CacheEntry& b) { return a.used_s < b.used_s; });
  return result;
}

CacheStatistics ObjectCache::statistics() const { return {hits, misses, damaged}; }

}  // namespace metac
