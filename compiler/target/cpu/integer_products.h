// Sums of products of small integers, made to be computed a word at a time: four bytes (one of them unsigned, the other
// signed) where the CPU has such an instruction, two int16 elsewhere. A sum of products of scaled integers whose scales do
// not change along the sum (a float contraction of dequantised values) becomes such a sum first.
//
//   sum (a - za)(b - zb)   ->   sum over words of dot(A, B) - za * sum (b - zb)
//
// A is `a` as it is stored, 8 bits an element (or a - za in 16), read a word at a time: load(A, int32, index) is the word
// that starts at an element. B holds words of b - zb, made in `prepare` where b depends on parameters alone; so is the sum
// of b - zb. What was stored as float32 or int32 between two such kernels is stored as bytes afterwards.
//
// Relies on fused regions with constants split off; layouts are chosen afterwards, and see contractions of int32 words.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// Returns the Vars that `prepare` computes now.
std::vector<Var*> integer_products(RegionState& state);

}  // namespace metac
