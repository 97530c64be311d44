// Products of weights of few bits with data that may be rounded to int8: of each run of steps that has one scale, bytes are
// multiplied and added up in int32, four at a time, and the sum is scaled once.
//
//   sum of x * (n - zero) * scale   ->   sum over runs of of_data * scale * (sum of q * n - zero * sum of q)
//
// x ~ of_data * q: the largest magnitude of a run is 127 (what ONNX Runtime does where MatMulNBits's accuracy_level is 4).
// Exact but for the rounding of x and that of adding up runs.
#pragma once
#include "compiler/target/cpu/layouts/compact_operand.h"
#include "compiler/tensor/definition.h"

namespace metac {

// The sum of a run's products of numbers of 4 bits and bytes is exact in float32.
constexpr int64_t longest_byte_run = 1 << 12;

// Data x [rows..., K], K a multiple of the run, as bytes.
struct ByteRuns {
  Var* bytes = nullptr;             // q, int8 [rows..., K]
  Var* scales = nullptr;            // float32 [rows..., runs, 2]: of_data, and the sum of a run's q
  std::vector<Definition> kernels;  // that make both, in order
};
ByteRuns round_to_bytes(Graph& graph, const Var* x, int64_t run, const std::vector<int>& nodes);

// Is the sum's one axis, whose numbers the operand has, the last one of the data, in order?
bool runs_along_rows(const Definition& d, const Operand& data, const Var* x);

}  // namespace metac
