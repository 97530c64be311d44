#include "compiler/ir/tensor.h"

#include <cstdlib>
#include <cstring>

#include "compiler/support/checked.h"

namespace metac {

int64_t Tensor::element_count() const {
  int64_t count = 1;
  for (int64_t d : shape) {
    auto product = checked_mul(count, d);
    METAC_ASSERT(product.has_value(), "tensor of shape ", to_string(shape));
    count = *product;
  }
  return count;
}

Tensor make_tensor(DType dtype, std::vector<int64_t> shape, std::byte** data) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  size_t bytes = tensor.byte_count();
  if (dtype == DType::string) tensor.strings.resize(tensor.element_count());
  // Aligned and rounded up: vectors of generated code are 64 bytes.
  auto* block = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
  if (!block) fail("out of memory: a tensor of ", bytes, " bytes");
  std::memset(block, 0, bytes);
  tensor.bytes = std::shared_ptr<const std::byte>(block, [](const std::byte* p) { std::free(const_cast<std::byte*>(p)); });
  *data = block;
  return tensor;
}

double number_at(const Tensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::f32:
      return t.data<float>()[i];
    case DType::f64:
      return t.data<double>()[i];
    case DType::f16:
      return half_to_float(t.data<uint16_t>()[i]);
    case DType::bf16:
      return bfloat16_to_float(t.data<uint16_t>()[i]);
    case DType::u64:
      return static_cast<double>(t.data<uint64_t>()[i]);
    default:
      return static_cast<double>(integer_at(t, i));
  }
}

int64_t integer_at(const Tensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::i8:
      return t.data<int8_t>()[i];
    case DType::i16:
      return t.data<int16_t>()[i];
    case DType::i32:
      return t.data<int32_t>()[i];
    case DType::i64:
      return t.data<int64_t>()[i];
    case DType::u8:
      return t.data<uint8_t>()[i];
    case DType::u16:
      return t.data<uint16_t>()[i];
    case DType::u32:
      return t.data<uint32_t>()[i];
    case DType::u64:
      return static_cast<int64_t>(t.data<uint64_t>()[i]);
    case DType::boolean:
      return t.data<uint8_t>()[i] != 0;
    default:
      return static_cast<int64_t>(number_at(t, i));
  }
}

float half_to_float(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31, mantissa = bits & 1023, out;
  if (exponent == 31)
    out = sign | 0x7f800000u | (mantissa << 13);
  else if (exponent != 0)
    out = sign | ((exponent + 112) << 23) | (mantissa << 13);
  else {
    float value = static_cast<float>(mantissa) * 0x1p-24f;
    std::memcpy(&out, &value, 4);
    out |= sign;
  }
  float result;
  std::memcpy(&result, &out, 4);
  return result;
}

uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or beyond
  if (magnitude < 0x38800000) {                       // subnormal: the spacing is 2^-24
    float scaled;
    std::memcpy(&scaled, &magnitude, 4);
    return sign | static_cast<uint16_t>(__builtin_nearbyintf(scaled * 0x1p24f));
  }
  uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13);
}

float bfloat16_to_float(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float result;
  std::memcpy(&result, &wide, 4);
  return result;
}

uint16_t float_to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

std::string to_string(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string out;
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "x" : "") + std::to_string(shape[i]);
  return out;
}

}  // namespace metac
