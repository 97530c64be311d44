// Names of records and fields are those of PKWARE's APPNOTE.TXT 6.3, by number: 4.3.7 local file header, 4.3.12 central
// directory, 4.3.14 to 4.3.16 its end, 4.5.3 ZIP64's extra field.
#include "compiler/codegen/package/zip_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include "compiler/codegen/package/compressor.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr uint32_t elsewhere = 0xffffffff;    // the number is in ZIP64's record
constexpr int64_t large_member = 0xff000000;  // compressed it might exceed 32 bits
constexpr uint16_t first_date = 1 << 5 | 1;   // package_date as MS-DOS has it: January 1st of year 0, which is 1980
constexpr uint16_t made_by_unix = 3 << 8;     // external attributes are a mode
constexpr uint16_t names_are_utf8 = 1 << 11;  // general purpose bit 11
constexpr uint16_t deflated = 8;

// Little-endian numbers, one after the other.
class Record {
 public:
  Record& u16(uint64_t value) { return number(value, 2); }
  Record& u32(uint64_t value) { return number(value, 4); }
  Record& u64(uint64_t value) { return number(value, 8); }
  Record& text(const std::string& text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& number(uint64_t value, int size) {
    for (int k = 0; k < size; ++k) bytes_ += static_cast<char>(value >> (8 * k) & 255);
    return *this;
  }
  std::string bytes_;
};

}  // namespace

std::string ZipFile::header(const Member& m, bool in_directory) {
  const bool far = in_directory && m.at >= elsewhere;
  Record extra;
  if (m.large || far) extra.u16(1).u16((m.large ? 16 : 0) + (far ? 8 : 0));
  if (m.large) extra.u64(m.bytes).u64(m.packed);
  if (far) extra.u64(m.at);
  const uint16_t version = m.large || far ? 45 : 20;
  Record record;
  record.u32(in_directory ? 0x02014b50 : 0x04034b50);
  if (in_directory) record.u16(made_by_unix | version);
  record.u16(version).u16(names_are_utf8).u16(deflated).u16(0).u16(first_date).u32(m.crc);
  record.u32(m.large ? elsewhere : m.packed).u32(m.large ? elsewhere : m.bytes);
  record.u16(m.path.size()).u16(extra.bytes().size());
  if (in_directory) record.u16(0).u16(0).u16(0).u32(m.attributes).u32(far ? elsewhere : m.at);
  return record.text(m.path).text(extra.bytes()).bytes();
}

void ZipFile::add(const PackageFile& file) {
  METAC_ASSERT(file.link.empty(), "a link in a wheel");
  Member m;
  m.path = file.path;
  m.attributes = static_cast<uint32_t>(S_IFREG | (file.executable ? 0755 : 0644)) << 16;
  m.at = out_.size();
  m.large = bytes_of(file) >= large_member;
  out_.write(header(m, false));
  const int64_t begin = out_.size();
  Compressor compressor(Compressor::Form::bare, [&](std::string_view packed) { out_.write(packed); });
  for_each_piece(file, [&](std::string_view piece) {
    m.crc = static_cast<uint32_t>(crc32_z(m.crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size()));
    m.bytes += static_cast<int64_t>(piece.size());
    compressor.write(piece);
  });
  compressor.finish();
  m.packed = out_.size() - begin;
  out_.write_at(m.at, header(m, false));
  members_.push_back(std::move(m));
}

void ZipFile::close() {
  const int64_t begin = out_.size();
  for (const Member& m : members_) out_.write(header(m, true));
  const int64_t end = out_.size();
  METAC_ASSERT(members_.size() < 0xffff, members_.size(), " members of a zip archive");
  if (end >= elsewhere) {
    Record far;
    far.u32(0x06064b50).u64(44).u16(made_by_unix | 45).u16(45).u32(0).u32(0);
    far.u64(members_.size()).u64(members_.size()).u64(end - begin).u64(begin);
    out_.write(far.u32(0x07064b50).u32(0).u64(end).u32(1).bytes());
  }
  Record last;
  last.u32(0x06054b50).u16(0).u16(0).u16(members_.size()).u16(members_.size());
  out_.write(last.u32(end - begin).u32(end >= elsewhere ? elsewhere : begin).u16(0).bytes());
  out_.close();
}

}  // namespace metac
