// Files, read safely and written whole.
//
// Reading never blocks on a FIFO or a device: only regular files are opened. Writing never leaves half a file or half a
// folder at its final path: the content goes to a temporary sibling (so that the rename stays within one file system and
// a full or noexec /tmp does not matter), is synced, and takes its place by rename. Errors are CompileErrors that name the
// path and the system's reason; on an error the old content is intact and the temporary is gone.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace metac {

// The bytes of a file, or of a part of it: a heap block or a mapping, shared.
struct FileBytes {
  std::shared_ptr<const std::byte> data;
  size_t size = 0;
  std::string_view view() const { return {reinterpret_cast<const char*>(data.get()), size}; }
};

// The file system as metac uses it; RealFiles is the machine's, MemoryFiles serves tests.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual bool exists(const std::string& path) const = 0;
  virtual std::string read(const std::string& path) const = 0;
  virtual void write(const std::string& path, std::string_view content) = 0;  // atomically
  // Writes a whole folder atomically: relative path -> content. `may_replace` is asked when something is there already.
  virtual void write_folder(const std::string& path, const std::map<std::string, std::string>& files,
                            const std::function<bool(const std::string&)>& may_replace) = 0;
  virtual std::vector<std::string> list(const std::string& folder) const = 0;  // names, sorted
};

class RealFiles : public FileSystem {
 public:
  bool exists(const std::string& path) const override;
  std::string read(const std::string& path) const override;
  void write(const std::string& path, std::string_view content) override;
  void write_folder(const std::string& path, const std::map<std::string, std::string>& files,
                    const std::function<bool(const std::string&)>& may_replace) override;
  std::vector<std::string> list(const std::string& folder) const override;
};

class MemoryFiles : public FileSystem {
 public:
  bool exists(const std::string& path) const override;
  std::string read(const std::string& path) const override;
  void write(const std::string& path, std::string_view content) override;
  void write_folder(const std::string& path, const std::map<std::string, std::string>& files,
                    const std::function<bool(const std::string&)>& may_replace) override;
  std::vector<std::string> list(const std::string& folder) const override;
  std::map<std::string, std::string> files;
};

// A regular file that is open for reading.
class RegularFile {
 public:
  explicit RegularFile(const std::string& path, size_t limit = size_t{1} << 40);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  size_t size() const { return size_; }  // when it was opened
  // Refuse what the file does not have any more.
  FileBytes read(size_t offset, size_t bytes) const;  // into a block of its own
  void read_into(size_t offset, size_t bytes, void* to) const;

 private:
  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
};

// The whole file in one heap block. Refuses what is no regular file and what exceeds `limit` bytes.
FileBytes read_file(const std::string& path, size_t limit = size_t{1} << 40);

// Bytes [offset, offset + size) of the regular file `relative` below `folder`; size < 0: to its end. Mapped when large.
// Refuses whatever could leave the folder: absolute paths, "..", symbolic links on the way, hard links, non-files.
FileBytes read_inside(const std::string& folder, const std::string& relative, int64_t offset = 0, int64_t size = -1);

void write_file(const std::string& path, std::string_view content);  // atomically
// The folders on the way to a file that is to be written, where they are missing.
void make_parents(const std::string& path);
void write_file(const std::string& path, const std::vector<std::string_view>& pieces);

// A folder that appears at `target` whole or not at all. Work in path() (files, builds), then commit().
class StagedFolder {
 public:
  // Missing parents of `target` are made, and removed again where nothing is committed. If `target` exists,
  // `may_replace(target)` decides; the default takes empty folders.
  explicit StagedFolder(std::string target, const std::function<bool(const std::string&)>& may_replace = {});
  ~StagedFolder();  // removes what was not committed
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  const std::string& path() const { return staging_; }
  void write(const std::string& relative, std::string_view content);  // makes the folders on the way
  void commit();  // syncs and exchanges with what stood at target, which is then removed

 private:
  void make_parents();
  void remove_parents();

  std::string target_, staging_;
  std::vector<std::string> made_parents_;  // the outermost first
  bool replaces_ = false, committed_ = false;
};

std::string parent_folder(const std::string& path);  // "." when there is none, "" of what is no file
std::string file_name(const std::string& path);      // "model.onnx" of "a/model.onnx"

}  // namespace metac
