#include "compiler/ops/packed_numbers.h"

#include "compiler/ir/builders.h"
#include "compiler/ops/packed_element.h"

namespace metac {

std::optional<PackedNumbers> packed_numbers_of(int64_t onnx_dtype, std::vector<int64_t> shape) {
  constexpr int64_t uint4 = 21, int4 = 22, uint2 = 25, int2 = 26;
  if (onnx_dtype != uint4 && onnx_dtype != int4 && onnx_dtype != uint2 && onnx_dtype != int2) return std::nullopt;
  return PackedNumbers{onnx_dtype == uint4 || onnx_dtype == int4 ? 4 : 2, onnx_dtype == int4 || onnx_dtype == int2,
                       static_cast<int32_t>(onnx_dtype), std::move(shape)};
}

int64_t packed_bytes(const PackedNumbers& packed) {
  int64_t count = 1;
  for (const int64_t dim : packed.shape) count *= dim;
  return (count + 8 / packed.bits - 1) / (8 / packed.bits);
}

Expr packed_element(Expr byte, Expr index, int64_t bits) {
  const Expr shift = cast(floor_mod(index, 8 / bits) * Expr(bits), DType::i32);
  return call(Fn::bit_and, {call(Fn::shift_right, {byte, shift}), int_constant((1 << bits) - 1, DType::i32)});
}

Var* unpacked(Graph& graph, Var* bytes, const PackedNumbers& packed) {
  const int64_t each = 8 / packed.bits, least = packed.is_signed ? -(int64_t{1} << (packed.bits - 1)) : 0;
  const Shape shape = shape_of(packed.shape);
  const Expr index = linear_index(shape, identity_indices(static_cast<int>(shape.size())));
  Expr byte = cast(load(0, DType::u8, {floor_div(index, each)}), DType::i32);
  // In two's complement the highest bit of each number turned over is the number less the least one.
  if (packed.is_signed) byte = call(Fn::bit_xor, {byte, int_constant(packed.bits == 4 ? 0x88 : 0xaa, DType::i32)});
  const Expr number = packed_element(byte, index, packed.bits);
  return graph.elementwise({bytes}, shape,
                           cast(number + int_constant(least, DType::i32), packed.is_signed ? DType::i8 : DType::u8));
}

}  // namespace metac
