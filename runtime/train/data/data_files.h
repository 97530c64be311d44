// Files of data: mapped into memory, or copied from past the map, inflated where they end in .gz, and found or missed with a
// list of where they were looked for.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "../../files/tensor_files.h"
#include "../train_tables.h"
#include "decoders.h"

namespace metac::train {

// The bytes of a file, as long as anything that points to them shares it.
struct FileBytes {
  const char* data = nullptr;
  size_t size = 0;
  std::string path;
  std::vector<char> inflated;
  void* map = nullptr;
  size_t map_size = 0;
  int descriptor = -1;

  FileBytes() = default;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;
  ~FileBytes() {
    if (map != nullptr) munmap(map, map_size);
    if (descriptor >= 0) ::close(descriptor);
  }

  // Copies bytes [begin, begin + count) of the file, past the map: pages of the map that are touched stay in the process's
  // memory. Several threads may.
  void copy(size_t begin, size_t count, char* to) const {
    while (count > 0) {
      const ssize_t got = pread(descriptor, to, count, static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("cannot read ", path, ": ", system_reason());
      if (got == 0) fail(path, " ends at byte ", begin, "; it was longer when it was opened");
      begin += static_cast<size_t>(got), to += got, count -= static_cast<size_t>(got);
    }
  }

  // What was read so far need not stay in memory; it is read from the file again where somebody asks for it.
  void forget() const {
    if (map != nullptr) madvise(map, map_size, MADV_DONTNEED);
  }
};

inline bool ends_in(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

inline std::shared_ptr<FileBytes> map_file(const std::string& path) {
  auto bytes = std::make_shared<FileBytes>();
  bytes->path = path;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail("cannot open ", path, ": ", system_reason());
  struct stat about;
  const bool regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  void* map = regular && about.st_size > 0
                  ? mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ, MAP_PRIVATE, file, 0)
                  : MAP_FAILED;
  bytes->descriptor = file;
  if (!regular) fail(path, " is no regular file");
  if (about.st_size == 0) fail(path, " is empty");
  if (map == MAP_FAILED) fail("cannot read ", path, ": ", system_reason());
  bytes->map = map;
  bytes->map_size = bytes->size = static_cast<size_t>(about.st_size);
  bytes->data = static_cast<const char*>(map);
  if (ends_in(path, ".gz")) {
    bytes->inflated = gunzip(bytes->data, bytes->size, path);
    bytes->forget();
    bytes->data = bytes->inflated.data();
    bytes->size = bytes->inflated.size();
  }
  return bytes;
}

// The first of `candidates` that is there, else a Fault that lists them all. `what`: "the field \"image\" for training".
inline std::string found_file(const std::vector<std::string>& candidates, const std::string& what) {
  for (const std::string& path : candidates) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  std::string text = "no data for " + what + ". Looked for:";
  for (const std::string& path : candidates) text += "\n  " + path;
  std::error_code error;
  fail(text, "\nRelative paths begin at ", std::filesystem::current_path(error).string(),
       "; --data DIR says where the data are.");
}

// `path` below the folder of the data; absolute paths stay.
inline std::string below(const std::string& folder, const std::string& path) {
  return path.empty() ? folder : (std::filesystem::path(folder) / path).string();
}

// A file of which the recipe has the beginning ("mnist/train-", or a folder) and a field the end ("images-idx3-ubyte").
inline std::string file_of_field(const std::string& begin, const std::string& end, const std::vector<std::string>& endings,
                                 const std::string& what) {
  std::vector<std::string> candidates;
  std::error_code error;
  const bool folder = std::filesystem::is_directory(begin, error);
  const std::string path = folder ? (std::filesystem::path(begin) / end).string() : begin + end;
  for (const std::string& ending : endings) candidates.push_back(path + ending);
  if (!folder)
    for (const std::string& ending : endings) candidates.push_back((std::filesystem::path(begin) / end).string() + ending);
  return found_file(candidates, what);
}

}  // namespace metac::train
