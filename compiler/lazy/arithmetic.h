// The operators of C++ and Python: operands of different dtypes meet in one that holds both, and numbers become what they
// stand beside.
#pragma once
#include "compiler/lazy/lazy_graph.h"

namespace metac::lazy {

enum class Arithmetic : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  matmul,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  logical_xor,
};
constexpr int arithmetic_count = 17;

// The dtype in which both meet: the wider one of a kind, and real numbers before integers before truths. float16 and
// bfloat16 meet in float32.
DType common_dtype(DType a, DType b);

// A handle to the result. Division is of real numbers: integers meet in float32. floor_divide and modulo round down.
Value* arithmetic(LazyGraph& graph, Arithmetic what, Value* a, Value* b, Site site, bool no_grad);

// A handle to the value in another dtype, or another one to itself.
Value* cast(LazyGraph& graph, Value* value, DType dtype, Site site, bool no_grad);

// A number beside a value of that dtype: integers and truths take the dtype, real numbers do where it is one of reals, else
// they are float32. A few numbers that formulas have (0, 1, 2, 1/2, ...) become part of the structure, so that they are
// folded; all others are data: a learning rate that changes compiles nothing anew.
Value* number(LazyGraph& graph, double value, bool is_real, DType beside);

}  // namespace metac::lazy
