#include "frontends/json/tensor_json.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "compiler/ir/element.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/base64.h"
#include "compiler/support/checked.h"
#include "compiler/support/file_system.h"
#include "frontends/json/npy.h"

namespace metac {
namespace {

using JsonKind = JsonValue::Kind;

constexpr int64_t max_bytes = int64_t{1} << 40;

std::vector<int64_t> shape_of_json(const JsonDocument& document, const JsonValue& value, DType dtype) {
  expect(document, value, JsonKind::array, "a tensor's shape");
  if (value.items.size() > 32) document.refuse(value.offset, "rank above 32");
  std::vector<int64_t> shape;
  int64_t bytes = std::max<int64_t>(static_cast<int64_t>(size_of(dtype)), 1);
  for (const JsonValue& item : value.items) {
    int64_t dim = expect_integer(document, item, "a tensor's dim");
    if (dim < 0) document.refuse(item.offset, concat("a negative dim: ", dim));
    std::optional<int64_t> product = checked_mul(bytes, std::max<int64_t>(dim, 1));
    if (!product || *product > max_bytes) document.refuse(value.offset, "the tensor would exceed 1 TiB");
    bytes = *product;
    shape.push_back(dim);
  }
  return shape;
}

template <typename T>
T integer_of_json(const JsonDocument& document, const JsonValue& value, std::string_view dtype) {
  expect(document, value, JsonKind::number, concat("an element of ", dtype));
  T number = 0;
  const char* end = value.text.data() + value.text.size();
  auto [stop, error] = std::from_chars(value.text.data(), end, number);
  if (stop != end || error != std::errc()) document.refuse(value.offset, concat(value.text.substr(0, 40), " is no ", dtype));
  return number;
}

template <typename T>
T single_or_double_of_json(const JsonDocument& document, const JsonValue& value) {
  if (value.is(JsonKind::string)) return static_cast<T>(real_of_json(document, value, "an element"));
  expect(document, value, JsonKind::number, "an element");
  T number = 0;
  auto [stop, error] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
  if (error == std::errc::result_out_of_range) {
    // Too small for the type is zero or subnormal, which rounding through a double finds; too large is a mistake.
    double wide = real_of_json(document, value, "an element");
    if (std::abs(wide) > std::numeric_limits<T>::max())
      document.refuse(value.offset, concat(value.text, " does not fit in a float32"));
    return static_cast<T>(wide);
  }
  return number;
}

void store_element(const JsonDocument& document, const JsonValue& value, DType dtype, std::byte* out) {
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    T element;
    if constexpr (std::is_same_v<T, double>) {
      element = single_or_double_of_json<double>(document, value);
    } else if constexpr (is_real_element<T>) {
      element = to_element<T>(single_or_double_of_json<float>(document, value));
    } else if constexpr (is_truth_element<T>) {
      expect(document, value, JsonKind::boolean, "an element of bool");
      element = to_element<T>(value.flag);
    } else {
      element = integer_of_json<T>(document, value, name_of(dtype));
    }
    std::memcpy(out, &element, sizeof element);
  });
}

// Elements in row-major order. A list of lists must have the tensor's shape; a flat list is taken for any.
void flatten(const JsonDocument& document, const JsonValue& value, const std::vector<int64_t>& shape, size_t level,
             std::vector<const JsonValue*>& out) {
  if (level == shape.size()) return out.push_back(&value);
  expect(document, value, JsonKind::array, concat("the data at depth ", level, " of a tensor of shape ", to_string(shape)));
  if (static_cast<int64_t>(value.items.size()) != shape[level])
    document.refuse(value.offset,
                    concat(value.items.size(), " items at depth ", level, " of a tensor of shape ", to_string(shape)));
  for (const JsonValue& item : value.items) flatten(document, item, shape, level + 1, out);
}

Tensor tensor_of_data(const JsonDocument& document, const JsonValue& data, DType dtype, const std::vector<int64_t>& shape) {
  std::vector<const JsonValue*> elements;
  bool flat = data.is(JsonKind::array) && !shape.empty() && (data.items.empty() || !data.items[0].is(JsonKind::array));
  Tensor outline{dtype, shape, nullptr, {}};
  flatten(document, data, flat ? std::vector<int64_t>{outline.element_count()} : shape, 0, elements);
  if (dtype == DType::string) {
    for (const JsonValue* element : elements) {
      if (!element->is(JsonKind::object)) {
        outline.strings.push_back(expect_string(document, *element, "an element of string"));
        continue;
      }
      JsonFields fields(document, *element, "an element that is not UTF-8");
      std::optional<std::string> bytes = from_base64(expect_string(document, fields.required("base64"), "base64"));
      if (!bytes) document.refuse(element->offset, "not base64");
      outline.strings.push_back(*bytes);
      fields.finish();
    }
    return outline;
  }
  std::byte* out = nullptr;
  Tensor tensor = make_tensor(dtype, shape, &out);
  for (size_t i = 0; i < elements.size(); ++i) store_element(document, *elements[i], dtype, out + i * size_of(dtype));
  return tensor;
}

