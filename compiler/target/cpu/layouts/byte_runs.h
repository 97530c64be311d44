// Products of weights of few bits with data that may be rounded to int8: of each run of steps that has one scale, bytes are
// multiplied and added up in int32, four at a time, and the sum is scaled once.
//
//   sum of x * (n - zero) * scale   ->   sum over runs of of_data * scale * (sum of q * n - zero * sum of q)
//
// x ~ of_data * q: the largest magnitude of a run is 127 (what ONNX Runtime does where MatMulNBits's accuracy_level is 4).
// Exact but for the rounding of x and that of adding up runs.
#pragma once
#include <map>

#include "compiler/machine/cpu_target.h"
#include "compiler/target/cpu/layouts/compact_operand.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/tensor/definition.h"

namespace metac {

// Data x [rows..., K], K a multiple of the run, as bytes.
struct ByteRuns {
  Var* bytes = nullptr;   // q, int8 [rows..., K]
  Var* scales = nullptr;  // float32 [rows..., runs, 2]: of_data, and the sum of a run's q
};

// The data that products read as bytes, each made once for a length of runs.
class ByteData {
 public:
  explicit ByteData(Graph& graph) : graph_(graph) {}

  // Does the model allow that a sum reads x so, does the processor multiply such bytes, and does the sum's one axis go along
  // x's last one, in order?
  bool may_be_read(const Definition& d, const Operand& data, const Var* x, const CompactForm& form,
                   const CpuTarget& cpu) const;
  // `kernels`: the definitions that make it, in order; none where it is made already.
  ByteRuns of(const Var* x, int64_t run, const std::vector<int>& nodes, std::vector<Definition>& kernels);

 private:
  Graph& graph_;
  std::map<std::pair<int, int64_t>, ByteRuns> made_;  // by x, and the length of a run
};

// What x comes to where `data` read it; how its words are multiplied along `step`, the axis of the steps of a packed word.
Expr element_of(const ByteRuns& bytes, Expr data, const CompactForm& form);
BytesOfRun product_of_bytes(const ByteRuns& bytes, Expr data, const CompactForm& form, const CompactOperand& compact,
                            int step, const CpuTarget& cpu);

}  // namespace metac
