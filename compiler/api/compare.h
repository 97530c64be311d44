// Is an answer the expected one? Dtype and shape first, then the positions of NaN and infinities, then the numbers.
#pragma once
#include <cstdint>
#include <string>

#include "compiler/ir/tensor.h"

namespace metac {

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;  // |got - expected| <= atol + rtol * |expected|: what ONNX's backend tests ask for
  int64_t max_ulp = -1;             // >= 0: additionally, for floats
};

struct Comparison {
  bool good = true;
  std::string detail;   // why not: what differs first and most
  int64_t max_ulp = 0;  // over finite floats; integers: the largest difference
  double max_abs = 0, max_rel = 0;
  int64_t worst = -1;  // linear index of the largest relative difference
};

// Integers and booleans must be equal. bfloat16 gets at least rtol 2^-6.
Comparison compare(const Tensor& got, const Tensor& expected, const Tolerance& tolerance);

// Are both samples of one distribution? For what random operators draw: dtype and shape, 0 and 1 only where the expected
// values are so, finite numbers where those are finite, and means at most five standard errors apart.
Comparison compare_distributions(const Tensor& got, const Tensor& expected);

}  // namespace metac
