// Tensors of the wire format: typed fields, raw bytes, files beside the model, sparse ones made dense.
#include <charconv>
#include <cstring>

#include "compiler/ir/element.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/checked.h"
#include "compiler/support/file_system.h"
#include "frontends/onnx/wire.h"

namespace metac {
namespace {

constexpr int max_rank = 32;
constexpr int64_t max_dim = int64_t{1} << 40;
constexpr int64_t max_dense_bytes = int64_t{1} << 30;  // of a sparse tensor made dense

std::vector<int64_t> checked_shape(const google::protobuf::RepeatedField<int64_t>& dims) {
  if (dims.size() > max_rank) fail("has rank ", dims.size(), "; the limit is ", max_rank);
  std::vector<int64_t> shape(dims.begin(), dims.end());
  int64_t count = 1;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] < 0) fail("has the negative dim ", shape[k], " at axis ", k, " (dims ", to_string(shape), ")");
    if (shape[k] > max_dim)
      fail("has the dim ", shape[k], " at axis ", k, "; the limit is 2^40 (dims ", to_string(shape), ")");
    std::optional<int64_t> product = checked_mul(count, std::max<int64_t>(shape[k], 1));
    if (!product || *product > (int64_t{1} << 59)) fail("dims overflow: ", to_string(shape));
    count = *product;
  }
  return shape;
}

Tensor tensor_of_bytes(DType dtype, std::vector<int64_t> shape, FileBytes bytes) {
  Tensor tensor{dtype, std::move(shape), nullptr, {}};
  if (bytes.size != tensor.byte_count())
    fail("dims ", to_string(tensor.shape), " of ", name_of(dtype), " need ", tensor.byte_count(), " bytes, found ",
         bytes.size);
  bool aligned = reinterpret_cast<uintptr_t>(bytes.data.get()) % size_of(dtype) == 0;
  // A bool that is neither 0 nor 1 would be undefined behaviour in whatever computes with it.
  bool valid =
      dtype != DType::boolean || bytes.view().find_first_not_of(std::string_view("\0\1", 2)) == std::string_view::npos;
  if (aligned && valid) {
    tensor.bytes = std::move(bytes.data);
    return tensor;
  }
  std::byte* data = nullptr;
  Tensor copy = make_tensor(dtype, tensor.shape, &data);
  if (valid) std::memcpy(data, bytes.data.get(), bytes.size);
  for (size_t i = 0; i < bytes.size && !valid; ++i) data[i] = std::byte{bytes.data.get()[i] != std::byte{0}};
  return copy;
}

template <typename T, typename Field>
Tensor tensor_of_values(DType dtype, std::vector<int64_t> shape, const Field& values) {
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(dtype, std::move(shape), &data);
  auto* out = reinterpret_cast<T*>(data);
  for (auto value : values) {
    if constexpr (std::is_integral_v<T>)
      if (static_cast<decltype(value)>(static_cast<T>(value)) != value)
        fail("holds ", value, ", which no ", name_of(dtype), " can be");
    *out++ = static_cast<T>(value);
  }
  return tensor;
}

