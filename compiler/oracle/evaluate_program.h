// Expressions as a linear register program that runs over lanes: the inner loop of the reference evaluator.
//
// A domain (a box of indices) is walked in its row-major order. Its trailing axes, as many as it takes to have work for a
// block of lanes, are flattened into lanes; what depends on the leading axes alone is computed once per position of those.
#pragma once
#include <map>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/oracle/evaluate_scalar.h"

namespace metac {

// One row per distinct node of the roots, arguments first; register number = row number.
struct ScalarProgram {
  struct Row {
    const ExprNode* node = nullptr;
    std::vector<int> args;  // rows
    int depth = 0;          // 1 + the last axis it depends on; 0: none
  };
  std::vector<Row> rows;
  std::vector<int> roots;
};

ScalarProgram compile_scalars(const std::vector<Expr>& roots);

// Reads `count` elements from `begin`, widened; the reverse rounds and wraps nothing (values are in the dtype already).
void read_elements(const Tensor& tensor, int64_t begin, int64_t count, Scalar* out);
void write_elements(DType dtype, const Scalar* values, int64_t count, std::byte* out);
Scalar element_at(const Tensor& tensor, int64_t index);

// Walks the domain in row-major order. `operands` by the id of load nodes. Calls block(first, n, values) for consecutive
// pieces of the flattened domain, values[k] being the lanes of root k. A load outside of its operand gives 0: the places
// where that happens are those whose validity condition fails.
using BlockFunction = std::function<void(int64_t first, int n, const std::vector<Lanes>& values)>;
void run_over(const ScalarProgram& program, const std::vector<int64_t>& domain, const int64_t* symbols,
              const std::map<int, const Tensor*>& operands, const BlockFunction& block);

}  // namespace metac
