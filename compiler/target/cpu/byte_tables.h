// What is computed of one byte alone is looked up: a value of eight bits that follows from another value of eight bits and
// from parameters (a sigmoid or a gelu between QuantizeLinear and DequantizeLinear, with the divisions around it) takes at
// most 256 values. They are computed once, in `prepare`, by the same expression, where that is longer than the look-up:
//
//   uint8(rint(sigmoid(float32(uint8 q) * s) / t))   ->   table[q],  table[i] = uint8(rint(sigmoid(float32(i) * s) / t))
//
// Relies on fused regions with constants split off; products of small integers (integer_products.h) then see a byte.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// Returns the tables, Vars of 256 elements that `prepare` computes now.
std::vector<Var*> byte_tables(RegionState& state);

}  // namespace metac