// Typed fields: each dtype has one of them.
Tensor decode_typed(wire::Tensor& proto, DType dtype, std::vector<int64_t> shape) {
  int64_t count = Tensor{dtype, shape, nullptr, {}}.element_count();
  auto check = [&](int64_t found, const char* field) {
    if (found != count) fail("dims ", to_string(shape), " need ", count, " elements, found ", found, " in ", field);
  };
  int fields = (proto.float_data_size() > 0) + (proto.int32_data_size() > 0) + (proto.int64_data_size() > 0) +
               (proto.double_data_size() > 0) + (proto.uint64_data_size() > 0) + (proto.string_data_size() > 0);
  if (fields > 1) fail("holds data in ", fields, " fields at once");
  switch (dtype) {
    case DType::f32:
      return check(proto.float_data_size(), "float_data"), tensor_of_values<float>(dtype, shape, proto.float_data());
    case DType::f64:
      return check(proto.double_data_size(), "double_data"), tensor_of_values<double>(dtype, shape, proto.double_data());
    case DType::i64:
      return check(proto.int64_data_size(), "int64_data"), tensor_of_values<int64_t>(dtype, shape, proto.int64_data());
    case DType::u64:
      return check(proto.uint64_data_size(), "uint64_data"), tensor_of_values<uint64_t>(dtype, shape, proto.uint64_data());
    case DType::u32:
      return check(proto.uint64_data_size(), "uint64_data"), tensor_of_values<uint32_t>(dtype, shape, proto.uint64_data());
    case DType::string: {
      check(proto.string_data_size(), "string_data");
      Tensor tensor{dtype, shape, nullptr, {}};
      for (std::string& text : *proto.mutable_string_data()) tensor.strings.push_back(std::move(text));
      return tensor;
    }
    default:
      break;
  }
  // What has no field of its own: integers as they are, of floats the bits.
  check(proto.int32_data_size(), "int32_data");
  return with_element(dtype, [&](auto zero) -> Tensor {
    using T = decltype(zero);
    if constexpr (is_truth_element<T>) {
      std::vector<int32_t> bits;
      for (int32_t value : proto.int32_data()) bits.push_back(value != 0);
      return tensor_of_values<uint8_t>(dtype, shape, bits);
    } else if constexpr (std::is_integral_v<T>) {
      return tensor_of_values<T>(dtype, shape, proto.int32_data());
    } else if constexpr (sizeof(T) == 2) {
      return tensor_of_values<uint16_t>(dtype, shape, proto.int32_data());
    } else {
      METAC_ASSERT(false, name_of(dtype), " has a field of its own");
    }
  });
}

int64_t external_number(const std::string& key, const std::string& text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    fail("external data: ", key, " is ", quoted(text), ", not a number of bytes");
  return value;
}

FileBytes external_bytes(const wire::Tensor& proto, const std::string& folder, size_t needed) {
  std::optional<std::string> location;
  int64_t offset = 0, length = -1;
  for (const wire::Entry& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = external_number("offset", entry.value());
    if (entry.key() == "length") length = external_number("length", entry.value());
  }
  if (!location || location->empty()) fail("external data without a location");
  if (length >= 0 && static_cast<size_t>(length) != needed)
    fail("external data: length ", length, ", but dims ", to_string({proto.dims().begin(), proto.dims().end()}), " need ",
         needed, " bytes");
  try {
    return read_inside(folder, *location, offset, static_cast<int64_t>(needed));
  } catch (const CompileError& error) {
    fail("external data: ", error.diagnostic.text());
  }
}

}  // namespace

int32_t onnx_number_of(DType dtype) { return info(dtype).onnx_number; }

Tensor decode_tensor(wire::Tensor& proto, const std::string& folder, const FileBytes* raw_data) {
  std::optional<DType> dtype = dtype_of_onnx_number(proto.data_type());
  if (!dtype) fail("is of ", name_of_onnx_number(proto.data_type()), ", which this build does not know");
  std::vector<int64_t> shape = checked_shape(proto.dims());
  bool typed = proto.float_data_size() + proto.int32_data_size() + proto.int64_data_size() + proto.double_data_size() +
                   proto.uint64_data_size() + proto.string_data_size() >
               0;
  if (proto.data_location() == external_location) {
    if (*dtype == DType::string) fail("strings cannot be external data");
    if (typed || raw_data || !proto.raw_data().empty()) fail("holds data although it is marked as external");
    size_t needed = Tensor{*dtype, shape, nullptr, {}}.byte_count();
    return tensor_of_bytes(*dtype, std::move(shape), external_bytes(proto, folder, needed));
  }
  if (proto.data_location() != 0) fail("has data_location ", proto.data_location(), ", which is not known");
  if (!proto.has_raw_data()) return decode_typed(proto, *dtype, std::move(shape));
  if (typed && (raw_data || !proto.raw_data().empty())) fail("holds both raw_data and typed data");
  if (typed) return decode_typed(proto, *dtype, std::move(shape));
  if (*dtype == DType::string) fail("holds strings in raw_data");
  if (raw_data) return tensor_of_bytes(*dtype, std::move(shape), *raw_data);
  auto owner = std::shared_ptr<std::string>(proto.release_raw_data());
  FileBytes bytes{std::shared_ptr<const std::byte>(owner, reinterpret_cast<const std::byte*>(owner->data())), owner->size()};
  return tensor_of_bytes(*dtype, std::move(shape), std::move(bytes));
}

