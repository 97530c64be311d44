#include "compiler/codegen/package/tar_file.h"

#include <cstdio>
#include <cstring>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr size_t block = 512;
constexpr int64_t most_bytes = int64_t{1} << 33;  // eleven octal digits

// POSIX.1-1988 with the prefix of 1990.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2], user[32],
      group[32], major[8], minor[8], prefix[155], unused[12];
};
static_assert(sizeof(Header) == block);

template <size_t N>
void put(char (&field)[N], const std::string& text) {
  METAC_ASSERT(text.size() <= N, "a field of a tar archive holds ", N, " characters: ", text);
  std::memcpy(field, text.data(), text.size());
}

template <size_t N>
void put_octal(char (&field)[N], int64_t value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%0*llo", static_cast<int>(N) - 1, static_cast<long long>(value));
  put(field, digits);
}

}  // namespace

TarFile::TarFile(OutputFile& out)
    : compressor_(Compressor::Form::gzip, [&out](std::string_view bytes) { out.write(bytes); }) {
  add_folders("");
}

void TarFile::write_header(const std::string& path, char type, int mode, int64_t bytes, const std::string& link) {
  Header header = {};
  const size_t slash =
      path.size() <= sizeof header.name ? std::string::npos : path.find('/', path.size() - sizeof header.name - 1);
  if (slash != std::string::npos) put(header.prefix, path.substr(0, slash));
  put(header.name, slash == std::string::npos ? path : path.substr(slash + 1));
  put_octal(header.mode, mode);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, bytes);
  put_octal(header.mtime, package_date);
  header.type = type;
  put(header.link, link);
  put(header.magic, std::string("ustar\0", 6));
  put(header.version, "00");
  put(header.user, "root");
  put(header.group, "root");
  put_octal(header.major, 0);
  put_octal(header.minor, 0);
  std::memset(header.checksum, ' ', sizeof header.checksum);  // its own bytes count as spaces
  unsigned sum = 0;
  for (size_t k = 0; k < block; ++k) sum += reinterpret_cast<const unsigned char*>(&header)[k];
  std::snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
  compressor_.write({reinterpret_cast<const char*>(&header), block});
}

void TarFile::add_folders(const std::string& path) {
  for (size_t at = 0; at != std::string::npos; at = path.find('/', at + 1)) {
    const std::string folder = at == 0 ? "./" : "./" + path.substr(0, at) + "/";
    if (folders_.insert(folder).second) write_header(folder, '5', 0755, 0, "");
  }
}

void TarFile::add(const PackageFile& file) {
  add_folders(file.path);
  if (!file.link.empty()) return write_header("./" + file.path, '2', 0777, 0, file.link);
  const int64_t bytes = bytes_of(file);
  if (bytes >= most_bytes) fail(file.path, " has ", bytes, " bytes; a file of a Debian package has less than ", most_bytes);
  write_header("./" + file.path, '0', file.executable ? 0755 : 0644, bytes, "");
  for_each_piece(file, [&](std::string_view piece) { compressor_.write(piece); });
  compressor_.write(std::string((block - static_cast<size_t>(bytes) % block) % block, '\0'));
}

void TarFile::close() {
  compressor_.write(std::string(2 * block, '\0'));
  compressor_.finish();
}

}  // namespace metac
