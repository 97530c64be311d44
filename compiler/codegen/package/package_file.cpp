#include "compiler/codegen/package/package_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {

int64_t bytes_of(const PackageFile& file) {
  return static_cast<int64_t>(file.from.empty() ? file.text.size() : RegularFile(file.from).size());
}

void for_each_piece(const PackageFile& file, const std::function<void(std::string_view)>& take) {
  if (file.from.empty()) return take(file.text);
  constexpr size_t most = 1 << 20;
  const RegularFile from(file.from);
  std::vector<char> piece(std::min(most, from.size()));
  for (size_t at = 0; at < from.size(); at += most) {
    const size_t bytes = std::min(most, from.size() - at);
    from.read_into(at, bytes, piece.data());
    take({piece.data(), bytes});
  }
}

OutputFile::OutputFile(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wbx")) {
  if (!file_) failed();
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
}

void OutputFile::failed() const { fail("cannot write ", path_, ": ", std::strerror(errno)); }

void OutputFile::write(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) failed();
  size_ += static_cast<int64_t>(bytes.size());
}

void OutputFile::write_at(int64_t at, std::string_view bytes) {
  METAC_ASSERT(at + static_cast<int64_t>(bytes.size()) <= size_, "no place was left");
  if (fseeko(file_, at, SEEK_SET) != 0 || std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size() ||
      fseeko(file_, 0, SEEK_END) != 0)
    failed();
}

void OutputFile::close() {
  std::FILE* const file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0) failed();
}

}  // namespace metac