// The bytes of a tensor as they are: base64 or part of a file.
Tensor tensor_of_raw(const JsonDocument& document, const JsonValue& at, FileBytes bytes, DType dtype,
                     const std::vector<int64_t>& shape) {
  if (dtype == DType::string) document.refuse(at.offset, "a tensor of strings is written as \"data\"");
  Tensor tensor{dtype, shape, nullptr, {}};
  if (tensor.byte_count() != bytes.size)
    document.refuse(at.offset, concat("shape ", to_string(shape), " of ", name_of(dtype), " needs ", tensor.byte_count(),
                                      " bytes, found ", bytes.size));
  if (dtype == DType::boolean && bytes.view().find_first_not_of(std::string_view("\0\1", 2)) != std::string_view::npos)
    document.refuse(at.offset, "a bool is neither 0 nor 1");
  if (reinterpret_cast<uintptr_t>(bytes.data.get()) % size_of(dtype) == 0) {
    tensor.bytes = std::move(bytes.data);
    return tensor;
  }
  std::byte* out = nullptr;
  Tensor copy = make_tensor(dtype, shape, &out);
  std::memcpy(out, bytes.data.get(), bytes.size);
  return copy;
}

void append_elements(const Tensor& tensor, size_t level, int64_t& next, std::string& out) {
  if (level < tensor.shape.size()) {
    out += '[';
    for (int64_t i = 0; i < tensor.shape[level]; ++i) {
      if (i) out += ", ";
      append_elements(tensor, level + 1, next, out);
    }
    out += ']';
    return;
  }
  int64_t i = next++;
  switch (tensor.dtype) {
    case DType::string:
      out += is_utf8(tensor.strings[i]) ? json_string(tensor.strings[i])
                                        : "{\"base64\": \"" + to_base64(tensor.strings[i]) + "\"}";
      break;
    case DType::boolean:
      out += integer_at(tensor, i) ? "true" : "false";
      break;
    case DType::u64:
      out += std::to_string(tensor.data<uint64_t>()[i]);
      break;
    case DType::f64:
      out += json_real(number_at(tensor, i), false);
      break;
    default:
      out += is_float(tensor.dtype) ? json_real(number_at(tensor, i), true) : std::to_string(integer_at(tensor, i));
  }
}

// A NaN's payload has no spelling.
bool has_nan(const Tensor& tensor) {
  if (!is_float(tensor.dtype)) return false;
  for (int64_t i = 0; i < tensor.element_count(); ++i)
    if (std::isnan(number_at(tensor, i))) return true;
  return false;
}

}  // namespace

Tensor tensor_of_json(JsonFields& fields, const std::string& folder) {
  const JsonDocument& document = fields.document();
  const JsonValue& dtype_value = fields.required("dtype");
  std::optional<DType> dtype = dtype_from_name(expect_string(document, dtype_value, "a tensor's dtype"));
  if (!dtype) document.refuse(dtype_value.offset, concat("dtype ", quoted(dtype_value.text), " is not known"));
  const JsonValue& shape_value = fields.required("shape");
  std::vector<int64_t> shape = shape_of_json(document, shape_value, *dtype);
  const JsonValue *data = fields.find("data"), *base64 = fields.find("base64"), *file = fields.find("file");
  if ((data != nullptr) + (base64 != nullptr) + (file != nullptr) != 1)
    document.refuse(fields.object().offset, "a tensor has exactly one of \"data\", \"base64\" and \"file\"");
  if (data) return tensor_of_data(document, *data, *dtype, shape);
  if (base64) {
    auto bytes = from_base64(expect_string(document, *base64, "base64"));
    if (!bytes) document.refuse(base64->offset, "not base64");
    auto owner = std::make_shared<std::string>(std::move(*bytes));
    FileBytes block{std::shared_ptr<const std::byte>(owner, reinterpret_cast<const std::byte*>(owner->data())),
                    owner->size()};
    return tensor_of_raw(document, *base64, std::move(block), *dtype, shape);
  }
  const std::string& name = expect_string(document, *file, "a tensor's file");
  const JsonValue* offset = fields.find("offset");
  try {
    if (!offset && name.ends_with(".npy")) {
      Tensor tensor = tensor_of_npy(read_inside(folder, name));
      if (tensor.dtype == DType::u16 && dtype == DType::bf16) tensor.dtype = DType::bf16;
      if (tensor.dtype != dtype || tensor.shape != shape)
        fail("holds ", name_of(tensor.dtype), " ", to_string(tensor.shape), ", the document says ", name_of(*dtype), " ",
             to_string(shape));
      return tensor;
    }
    if (*dtype == DType::string) fail("strings cannot be in a file");
    int64_t from = offset ? expect_integer(document, *offset, "offset") : 0;
    int64_t size = static_cast<int64_t>(Tensor{*dtype, shape, nullptr, {}}.byte_count());
    return tensor_of_raw(document, *file, read_inside(folder, name, from, size), *dtype, shape);
  } catch (const CompileError& error) {
    if (error.diagnostic.file.starts_with(document.path() + ":")) throw;
    document.refuse(file->offset, error.diagnostic.text());
  }
}

