// A value that is divided by a parameter and then rounded to a byte (QuantizeLinear) is not divided: its factors and terms are,
// where they are parameters, once and in `prepare`.
//
//   uint8(rint((float32(sum) * (a * b[c]) + bias[c]) / s) + z)   ->   uint8(rint(float32(sum) * m[c] + n[c]) + z)
//
// m = a * b / s, n = bias / s. The quotient differs by its rounding alone, 2^-22 of it at most where terms do not cancel: a
// value that lies half-way between two bytes may become its neighbour. So does what else of an epilogue depends on
// parameters alone (a zero point times a sum of weights).
//
// Relies on fused regions with constants split off, and on integer_products: scales stand where they leave the sum.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// Returns the Vars that `prepare` computes now.
std::vector<Var*> rounded_quotients(RegionState& state);

}  // namespace metac
