#include "compiler/support/file_system.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "compiler/support/diagnostic.h"
#include "compiler/support/large_block.h"
#include "compiler/support/unfinished_folders.h"

namespace metac {
namespace {

namespace fs = std::filesystem;
constexpr size_t map_threshold = 1 << 20;  // smaller parts are cheaper to copy than to map

[[noreturn]] void fail_on(const std::string& path, const std::string& what) {
  throw CompileError(Diagnostic{shown(path), "", what});
}

[[noreturn]] void fail_errno(const std::string& path, const std::string& doing, int error) {
  if (error == ENOSPC || error == EDQUOT) fail_on(path, "no space left while " + doing);
  fail_on(path, "cannot be " + doing + ": " + std::strerror(error));
}

// A file descriptor that closes itself.
struct Descriptor {
  int fd = -1;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// O_NONBLOCK: opening a FIFO must not wait for a writer.
constexpr int open_flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

struct stat regular_file_status(int fd, const std::string& path) {
  struct stat status;
  if (::fstat(fd, &status) != 0) fail_errno(path, "read", errno);
  if (!S_ISREG(status.st_mode)) fail_on(path, S_ISDIR(status.st_mode) ? "is a folder, not a file" : "is not a regular file");
  return status;
}

void fill_from(int fd, const std::string& path, size_t offset, size_t size, void* to) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = ::pread(fd, static_cast<char*>(to) + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path, "read", errno);
    if (n == 0) fail_on(path, concat("shrank while it was read, from ", offset + size, " to ", offset + done, " bytes"));
    done += static_cast<size_t>(n);
  }
}

FileBytes read_part(int fd, const std::string& path, size_t offset, size_t size) {
  std::shared_ptr<std::byte> block = large_block(size);
  if (!block) throw std::bad_alloc();
  fill_from(fd, path, offset, size, block.get());
  return {block, size};
}

FileBytes map_part(int fd, const std::string& path, size_t offset, size_t size) {
  size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  size_t lead = offset % page, length = size + lead;
  void* base = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(offset - lead));
  if (base == MAP_FAILED) fail_errno(path, "mapped", errno);
  if (const off_t now = regular_file_status(fd, path).st_size; static_cast<size_t>(now) < offset + size) {
    ::munmap(base, length);
    fail_on(path, concat("became shorter while it was opened: ", now, " bytes"));
  }
  return {std::shared_ptr<const std::byte>(static_cast<const std::byte*>(base) + lead,
                                           [base, length](const std::byte*) { ::munmap(base, length); }),
          size};
}

void write_all(int fd, const std::string& path, std::string_view content) {
  while (!content.empty()) {
    ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(path, "written", errno);
    content.remove_prefix(static_cast<size_t>(n));
  }
}

void sync(int fd, const std::string& path) {
  // EINVAL: the file system knows no sync for this kind of file, which is then as durable as it gets.
  while (::fsync(fd) != 0)
    if (errno != EINTR) {
      if (errno == EINVAL || errno == EROFS) return;
      fail_errno(path, "written", errno);
    }
}