Initializer decode_initializer(wire::Tensor& proto, const std::string& folder, const FileBytes* raw_data) {
  std::optional<PackedNumbers> packed = packed_numbers_of(proto.data_type(), {});
  if (packed) {
    packed->shape = checked_shape(proto.dims());
    proto.set_data_type(onnx_number_of(DType::u8));
    proto.clear_dims();
    proto.add_dims(packed_bytes(*packed));
  }
  Initializer made{proto.name(), {}, std::move(packed)};
  made.tensor = decode_tensor(proto, folder, raw_data);
  return made;
}

Tensor decode_sparse_tensor(wire::SparseTensor& proto, const std::string& folder) {
  std::vector<int64_t> shape = checked_shape(proto.dims());
  Tensor values = decode_tensor(*proto.mutable_values(), folder), indices = decode_tensor(*proto.mutable_indices(), folder);
  if (indices.dtype != DType::i64) fail("sparse: its indices are ", name_of(indices.dtype), ", not int64");
  if (values.dtype == DType::string) fail("sparse tensors of strings are not known");
  if (values.shape.size() != 1) fail("sparse: its values have dims ", to_string(values.shape), ", not one dim");
  int64_t count = values.shape[0];
  int rank = static_cast<int>(shape.size());
  bool linear = indices.shape.size() == 1;
  if (indices.shape != (linear ? std::vector<int64_t>{count} : std::vector<int64_t>{count, rank}))
    fail("sparse: ", count, " values of rank ", rank, " have indices of dims ", to_string(indices.shape));
  Tensor outline{values.dtype, shape, nullptr, {}};
  if (outline.byte_count() > max_dense_bytes)
    fail("sparse: would be ", outline.byte_count(), " bytes when dense; the limit is ", max_dense_bytes);
  std::byte* data = nullptr;
  Tensor dense = make_tensor(values.dtype, shape, &data);
  size_t width = size_of(values.dtype);
  const int64_t* index = indices.data<int64_t>();
  for (int64_t n = 0; n < count; ++n) {
    int64_t position = 0;
    for (int k = 0; k < (linear ? 1 : rank); ++k) {
      int64_t i = *index++, extent = linear ? dense.element_count() : shape[k];
      if (i < 0 || i >= extent) fail("sparse: index ", i, " of value ", n, " is outside 0..", extent - 1);
      position = linear ? i : position * extent + i;
    }
    std::memcpy(data + position * width, values.bytes.get() + n * width, width);
  }
  return dense;
}

void encode_tensor(const Tensor& tensor, wire::Tensor& proto) {
  proto.set_data_type(onnx_number_of(tensor.dtype));
  for (int64_t dim : tensor.shape) proto.add_dims(dim);
  if (tensor.dtype == DType::string)
    for (const std::string& text : tensor.strings) proto.add_string_data(text);
  else
    proto.set_raw_data(tensor.bytes.get(), tensor.byte_count());
}

void encode_initializer(const Initializer& initializer, wire::Tensor& proto) {
  proto.set_name(initializer.name);
  encode_tensor(initializer.tensor, proto);
  if (!initializer.packed) return;
  proto.set_data_type(initializer.packed->onnx_dtype);
  proto.clear_dims();
  for (const int64_t dim : initializer.packed->shape) proto.add_dims(dim);
}

Tensor read_tensor_proto(std::string_view bytes, const std::string& path, std::string* name) {
  wire::Tensor proto;
  parse_message(bytes, path, "an ONNX tensor", proto);
  if (name) *name = proto.name();
  try {
    return decode_tensor(proto, parent_folder(path));
  } catch (const CompileError& error) {
    throw CompileError(Diagnostic{path, concat("tensor ", quoted(proto.name())), error.diagnostic.text()});
  }
}

std::string to_tensor_proto_bytes(const Tensor& tensor, const std::string& name) {
  wire::Tensor proto;
  proto.set_name(name);
  encode_tensor(tensor, proto);
  return proto.SerializeAsString();
}

}  // namespace metac
