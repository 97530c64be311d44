// Read through the central directory, with every offset checked.
#include "compiler/api/npz.h"

#include <zlib.h>

#include <cstring>

#include "compiler/support/diagnostic.h"
#include "frontends/json/npy.h"

namespace metac {
namespace {

constexpr size_t end_record_bytes = 22, entry_bytes = 46, local_bytes = 30;

class Archive {
 public:
  Archive(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  std::map<std::string, Tensor> read() {
    size_t end = find_end_record();
    uint64_t count = number(end + 10, 2), at = number(end + 16, 4);
    if (count == 0xffff || at == 0xffffffff) {  // zip64: the locator stands right before, with the 64-bit record's offset
      if (end < 20 || number(end - 20, 4) != 0x07064b50) bad("its zip64 record is missing");
      uint64_t record = number(end - 12, 8);
      count = number(record + 32, 8);
      at = number(record + 48, 8);
    }
    std::map<std::string, Tensor> arrays;
    for (uint64_t i = 0; i < count; ++i) at = read_entry(at, arrays);
    return arrays;
  }

 private:
  [[noreturn]] void bad(const char* why) { throw CompileError({path_, "", concat("not a whole .npz file: ", why)}); }

  uint64_t number(uint64_t at, size_t size) {
    if (at > bytes_.size() || size > bytes_.size() - at) bad("an offset points past its end");
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at, size);
    return value;
  }
  std::string_view part(uint64_t at, uint64_t size) {
    if (at > bytes_.size() || size > bytes_.size() - at) bad("an offset points past its end");
    return bytes_.substr(at, size);
  }

  size_t find_end_record() {
    for (size_t back = end_record_bytes; back <= bytes_.size() && back < end_record_bytes + 65536; ++back)
      if (number(bytes_.size() - back, 4) == 0x06054b50) return bytes_.size() - back;
    bad("it has no zip directory");
  }

  // Sizes and offset of 2^32 - 1 stand in the zip64 extra field instead, in this order.
  void read_zip64(std::string_view extra, uint64_t& full, uint64_t& packed, uint64_t& offset) {
    while (extra.size() >= 4) {
      uint16_t id, size;
      std::memcpy(&id, extra.data(), 2);
      std::memcpy(&size, extra.data() + 2, 2);
      if (size > extra.size() - 4) return;
      if (id == 1) {
        size_t at = 4;
        for (uint64_t* value : {&full, &packed, &offset}) {
          if (*value != 0xffffffff) continue;
          if (at + 8 > size_t{size} + 4) bad("a zip64 field is too short");
          std::memcpy(value, extra.data() + at, 8);
          at += 8;
        }
      }
      extra.remove_prefix(size_t{size} + 4);
    }
  }

  uint64_t read_entry(uint64_t at, std::map<std::string, Tensor>& arrays) {
    if (number(at, 4) != 0x02014b50) bad("its zip directory is damaged");
    uint64_t method = number(at + 10, 2), crc = number(at + 16, 4), packed = number(at + 20, 4), full = number(at + 24, 4);
    uint64_t name_size = number(at + 28, 2), extra_size = number(at + 30, 2), comment_size = number(at + 32, 2);
    uint64_t offset = number(at + 42, 4);
    std::string name(part(at + entry_bytes, name_size));
    read_zip64(part(at + entry_bytes + name_size, extra_size), full, packed, offset);
    if (number(offset, 4) != 0x04034b50) bad("an entry is damaged");
    std::string_view data = part(offset + local_bytes + number(offset + 26, 2) + number(offset + 28, 2), packed);
    std::string inflated;
    if (method == 8) {
      inflated = inflate_bytes(data, full);
      data = inflated;
    } else if (method != 0 || packed != full) {
      bad("an entry is compressed in a way this build does not know");
    }
    if (crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()) != crc) bad("an entry's checksum is wrong");
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    std::shared_ptr<std::byte[]> copy(new std::byte[data.size()]);
    std::memcpy(copy.get(), data.data(), data.size());
    arrays[name] = tensor_of_npy({std::shared_ptr<const std::byte>(copy, copy.get()), data.size()});
    return at + entry_bytes + name_size + extra_size + comment_size;
  }

  std::string inflate_bytes(std::string_view data, uint64_t full) {
    if (full / 1032 > data.size() + 1) bad("an entry claims an impossible size");  // deflate shrinks at most 1032 to 1
    std::string out(full, '\0');
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) bad("zlib cannot start");
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    int status = Z_OK;
    uint64_t in_left = data.size(), out_left = full;
    while (status == Z_OK) {  // zlib counts in 32 bits
      uInt in = stream.avail_in = static_cast<uInt>(std::min<uint64_t>(in_left, 1u << 30));
      uInt room = stream.avail_out = static_cast<uInt>(std::min<uint64_t>(out_left, 1u << 30));
      status = inflate(&stream, Z_NO_FLUSH);
      in_left -= in - stream.avail_in;
      out_left -= room - stream.avail_out;
      if (status == Z_OK && in == stream.avail_in && room == stream.avail_out) break;
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END || out_left != 0) bad("an entry's compressed data is damaged");
    return out;
  }

  std::string_view bytes_;
  const std::string& path_;
};

}  // namespace

std::map<std::string, Tensor> read_npz(std::string_view bytes, const std::string& path) {
  return Archive(bytes, path).read();
}

namespace {

void put(std::string& to, uint64_t value, size_t bytes) {
  for (size_t k = 0; k < bytes; ++k) to += static_cast<char>(value >> (8 * k) & 0xff);
}

// What the local header and the directory say alike: version 2.0, UTF-8 names, stored, 1 January 1980.
std::string common_part(uint32_t crc, uint64_t size, const std::string& name) {
  std::string text;
  put(text, 20, 2), put(text, 0x800, 2), put(text, 0, 2), put(text, 0, 2), put(text, 0x21, 2);
  put(text, crc, 4), put(text, size, 4), put(text, size, 4), put(text, name.size(), 2), put(text, 0, 2);
  return text;
}

}  // namespace

std::string npz_bytes(const std::map<std::string, Tensor>& arrays) {
  std::string file, directory;
  for (const auto& [array, tensor] : arrays) {
    const std::string name = array + ".npy", content = to_npy_bytes(tensor);
    if (content.size() > UINT32_MAX || file.size() > UINT32_MAX || name.size() > UINT16_MAX)
      fail(quoted(array), " is too large for a .npz file without zip64: an array of less than 4 GiB is wanted");
    const auto* bytes = reinterpret_cast<const Bytef*>(content.data());
    const uint32_t crc = static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), bytes, content.size()));
    const std::string about = common_part(crc, content.size(), name);
    put(directory, 0x02014b50, 4), put(directory, 20, 2);
    directory += about;
    put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4), put(directory, file.size(), 4);
    directory += name;
    put(file, 0x04034b50, 4);
    file += about + name + content;
  }
  if (file.size() > UINT32_MAX || arrays.size() >= UINT16_MAX)
    fail("the arrays are too large for a .npz file without zip64");
  const size_t at = file.size();
  file += directory;
  put(file, 0x06054b50, 4), put(file, 0, 2), put(file, 0, 2), put(file, arrays.size(), 2), put(file, arrays.size(), 2);
  put(file, directory.size(), 4), put(file, at, 4), put(file, 0, 2);
  return file;
}

}  // namespace metac
