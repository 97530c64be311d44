// Writes a zip archive, its members compressed: what a wheel is. Members and archives above 4 GiB have ZIP64's records.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/package/package_file.h"

namespace metac {

class ZipFile {
 public:
  explicit ZipFile(const std::string& path) : out_(path) {}
  void add(const PackageFile& file);  // no link, which wheels do not know
  void close();                       // writes the directory of what was added

 private:
  struct Member {
    std::string path;
    uint32_t crc = 0, attributes = 0;
    int64_t packed = 0, bytes = 0, at = 0;
    bool large = false;  // has ZIP64's record
  };
  static std::string header(const Member& member, bool in_directory);

  OutputFile out_;
  std::vector<Member> members_;
};

}  // namespace metac
