// Writes a tar archive (ustar) compressed as a .gz: folders, files and links of root's, all of one date.
#pragma once
#include <set>
#include <string>

#include "compiler/codegen/package/compressor.h"
#include "compiler/codegen/package/package_file.h"

namespace metac {

class TarFile {
 public:
  // Appends to `out`.
  explicit TarFile(OutputFile& out);
  void add(const PackageFile& file);  // and, before it, the folders on the way that are not there yet
  void close();

 private:
  void add_folders(const std::string& path);
  void write_header(const std::string& path, char type, int mode, int64_t bytes, const std::string& link);

  Compressor compressor_;
  std::set<std::string> folders_;
};

}  // namespace metac
