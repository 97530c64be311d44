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
  int64_t worst = -1;     // linear index of the largest relative difference
  double largest = 0;     // magnitude among the expected finite numbers
  int64_t furthest = -1;  // linear index of the largest absolute difference
  // What would have passed, the other tolerance staying; infinity: nothing would, as where NaN stands for a number.
  double passing_atol = 0, passing_rtol = 0;
};

// The absolute tolerance for answers of whole models of this type, as a part of an output's largest magnitude: what sums of
// large terms leave where they nearly cancel is of that order, however small the element is.
double part_of_largest(DType dtype);

// Integers and booleans must be equal. bfloat16 gets at least rtol 2^-6.
Comparison compare(const Tensor& got, const Tensor& expected, const Tolerance& tolerance);

// Are both samples of one distribution? For what random operators draw: dtype and shape, 0 and 1 only where the expected
// values are so, finite numbers where those are finite, and means at most five standard errors apart.
Comparison compare_distributions(const Tensor& got, const Tensor& expected);

}  // namespace metac
