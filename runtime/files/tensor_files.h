// Tensors in files, for the command-line programs: .npy and .npz (NumPy; compressed ones where the program brings a decoder)
// and .pb (ONNX's TensorProto). Every count and offset of a file is checked before it is used. Errors are messages, empty
// where all went well. Written here and not taken from a library because generated projects need nothing but the standard
// library.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../memory.h"
#include "whole_file.h"

namespace METAC_RUNTIME_NAMESPACE {

struct FileTensor {
  ScalarType dtype = ScalarType::f32;
  std::vector<int64_t> dims;
  std::vector<char> bytes;
};

inline int64_t bytes_of_dims(ScalarType type, const std::vector<int64_t>& dims) {
  return bytes_of_dims(type, dims.data(), static_cast<int32_t>(dims.size()));
}

inline std::string read_whole(const std::string& path, std::vector<char>* content) {
  FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return "cannot open " + path;
  char piece[1 << 16];
  content->clear();
  for (size_t got; (got = std::fread(piece, 1, sizeof(piece), file)) > 0;)
    content->insert(content->end(), piece, piece + got);
  const bool bad = std::ferror(file) != 0;
  std::fclose(file);
  return bad ? "cannot read " + path : "";
}

// ---- .npy ----
inline const char* npy_code(ScalarType type) {
#define ROW(id, name, element, spelled, kind, onnx, numpy) numpy,
  static const char* const codes[] = {METAC_DTYPES(ROW)};
#undef ROW
  return codes[static_cast<int32_t>(type)];
}

// Sets dtype and dims of `tensor`, and where its elements begin; there are enough bytes for them.
inline std::string parse_npy_header(const char* data, size_t size, FileTensor* tensor, size_t* begin) {
  if (size < 10 || std::memcmp(data, "\x93NUMPY", 6) != 0) return "no .npy header";
  const unsigned char* u = reinterpret_cast<const unsigned char*>(data);
  const bool wide = u[6] >= 2;
  const size_t start = wide ? 12 : 10;
  if (size < start) return "the .npy header is cut short";
  const size_t length =
      wide ? u[8] | u[9] << 8 | u[10] << 16 | static_cast<size_t>(u[11]) << 24 : static_cast<size_t>(u[8] | u[9] << 8);
  if (length > size - start) return "the .npy header is cut short";
  const std::string header(data + start, length);
  auto after = [&](const char* key) {
    const size_t at = header.find(key);
    const size_t colon = at == std::string::npos ? at : header.find(':', at);
    return colon == std::string::npos ? std::string() : header.substr(colon + 1);
  };
  const std::string descr = after("'descr'"), order = after("'fortran_order'"), shape = after("'shape'");
  const size_t quote = descr.find('\''), end_quote = descr.find('\'', quote + 1);
  if (quote == std::string::npos || end_quote == std::string::npos) return "the .npy header has no element type";
  std::string code = descr.substr(quote + 1, end_quote - quote - 1);
  if (!code.empty() && (code[0] == '=' || (code[0] == '<' && code.size() == 3 && code[2] == '1')))
    code[0] = code[2] == '1' ? '|' : '<';
  bool known = false;  // of bfloat16 and uint16, whose code is the same, the last
#define ROW(id, name, element, spelled, kind, onnx, numpy)     \
  if (code == numpy && ScalarType::id != ScalarType::string) { \
    tensor->dtype = ScalarType::id;                            \
    known = true;                                              \
  }
  METAC_DTYPES(ROW)
#undef ROW
  if (!known) return "element type '" + code + "' of a .npy file is not supported";
  if (order.find("True") < order.find(',')) return "a .npy file in Fortran order is not supported; save it in C order";
  const size_t open = shape.find('('), close = shape.find(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return "the .npy header has no shape";
  tensor->dims.clear();
  const char* at = shape.c_str() + open + 1;
  const char* last = shape.c_str() + close;
  while (at < last) {
    char* next = nullptr;
    const long long dim = std::strtoll(at, &next, 10);
    if (next == at) break;
    tensor->dims.push_back(dim);
    at = next;
    while (at < last && (*at == ',' || *at == ' ' || *at == 'L')) ++at;
  }
  const int64_t bytes = bytes_of_dims(tensor->dtype, tensor->dims);
  if (bytes < 0 || static_cast<uint64_t>(bytes) > size - start - length)
    return "the .npy file has " + std::to_string(size - start - length) + " bytes of data, its shape needs " +
           std::to_string(bytes);
  *begin = start + length;
  return "";
}

inline std::string parse_npy(const char* data, size_t size, FileTensor* tensor) {
  size_t begin = 0;
  const std::string error = parse_npy_header(data, size, tensor, &begin);
  if (!error.empty()) return error;
  const char* const elements = data + begin;
  tensor->bytes.assign(elements, elements + bytes_of_dims(tensor->dtype, tensor->dims));
  return "";
}

inline std::string npy_header(ScalarType dtype, const int64_t* dims, int32_t rank) {
  std::string text = std::string("{'descr': '") + npy_code(dtype) + "', 'fortran_order': False, 'shape': (";
  for (int32_t d = 0; d < rank; ++d) text += std::to_string(dims[d]) + (rank == 1 ? "," : d + 1 < rank ? ", " : "");
  text += "), }";
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

inline std::string write_npy(const std::string& path, ScalarType dtype, const int64_t* dims, int32_t rank, const void* data,
                             int64_t bytes) {
  const std::string header = npy_header(dtype, dims, rank);
  WholeFile file;
  Failure failure;
  const bool good = file.open(path.c_str(), failure) && file.write(header.data(), header.size(), failure) &&
                    file.write(data, static_cast<size_t>(bytes), failure) && file.commit(failure, false);
  return good ? "" : failure.message;
}

// ---- .npz: a zip archive of .npy files ----
struct NpzEntry {
  std::string name;  // without .npy
  bool deflated;
  const char* data;
  size_t size, whole_size;  // as it stands in the archive, and inflated
  uint32_t crc;             // of the inflated bytes
};

inline std::string list_npz(const char* zip, size_t zip_size, std::vector<NpzEntry>* entries) {
  const unsigned char* u = reinterpret_cast<const unsigned char*>(zip);
  auto two = [&](size_t at) { return static_cast<size_t>(u[at] | u[at + 1] << 8); };
  auto four = [&](size_t at) { return two(at) | two(at + 2) << 16; };
  auto eight = [&](size_t at) { return four(at) | four(at + 4) << 32; };
  if (zip_size < 22) return "no .npz archive";
  size_t end = zip_size - 22;
  while (end > 0 && four(end) != 0x06054b50) --end;
  if (four(end) != 0x06054b50) return "no .npz archive";
  size_t at = four(end + 16);
  for (size_t left = two(end + 10); left > 0; --left) {
    if (at + 46 > zip_size || four(at) != 0x02014b50) return "the .npz archive's directory is damaged";
    const size_t method = two(at + 10), name_length = two(at + 28), extra = two(at + 30), comment = two(at + 32);
    if (at + 46 + name_length + extra + comment > zip_size) return "the .npz archive's directory is damaged";
    size_t size = four(at + 20), whole_size = four(at + 24), local = four(at + 42);
    std::string name(zip + at + 46, name_length);
    // zip64 sizes stand in an extra field: uncompressed, compressed, offset, each only where the plain field is full.
    for (size_t e = at + 46 + name_length; e + 4 <= at + 46 + name_length + extra; e += 4 + two(e + 2)) {
      if (two(e) != 1) continue;
      size_t field = e + 4;
      const size_t field_end = e + 4 + two(e + 2);
      if (field_end > zip_size) break;
      for (size_t* value : {&whole_size, &size, &local})
        if (*value == 0xffffffff && field + 8 <= field_end) *value = eight(field), field += 8;
    }
    if (method != 0 && method != 8) return "entry \"" + name + "\" of the .npz archive is compressed in an unknown way";
    if (local > zip_size || zip_size - local < 30) return "the .npz archive is damaged";
    const size_t data = local + 30 + two(local + 26) + two(local + 28);
    if (data > zip_size || size > zip_size - data) return "the .npz archive is cut short";
    if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0) name.resize(name.size() - 4);
    entries->push_back({std::move(name), method == 8, zip + data, size, whole_size, static_cast<uint32_t>(four(at + 16))});
    at += 46 + name_length + extra + comment;
  }
  return "";
}

inline std::string parse_npz(const std::vector<char>& zip, std::vector<std::pair<std::string, FileTensor>>* tensors) {
  std::vector<NpzEntry> entries;
  std::string error = list_npz(zip.data(), zip.size(), &entries);
  if (!error.empty()) return error;
  for (NpzEntry& entry : entries) {
    if (entry.deflated) return "the .npz archive is compressed; save it with numpy.savez";
    FileTensor tensor;
    error = parse_npy(entry.data, entry.size, &tensor);
    if (!error.empty()) return "entry \"" + entry.name + "\": " + error;
    tensors->emplace_back(std::move(entry.name), std::move(tensor));
  }
  return "";
}

}  // namespace METAC_RUNTIME_NAMESPACE
