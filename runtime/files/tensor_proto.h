// A TensorProto file (.pb, as ONNX's test data has them) as a tensor. Field numbers: onnx.proto, message TensorProto.
#pragma once
#include "tensor_files.h"

namespace METAC_RUNTIME_NAMESPACE {

class ProtoReader {
 public:
  ProtoReader(const char* data, size_t size) : at_(data), end_(data + size) {}
  bool more() const { return good_ && at_ < end_; }
  bool good() const { return good_; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ >= end_ || shift > 63) break;
      const unsigned char byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    good_ = false;
    return 0;
  }
  uint64_t fixed(size_t bytes) {
    uint64_t value = 0;
    if (static_cast<size_t>(end_ - at_) < bytes) return good_ = false, 0;
    std::memcpy(&value, at_, bytes);
    at_ += bytes;
    return value;
  }
  ProtoReader block() {
    const uint64_t length = varint();
    if (!good_ || length > static_cast<uint64_t>(end_ - at_)) {
      good_ = false;
      return ProtoReader(end_, 0);
    }
    ProtoReader inner(at_, static_cast<size_t>(length));
    at_ += length;
    return inner;
  }
  void skip(uint64_t wire) {
    if (wire == 0)
      varint();
    else if (wire == 1)
      fixed(8);
    else if (wire == 2)
      block();
    else if (wire == 5)
      fixed(4);
    else
      good_ = false;
  }
  const char* data() const { return at_; }
  size_t size() const { return static_cast<size_t>(end_ - at_); }

 private:
  const char *at_, *end_;
  bool good_ = true;
};

inline bool dtype_of_onnx(uint64_t code, ScalarType* dtype) {  // strings have no elements here
#define ROW(id, name, element, spelled, kind, onnx, numpy) \
  if (code == onnx) *dtype = ScalarType::id;               \
  if (code == onnx) return ScalarType::id != ScalarType::string;
  METAC_DTYPES(ROW)
#undef ROW
  return false;
}

inline std::string parse_tensor_proto(const std::vector<char>& content, FileTensor* tensor) {
  ProtoReader in(content.data(), content.size());
  uint64_t type = 0;
  bool raw = false;
  std::vector<uint64_t> values;  // of the typed fields, as their bits
  tensor->dims.clear();
  auto repeated = [&](uint64_t wire, size_t fixed_bytes, auto add) {
    if (wire != 2) return add(fixed_bytes == 0 ? in.varint() : in.fixed(fixed_bytes));
    ProtoReader packed = in.block();
    while (packed.more()) add(fixed_bytes == 0 ? packed.varint() : packed.fixed(fixed_bytes));
  };
  while (in.more()) {
    const uint64_t key = in.varint(), wire = key & 7;
    switch (key >> 3) {
      case 1:
        repeated(wire, 0, [&](uint64_t v) { tensor->dims.push_back(static_cast<int64_t>(v)); });
        break;
      case 2:
        type = in.varint();
        break;
      case 4:
        repeated(wire, 4, [&](uint64_t v) { values.push_back(v); });
        break;
      case 5:
      case 7:
      case 11:
        repeated(wire, 0, [&](uint64_t v) { values.push_back(v); });
        break;
      case 10:
        repeated(wire, 8, [&](uint64_t v) { values.push_back(v); });
        break;
      case 9: {
        if (wire != 2) return "the tensor file is damaged";
        const ProtoReader bytes = in.block();
        tensor->bytes.assign(bytes.data(), bytes.data() + bytes.size());
        raw = true;
        break;
      }
      default:
        in.skip(wire);
    }
  }
  if (!in.good()) return "the tensor file is damaged";
  if (!dtype_of_onnx(type, &tensor->dtype))
    return "element type " + std::to_string(type) + " of a tensor file is not supported";
  const int64_t bytes = bytes_of_dims(tensor->dtype, tensor->dims);
  if (bytes < 0) return "the tensor file's dims overflow";
  if (!raw) {  // little-endian: the low bytes of each value are the element
    const size_t size = static_cast<size_t>(size_of(tensor->dtype));
    tensor->bytes.resize(values.size() * size);
    for (size_t i = 0; i < values.size(); ++i) std::memcpy(tensor->bytes.data() + i * size, &values[i], size);
  }
  if (tensor->bytes.size() != static_cast<size_t>(bytes))
    return "the tensor file has " + std::to_string(tensor->bytes.size()) + " bytes, its shape needs " +
           std::to_string(bytes);
  return "";
}

// By the file's ending; `name` picks an array of an .npz (its only one where it has just one).
inline std::string read_tensor(const std::string& path, const std::string& name, FileTensor* tensor) {
  std::vector<char> content;
  std::string error = read_whole(path, &content);
  if (!error.empty()) return error;
  auto ends = [&](const char* with) {
    const size_t length = std::strlen(with);
    return path.size() >= length && path.compare(path.size() - length, length, with) == 0;
  };
  if (ends(".pb")) {
    error = parse_tensor_proto(content, tensor);
  } else if (ends(".npz")) {
    std::vector<std::pair<std::string, FileTensor>> all;
    error = parse_npz(content, &all);
    if (error.empty()) {
      for (auto& entry : all) {
        if (entry.first != name && all.size() != 1) continue;
        *tensor = std::move(entry.second);
        return "";
      }
      error = "no array \"" + name + "\" in it";
    }
  } else {
    error = parse_npy(content.data(), content.size(), tensor);
  }
  return error.empty() ? "" : path + ": " + error;
}

}  // namespace METAC_RUNTIME_NAMESPACE
