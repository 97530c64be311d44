// The files of a package, and the one file that holds them.
#pragma once
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace metac {

// Of everything in a package: the same files are the same package, whenever it is made. 1980-01-01, where zip's dates begin.
constexpr int64_t package_date = 315532800;

struct PackageFile {
  std::string path;  // in the package, without a slash in front
  std::string text;
  std::string from;  // the file that it is a copy of; empty: it is `text`
  std::string link;  // the file that it is a symbolic link to; empty: it is none
  bool executable = false;
};

int64_t bytes_of(const PackageFile& file);
// The content from the beginning to the end, in pieces: weights may be larger than memory.
void for_each_piece(const PackageFile& file, const std::function<void(std::string_view)>& take);

// Written from the beginning to the end; what is known later is put where place was left. Throws CompileError.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void write_at(int64_t at, std::string_view bytes);  // over what is there
  int64_t size() const { return size_; }
  void close();

 private:
  [[noreturn]] void failed() const;

  std::string path_;
  std::FILE* file_;
  int64_t size_ = 0;
};

}  // namespace metac