void sync_folder(const std::string& folder) {
  Descriptor d(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (d.fd >= 0) sync(d.fd, folder);
}

// Writes a fresh file and syncs it; mode 0666 less the umask. Nothing that stands there already is written to or followed.
void write_new(const std::string& path, const std::vector<std::string_view>& pieces) {
  Descriptor d(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (d.fd < 0) fail_errno(path, "written", errno);
  for (std::string_view piece : pieces) write_all(d.fd, path, piece);
  sync(d.fd, path);
}

// A name that nobody can take before: of random digits.
std::string temporary_beside(const std::string& path) {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    fail_on(path, "cannot be written: the system has no random number");
  std::string name = file_name(path);
  if (name.size() > 100) name.resize(100);
  return concat(parent_folder(path), "/.", name, ".tmp-", ::getpid(), "-", std::to_string(number));
}

bool is_inside(const std::string& relative) {
  if (relative.empty() || relative[0] == '/' || relative.find('\0') != std::string::npos) return false;
  for (const fs::path& part : fs::path(relative))
    if (part == "..") return false;
  return true;
}

}  // namespace

std::string parent_folder(const std::string& path) {
  size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return path.empty() ? "" : ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string file_name(const std::string& path) {
  size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

RegularFile::RegularFile(const std::string& path, size_t limit) : path_(path) {
  if (path.find('\0') != std::string::npos) fail_on(path, "holds a NUL byte, which no path can");
  Descriptor d(::open(path.c_str(), open_flags));
  if (d.fd < 0) fail_errno(path, "read", errno);
  struct stat status = regular_file_status(d.fd, path);
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > limit) fail_on(path, concat("has ", size_, " bytes; the limit is ", limit));
  fd_ = std::exchange(d.fd, -1);
}

RegularFile::~RegularFile() { ::close(fd_); }

FileBytes RegularFile::read(size_t offset, size_t bytes) const { return read_part(fd_, path_, offset, bytes); }

void RegularFile::read_into(size_t offset, size_t bytes, void* to) const { fill_from(fd_, path_, offset, bytes, to); }

FileBytes read_file(const std::string& path, size_t limit) {
  const RegularFile file(path, limit);
  return file.read(0, file.size());
}

FileBytes read_inside(const std::string& folder, const std::string& relative, int64_t offset, int64_t size) {
  if (!is_inside(relative)) fail("the path ", metac::quoted(relative), " leaves the model's folder");
  if (folder.empty())
    fail("the file ", metac::quoted(relative), " cannot be named by a model in memory, which has no folder");
  std::string shown = folder + "/" + relative;
  Descriptor at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.fd < 0) fail_errno(folder, "read", errno);
  // Component by component without following links, so that no check can be outrun by a rename.
  std::vector<std::string> parts;
  for (const fs::path& part : fs::path(relative))
    if (part != "." && !part.empty()) parts.push_back(part.string());
  if (parts.empty()) fail("the path ", metac::quoted(relative), " names no file");
  for (size_t i = 0; i < parts.size(); ++i) {
    bool last = i + 1 == parts.size();
    int fd = ::openat(at.fd, parts[i].c_str(), open_flags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
    if (fd < 0) {
      struct stat link;
      bool is_link = ::fstatat(at.fd, parts[i].c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(link.st_mode);
      if (is_link) fail_on(shown, "is or passes through a symbolic link, which may leave the model's folder");
      fail_errno(shown, "read", ::faccessat(at.fd, parts[i].c_str(), F_OK, 0) == 0 ? errno : ENOENT);
    }
    at = Descriptor(fd);
  }
  struct stat status = regular_file_status(at.fd, shown);
  if (status.st_nlink > 1)
    fail_on(shown, concat("has ", status.st_nlink, " hard links; it may be a file of another folder"));
  int64_t file_size = status.st_size;
  if (offset < 0 || offset > file_size) fail_on(shown, concat("offset ", offset, " is outside its ", file_size, " bytes"));
  if (size < 0) size = file_size - offset;
  if (size > file_size - offset)
    fail_on(shown, concat("offset ", offset, " and length ", size, " pass the end of its ", file_size, " bytes"));
  auto part = static_cast<size_t>(size) >= map_threshold ? map_part : read_part;
  return part(at.fd, shown, static_cast<size_t>(offset), static_cast<size_t>(size));
}

void write_file(const std::string& path, const std::vector<std::string_view>& pieces) {
  std::string temporary = temporary_beside(path);
  try {
    write_new(temporary, pieces);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_errno(path, "written", errno);
  } catch (CompileError& error) {
    ::unlink(temporary.c_str());
    error.diagnostic.file = shown(path);  // the user knows the target, not our temporary
    throw CompileError(error.diagnostic);
  }
  sync_folder(parent_folder(path));
}

void write_file(const std::string& path, std::string_view content) {
  write_file(path, std::vector<std::string_view>{content});
}

void make_parents(const std::string& path) {
  std::error_code error;
  fs::create_directories(parent_folder(path), error);
  if (error) fail_errno(path, "written", error.value());
}

StagedFolder::StagedFolder(std::string target, const std::function<bool(const std::string&)>& may_replace)
    : target_(std::move(target)) {
  if (target_.find('\0') != std::string::npos) fail_on(target_, "holds a NUL byte, which no path can");
  while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
  std::string name = file_name(target_);
  if (name.empty() || name == "." || name == ".." || target_ == "/")
    fail_on(target_, "cannot be replaced by an output folder");
  struct stat status;
  if (::lstat(target_.c_str(), &status) == 0) {
    if (!S_ISDIR(status.st_mode)) fail_on(target_, "exists and is not a folder");
    std::error_code ignored;
    if (!fs::is_empty(target_, ignored) && !(may_replace && may_replace(target_)))
      fail_on(target_, "exists and was not written by metac; name another output folder");
    replaces_ = true;
  } else if (errno != ENOENT) {
    fail_errno(target_, "written", errno);
  }
  make_parents();
  staging_ = temporary_beside(target_);
  add_unfinished_folder(staging_);
  if (::mkdir(staging_.c_str(), 0777) != 0) {
    int error = errno;
    forget_unfinished_folder(staging_);
    staging_.clear();
    remove_parents();
    fail_errno(target_, "written", error);
  }
}

void StagedFolder::make_parents() {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (std::string folder = parent_folder(target_); folder != "." && folder != "/" && !fs::exists(folder, ignored);
       folder = parent_folder(folder))
    missing.insert(missing.begin(), folder);
  for (const std::string& folder : missing) {
    if (::mkdir(folder.c_str(), 0777) == 0) {
      made_parents_.push_back(folder);
    } else if (const int error = errno; error != EEXIST) {
      remove_parents();
      fail_errno(target_, "written", error);
    }
  }
}

void StagedFolder::remove_parents() {
  for (; !made_parents_.empty(); made_parents_.pop_back()) ::rmdir(made_parents_.back().c_str());  // if it is still empty
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!committed_ && !staging_.empty()) fs::remove_all(staging_, ignored);
  if (!committed_) remove_parents();
  if (!staging_.empty()) forget_unfinished_folder(staging_);
}

void StagedFolder::write(const std::string& relative, std::string_view content) {
  METAC_ASSERT(is_inside(relative), relative);
  std::string path = staging_ + "/" + relative;
  std::error_code error;
  fs::create_directories(parent_folder(path), error);
  if (error) fail_errno(target_, "written", error.value());
  write_new(path, {content});
}

void StagedFolder::commit() {
  std::error_code error;
  for (fs::recursive_directory_iterator it(staging_, error), end; !error && it != end; it.increment(error))
    if (it->is_directory()) sync_folder(it->path());
  sync_folder(staging_);
  forget_unfinished_folder(staging_);  // what a signal has begun to remove must not appear at the target: waits then
  // A folder that did not reach the disk for certain is taken back, and whoever asked for it learns that it failed.
  auto sync_or_undo = [&](unsigned int exchange) {
    try {
      sync_folder(parent_folder(target_));
    } catch (...) {
      ::renameat2(AT_FDCWD, target_.c_str(), AT_FDCWD, staging_.c_str(), exchange);
      throw;
    }
  };
  if (!replaces_) {
    if (::rename(staging_.c_str(), target_.c_str()) != 0) fail_errno(target_, "written", errno);
    sync_or_undo(0);
  } else if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) == 0) {
    sync_or_undo(RENAME_EXCHANGE);
    add_unfinished_folder(staging_);  // the old content now
    fs::remove_all(staging_, error);
  } else {
    // File systems without exchange: the old folder steps aside first, and comes back should the second rename fail.
    std::string aside = temporary_beside(target_);
    if (::rename(target_.c_str(), aside.c_str()) != 0) fail_errno(target_, "written", errno);
    if (::rename(staging_.c_str(), target_.c_str()) != 0) {
      int cause = errno;
      if (::rename(aside.c_str(), target_.c_str()) != 0)
        fail_on(target_, "could not be restored; the old content is " + aside);
      fail_errno(target_, "written", cause);
    }
    fs::remove_all(aside, error);
    sync_folder(parent_folder(target_));
  }
  committed_ = true;
}

bool RealFiles::exists(const std::string& path) const {
  struct stat status;
  return ::stat(path.c_str(), &status) == 0;
}

std::string RealFiles::read(const std::string& path) const { return std::string(read_file(path).view()); }

void RealFiles::write(const std::string& path, std::string_view content) { write_file(path, content); }

void RealFiles::write_folder(const std::string& path, const std::map<std::string, std::string>& files,
                             const std::function<bool(const std::string&)>& may_replace) {
  StagedFolder folder(path, may_replace);
  for (const auto& [name, content] : files) folder.write(name, content);
  folder.commit();
}

std::vector<std::string> RealFiles::list(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename().string());
  if (error) fail_errno(folder, "listed", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace metac
