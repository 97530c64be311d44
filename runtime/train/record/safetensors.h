// The safetensors format: eight bytes, the header's length in little-endian order; the header, JSON; the elements. A
// checkpoint has one tensor more, "metac.checksum": the CRC-32 of all bytes before it, which therefore are the file's last
// four. With the CRC of each tensor in the header's metadata a damaged file is not only refused, the message says what is
// damaged.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "../../files/json_text.h"
#include "../../files/whole_file.h"
#include "../data/data_files.h"
#include "../data/element_types.h"
#include "../json_reader.h"

namespace metac::train {

using METAC_RUNTIME_NAMESPACE::dtype_name;
using METAC_RUNTIME_NAMESPACE::json_string;

constexpr char checksum_name[] = "metac.checksum";

inline const char* safetensors_dtype(ScalarType type) {
  static const char* const names[] = {"F32", "F64", "F16", "BF16", "I8",  "I16",  "I32",
                                      "I64", "U8",  "U16", "U32",  "U64", "BOOL", ""};
  return names[static_cast<int32_t>(type)];
}

struct NamedTensor {
  std::string name;
  ScalarType dtype = ScalarType::f32;
  std::vector<int64_t> dims;
  const void* data = nullptr;
  int64_t bytes = 0;
};
using Metadata = std::map<std::string, std::string>;

inline std::string hexadecimal(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

// runtime/files/whole_file.h with exceptions.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path) { expect(file_.open(path.c_str(), failure_)); }
  void write(const void* data, size_t bytes) { expect(file_.write(data, bytes, failure_)); }
  void commit() { expect(file_.commit(failure_)); }

 private:
  void expect(bool good) const {
    if (!good) fail(failure_.message);
  }
  METAC_RUNTIME_NAMESPACE::WholeFile file_;
  METAC_RUNTIME_NAMESPACE::Failure failure_;
};

inline void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors, Metadata metadata,
                              bool checksums) {
  for (const NamedTensor& t : tensors)
    if (checksums) metadata["crc32 " + t.name] = hexadecimal(crc32(t.data, static_cast<size_t>(t.bytes)));
  std::string header = "{\"__metadata__\":{";
  for (const auto& entry : metadata)
    header += (header.back() == '{' ? "" : ",") + json_string(entry.first) + ":" + json_string(entry.second);
  header += "}";
  int64_t offset = 0;
  auto describe = [&](const std::string& name, ScalarType dtype, const std::vector<int64_t>& dims, int64_t bytes) {
    header += "," + json_string(name) + ":{\"dtype\":\"" + safetensors_dtype(dtype) + "\",\"shape\":[";
    for (size_t d = 0; d < dims.size(); ++d) header += (d > 0 ? "," : "") + std::to_string(dims[d]);
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + bytes) + "]}";
    offset += bytes;
  };
  for (const NamedTensor& t : tensors) describe(t.name, t.dtype, t.dims, t.bytes);
  if (checksums) describe(checksum_name, ScalarType::u32, {1}, 4);
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  const uint64_t length = header.size();
  WholeFile file(path);
  uint32_t crc = 0;
  auto put = [&](const void* data, size_t bytes) {
    crc = crc32(data, bytes, crc);
    file.write(data, bytes);
  };
  put(&length, sizeof length);
  put(header.data(), header.size());
  for (const NamedTensor& t : tensors) put(t.data, static_cast<size_t>(t.bytes));
  if (checksums) file.write(&crc, sizeof crc);
  file.commit();
}

struct SafeTensors {
  std::vector<NamedTensor> tensors;  // `data` points into the file
  Metadata metadata;
  std::shared_ptr<const FileBytes> file;

  const NamedTensor* find(const std::string& name) const {
    for (const NamedTensor& t : tensors)
      if (t.name == name) return &t;
    return nullptr;
  }
};

