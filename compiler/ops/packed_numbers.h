// Tensors of ONNX's types of 2 and 4 bits (UINT4, INT4, UINT2, INT2), several elements a byte from its low bits on. There is
// no such dtype inside: an initialiser of them is its bytes, and what reads it gets numbers of 8 bits, which are computed of
// these. So they stay packed in files and weights, and products take them as they are (target/cpu/layouts/compact_operand).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace metac {

class Graph;
struct Var;

struct PackedNumbers {
  int bits = 4;
  bool is_signed = false;
  int32_t onnx_dtype = 0;      // as the file says it
  std::vector<int64_t> shape;  // of the numbers
};

// Of a type of ONNX; empty: its elements have whole bytes.
std::optional<PackedNumbers> packed_numbers_of(int64_t onnx_dtype, std::vector<int64_t> shape);
// How many bytes they take; the shape is checked (frontends do): the product of its dims does not overflow.
int64_t packed_bytes(const PackedNumbers& packed);
// The numbers as int8 or uint8, of a Var of their bytes.
Var* unpacked(Graph& graph, Var* bytes, const PackedNumbers& packed);

}  // namespace metac