std::optional<PackedNumbers> packed_of_json(JsonFields& fields, const Tensor& bytes) {
  const JsonDocument& document = fields.document();
  const JsonValue* packs = fields.find("packs");
  if (!packs) return std::nullopt;
  const std::string& name = expect_string(document, *packs, "packs");
  for (int64_t number = 0; number < 64; ++number) {
    std::optional<PackedNumbers> packed = packed_numbers_of(number, {});
    if (!packed || name_of_onnx_number(number) != name) continue;
    const JsonValue& shape = fields.required("packed_shape");
    packed->shape = shape_of_json(document, shape, DType::u8);
    if (bytes.dtype != DType::u8 || bytes.element_count() != packed_bytes(*packed))
      document.refuse(shape.offset, concat(name, " of shape ", to_string(packed->shape), " is ", packed_bytes(*packed),
                                           " bytes of uint8, the tensor is ", bytes.element_count(), " elements of ",
                                           name_of(bytes.dtype)));
    return packed;
  }
  document.refuse(packs->offset,
                  concat(quoted(name), " is packed by no tensor; \"int4\", \"uint4\", \"int2\" and \"uint2\" are"));
}

std::string json_of_packed(const std::optional<PackedNumbers>& packed) {
  if (!packed) return "";
  std::string shape;
  for (const int64_t dim : packed->shape) shape += concat(shape.empty() ? "" : ", ", dim);
  return concat(", \"packs\": \"", name_of_onnx_number(packed->onnx_dtype), "\", \"packed_shape\": [", shape, "]");
}

std::string json_of_tensor(const Tensor& tensor, const JsonWriteOptions& options, TensorFile* file) {
  std::string out = "\"dtype\": \"" + std::string(name_of(tensor.dtype)) + "\", \"shape\": [";
  for (size_t k = 0; k < tensor.shape.size(); ++k) out += (k ? ", " : "") + std::to_string(tensor.shape[k]);
  out += "], ";
  if (tensor.dtype == DType::string || (tensor.element_count() <= options.readable_elements && !has_nan(tensor))) {
    int64_t next = 0;
    out += "\"data\": ";
    append_elements(tensor, 0, next, out);
    return out;
  }
  std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.get()), tensor.byte_count());
  if (!file || file->name.empty()) return out + "\"base64\": \"" + to_base64(bytes) + "\"";
  constexpr size_t alignment = 64;
  static const std::string padding(alignment, '\0');
  size_t gap = (alignment - file->size % alignment) % alignment;
  file->pieces.emplace_back(padding.data(), gap);
  file->pieces.push_back(bytes);
  out += "\"file\": " + json_string(file->name) + ", \"offset\": " + std::to_string(file->size + gap);
  file->size += gap + bytes.size();
  return out;
}

bool is_utf8(std::string_view text) {
  try {
    nlohmann::json(std::string(text)).dump();
    return true;
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
}

std::string json_string(std::string_view text) { return nlohmann::json(std::string(text)).dump(); }

std::string json_real(double value, bool is_single) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value < 0 ? "\"-inf\"" : "\"inf\"";
  char text[40];
  auto [end, error] = is_single ? std::to_chars(text, text + sizeof text, static_cast<float>(value))
                                : std::to_chars(text, text + sizeof text, value);
  std::string out(text, end);
  return out.find_first_of(".e") == std::string::npos ? out + ".0" : out;
}

double real_of_json(const JsonDocument& document, const JsonValue& value, const std::string& what) {
  if (value.is(JsonKind::string)) {
    if (value.text == "inf") return INFINITY;
    if (value.text == "-inf") return -INFINITY;
    if (value.text == "nan") return NAN;
  }
  expect(document, value, JsonKind::number, what);
  double number = 0;
  auto [stop, error] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
  if (error == std::errc::result_out_of_range && value.text.find("e-") == std::string::npos &&
      value.text.find("E-") == std::string::npos)
    document.refuse(value.offset, "the number does not fit in a float64");
  return number;
}

}  // namespace metac