// `of`: the tensor that it is said of.
inline int64_t json_integer(const Json& value, const std::string& path, const std::string& of) {
  if (value.kind != Json::Kind::number || value.string.empty() || value.string.size() > 18 ||
      value.string.find_first_not_of("0123456789") != std::string::npos)
    fail(path, ": the header is damaged: a dim or an offset of ", quoted(of), " is no integer from 0 on");
  return std::stoll(value.string);
}

// Any safetensors file. With a checksum in it every byte is checked; `checked` demands one.
inline SafeTensors read_safetensors(const std::string& path, bool checked) {
  SafeTensors result;
  auto bytes = map_file(path);
  result.file = bytes;
  uint64_t length = 0;
  if (bytes->size >= 8) std::memcpy(&length, bytes->data, 8);
  if (bytes->size < 8 || length > bytes->size - 8)
    fail(path, ": cut short: ", bytes->size, " bytes, the header alone needs ",
         length > (uint64_t{1} << 40) ? "more" : std::to_string(length + 8));
  const char* const data = bytes->data + 8 + length;
  const int64_t data_bytes = static_cast<int64_t>(bytes->size - 8 - length);
  Json header;
  try {
    header = JsonReader::read(bytes->data + 8, data);
  } catch (const Fault& fault) {
    fail(path, ": the header is damaged (", fault.what(), ")");
  }
  int64_t end = 0;
  for (const auto& [name, about] : header.members) {
    if (name == "__metadata__") {
      for (const auto& entry : about.members) result.metadata[entry.name] = entry.value.string;
      continue;
    }
    NamedTensor t;
    t.name = name;
    const Json *dtype = about.find("dtype"), *shape = about.find("shape"), *offsets = about.find("data_offsets");
    if (dtype == nullptr || shape == nullptr || offsets == nullptr || shape->kind != Json::Kind::array ||
        offsets->items.size() != 2)
      fail(path, ": the header is damaged: ", quoted(name), " lacks its dtype, its shape or its two data_offsets");
    bool known = false;
    for (int32_t k = 0; k < static_cast<int32_t>(ScalarType::string); ++k)
      if (dtype->string == safetensors_dtype(static_cast<ScalarType>(k))) t.dtype = static_cast<ScalarType>(k), known = true;
    if (!known) fail(path, ": ", quoted(name), " has the element type ", quoted(dtype->string), ", which is not known");
    for (const Json& dim : shape->items) t.dims.push_back(json_integer(dim, path, name));
    const int64_t first = json_integer(offsets->items[0], path, name), last = json_integer(offsets->items[1], path, name);
    t.bytes = METAC_RUNTIME_NAMESPACE::bytes_of_dims(t.dtype, t.dims);
    if (t.bytes < 0 || last - first != t.bytes || first > data_bytes || last > data_bytes)
      fail(path, last > data_bytes
                     ? text_of(": cut short: ", data_bytes, " bytes of data, ", quoted(name), " ends at ", last)
                     : text_of(": the header is damaged: ", quoted(name), " has ", last - first,
                               " bytes of data, its shape and dtype need ", t.bytes));
    t.data = data + first;
    end = std::max(end, last);
    result.tensors.push_back(std::move(t));
  }
  if (end != data_bytes) fail(path, ": ", data_bytes, " bytes of data, the header speaks of ", end);
  const NamedTensor* checksum = result.find(checksum_name);
  if (checksum == nullptr || checksum->bytes != 4 || checksum->data != data + data_bytes - 4) {
    if (checked) fail(path, ": no checksum at its end: not a checkpoint, or a damaged one");
    return result;
  }
  uint32_t stored = 0;
  std::memcpy(&stored, checksum->data, 4);
  if (crc32(bytes->data, bytes->size - 4) == stored) return result;
  for (const NamedTensor& t : result.tensors) {
    const auto found = result.metadata.find("crc32 " + t.name);
    if (found != result.metadata.end() && found->second != hexadecimal(crc32(t.data, static_cast<size_t>(t.bytes))))
      fail(path, ": ", quoted(t.name), " is damaged (checksum)");
  }
  fail(path, ": damaged (checksum)");
}

}  // namespace metac::train
